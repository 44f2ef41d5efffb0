"""Time runs out: the fallback goes out first, and what the engine does later cannot raise it."""

from itertools import count

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode
from robot_llm.ros.answer import Answer
from ros_node import TIMEOUT_S
from ros_planner import Planner, reasons, seconds

_gates = (f'd{number}' for number in count())

TOO_LATE = (
    GoalStatus.STATUS_ABORTED, FinishReason.DEADLINE, ErrorCode.NONE, 'stop',
    DecisionSource.DEADLINE)


def wait_for_decision(answer: Answer) -> None:
    assert answer.wait_for(lambda: bool(answer.decisions) and bool(answer.tokens), TIMEOUT_S)


def test_the_fallback_is_out_while_the_engine_is_held(planner: Planner) -> None:
    gate = next(_gates)
    answer = planner.ask(
        f'hold-prefill:{gate} say-continue', decision_deadline=seconds(0.05))
    planner.node_process.wait_for_gate(gate)
    wait_for_decision(answer)
    assert not answer.is_over
    decision, = answer.decisions
    assert (decision.word, decision.source) == ('stop', DecisionSource.DEADLINE)
    assert len(decision.probabilities) == 0
    planner.node_process.open_gate(gate)
    planner.finish(answer)
    # The detail is generated behind the word that was published; the model's own word is dropped.
    assert reasons(answer) == (
        GoalStatus.STATUS_SUCCEEDED, FinishReason.STOP, ErrorCode.NONE, 'stop',
        DecisionSource.DEADLINE)
    assert len(answer.decisions) == 1
    assert answer.text.startswith('stop\n{')
    assert answer.result.detail_json != ''


def test_a_long_prefill_of_the_real_model_does_not_delay_the_fallback(
    real_planner: Planner,
) -> None:
    answer = real_planner.ask('The robot sees a box. ' * 60, decision_deadline=seconds(0.05))
    wait_for_decision(answer)
    assert not answer.is_over
    assert answer.decisions[0].source == DecisionSource.DEADLINE
    real_planner.finish(answer)
    assert reasons(answer) == (
        GoalStatus.STATUS_SUCCEEDED, FinishReason.STOP, ErrorCode.NONE, 'stop',
        DecisionSource.DEADLINE)
    assert len(answer.decisions) == 1


def test_a_decision_in_time_keeps_its_word(planner: Planner) -> None:
    answer = planner.answer('say-continue', decision_deadline=seconds(30.0))
    assert reasons(answer)[1:] == (
        FinishReason.STOP, ErrorCode.NONE, 'continue', DecisionSource.MODEL)


def test_both_deadlines_of_one_goal_make_one_decision(planner: Planner) -> None:
    gate = next(_gates)
    answer = planner.ask(f'hold-prefill:{gate} say-continue', decision_deadline=seconds(0.02),
                         total_deadline=seconds(0.1))
    planner.finish(answer)
    assert reasons(answer) == TOO_LATE
    assert len(answer.decisions) == 1


def test_a_deadline_that_is_over_at_once_breaks_nothing(planner: Planner) -> None:
    """A goal that ended before it was queued was queued all the same, and the engine died."""
    for _ in range(20):
        answer = planner.answer('say-continue', total_deadline=Duration(nanosec=1))
        assert answer.result.finish_reason in (FinishReason.DEADLINE, FinishReason.STOP)
    assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP


def test_a_decision_deadline_that_is_over_at_once_gives_the_fallback(planner: Planner) -> None:
    answer = planner.answer('say-continue', decision_deadline=Duration(nanosec=1))
    assert answer.result.decision == 'stop'
    assert answer.result.decision_source == DecisionSource.DEADLINE


def test_a_late_deadline_timer_does_not_touch_the_next_goal(planner: Planner) -> None:
    first = planner.answer('say-slow', total_deadline=seconds(0.5))
    assert first.result.finish_reason == FinishReason.STOP
    gate = next(_gates)
    second = planner.ask(f'hold-detail:{gate} say-continue')
    planner.node_process.wait_for_gate(gate)
    # Beyond the first goal's deadline.
    assert not second.wait_for(lambda: second.is_over, 0.7)
    planner.node_process.open_gate(gate)
    assert planner.finish(second).finish_reason == FinishReason.STOP
