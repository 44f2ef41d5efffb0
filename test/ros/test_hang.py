"""An engine that hangs ends its goal, shows in the silence of ``~/status``, and leaves active."""

from collections.abc import Iterator
from itertools import count

from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import DiagnosticStatus
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode
from robot_llm_msgs.msg import Status
from ros_node import running_node, SCRIPTED
from ros_planner import connected, Planner, reasons

HUNG = (
    GoalStatus.STATUS_ABORTED, FinishReason.ERROR, ErrorCode.ENGINE_HUNG, 'stop',
    DecisionSource.ERROR)

_gates = (f'h{number}' for number in count())


@pytest.fixture(params=[False, True], ids=['stay', 'exit'])
def hanging(
    request: pytest.FixtureRequest, executor: str, ros_domain: int,
) -> Iterator[tuple[Planner, bool]]:
    parameters = {'executor': executor, 'engine.hang_s': 2.0, 'preempt.policy': 'queue',
                  'engine.exit_on_hang': request.param, 'status.rate_hz': 50.0}
    with running_node(SCRIPTED, parameters) as node, connected(node) as planner:
        yield planner, request.param


def test_a_hang_ends_every_goal_and_the_node_takes_no_more(
    hanging: tuple[Planner, bool],
) -> None:
    planner, exits = hanging
    node = planner.node_process
    gate = next(_gates)
    running = planner.ask(f'hold-hang:{gate} say-continue')
    node.wait_for_gate(gate)
    waiting = planner.ask('say-continue')
    for answer in (running, waiting):
        planner.finish(answer)
        assert reasons(answer) == HUNG
        assert 'engine.hang_s=2.0' in answer.result.error_msg
    if exits:
        assert node.wait() == 1, 'launch has to see that it must respawn the node'
        return
    planner.wait_for_state(Status.STATE_FAILED)
    planner.wait_for(
        lambda: any(s.level == DiagnosticStatus.ERROR and 'ENGINE_HUNG' in s.message
                    for s in planner.diagnostics), 'level ERROR on /diagnostics')
    refused = planner.ask('say-slow')
    assert refused.wait() and refused.is_rejected
    assert node.stop() == 0, 'the thread that hangs must not keep the process'
