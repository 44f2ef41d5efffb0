"""A camera repeats its scene at 30 Hz, as cameras do, while a goal runs."""

from collections.abc import Callable

import pytest
from robot_llm.core.request import FinishReason
from ros_lifecycle import ACTIVE, Lifecycle
from ros_planner import Planner

RATE_HZ = 30.0
EPOCH = 7


@pytest.fixture(scope='module')
def executor() -> str:
    """Return the executor on which one callback could starve another."""
    return 'single_threaded'


@pytest.mark.parametrize('policy', ['abort', 'restart'])
def test_scenes_that_repeat_disturb_neither_the_goal_nor_the_node(
    scripted: Callable[..., Planner], policy: str,
) -> None:
    planner, num_published = scripted(scene__policy=policy, scene__wait_s=10.0), 0
    planner.publish_scene(EPOCH, 'A corridor.')
    answer = planner.ask(f'hold-detail:{policy} say-continue', scene_epoch=EPOCH)
    planner.node_process.wait_for_gate(policy)

    def publish() -> None:
        nonlocal num_published
        planner.publish_scene(EPOCH, 'The same corridor.')
        with planner.seen:
            num_published += 1
            planner.seen.notify_all()

    timer = planner.node.create_timer(1.0 / RATE_HZ, publish)
    planner.wait_for(lambda: num_published >= 30, '30 repeated scenes')
    num_diagnostics = len(planner.diagnostics)
    assert Lifecycle(planner).state == ACTIVE
    planner.wait_for(lambda: len(planner.diagnostics) > num_diagnostics, 'the next diagnostics')
    planner.node_process.open_gate(policy)
    assert planner.finish(answer).finish_reason == FinishReason.STOP
    planner.node.destroy_timer(timer)
    assert [decision.word for decision in answer.decisions] == ['continue']
    assert {token.scene_epoch for token in answer.tokens} == {EPOCH}
    assert int(planner.diagnostic('scenes_ignored')) > 0
