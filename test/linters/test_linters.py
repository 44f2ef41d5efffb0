"""The linters that ament runs, and mypy; each as one test that prints what it found."""

from pathlib import Path
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = [name for name in ('robot_llm', 'test', 'launch', 'scripts', 'docs', 'setup.py')
          if (ROOT / name).exists()]
MANIFESTS = (ROOT / 'package.xml', ROOT / 'robot_llm_msgs' / 'package.xml')
SHELL = sorted(
    path for path in (ROOT / '.ci' / 'run', *(ROOT / 'scripts').rglob('*'))
    if path.is_file() and path.suffix in ('', '.sh'))
# From ament_pep257/main.py.
AMENT_PEP257_IGNORES = 'D100,D101,D102,D103,D104,D105,D106,D107,D203,D212,D404'


def check(*command: str) -> None:
    """Run ``command`` in the repository's root; fail with its output if it fails."""
    done = subprocess.run(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        pytest.fail(f'{" ".join(command)}\n{done.stdout}', pytrace=False)


def test_flake8() -> None:
    check(sys.executable, '-m', 'flake8', *PYTHON)


def test_pep257() -> None:
    check(sys.executable, '-m', 'pydocstyle', f'--ignore={AMENT_PEP257_IGNORES}',
          r'--match=.*\.py', *PYTHON)


def test_mypy() -> None:
    check(sys.executable, '-m', 'mypy', '-p', 'robot_llm')


@pytest.mark.parametrize('path', MANIFESTS, ids=lambda path: path.parent.name)
def test_a_package_manifest_is_well_formed(path: Path) -> None:
    root = ElementTree.parse(path).getroot()
    assert (root.tag, root.get('format')) == ('package', '3')
    if xmllint := shutil.which('xmllint'):
        check(xmllint, '--noout', '--nonet', str(path))


@pytest.mark.parametrize('path', MANIFESTS, ids=lambda path: path.parent.name)
def test_a_package_manifest_is_valid(path: Path) -> None:
    from catkin_pkg.package import parse_package
    warnings: list[str] = []
    package = parse_package(str(path), warnings=warnings)
    assert not warnings
    package.validate()


def test_set_up_links_the_programs_that_setup_py_installs() -> None:
    installed = re.findall(
        r"'(\w+) = (robot_llm[\w.]+):main'", (ROOT / 'setup.py').read_text(encoding='utf-8'))
    linked = re.findall(
        r'(\w+):(robot_llm[\w.]+)',
        (ROOT / 'scripts' / 'lib' / 'packages.sh').read_text(encoding='utf-8'))
    assert sorted(installed) == sorted(linked)


@pytest.mark.parametrize('path', SHELL, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_shell_script_parses(path: Path) -> None:
    check('bash', '-n', str(path))
