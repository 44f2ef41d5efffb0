"""Whoever perceives begins again, falls silent, or is not heard: nobody is decided blind."""

from collections.abc import Callable
from itertools import count
from typing import Any

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
import pytest
from rclpy.qos import QoSProfile, ReliabilityPolicy
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode
from robot_llm.ros.answer import Answer
from robot_llm_msgs.msg import Scene
from ros_node import TIMEOUT_S
from ros_planner import connected, Planner, reasons, seconds

_gates = (f'd{number}' for number in count())

MISSING = (
    GoalStatus.STATUS_ABORTED, FinishReason.SCENE_CHANGED, ErrorCode.SCENE_MISSING, 'stop',
    DecisionSource.STALE_SCENE)


@pytest.fixture(scope='module')
def executor() -> str:
    """Return the executor on which two callbacks may meet."""
    return 'multi_threaded'


@pytest.fixture(scope='module')
def seeing(scripted: Callable[..., Planner]) -> Planner:
    return scripted(scene__wait_s=10.0)


_epochs = count(500, step=100)


def settle(planner: Planner) -> int:
    """Publish the next scene, far above the last one, and wait until the node is fine with it."""
    epoch = next(_epochs)
    planner.publish_scene(epoch, 'The corridor is clear.')
    assert planner.answer('say-slow', scene_epoch=epoch).result.finish_reason == FinishReason.STOP
    return epoch


def held(planner: Planner) -> Answer:
    gate = next(_gates)
    answer = planner.ask(f'hold-detail:{gate} say-continue')
    planner.node_process.wait_for_gate(gate)
    return answer


def accepted(planner: Planner, **fields: Any) -> Answer:
    answer = planner.ask('say-continue', **fields)
    assert answer.wait_for(lambda: answer.is_accepted, TIMEOUT_S)
    return answer


def check_doubt(planner: Planner, message: str) -> None:
    """Nothing is decided on the current scene, and the operator hears why."""
    answer = planner.answer('say-continue')
    assert reasons(answer) == MISSING
    assert message in answer.result.error_msg
    assert answer.result.stats.num_decode_calls == 0
    wait_for_warning(planner, message)


def wait_for_warning(planner: Planner, message: str) -> None:
    planner.wait_for(
        lambda: planner.diagnostics and message in planner.diagnostics[-1].message, message)
    assert planner.diagnostics[-1].level == DiagnosticStatus.WARN


@pytest.mark.parametrize('stamp', [None, Time()], ids=['newer', 'unknown'])
def test_a_publisher_that_counts_anew_is_a_doubt_until_an_epoch_rises(
    seeing: Planner, stamp: Time | None,
) -> None:
    """Every scene of a perception that was started again was ignored without a word."""
    epoch = settle(seeing)
    running = held(seeing)
    now = seeing.node.get_clock().now().to_msg()
    for low in (1, 2):
        seeing.publish(Scene(
            stamp=now if stamp is None else stamp, epoch=low,
            description='A person lies in front of the robot.'))
    seeing.finish(running)
    assert reasons(running) == MISSING
    assert [decision.word for decision in running.decisions] == ['continue', 'stop']
    check_doubt(seeing, f'came behind scene {epoch}')
    # Neither the old scene again nor one that waits for a higher epoch makes it sound.
    seeing.publish_scene(epoch, 'The corridor is clear.')
    early = accepted(seeing, scene_epoch=epoch + 1)
    check_doubt(seeing, f'let epochs begin above {epoch}')
    assert not early.is_over
    settle(seeing)
    assert seeing.finish(early).finish_reason == FinishReason.SCENE_CHANGED
    assert seeing.answer('say-continue').result.decision == 'continue'


def test_another_publisher_that_tells_the_epoch_otherwise_is_a_doubt(seeing: Planner) -> None:
    """It may be the same one, started again: its first epoch need not be a lower one."""
    epoch = settle(seeing)
    with connected(seeing.node_process) as other:
        other.publish_scene(epoch, 'The corridor is clear.')
        assert seeing.answer('say-continue', scene_epoch=epoch).result.decision == 'continue'
        other.publish_scene(epoch, 'A person lies in front of the robot.')
        seeing.node_process.wait_for_log(f'scene {epoch} came behind scene {epoch}')
        check_doubt(seeing, f'let epochs begin above {epoch}')
        settle(seeing)


def test_a_scene_that_is_not_repeated_grows_too_old(scripted: Callable[..., Planner]) -> None:
    planner = scripted(scene__max_age_s=0.5)
    planner.publish_scene(1, 'The corridor is clear.')
    running = held(planner)
    planner.finish(running)
    assert reasons(running) == MISSING
    check_doubt(planner, 'scene.max_age_s=0.5')
    timer = planner.node.create_timer(
        0.05, lambda: planner.publish_scene(1, 'The corridor is clear.'))
    planner.wait_for(
        lambda: planner.diagnostics[-1].level == DiagnosticStatus.OK, 'a scene that is sound')
    planner.node.destroy_timer(timer)


def test_a_goal_that_names_a_scene_is_never_decided_without_it(
    scripted: Callable[..., Planner],
) -> None:
    """Before a publisher was in the graph the goal ran, and its decision claimed the scene."""
    planner = scripted(scene__wait_s=0.05)
    answer = planner.answer('say-continue', scene_epoch=7)
    assert reasons(answer) == MISSING
    assert 'scene_epoch=7 did not arrive' in answer.result.error_msg
    blind = planner.answer('say-continue')
    assert (blind.result.decision, blind.decisions[0].scene_epoch) == ('continue', 0)


def test_a_goal_waits_for_the_first_scene_of_whoever_is_there(
    scripted: Callable[..., Planner],
) -> None:
    """A node that was started again knew no scene, and decided without one."""
    planner = scripted(scene__wait_s=10.0)
    publisher = planner.node.create_publisher(Scene, f'{planner.node_process.name}/scene', 1)
    while not publisher.get_subscription_count():
        planner.node_process.wait_for_log('active, goals are welcome')
    late = planner.ask('say-continue', decision_deadline=seconds(0.01))
    assert late.wait_for(lambda: bool(late.decisions), TIMEOUT_S)
    newer = accepted(planner)
    assert planner.finish(late).finish_reason == FinishReason.PREEMPTED
    publisher.publish(Scene(epoch=3, description='A corridor.'))
    assert planner.finish(newer).finish_reason == FinishReason.STOP
    assert {said.scene_epoch for said in (*newer.tokens, *newer.decisions)} == {3}
    assert newer.result.decision == 'continue'


def test_a_publisher_that_is_not_heard_is_named(scripted: Callable[..., Planner]) -> None:
    planner = scripted(scene__wait_s=0.05)
    planner.node.create_publisher(
        Scene, f'{planner.node_process.name}/scene',
        QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT))
    wait_for_warning(planner, f'{planner.node.get_name()} publishes')
    assert 'publish it as reliable' in planner.diagnostics[-1].message
    answer = planner.answer('say-continue')
    assert reasons(answer) == MISSING
    assert 'though it has a publisher' in answer.result.error_msg
