"""The engine fails: fallback, error, inactive node, and a way back."""

from collections.abc import Callable

from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import DiagnosticStatus
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode
from robot_llm_msgs.msg import Status
from ros_lifecycle import ACTIVE, INACTIVE, Lifecycle
from ros_node import TIMEOUT_S
from ros_planner import Planner, reasons

FAILED = (
    GoalStatus.STATUS_ABORTED, FinishReason.ERROR, ErrorCode.DECODE_FAILED, 'stop',
    DecisionSource.ERROR)


@pytest.fixture(scope='module')
def planner(scripted: Callable[..., Planner]) -> Planner:
    """Return a planner of a node of this module's own, whose engine is broken and revived."""
    return scripted(preempt__policy='queue')


def test_a_failed_decode_stops_the_robot_and_the_node_comes_back(planner: Planner) -> None:
    manager, num_inactive = Lifecycle(planner), planner.node_process.log.count(']: inactive')
    running = planner.ask('hold-detail:x fail-detail say-continue')
    planner.node_process.wait_for_gate('x')
    queued = planner.ask('say-continue')
    assert queued.wait_for(lambda: queued.is_accepted, TIMEOUT_S)
    planner.node_process.open_gate('x')
    for answer in (running, queued):
        planner.finish(answer)
        assert reasons(answer) == FAILED
        assert 'scripted fault: the decode failed' in answer.result.error_msg
    assert [decision.word for decision in running.decisions] == ['continue', 'stop']

    planner.node_process.wait_for_log(r'\]: inactive', times=num_inactive + 1)
    assert manager.state == INACTIVE
    # Nobody has to ask it first: ~/status once went on saying IDLE.
    planner.wait_for_state(Status.STATE_FAILED)
    refused = planner.ask('say-slow')
    assert refused.wait_for(lambda: refused.is_rejected, TIMEOUT_S)
    start = len(planner.diagnostics)
    planner.wait_for(lambda: any(
        status.level == DiagnosticStatus.ERROR and 'DECODE_FAILED' in status.message
        for status in planner.diagnostics[start:]), 'an ERROR on /diagnostics')

    assert not manager.activate()
    assert manager.cleanup() and manager.configure() and manager.activate()
    assert manager.state == ACTIVE
    assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP
    planner.wait_for_state(Status.STATE_IDLE)
    start = len(planner.diagnostics)
    planner.wait_for(lambda: any(
        status.level == DiagnosticStatus.OK for status in planner.diagnostics[start:]),
        'an OK on /diagnostics')
