"""A goal comes while another one runs: the newest wins, waits for its turn, or is rejected."""

from collections.abc import Callable, Iterator
from itertools import count
from threading import Event

from action_msgs.msg import GoalStatus
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode
from robot_llm.ros.answer import Answer
from robot_llm_msgs.action import Generate
from robot_llm_msgs.msg import Status
from ros_node import TIMEOUT_S
from ros_planner import Planner, reasons

_gates = (f'p{number}' for number in count())

PREEMPTED = (
    GoalStatus.STATUS_ABORTED, FinishReason.PREEMPTED, ErrorCode.NONE, 'stop',
    DecisionSource.CANCELED)
MAX_QUEUE = 3


@pytest.fixture(scope='module')
def queue_planner(scripted: Callable[..., Planner]) -> Planner:
    return scripted(preempt__policy='queue', preempt__max_queue=MAX_QUEUE)


@pytest.fixture(scope='module')
def reject_planner(scripted: Callable[..., Planner]) -> Planner:
    return scripted(preempt__policy='reject')


def held(planner: Planner, stage: str = 'detail') -> tuple[Answer, str]:
    """Return a goal that the engine is held in, and the name of its gate."""
    gate = next(_gates)
    answer = planner.ask(f'hold-{stage}:{gate} say-continue')
    planner.node_process.wait_for_gate(gate)
    return answer, gate


def queued(planner: Planner, prompts: list[str]) -> Iterator[Answer]:
    """Send goals one after the other, each in the queue before the next is sent."""
    for number, prompt in enumerate(prompts, start=1):
        yield planner.ask(prompt)
        planner.wait_for(lambda: planner.statuses[-1].queue_length == number, f'queue of {number}')


def check_rejected(planner: Planner, answer: Answer, *words: str) -> None:
    assert answer.wait_for(lambda: answer.is_rejected, TIMEOUT_S)
    for word in words:
        planner.node_process.wait_for_log(f'goal refused, QUEUE_FULL.*{word}')


def test_of_ten_goals_at_once_exactly_one_runs_to_its_end(planner: Planner) -> None:
    first, _ = held(planner)
    answers = [first] + [planner.ask(f'say-slow number {number}') for number in range(9)]
    results = [planner.finish(answer) for answer in answers]
    # A burst may reach the node in any order; a goal that came in between two may be done.
    assert results[0].finish_reason == FinishReason.PREEMPTED
    ended = [FinishReason(result.finish_reason) for result in results]
    assert set(ended) <= {FinishReason.STOP, FinishReason.PREEMPTED}
    assert ended.count(FinishReason.STOP) >= 1
    planner.wait_for_state(Status.STATE_IDLE)


def test_of_ten_held_goals_all_but_the_newest_are_preempted(planner: Planner) -> None:
    gates = [next(_gates) for _ in range(10)]
    answers = [planner.ask(f'hold-prefill:{gate} say-continue') for gate in gates]
    for answer in answers:
        assert answer.wait_for(lambda: answer.is_accepted, TIMEOUT_S)
    for gate in gates:
        planner.node_process.open_gate(gate)
    ended = [FinishReason(planner.finish(answer).finish_reason) for answer in answers]
    assert ended.count(FinishReason.STOP) == 1
    assert ended.count(FinishReason.PREEMPTED) == 9
    for answer in answers:
        if answer.result.finish_reason == FinishReason.PREEMPTED:
            assert reasons(answer) == PREEMPTED


def test_a_queue_serves_first_in_first_out(queue_planner: Planner) -> None:
    planner = queue_planner
    running, gate = held(planner)
    answers = list(queued(planner, ['say-slow', 'say-stop', 'say-continue']))
    planner.node_process.open_gate(gate)
    results = [planner.finish(answer) for answer in (running, *answers)]
    assert [result.decision for result in results] == ['continue', 'slow', 'stop', 'continue']
    assert {result.finish_reason for result in results} == {FinishReason.STOP}
    starts = [answer.tokens[0].stamp for answer in (running, *answers)]
    ends = [answer.tokens[-1].stamp for answer in (running, *answers)]
    order = [(t.sec, t.nanosec) for pair in zip(starts, ends) for t in pair]
    assert order == sorted(order)
    assert results[-1].stats.queue_s >= results[1].stats.queue_s > 0


def test_the_newest_of_goals_that_were_sent_to_a_busy_client_wins(planner: Planner) -> None:
    """Goals left in the opposite order, so that the oldest one won."""
    gate, is_free = next(_gates), Event()
    first = planner.send(
        Generate.Goal(prompt='say-slow'), on_token=lambda _token: is_free.wait(TIMEOUT_S))
    assert first.wait_for(lambda: bool(first.tokens), TIMEOUT_S)
    planner.node_process.wait_for_log(f'goal {first.goal_id.hex()[:8]} STOP')
    answers = [planner.ask(f'hold-detail:{gate} say-continue') for _ in range(3)]
    is_free.set()
    for answer in answers[:-1]:
        assert planner.finish(answer).finish_reason == FinishReason.PREEMPTED
    planner.node_process.open_gate(gate)
    for answer in (first, answers[-1]):
        assert planner.finish(answer).finish_reason == FinishReason.STOP


def test_a_full_queue_refuses_with_its_length_and_limit(queue_planner: Planner) -> None:
    planner = queue_planner
    running, gate = held(planner)
    answers = list(queued(planner, ['say-slow'] * MAX_QUEUE))
    check_rejected(planner, planner.ask('one too many'), f'{MAX_QUEUE} goals wait',
                   f'preempt.max_queue={MAX_QUEUE}', 'raise the limit')
    planner.node_process.open_gate(gate)
    for answer in (running, *answers):
        assert planner.finish(answer).finish_reason == FinishReason.STOP
    assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP


def test_a_queued_goal_leaves_and_the_ones_behind_it_move_up(queue_planner: Planner) -> None:
    planner = queue_planner
    running, gate = held(planner)
    first, second, third = queued(planner, ['say-slow', 'say-slow', 'say-stop'])
    second.cancel()
    planner.finish(second)
    assert second.status == GoalStatus.STATUS_CANCELED
    planner.node_process.open_gate(gate)
    for answer in (running, first, third):
        assert planner.finish(answer).finish_reason == FinishReason.STOP
    assert third.result.decision == 'stop'


def test_a_busy_node_that_rejects_is_free_again_after_its_goal(reject_planner: Planner) -> None:
    planner = reject_planner
    running, gate = held(planner)
    check_rejected(planner, planner.ask('too early'), 'preempt.policy is reject')
    assert not running.is_over
    planner.node_process.open_gate(gate)
    assert planner.finish(running).finish_reason == FinishReason.STOP
    planner.wait_for_state(Status.STATE_IDLE)
    assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP
