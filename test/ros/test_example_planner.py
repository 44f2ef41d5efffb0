"""The planner of docs/planner.md in a process of its own: what would reach the motors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
import re
import signal
import sys
from typing import Any

from geometry_msgs.msg import Twist
import pytest
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from robot_llm_msgs.msg import Decision, Scene, Status, Token
from ros_node import NodeProcess, Process, REAL, running_node, SCRIPTED, TIMEOUT_S
from ros_planner import Planner
from std_msgs.msg import String
from unique_identifier_msgs.msg import UUID

DOCS = Path(__file__).parents[2] / 'docs'
EXAMPLE = DOCS / 'example_planner.py'
CONTINUE, SLOW, STOP = 1.0, 0.3, 0.0

pytestmark = pytest.mark.usefixtures('ros_domain')


class Robot(Planner):
    """What is around the example: eyes that repeat what they see, motors that write all down."""

    def __init__(self, node: NodeProcess) -> None:
        super().__init__(node)
        self.speeds: list[float] = []
        self.tokens: list[Token] = []
        self.epochs: list[int] = []
        namespace = node.name.rpartition('/')[0]
        self._sight = ''
        self._seen = self.node.create_publisher(String, f'{namespace}/seen', 1)
        self.liar = self.node.create_publisher(Decision, f'{node.name}/decision', 10)
        self.node.create_subscription(Twist, f'{namespace}/cmd_vel', self._motor_callback, 100)
        self.node.create_subscription(Scene, f'{node.name}/scene', self._scene_callback, 100)
        self.node.create_timer(0.05, self._look)

    def _look(self) -> None:
        if self._sight:
            self._seen.publish(String(data=self._sight))

    def _motor_callback(self, twist: Any) -> None:
        with self.seen:
            self.speeds.append(twist.linear.x)
            self.seen.notify_all()

    def _scene_callback(self, scene: Scene) -> None:
        with self.seen:
            self.epochs.append(scene.epoch)
            self.seen.notify_all()

    def _token_callback(self, token: Token) -> None:
        super()._token_callback(token)
        with self.seen:
            self.tokens.append(token)
            self.seen.notify_all()

    def see(self, sight: str) -> int:
        """Change what the eyes see; '' closes them. Returns how many commands came before."""
        self._sight = sight
        return len(self.speeds)

    def wait_for_speed(self, speed: float, start: int = 0) -> int:
        """Wait for a command after ``start``; return its place."""
        self.wait_for(lambda: speed in self.speeds[start:], f'speed {speed}')
        return self.speeds.index(speed, start)

    def wait_for_ticks(self, count: int) -> list[float]:
        """Return the next ``count`` commands."""
        start = len(self.speeds)
        self.wait_for(lambda: len(self.speeds) >= start + count, f'{count} more commands')
        return self.speeds[start:start + count]

    def lie(self, word: str, goal_id: bytes, *, epoch: int, age_s: float) -> None:
        """Publish a decision that is not the node's."""
        now = self.node.get_clock().now().nanoseconds - round(age_s * 1e9)
        decision = Decision(word=word, source=Decision.SOURCE_MODEL, scene_epoch=epoch,
                            goal_id=UUID(uuid=list(goal_id)))
        decision.stamp.sec, decision.stamp.nanosec = divmod(now, 10**9)
        self.liar.publish(decision)

    def finish_reasons(self) -> list[int]:
        """Return why goals ended, in order; without those of planners that were here before."""
        return [token.finish_reason for token in self.tokens
                if token.kind == TokenKind.END and token.scene_epoch in self.epochs]


@contextmanager
def example(node: NodeProcess, *, max_age_s: float, ask_s: float) -> Iterator[Process]:
    """Run the example planner beside a node."""
    process = Process(
        sys.executable, str(EXAMPLE), '--ros-args', '-p', f'max_age_s:={max_age_s}',
        '-p', f'ask_s:={ask_s}', '-r', f'__ns:={node.name.rpartition("/")[0]}')
    try:
        yield process
        assert process.popen.poll() is None, process.log
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0, process.log
        assert 'Traceback' not in process.log
    finally:
        print(process.log)  # pytest shows it where the test failed
        if process.popen.poll() is None:
            process.kill()


@contextmanager
def robot_beside(node: NodeProcess) -> Iterator[Robot]:
    """Return a robot whose node is active."""
    with Robot(node) as robot:
        assert robot.wait_until_ready(TIMEOUT_S), node.log
        yield robot


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
        robot.lie('continue', goal_id, epoch=epoch, age_s=31.0)
        robot.lie('continue', goal_id, epoch=epoch - 1, age_s=0.0)
        robot.lie('continue', bytes(16), epoch=epoch, age_s=0.0)
        robot.lie('fly', goal_id, epoch=epoch, age_s=0.0)
        robot.wait_for_ticks(5)
        assert set(robot.speeds) == {STOP}
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
    page = (DOCS / 'planner.md').read_text(encoding='utf-8')
    shown = re.search(
        r'<!-- example_planner -->\n```python\n(.*?)```\n<!-- /example_planner -->', page,
        re.DOTALL)
    assert shown, 'docs/planner.md lacks the markers <!-- example_planner -->'
    assert shown[1] == EXAMPLE.read_text(encoding='utf-8')


def test_a_student_can_read_it_at_one_sitting() -> None:
    lines = EXAMPLE.read_text(encoding='utf-8').splitlines()
    code = [line for line in lines if line.strip() and 'import' not in line]
    assert len(code) <= 70
