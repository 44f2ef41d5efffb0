"""``~/reload_profiles`` is answered whatever becomes of the engine, and the node ends as ever."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
import shutil
import signal
from typing import Any

import pytest
from rclpy.task import Future
from robot_llm.errors import ErrorCode
from robot_llm_msgs.msg import Status
from ros_lifecycle import Lifecycle
from ros_node import DEFAULTS, NodeProcess, running_node, SCRIPTED, TIMEOUT_S
from ros_planner import connected, Planner
from std_srvs.srv import Trigger

Started = Callable[..., Any]


@pytest.fixture
def started(executor: str, ros_domain: int) -> Started:
    """Return what starts a node; it has to leave with exit code 0 and without a traceback."""
    @contextmanager
    def start(**parameters: Any) -> Iterator[tuple[Planner, NodeProcess]]:
        named = {name.replace('__', '.'): value for name, value in parameters.items()}
        with running_node(SCRIPTED, {'executor': executor} | named) as node:
            with connected(node) as planner:
                yield planner, node
    return start


def start_reload(planner: Planner) -> Future:
    service = planner.node.create_client(
        Trigger, f'{planner.node_process.name}/reload_profiles')
    assert service.wait_for_service(TIMEOUT_S)
    return service.call_async(Trigger.Request())


def let_it_wait(planner: Planner) -> None:
    """Let the executor come round to the reload: that it waits for the engine cannot be seen."""
    manager = Lifecycle(planner)
    assert all(manager.state for _ in range(5))


def answer_of(planner: Planner, reload: Future) -> str:
    """Return why a reload was refused, when its answer has come."""
    planner.wait_for(reload.done, 'the answer of the reload')
    assert not reload.result().success
    return str(reload.result().message)


def test_a_reload_that_waits_for_an_engine_that_fails_is_answered(started: Started) -> None:
    with started() as (planner, node):
        running = planner.ask('hold-decision:f1 fail-decision say-continue')
        node.wait_for_gate('f1')
        waiting = start_reload(planner)
        let_it_wait(planner)
        node.open_gate('f1')
        assert 'scripted fault' in answer_of(planner, waiting)
        planner.finish(running)
        assert 'scripted fault' in answer_of(planner, start_reload(planner))


def test_a_reload_that_waits_at_the_end_of_the_process_is_answered(started: Started) -> None:
    with started() as (planner, node):
        planner.ask('hold-hang:f2 say-continue')
        node.wait_for_gate('f2')
        waiting = start_reload(planner)
        let_it_wait(planner)
        node.send_signal(signal.SIGINT)
        assert answer_of(planner, waiting)
        node.open_gate('f2')
        assert node.wait() == 0 and 'Traceback' not in node.log, node.log


def test_a_reload_that_hangs_is_given_up_with_the_goals_behind_it(
    started: Started, tmp_path: Path,
) -> None:
    """Nothing noticed it: no request had the engine, and goals were accepted and waited."""
    folder = tmp_path / 'profiles'
    shutil.copytree(DEFAULTS[SCRIPTED]['profiles.folder'], folder)
    parameters = {'profiles__folder': folder, 'engine__hang_s': 2.0, 'preempt__policy': 'queue'}
    with started(**parameters) as (planner, node):
        profile = folder / 'drive.yaml'
        profile.write_text(profile.read_text().replace(
            'system_prompt: ', 'system_prompt: hold-hang:f3 '))
        reload = start_reload(planner)
        node.wait_for_gate('f3')
        behind = planner.ask('say-continue')
        assert 'no progress for' in answer_of(planner, reload)
        planner.finish(behind)
        assert behind.result.error_code == ErrorCode.ENGINE_HUNG
        assert behind.result.decision == 'stop'
        planner.wait_for_state(Status.STATE_FAILED)
