"""The planner of docs/planner.md in a process of its own: what would reach the motors."""

from collections.abc import Iterator
from pathlib import Path
import re

import pytest
from robot_llm.core.request import FinishReason
from robot_llm_msgs.msg import Status
from ros_node import NodeProcess, REAL, running_node, SCRIPTED, TIMEOUT_S
from ros_robot import EXAMPLE, example, Robot, robot_beside

PAGE = EXAMPLE.with_name('planner.md')
CONTINUE, SLOW, STOP = 1.0, 0.3, 0.0

pytestmark = pytest.mark.usefixtures('ros_domain')


@pytest.fixture(scope='module')
def node(ros_domain: int) -> Iterator[NodeProcess]:
    """Run a scripted node."""
    with running_node(SCRIPTED, {}) as process:
        yield process


@pytest.fixture
def robot(node: NodeProcess) -> Iterator[Robot]:
    """Return a robot that nothing has been decided for."""
    with robot_beside(node) as robot:
        yield robot


# A decision holds longer than a test takes, unless the test is about its age. It is asked for
# again, as one may be lost while two processes get to know each other.
PATIENT = {'max_age_s': 4 * TIMEOUT_S, 'ask_s': 5.0}


def test_a_decision_of_the_model_reaches_the_motors(node: NodeProcess, robot: Robot) -> None:
    with example(node, **PATIENT):
        assert robot.wait_for_ticks(3) == [STOP] * 3
        robot.see('say-continue')
        robot.wait_for_speed(CONTINUE)
    # Ctrl-C: the last command is a stop.
    robot.wait_for(lambda: robot.speeds[-1] == STOP, 'a stop at the end')


def test_a_changed_scene_stops_the_robot_until_it_is_judged(
    node: NodeProcess, robot: Robot,
) -> None:
    with example(node, **PATIENT):
        robot.see('say-continue')
        robot.wait_for_speed(CONTINUE)
        start = robot.see('say-slow hold-decision:changed')
        node.wait_for_gate('changed')
        stopped = robot.wait_for_speed(STOP, start)
        robot.wait_for_ticks(3)
        node.open_gate('changed')
        slow = robot.wait_for_speed(SLOW, stopped)
        assert set(robot.speeds[stopped:slow]) == {STOP}


def test_a_scene_that_changes_again_cancels_the_goal_of_the_one_before(
    node: NodeProcess, robot: Robot,
) -> None:
    with example(node, **PATIENT):
        robot.see('say-continue hold-prefill:first')
        node.wait_for_gate('first')
        robot.see('say-slow')
        robot.wait_for_speed(SLOW)
        assert CONTINUE not in robot.speeds
        robot.wait_for(lambda: robot.finish_reasons(), 'the end of the first goal')
        # The scene, the newer goal and the cancel are all right, and race each other.
        assert robot.finish_reasons()[0] in (
            FinishReason.CANCELED, FinishReason.SCENE_CHANGED, FinishReason.PREEMPTED)
    node.open_gate('first')


def test_a_stale_or_foreign_decision_moves_nothing(node: NodeProcess, robot: Robot) -> None:
    with example(node, max_age_s=30.0, ask_s=2 * TIMEOUT_S):
        robot.see('say-slow hold-decision:stale')
        node.wait_for_gate('stale')
        status = robot.wait_for_state(Status.STATE_PREFILL)
        goal_id = bytes(status.goal_id.uuid)
        robot.wait_for(lambda: robot.epochs, 'the scene')
        epoch = robot.epochs[-1]
        # This robot itself and the example; both are asked with every message that comes.
        robot.wait_for(lambda: robot.liar.get_subscription_count() == 2, 'the example listens')
        for word, asked, seen, age_s in (
            ('continue', goal_id, epoch, 31.0), ('continue', goal_id, epoch - 1, 0.0),
            ('continue', bytes(16), epoch, 0.0), ('fly', goal_id, epoch, 0.0),
        ):
            robot.lie(word, asked, epoch=seen, age_s=age_s)
            # Each of them lies there while the motors are told several times.
            assert set(robot.wait_for_ticks(4)) == {STOP}
        # The same publisher, told the truth: what came before it has been read.
        robot.lie('slow', goal_id, epoch=epoch, age_s=0.0)
        robot.wait_for_speed(SLOW)
        assert CONTINUE not in robot.speeds
        node.open_gate('stale')


def test_a_node_that_is_killed_stops_the_robot(own_ros_domain: int) -> None:
    with running_node(SCRIPTED, {}) as node, robot_beside(node) as robot, \
            example(node, max_age_s=2.0, ask_s=1.0):
        robot.see('say-continue')
        robot.wait_for_speed(CONTINUE)
        node.kill()
        killed = len(robot.speeds)
        stopped = robot.wait_for_speed(STOP, killed)
        robot.wait_for_ticks(10)
        assert set(robot.speeds[stopped:]) == {STOP}


def test_a_late_model_stops_the_robot_and_is_asked_again(
    node: NodeProcess, robot: Robot,
) -> None:
    with example(node, max_age_s=3.0, ask_s=0.5):
        robot.see('say-continue hold-decision:late')
        robot.wait_for(lambda: len(robot.finish_reasons()) >= 2, 'two goals ended')
        assert set(robot.speeds) == {STOP}
        node.open_gate('late')
        robot.wait_for_speed(CONTINUE)


def test_closed_eyes_stop_the_robot_and_free_the_engine(
    node: NodeProcess, robot: Robot,
) -> None:
    with example(node, max_age_s=1.0, ask_s=5.0):
        robot.see('say-continue hold-detail:blind')
        robot.wait_for_speed(CONTINUE)
        start = robot.see('')
        robot.wait_for_speed(STOP, start)
        robot.wait_for(
            lambda: FinishReason.CANCELED in robot.finish_reasons(), 'the goal is cancelled')
    node.open_gate('blind')


def test_the_real_model_drives(own_ros_domain: int, model_path: Path) -> None:
    with running_node(REAL, {'model.path': model_path}) as node, robot_beside(node) as robot, \
            example(node, **PATIENT):
        robot.see('The corridor is clear as far as the dock.')
        robot.wait_for(lambda: robot.tokens, 'a decision')
        word = robot.tokens[0].text
        robot.wait_for_speed({'continue': CONTINUE, 'slow': SLOW}.get(word, STOP))


def test_the_page_shows_the_file_that_was_tested() -> None:
    page = PAGE.read_text(encoding='utf-8')
    shown = re.search(
        r'<!-- example_planner -->\n```python\n(.*?)```\n<!-- /example_planner -->', page,
        re.DOTALL)
    assert shown, 'docs/planner.md lacks the markers <!-- example_planner -->'
    assert shown[1] == EXAMPLE.read_text(encoding='utf-8')


def test_a_student_can_read_it_at_one_sitting() -> None:
    lines = EXAMPLE.read_text(encoding='utf-8').splitlines()
    code = [line for line in lines if line.strip() and 'import' not in line]
    assert len(code) <= 75
