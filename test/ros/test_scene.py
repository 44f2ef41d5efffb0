"""The scene moves on under a goal, comes late, comes twice, or does not come."""

from collections.abc import Callable
from itertools import count

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Time
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode
from robot_llm.ros.answer import Answer
from robot_llm_msgs.msg import Scene
from ros_node import TIMEOUT_S
from ros_planner import Planner, reasons, seconds

_gates = (f's{number}' for number in count())

STALE = (
    GoalStatus.STATUS_ABORTED, FinishReason.SCENE_CHANGED, ErrorCode.NONE, 'stop',
    DecisionSource.STALE_SCENE)
SCENE_BYTES = 300


class SceneSource:
    """Epochs that rise over the life of one node."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.epoch = 0

    def rise(self, description: str = 'A corridor.') -> int:
        """Publish the next scene; the node may not have heard of it yet."""
        self.epoch += 1
        self.planner.publish_scene(self.epoch, description)
        return self.epoch

    def settle(self, description: str = 'A corridor.') -> int:
        """Publish the next scene and wait until the node serves goals of it."""
        epoch = self.rise(description)
        answer = self.planner.answer('say-slow', scene_epoch=epoch)
        assert answer.result.finish_reason == FinishReason.STOP
        return epoch


@pytest.fixture(scope='module')
def scene(scripted: Callable[..., Planner]) -> SceneSource:
    return SceneSource(scripted(scene__wait_s=10.0, limits__scene_bytes=SCENE_BYTES))


def held(planner: Planner, stage: str = 'detail', **fields: int) -> tuple[Answer, str]:
    gate = next(_gates)
    answer = planner.ask(f'hold-{stage}:{gate} say-continue', **fields)
    planner.node_process.wait_for_gate(gate)
    return answer, gate


def test_a_goal_that_is_stopped_by_a_higher_epoch_speaks_of_its_own(scene: SceneSource) -> None:
    epoch = scene.settle()
    answer, _ = held(scene.planner, scene_epoch=epoch)
    scene.rise()
    scene.planner.finish(answer)
    assert reasons(answer) == STALE
    assert [decision.word for decision in answer.decisions] == ['continue', 'stop']
    assert {decision.scene_epoch for decision in answer.decisions} == {epoch}
    assert {token.scene_epoch for token in answer.tokens} == {epoch}
    assert answer.result.stats.num_wasted_tokens <= 1
    scene.settle()


def test_a_goal_without_an_epoch_is_bound_to_the_current_scene(scene: SceneSource) -> None:
    epoch = scene.settle()
    answer, _ = held(scene.planner)
    scene.rise()
    scene.planner.finish(answer)
    assert reasons(answer) == STALE
    assert answer.decisions[0].scene_epoch == epoch


@pytest.mark.parametrize('message', [
    Scene(description='The hall, said again.'),
    Scene(stamp=Time(sec=1), description='Overtaken by the newer one.'),
], ids=['equal', 'lower'])
def test_an_epoch_that_does_not_rise_changes_nothing(
    scene: SceneSource, message: Scene,
) -> None:
    scene.settle()
    epoch = scene.settle('The hall.')
    answer, gate = held(scene.planner, scene_epoch=epoch)
    num_ignored = scene.planner.diagnostic('scenes_ignored')
    message.epoch = epoch - message.stamp.sec
    scene.planner.publish(message)
    scene.planner.wait_for(
        lambda: scene.planner.diagnostic('scenes_ignored') != num_ignored, 'an ignored scene')
    scene.planner.node_process.open_gate(gate)
    assert scene.planner.finish(answer).finish_reason == FinishReason.STOP


def test_a_goal_of_an_older_scene_ends_at_once_with_the_fallback(scene: SceneSource) -> None:
    old = scene.settle()
    scene.settle()
    answer = scene.planner.answer('say-continue', scene_epoch=old)
    assert reasons(answer) == STALE
    assert answer.result.stats.num_decode_calls == 0
    assert answer.decisions[0].scene_epoch == old


def test_the_description_is_part_of_the_prompt(scene: SceneSource) -> None:
    prompt_tokens = []
    for description in ('A child.', 'A child runs across the way.'):
        epoch = scene.settle(description)
        answer = scene.planner.answer('say-slow', scene_epoch=epoch)
        prompt_tokens.append(answer.result.stats.num_prompt_tokens)
    # The scripted model has one token per byte.
    assert prompt_tokens[1] - prompt_tokens[0] == len(' runs across the way')


def test_a_goal_that_is_ahead_of_its_scene_waits_and_is_served(scene: SceneSource) -> None:
    epoch = scene.settle()
    answer = scene.planner.ask('say-slow', scene_epoch=epoch + 1)
    assert answer.wait_for(lambda: answer.is_accepted, TIMEOUT_S)
    assert scene.rise('A hall with a fountain.') == epoch + 1
    result = scene.planner.finish(answer)
    assert result.finish_reason == FinishReason.STOP
    assert {token.scene_epoch for token in answer.tokens} == {epoch + 1}
    # It was asked about the scene that came, not about the one before.
    again = scene.planner.answer('say-slow', scene_epoch=epoch + 1)
    assert again.result.stats.num_prompt_tokens == result.stats.num_prompt_tokens


def test_a_goal_that_is_ahead_of_the_first_scene_is_not_served_without_it(
    scripted: Callable[..., Planner],
) -> None:
    """A planner that sent its first scene and its first goal together was answered blind."""
    source = SceneSource(scripted(scene__wait_s=10.0))
    answer = source.planner.ask('say-slow', scene_epoch=1)
    assert answer.wait_for(lambda: answer.is_accepted, TIMEOUT_S)
    source.rise('A person stands in the way.')
    first = source.planner.finish(answer)
    second = source.planner.answer('say-slow', scene_epoch=1).result
    assert first.stats.num_prompt_tokens == second.stats.num_prompt_tokens


def test_a_goal_whose_scene_was_skipped_ends_with_the_fallback(scene: SceneSource) -> None:
    epoch = scene.settle()
    answer = scene.planner.ask('say-slow', scene_epoch=epoch + 1)
    assert answer.wait_for(lambda: answer.is_accepted, TIMEOUT_S)
    scene.epoch += 1
    scene.rise()
    scene.planner.finish(answer)
    assert reasons(answer) == STALE


def test_a_goal_that_ended_while_it_waited_for_its_scene_takes_nobody_s_place(
    scene: SceneSource,
) -> None:
    """Its scene came after its deadline: it preempted the goal that waited for the next one."""
    epoch = scene.settle()
    dead = scene.planner.answer('say-slow', scene_epoch=epoch + 1, total_deadline=seconds(0.01))
    assert dead.result.finish_reason == FinishReason.DEADLINE
    waiting = scene.planner.ask('say-slow', scene_epoch=epoch + 2)
    assert waiting.wait_for(lambda: waiting.is_accepted, TIMEOUT_S)
    scene.planner.publish_scene(epoch + 1, 'A corridor.')
    scene.epoch += 1
    scene.planner.publish_scene(epoch + 2, 'A corridor.')
    scene.epoch += 1
    assert scene.planner.finish(waiting).finish_reason == FinishReason.STOP


def test_the_newest_goal_preempts_one_that_waits_for_its_scene(scene: SceneSource) -> None:
    epoch = scene.settle()
    early = scene.planner.ask('say-slow', scene_epoch=epoch + 1)
    assert early.wait_for(lambda: early.is_accepted, TIMEOUT_S)
    assert scene.planner.answer('say-slow').result.finish_reason == FinishReason.STOP
    assert scene.planner.finish(early).finish_reason == FinishReason.PREEMPTED


def test_a_scene_beyond_its_limit_refuses_goals_until_the_next_one(scene: SceneSource) -> None:
    scene.settle()
    epoch = scene.rise('x' * (SCENE_BYTES + 1))
    log = scene.planner.node_process
    log.wait_for_log(f'scene {epoch} has {SCENE_BYTES + 1} bytes and '
                     f'limits.scene_bytes={SCENE_BYTES}; shorten the description')
    answer = scene.planner.ask('say-continue')
    assert answer.wait_for(lambda: answer.is_rejected, TIMEOUT_S)
    log.wait_for_log(f'goal refused, MALFORMED_FIELD: scene {epoch} has')
    scene.settle('x' * SCENE_BYTES)


def test_a_goal_is_not_served_on_a_scene_beyond_its_limit(scene: SceneSource) -> None:
    """A goal that had waited for its scene was served with an empty description."""
    epoch = scene.settle()
    answer = scene.planner.ask('say-continue', scene_epoch=epoch + 1)
    assert answer.wait_for(lambda: answer.is_accepted, TIMEOUT_S)
    scene.rise('x' * (SCENE_BYTES + 1))
    result = scene.planner.finish(answer)
    assert reasons(answer) == (
        GoalStatus.STATUS_ABORTED, FinishReason.ERROR, ErrorCode.MALFORMED_FIELD, 'stop',
        DecisionSource.ERROR)
    assert result.stats.num_decode_calls == 0
    assert f'limits.scene_bytes={SCENE_BYTES}' in result.error_msg
    scene.settle()


def test_a_scene_that_does_not_come_ends_its_goal(scripted: Callable[..., Planner]) -> None:
    source = SceneSource(scripted(scene__wait_s=2.0))
    epoch = source.settle()
    answer = source.planner.answer('say-continue', scene_epoch=epoch + 7)
    assert reasons(answer) == (*STALE[:2], ErrorCode.SCENE_MISSING, *STALE[3:])
    assert f'scene_epoch={epoch + 7} did not arrive' in answer.result.error_msg
    assert 'scene.wait_s=2.0' in answer.result.error_msg


def test_scenes_at_30_hz_with_a_goal_each_starve_nothing(scene: SceneSource) -> None:
    planner, answers = scene.planner, []
    scene.settle()

    def publish() -> None:
        epoch = scene.rise()
        answers.append(planner.ask('say-slow', scene_epoch=epoch))
        with planner.seen:
            planner.seen.notify_all()

    timer = planner.node.create_timer(1.0 / 30.0, publish)
    planner.wait_for(lambda: len(answers) >= 60, '60 scenes')
    planner.node.destroy_timer(timer)
    ended = [FinishReason(planner.finish(answer).finish_reason) for answer in answers]
    assert set(ended) <= {
        FinishReason.STOP, FinishReason.SCENE_CHANGED, FinishReason.PREEMPTED}
    assert ended[-1] == FinishReason.STOP
    assert len({answer.goal_id for answer in answers}) == len(answers) >= 60
