"""With ``scene.policy: restart`` the same goal goes on with the newer scene."""

from collections.abc import Callable

from action_msgs.msg import GoalStatus
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from ros_goal import check_times
from ros_node import TIMEOUT_S
from ros_planner import Planner, seconds


@pytest.fixture(scope='module')
def restarting(scripted: Callable[..., Planner]) -> Planner:
    return scripted(scene__policy='restart', scene__max_restarts=1)


class Epochs:
    """Epochs that rise over the life of one node."""

    value = 0

    @classmethod
    def rise(cls, planner: Planner) -> int:
        cls.value += 1
        planner.publish_scene(cls.value, 'A corridor.')
        return cls.value


def settle(planner: Planner) -> int:
    epoch = Epochs.rise(planner)
    answer = planner.answer('say-slow', scene_epoch=epoch)
    assert answer.result.finish_reason == FinishReason.STOP
    return epoch


def test_a_decided_goal_is_revoked_restarted_and_decided_anew(restarting: Planner) -> None:
    old = settle(restarting)
    gate = f'detail{old}'
    answer = restarting.ask(f'hold-detail:{gate} say-continue', scene_epoch=old)
    restarting.node_process.wait_for_gate(gate)
    new = Epochs.rise(restarting)
    assert answer.wait_for(
        lambda: any(token.kind == TokenKind.RESTART for token in answer.tokens), TIMEOUT_S)
    restarting.node_process.open_gate(gate)
    assert answer.wait(TIMEOUT_S)
    assert answer.wait_for(lambda: len(answer.decisions) == 3, TIMEOUT_S)
    assert [(d.word, DecisionSource(d.source), d.scene_epoch) for d in answer.decisions] == [
        ('continue', DecisionSource.MODEL, old), ('stop', DecisionSource.STALE_SCENE, old),
        ('continue', DecisionSource.MODEL, new)]
    kinds = [TokenKind(token.kind) for token in answer.tokens]
    restart = kinds.index(TokenKind.RESTART)
    assert kinds[0] is kinds[restart + 1] is TokenKind.DECISION
    assert kinds.count(TokenKind.RESTART) == kinds.count(TokenKind.END) == 1
    assert kinds[-1] is TokenKind.END
    assert [token.seq for token in answer.tokens] == list(range(len(kinds)))
    assert {token.scene_epoch for token in answer.tokens[:restart + 1]} == {old}
    assert {token.scene_epoch for token in answer.tokens[restart + 1:]} == {new}
    result = answer.result
    assert (answer.status, result.finish_reason) == (
        GoalStatus.STATUS_SUCCEEDED, FinishReason.STOP)
    assert result.text == answer.text
    assert result.detail_json
    assert result.stats.num_wasted_tokens >= 1
    check_times(result.stats)


def test_an_undecided_goal_only_shows_its_newer_scene(restarting: Planner) -> None:
    old = settle(restarting)
    gate = f'prefill{old}'
    answer = restarting.ask(f'hold-prefill:{gate} say-slow', scene_epoch=old)
    restarting.node_process.wait_for_gate(gate)
    new = Epochs.rise(restarting)
    restarting.node_process.wait_for_gate(gate, times=2)  # the second attempt is there
    restarting.node_process.open_gate(gate)
    restarting.finish(answer)
    assert [(d.word, d.scene_epoch) for d in answer.decisions] == [('slow', new)]
    assert {token.scene_epoch for token in answer.tokens} == {new}


def test_a_goal_that_was_restarted_too_often_is_ended(restarting: Planner) -> None:
    old = settle(restarting)
    gate = f'often{old}'
    answer = restarting.ask(f'hold-detail:{gate} say-continue', scene_epoch=old)
    restarting.node_process.wait_for_gate(gate)
    Epochs.rise(restarting)
    # The gate is not opened, so the second attempt stands where the first one stood.
    assert answer.wait_for(
        lambda: [token.kind for token in answer.tokens].count(TokenKind.DECISION) == 2, TIMEOUT_S)
    Epochs.rise(restarting)
    assert answer.wait(TIMEOUT_S)
    assert answer.result.finish_reason == FinishReason.SCENE_CHANGED
    assert answer.result.decision == 'stop'
    settle(restarting)


def test_the_newer_scene_gets_the_whole_decision_deadline(restarting: Planner) -> None:
    old = settle(restarting)
    gate = f'late{old}'
    answer = restarting.ask(
        f'hold-decision:{gate} say-continue', scene_epoch=old, decision_deadline=seconds(0.5))
    assert answer.wait_for(lambda: bool(answer.decisions), TIMEOUT_S)
    assert answer.decisions[0].source == DecisionSource.DEADLINE
    new = Epochs.rise(restarting)
    # Held again, the newer scene's decision misses a deadline of its own.
    assert answer.wait_for(lambda: any(
        d.scene_epoch == new and d.source == DecisionSource.DEADLINE
        for d in answer.decisions), TIMEOUT_S)
    restarting.node_process.open_gate(gate)
    assert answer.wait(TIMEOUT_S)
    assert {d.word for d in answer.decisions} == {'stop'}
