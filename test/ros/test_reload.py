"""``~/reload_profiles`` swaps all profiles between two goals, or none."""

from collections.abc import Callable
from pathlib import Path
import shutil

import pytest
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode
from ros_lifecycle import Lifecycle
from ros_node import DEFAULTS, SCRIPTED, TIMEOUT_S
from ros_planner import Planner, reasons
from std_srvs.srv import Trigger


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp('profiles') / 'profiles'
    shutil.copytree(DEFAULTS[SCRIPTED]['profiles.folder'], target)
    return target


@pytest.fixture(scope='module')
def reloading(scripted: Callable[..., Planner], folder: Path) -> Planner:
    return scripted(profiles__folder=folder, preempt__policy='queue')


@pytest.fixture
def drive(folder: Path) -> Path:
    path = folder / 'drive.yaml'
    path.write_text((DEFAULTS[SCRIPTED]['profiles.folder'] / 'drive.yaml').read_text())
    return path


def reload(planner: Planner) -> Trigger.Response:
    name = f'{planner.node_process.name}/reload_profiles'
    return planner.call(planner.node.create_client(Trigger, name), Trigger.Request())


def test_the_next_goal_is_served_by_the_changed_profile(
    reloading: Planner, drive: Path,
) -> None:
    assert reload(reloading).success
    assert 'creep' not in reloading.answer('say-slow').decisions[0].words
    drive.write_text(drive.read_text().replace('word: slow', 'word: creep'))
    response = reload(reloading)
    assert response.success and response.message == 'profiles drive, talk'
    answer = reloading.answer('say-creep')
    assert answer.result.decision == 'creep'
    assert answer.result.finish_reason == FinishReason.STOP


def test_a_bad_file_leaves_the_old_profiles_and_says_why(
    reloading: Planner, drive: Path,
) -> None:
    assert reload(reloading).success
    drive.write_text(drive.read_text().replace('fallback: stop', 'fallback: fly'))
    response = reload(reloading)
    assert not response.success
    assert 'the old profiles stay' in response.message
    assert "'fly' is not one of the words" in response.message
    assert reloading.answer('say-slow').result.decision == 'slow'


def test_a_reload_that_waits_for_a_goal_holds_up_no_cancel(
    reloading: Planner, drive: Path,
) -> None:
    """No cancel, no scene and no goal came through until the running goal was over."""
    running = reloading.ask('hold-detail:r2 say-slow')
    reloading.node_process.wait_for_gate('r2')
    service = reloading.node.create_client(
        Trigger, f'{reloading.node_process.name}/reload_profiles')
    assert service.wait_for_service(TIMEOUT_S)
    future = service.call_async(Trigger.Request())
    # Whether the reload waits already cannot be seen: what it holds up would be.
    queued = reloading.ask('say-slow')
    assert queued.wait_for(lambda: queued.is_accepted, TIMEOUT_S)
    running.cancel()
    reloading.finish(running)
    assert running.result.finish_reason == FinishReason.CANCELED
    reloading.wait_for(future.done, 'the answer of the reload')
    assert future.result().success
    assert reloading.finish(queued).finish_reason == FinishReason.STOP


def test_a_reload_is_given_up_with_the_node_that_it_waits_in(reloading: Planner) -> None:
    running, manager = reloading.ask('hold-hang:r3 say-slow'), Lifecycle(reloading)
    reloading.node_process.wait_for_gate('r3')
    service = reloading.node.create_client(
        Trigger, f'{reloading.node_process.name}/reload_profiles')
    assert service.wait_for_service(TIMEOUT_S)
    future = service.call_async(Trigger.Request())
    assert manager.deactivate()
    reloading.node_process.open_gate('r3')
    reloading.finish(running)
    assert manager.cleanup()
    reloading.wait_for(future.done, 'the answer of the reload')
    assert not reload(reloading).success
    assert manager.configure() and manager.activate()
    assert reload(reloading).success


def test_the_running_goal_ends_as_it_began_and_a_waiting_one_is_told(
    reloading: Planner, drive: Path,
) -> None:
    assert reload(reloading).success
    running = reloading.ask('hold-detail:r1 say-slow')
    reloading.node_process.wait_for_gate('r1')
    waiting = reloading.ask('say-slow')
    reloading.wait_for(
        lambda: reloading.statuses[-1].queue_length == 1, 'one goal in the queue')
    drive.write_text(drive.read_text().replace('word: slow', 'word: creep'))
    service = reloading.node.create_client(
        Trigger, f'{reloading.node_process.name}/reload_profiles')
    assert service.wait_for_service(10.0)
    future = service.call_async(Trigger.Request())
    reloading.node_process.open_gate('r1')
    reloading.finish(running)
    assert running.result.finish_reason == FinishReason.STOP
    reloading.finish(waiting)
    reloading.wait_for(future.done, 'the answer of the reload')
    assert future.result().success
    if waiting.result.error_code:  # the worker swapped before it took the waiting goal up
        assert reasons(waiting)[2] == ErrorCode.UNKNOWN_PROFILE
        assert waiting.result.decision == 'stop'
    else:
        assert waiting.result.decision == 'slow'
