"""A client cancels: in every stage the engine is really stopped, and the next goal is right."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode
from robot_llm.ros.answer import Answer
from robot_llm_msgs.msg import Status
from ros_node import NodeProcess, REAL, running_node, TIMEOUT_S
from ros_planner import connected, Planner, reasons

CANCELED = GoalStatus.STATUS_CANCELED
UNDECIDED = (
    CANCELED, FinishReason.CANCELED, ErrorCode.NONE, 'stop', DecisionSource.CANCELED)
DECIDED = (CANCELED, FinishReason.CANCELED, ErrorCode.NONE, 'continue', DecisionSource.MODEL)

_gates = (f'g{number}' for number in count())


def held(planner: Planner, stage: str, prompt: str = 'say-continue') -> tuple[Answer, str]:
    """Return a goal that the engine is held in, and the name of its gate."""
    gate = next(_gates)
    answer = planner.ask(f'hold-{stage}:{gate} {prompt}')
    planner.node_process.wait_for_gate(gate)
    return answer, gate


def check_next_goal(planner: Planner) -> None:
    assert planner.answer('say-slow').text.startswith('slow\n{')
    planner.wait_for_state(Status.STATE_IDLE)


def test_a_cancel_in_the_prefill_evaluates_no_further_chunk(planner: Planner) -> None:
    answer, _ = held(planner, 'prefill', 'word ' * 400)
    planner.wait_for_state(Status.STATE_PREFILL)
    answer.cancel()
    stats = planner.finish(answer).stats
    assert stats.num_prompt_tokens > 2000
    assert stats.num_prefill_chunks <= 1
    assert stats.num_completion_tokens == 0
    assert reasons(answer) == UNDECIDED
    check_next_goal(planner)


def test_a_cancel_before_the_acceptance_is_kept_until_then(planner: Planner) -> None:
    answer = planner.ask(f'hold-prefill:{next(_gates)}')
    answer.cancel()
    planner.finish(answer)
    assert reasons(answer) == UNDECIDED
    check_next_goal(planner)


def test_a_second_cancel_changes_nothing(planner: Planner) -> None:
    answer, _ = held(planner, 'detail')
    for _ in range(3):
        answer.cancel()
    planner.finish(answer)
    assert reasons(answer) == DECIDED
    answer.cancel()
    check_next_goal(planner)
    assert planner.terminal[answer.goal_id] == [CANCELED]


def test_a_cancel_that_comes_too_late_changes_nothing(planner: Planner) -> None:
    answer = planner.answer('say-continue')
    answer.cancel()
    check_next_goal(planner)
    assert planner.terminal[answer.goal_id] == [GoalStatus.STATUS_SUCCEEDED]


def test_a_queued_goal_is_cancelled_without_touching_the_running_one(
    scripted: Callable[..., Planner],
) -> None:
    planner = scripted(preempt__policy='queue')
    running, gate = held(planner, 'detail')
    queued = planner.ask('say-slow')
    planner.wait_for(lambda: planner.statuses[-1].queue_length == 1, 'one goal in the queue')
    queued.cancel()
    result = planner.finish(queued)
    assert reasons(queued) == UNDECIDED
    assert (result.stats.num_prompt_tokens, result.stats.num_decode_calls) == (0, 0)
    assert not running.is_over
    planner.node_process.open_gate(gate)
    assert planner.finish(running).finish_reason == FinishReason.STOP
    check_next_goal(planner)


def test_a_goal_held_for_its_scene_is_cancelled(scripted: Callable[..., Planner]) -> None:
    planner = scripted(scene__wait_s=10.0)
    planner.publish_scene(1, 'A corridor.')
    planner.answer('say-slow', scene_epoch=1)
    early = planner.ask('say-slow', scene_epoch=2)
    assert early.wait_for(lambda: early.is_accepted, TIMEOUT_S)
    early.cancel()
    planner.finish(early)
    assert reasons(early) == UNDECIDED
    planner.publish_scene(2, 'A hall.')
    assert planner.answer('say-slow', scene_epoch=2).result.finish_reason == FinishReason.STOP


def test_a_cancel_of_all_goals_passes_over_none(scripted: Callable[..., Planner]) -> None:
    """The goal behind one that refused was reported as canceling, and ran on."""
    planner = scripted()
    cancel = planner.node.create_client(
        CancelGoal, f'{planner.node_process.name}/generate/_action/cancel_goal')
    gate = next(_gates)
    preempted = planner.ask(f'hold-hang:{gate} say-continue')
    planner.node_process.wait_for_gate(gate)
    waiting = planner.ask('say-continue')  # ends the one before, which does not obey
    assert waiting.wait_for(lambda: waiting.is_accepted, TIMEOUT_S)
    response = planner.call(cancel, CancelGoal.Request())
    assert [bytes(goal.goal_id.uuid) for goal in response.goals_canceling] == [waiting.goal_id]
    planner.node_process.open_gate(gate)
    assert planner.finish(preempted).finish_reason == FinishReason.PREEMPTED
    planner.finish(waiting)
    assert reasons(waiting) == UNDECIDED
    check_next_goal(planner)


def test_a_long_prefill_of_the_real_model_is_left_early(
    real_planner: Planner, real_node: NodeProcess,
) -> None:
    question = 'A person stands right in front of the robot. May it go on?'
    on_fresh_node = real_planner.answer(question, temperature=0.0)
    chunk_tokens = 512  # the largest by default
    answer = real_planner.ask('The robot sees a box. ' * 500)
    assert answer.wait_for(lambda: answer.is_accepted, TIMEOUT_S)
    # 0.3 s of a prefill that takes seconds, unless the goal ends before.
    assert not answer.wait_for(lambda: answer.is_over, 0.3)
    answer.cancel()
    stats = real_planner.finish(answer).stats
    assert reasons(answer) == UNDECIDED
    assert stats.num_prompt_tokens >= 3000
    assert stats.num_prefill_chunks * chunk_tokens < stats.num_prompt_tokens // 2
    assert stats.num_completion_tokens == 0
    again = real_planner.answer(question, temperature=0.0)
    assert again.text == on_fresh_node.text
    assert again.result.stats.num_cached_tokens > 0
    print(f'3,000 tokens cancelled: {stats.num_prefill_chunks} chunks, engine idle after '
          f'{stats.cancel_latency_s * 1e3:.1f} ms')


def test_without_the_abort_callback_the_chunk_is_what_a_cancel_waits_for(
    ros_domain: int, model_path: Path,
) -> None:
    """As on a GPU, where llama.cpp does not read the flag."""
    parameters = {'model.path': model_path, 'engine.use_abort_callback': False,
                  'engine.chunk_tokens': 16, 'status.rate_hz': 50.0}
    with running_node(REAL, parameters) as node, connected(node) as planner:
        answer = planner.ask('The robot sees a box. ' * 500)
        planner.wait_for(lambda: planner.statuses[-1].num_prefilled_tokens > 0, 'a whole chunk')
        answer.cancel()
        stats = planner.finish(answer).stats
        assert reasons(answer) == UNDECIDED
        assert 0 < stats.num_prefill_chunks * 16 < stats.num_prompt_tokens // 2
        assert planner.answer('May I go on?').result.finish_reason == FinishReason.STOP
