"""What the two packages depend on is what rosdep knows; it needs rosdep, and its last update."""

import os
from pathlib import Path
import shutil
import subprocess

from catkin_pkg.package import parse_package
import pytest

ROOT = Path(__file__).parents[1]
SYSTEMS = {'humble': 'ubuntu:jammy'}


def test_every_dependency_is_a_key_of_rosdep() -> None:
    if shutil.which('rosdep') is None:
        pytest.skip('rosdep is not installed')
    packages = [parse_package(str(ROOT / folder)) for folder in ('.', 'robot_llm_msgs')]
    keys = {dependency.name for package in packages for dependency in (
        *package.build_depends, *package.buildtool_depends, *package.exec_depends,
        *package.test_depends)} - {package.name for package in packages}
    assert len(keys) > 20
    distro = os.environ.get('ROS_DISTRO', 'jazzy')
    done = subprocess.run(
        ['rosdep', 'resolve', *sorted(keys), f'--rosdistro={distro}',
         f'--os={SYSTEMS.get(distro, "ubuntu:noble")}'], capture_output=True, text=True)
    if 'rosdep init' in done.stderr or 'rosdep update' in done.stderr:
        pytest.skip('rosdep was never initialised or updated: sudo rosdep init; rosdep update')
    assert done.returncode == 0, done.stderr
