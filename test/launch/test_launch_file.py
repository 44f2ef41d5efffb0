"""The launch file: what it passes on, and the node that it really starts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import importlib.util
import os
from pathlib import Path
import re
import shutil
import signal
import subprocess
import time
from typing import Any

import pytest

NO_ROS = 'comes with a ROS 2 installation, not from PyPI; source one to run these tests'
# Not `launch` alone: our own folder of that name is an importable namespace package.
launch = pytest.importorskip('launch.actions', reason=f'launch {NO_ROS}')
pytest.importorskip('launch_ros.actions', reason=f'launch_ros {NO_ROS}')

LAUNCH_FILE = Path(__file__).parents[2] / 'launch' / 'robot_llm.launch.py'
# Loading and warming up the small model takes 2 s on two free cores.
START_TIMEOUT_S = 60.0
# issue 2: SIGINT ends the node within a second; launch itself adds its own start of Python.
STOP_TIMEOUT_S = 5.0

needs_ros2 = pytest.mark.skipif(shutil.which('ros2') is None, reason=f'the ros2 command {NO_ROS}')


@pytest.fixture(scope='module')
def launch_file() -> Any:
    """Return the launch file as a module."""
    spec = importlib.util.spec_from_file_location('robot_llm_launch', LAUNCH_FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def command_line(launch_file: Any) -> Callable[..., list[str]]:
    """Return what turns launch arguments into the command line that the node would get."""
    from launch import LaunchContext

    def command_line(**arguments: str) -> list[str]:
        context = LaunchContext()
        context.launch_configurations.update(arguments)
        for declared in launch_file.ARGUMENTS:
            declared.execute(context)
        node, = launch_file.start_node(context)
        # Not node.execute(): nothing is started.
        node._perform_substitutions(context)
        context.extend_locals({'ros_specific_arguments': {'name': 'NAME', 'ns': 'NS'}})
        return [''.join(part.perform(context) for part in word) for word in node.cmd[1:]]

    return command_line


def parameters_in(words: list[str]) -> str:
    """Return the text of all parameter files on a command line."""
    files = [words[i + 1] for i, word in enumerate(words) if word == '--params-file']
    return '\n'.join(Path(file).read_text(encoding='utf-8') for file in files)


def test_every_argument_is_described(launch_file: Any) -> None:
    assert [a.name for a in launch_file.ARGUMENTS] == [
        'model', 'params_file', 'profiles', 'namespace', 'log_level', 'autostart', 'respawn']
    assert all(a.description for a in launch_file.ARGUMENTS)


def test_what_is_not_given_is_left_to_the_node(command_line: Callable[..., list[str]]) -> None:
    assert '--params-file' not in command_line()


def test_arguments_become_typed_parameters_of_this_node(
        command_line: Callable[..., list[str]]) -> None:
    text = parameters_in(command_line(model='123', autostart='false', namespace='bot'))
    assert '/bot/robot_llm:' in text
    assert "model.path: '123'" in text
    assert 'autostart: false' in text


def test_the_log_level_is_the_nodes_own(command_line: Callable[..., list[str]]) -> None:
    assert 'bot.robot_llm:=debug' in command_line(namespace='/bot', log_level='debug')
    assert 'robot_llm:=info' in command_line()


def test_a_missing_params_file_is_refused(command_line: Callable[..., list[str]]) -> None:
    with pytest.raises(FileNotFoundError, match='params_file:=/no/such.yaml is no file'):
        command_line(params_file='/no/such.yaml')


@contextmanager
def ros2_launch(log: Path, **arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``ros2 launch``; whatever happens it ends, and the node with it."""
    words = [f'{name}:={value}' for name, value in arguments.items()]
    with log.open('wb') as file:
        process = subprocess.Popen(
            ['ros2', 'launch', 'robot_llm', LAUNCH_FILE.name, *words],
            stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def wait_until(condition: Callable[[], object], log: Path) -> None:
    """Return once ``condition`` holds; fail with the log if it takes too long or the node dies."""
    end_s = time.monotonic() + START_TIMEOUT_S
    while not condition():
        text = log.read_text(errors='replace')
        assert time.monotonic() < end_s and 'exit code 1' not in text, text
        time.sleep(0.05)


def started_pids(log: Path) -> list[int]:
    """Return the process ids of the nodes that launch has started so far."""
    found = re.findall(r'process started with pid \[(\d+)\]', log.read_text(errors='replace'))
    return [int(pid) for pid in found]


@contextmanager
def lifecycle_state(node_name: str) -> Iterator[Callable[[], str]]:
    """Return what asks a node for its lifecycle state; '' while it does not answer."""
    from lifecycle_msgs.srv import GetState
    import rclpy
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node('launch_test', context=context)
    client = node.create_client(GetState, f'{node_name}/get_state')
    executor = rclpy.executors.SingleThreadedExecutor(context=context)
    executor.add_node(node)

    def state() -> str:
        if not client.wait_for_service(0.2):
            return ''
        future = client.call_async(GetState.Request())
        executor.spin_until_future_complete(future, timeout_sec=1.0)
        return future.result().current_state.label if future.done() else ''

    try:
        yield state
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown(context=context)


@needs_ros2
def test_the_launched_node_becomes_active_and_ends_on_sigint(
        tmp_path: Path, model_path: Path) -> None:
    log = tmp_path / 'log'
    # A file that names this very node must not win over the command line.
    params = tmp_path / 'params.yaml'
    params.write_text('/bot/robot_llm: {ros__parameters: {model: {path: /no/such.gguf}}}\n')
    with ros2_launch(
            log, model=str(model_path), namespace='bot', params_file=str(params)) as process, \
            lifecycle_state('/bot/robot_llm') as state:
        wait_until(lambda: state() == 'active', log)
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_TIMEOUT_S) == 0, log.read_text()
    assert 'Traceback' not in log.read_text()
    assert 'process has finished cleanly' in log.read_text()


@needs_ros2
def test_without_autostart_the_node_waits_to_be_configured(
        tmp_path: Path, model_path: Path) -> None:
    log = tmp_path / 'log'
    with ros2_launch(log, model=str(model_path), autostart='false'), \
            lifecycle_state('/robot_llm') as state:
        wait_until(state, log)
        assert state() == 'unconfigured'


@needs_ros2
def test_a_node_that_dies_is_started_again(tmp_path: Path, model_path: Path) -> None:
    log = tmp_path / 'log'
    with ros2_launch(log, model=str(model_path), respawn='true', autostart='false'):
        wait_until(lambda: started_pids(log), log)
        os.kill(started_pids(log)[0], signal.SIGKILL)
        wait_until(lambda: len(started_pids(log)) > 1, log)


@needs_ros2
def test_ros2_run_finds_the_programs() -> None:
    shown = subprocess.run(
        ['ros2', 'pkg', 'executables', 'robot_llm'], text=True, check=True, capture_output=True)
    setup = (LAUNCH_FILE.parents[1] / 'setup.py').read_text(encoding='utf-8')
    programs = sorted(re.findall(r"'(\w+) = robot_llm\.", setup))
    assert shown.stdout.splitlines() == [f'robot_llm {program}' for program in programs]
