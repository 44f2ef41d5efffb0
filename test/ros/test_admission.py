"""A goal that cannot be decided in time, by what earlier goals took."""

from collections.abc import Iterator

import pytest
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from ros_node import NodeProcess, TIMEOUT_S
from ros_planner import connected, Planner, seconds

LONG = 'word ' * 1500


@pytest.fixture(scope='module')
def admission(real_node: NodeProcess) -> Iterator[Planner]:
    with connected(real_node) as planner:
        yield planner


def set_policy(planner: Planner, policy: str) -> None:
    client = planner.node.create_client(
        SetParameters, f'{planner.node_process.name}/set_parameters')
    parameter = Parameter('admission.policy', value=policy).to_parameter_msg()
    response = planner.call(client, SetParameters.Request(parameters=[parameter]))
    assert response.results[0].successful, response.results[0].reason


def test_before_anything_is_known_every_goal_is_tried_and_then_a_late_one_is_not(
    admission: Planner,
) -> None:
    set_policy(admission, 'refuse')
    first = admission.answer('Drive on.', decision_deadline=seconds(30.0))
    assert first.result.finish_reason == FinishReason.STOP
    late = admission.ask(LONG, decision_deadline=seconds(0.05))
    assert late.wait(TIMEOUT_S) and late.is_rejected
    admission.wait_for(
        lambda: admission.statuses[-1].last_refusal.startswith('DEADLINE_TOO_SHORT'),
        'the reason on ~/status')
    assert 'decision_deadline=0.050 s' in admission.statuses[-1].last_refusal


def test_with_fallback_the_goal_is_accepted_and_the_fallback_goes_out_at_once(
    admission: Planner,
) -> None:
    admission.answer('Drive on.')
    set_policy(admission, 'fallback')
    late = admission.ask(LONG, decision_deadline=seconds(0.5))
    assert late.wait_for(lambda: bool(late.decisions), TIMEOUT_S)
    assert (late.decisions[0].word, late.decisions[0].source) == (
        'stop', DecisionSource.DEADLINE)
    assert late.decisions[0].latency_s < 0.5, 'not at the deadline: before it'
    late.cancel()
    admission.finish(late)


def test_a_goal_with_time_enough_is_served_under_every_policy(admission: Planner) -> None:
    for policy in ('refuse', 'fallback', 'off'):
        set_policy(admission, policy)
        answer = admission.answer('Drive on.', decision_deadline=seconds(30.0))
        assert answer.result.finish_reason == FinishReason.STOP
        assert answer.result.decision_source != DecisionSource.DEADLINE
