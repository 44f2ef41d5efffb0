"""The ament_python package robot_llm; colcon runs this file."""

import os
from pathlib import Path
import sys

from setuptools import find_packages, setup

PACKAGE = 'robot_llm'


def interpreter() -> str:
    """
    Return the interpreter that the installed programs shall name in their first line.

    setuptools writes the one that runs this file. Under the ``colcon`` command that is the
    system's, which does not see llama_cpp: ``ros2 run`` would fail with an import error. So an
    active virtual environment wins, whoever runs colcon.
    """
    active = os.environ.get('VIRTUAL_ENV')
    found = Path(active, 'bin', 'python3') if active else None
    return str(found) if found and found.exists() else sys.executable


def files(folder: str, pattern: str) -> tuple[str, list[str]]:
    """Return one entry of ``data_files``: where under share/, and which files."""
    return f'share/{PACKAGE}/{folder}', sorted(str(path) for path in Path(folder).glob(pattern))


# Read by setuptools' develop command, that is by `colcon build --symlink-install`; the plain build
# reads the option of build_scripts below.
os.environ['__PYVENV_LAUNCHER__'] = interpreter()

setup(
    name=PACKAGE,
    version='0.1.0',
    packages=find_packages(include=[PACKAGE, f'{PACKAGE}.*']),
    package_data={PACKAGE: ['py.typed', 'evaluation/*.yaml']},
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{PACKAGE}']),
        (f'share/{PACKAGE}', ['package.xml']),
        files('launch', '*.launch.py'),
        files('config', '*.yaml'),
        files('config/profiles', '*.yaml'),
        files('config/embedded', '*.yaml'),
        files('config/bench', '*.yaml'),
        files('config', 'fastdds_*.xml'),
        files('config/scenes', '*.yaml'),
        files('config/heads', '*.npz'),
    ],
    options={'build_scripts': {'executable': interpreter()}},
    # The rest is in package.xml and scripts/requirements/: listed here, a version that differs
    # from the system's would keep the installed programs from starting.
    install_requires=['setuptools'],
    extras_require={
        'test': ['pytest'],
        # Fitting and plotting; the node itself decides with NumPy alone.
        'evaluation': ['scikit-learn', 'matplotlib'],
        'bench': ['matplotlib'],
        # What `bench compare` starts beside ours; the same as scripts/requirements/compare.txt.
        'compare': ['fastapi>=0.100', 'pydantic-settings>=2.0.1', 'sse-starlette>=1.6.1',
                    'starlette-context>=0.3.6,<0.4', 'uvicorn>=0.22'],
    },
    python_requires='>=3.10',
    zip_safe=False,
    maintainer='robot_llm maintainers',
    maintainer_email='robot_llm@example.com',
    description='A language model on board the robot: the decision comes first',
    license='Apache-2.0',
    entry_points={
        'console_scripts': [
            'node = robot_llm.ros.main:main',
            'ask = robot_llm.cli.ask:main',
            'demo = robot_llm.cli.demo:main',
            'evaluate = robot_llm.evaluation.main:main',
            'monitor = robot_llm.cli.monitor:main',
            'bench = robot_llm.bench.main:main',
        ],
    },
)
