"""What the functions of scripts/setup decide, on checkouts that are fakes."""

from pathlib import Path

import pytest
from shell import make_ros, make_venv, run_function

REMEDIES = [
    (1, 'OSError: [Errno 28] No space left on device', 'free about 3 GB'),
    (137, 'Terminated', 'CMAKE_BUILD_PARALLEL_LEVEL=1'),
    (1, 'c++: fatal error: Killed signal terminated program cc1plus', 'close other programs'),
    (132, 'Illegal instruction', 'DGGML_NATIVE=OFF'),
    (134, 'CUDA error: no kernel image is available', 'CMAKE_CUDA_ARCHITECTURES'),
    (1, 'No CMAKE_CXX_COMPILER could be found.', 'apt install g++'),
    (1, 'Failed to find nvcc: CUDA Toolkit not found', 'put nvcc on the PATH'),
    (1, 'fatal error: Python.h: No such file or directory', 'python3-dev'),
    (1, 'The virtual environment was not created: ensurepip is not available', 'python3-venv'),
    (1, 'NewConnectionError: Failed to establish a new connection', 'check the network'),
    (1, 'ERROR: No matching distribution found for ros-rclpy==7.1.6', '3.10 to 3.13'),
    (3, 'error: something new', 'error: something new (exit code 3)'),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / 'root'
    root.mkdir()
    return root


def test_a_ros_installation_that_is_sourced_is_found(root: Path, tmp_path: Path) -> None:
    ros = make_ros(tmp_path / 'opt' / 'jazzy')
    overlay = tmp_path / 'ws' / 'install'
    overlay.mkdir(parents=True)
    done = run_function('sourced_ros', root, AMENT_PREFIX_PATH=f'{overlay}:{ros}')
    assert done.stdout == f'{ros}\n'


def test_no_checkouts_venv_passes_for_a_ros_installation(root: Path, tmp_path: Path) -> None:
    # Symptom: with another checkout's environment sourced, a set-up took its .venv for a ROS 2,
    # deleted the own one for that, and failed.
    own, other = make_venv(root), make_venv(tmp_path / 'other')
    assert run_function('sourced_ros', root, AMENT_PREFIX_PATH=f'{own}:{other}').returncode == 1
    ros = make_ros(tmp_path / 'ros')
    done = run_function('sourced_ros', root, AMENT_PREFIX_PATH=f'{own}:{other}:{ros}')
    assert done.stdout == f'{ros}\n'


def test_nothing_sourced_is_no_installation(root: Path) -> None:
    assert run_function('sourced_ros', root).returncode == 1


@pytest.mark.parametrize(('made_for', 'mode', 'is_kept'), [
    ('ros', 'wheels', False), ('ros', 'ros', True), ('wheels', 'ros', True),
    ('wheels', 'wheels', True)])
def test_a_robots_venv_is_not_replaced_by_one_of_wheels(
        root: Path, made_for: str, mode: str, is_kept: bool) -> None:
    make_venv(root, made_for)
    done = run_function('keep_to_ros; echo kept', root, mode)
    assert (done.stdout == 'kept\n') == is_kept
    assert is_kept or 'none is sourced' in done.stderr and 'remove .venv' in done.stderr


@pytest.mark.parametrize(('name', 'found'), [
    ('a b', ' '), ('a:b', ':'), ('a;b', ';'), ("a'b", "'"), ('a"b', '"'), ('a$b', '$'),
    ('a\\b', '\\'), ('a`b', '`'), ('R&D', '&'), ('c#', '#'), ('a(1)', '()'), ('[a]', '[]'),
    ('a,b', ','), ('für', 'ü')])
def test_a_folder_that_would_break_programs_is_refused_at_once(
        root: Path, name: str, found: str) -> None:
    # Symptom: "&" ended the set-up after a gigabyte of downloads, with an error of CMake's.
    done = run_function('root=$FOLDER\ncheck_root', root, FOLDER=f'/home/{name}')
    assert done.returncode == 1
    assert f'/home/{name} has [{found}] in it' in done.stderr
    assert 'move the checkout' in done.stderr


@pytest.mark.parametrize('name', ['a', 'Ros-1.0_x+y', 'a@2', 'a=b~'])
def test_any_other_folder_is_taken(root: Path, name: str) -> None:
    done = run_function('root=$FOLDER\ncheck_root', root, FOLDER=f'/home/{name}')
    assert done.returncode == 0, done.stderr


def test_work_is_done_until_something_else_is_wanted(root: Path) -> None:
    done = run_function(
        'is_done step one || echo "not yet"; mark_done step one; is_done step one && echo done; '
        'is_done step two || echo "not any more"; is_done step one || echo "half-way"', root)
    assert done.stdout.splitlines() == ['not yet', 'done', 'not any more', 'half-way']


@pytest.mark.parametrize(('code', 'printed', 'said'), REMEDIES)
def test_a_failure_is_explained_with_its_remedy(
        root: Path, code: int, printed: str, said: str) -> None:
    log = root / 'step.log'
    log.write_text(f'Collecting packages\n{printed}\n\n')
    done = run_function(f'explain_failure "trying it" {code} {log}', root)
    assert done.returncode == 1
    assert 'stopped while trying it.' in done.stderr
    assert said in done.stderr
    assert f'All output: {log}' in done.stderr


@pytest.mark.parametrize(('body', 'said'), [
    ('exit 1', 'venv and ensurepip are missing'),
    ('[ "$2" = "import ensurepip, venv" ] || echo /nowhere', 'headers (Python.h)'),
])
def test_a_python_without_its_parts_is_found_before_the_downloads(
        root: Path, body: str, said: str) -> None:
    python = root / 'python3.12'
    python.write_text(f'#!/bin/sh\n{body}\n')
    python.chmod(0o755)
    done = run_function(
        f'python={python} python_version=3.12; check_python_parts; echo whole', root)
    assert done.stdout == ''
    assert said in done.stderr
    assert 'sudo apt install python3.12-venv python3.12-dev' in done.stderr


@pytest.mark.parametrize(('named', 'is_here'), [
    ('#!{venv}/bin/python3.11', True),
    ("#!/bin/sh\n'''exec' {venv}/bin/python3.11 \"$0\" \"$@\"", True),
    ('#!/elsewhere/.venv/bin/python3.11', False),
    ('#!/elsewhere{venv}/bin/python3.11', False),
    ('', False),
])
def test_a_venv_knows_the_folder_that_it_was_made_in(
        root: Path, named: str, is_here: bool) -> None:
    venv = make_venv(root)
    (venv / 'bin' / 'pip').write_text(named.format(venv=venv))
    done = run_function('_robot_llm_is_made_in "$venv" && echo here', root)
    assert (done.stdout == 'here\n') == is_here


def test_a_venv_that_is_lost_is_lost_with_a_reason(root: Path) -> None:
    venv = make_venv(root)
    why = 'ros_prefix=/opt/ros/jazzy; why_anew'
    assert '/opt/ros/jazzy' in run_function(why, root, 'ros').stdout
    assert 'another Python' in run_function(why, root).stdout
    (venv / 'bin' / 'pip').write_text('#!/elsewhere/.venv/bin/python3.11\n')
    assert 'another folder' in run_function(why, root).stdout


def test_a_copy_removes_no_file_of_the_original(root: Path, tmp_path: Path) -> None:
    # Symptom: a set-up in a copied checkout deleted the interfaces of the original.
    own, foreign = make_venv(root) / 'own', tmp_path / 'original'
    for file in (own, foreign):
        file.write_text('an interface')
    (root / 'manifest').write_text(f'{foreign}\n{own}')  # as CMake writes it
    assert run_function(f'remove_installed {root}/manifest', root).returncode == 0
    assert foreign.exists() and not own.exists()
