"""A robot around the example planner: eyes that repeat what they see, motors that write down."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
import signal
import sys
from typing import Any

from geometry_msgs.msg import Twist
from robot_llm.core.session import TokenKind
from robot_llm_msgs.msg import Decision, Scene, Token
from ros_node import NodeProcess, Process, TIMEOUT_S
from ros_planner import Planner
from std_msgs.msg import String
from unique_identifier_msgs.msg import UUID

EXAMPLE = Path(__file__).parents[2] / 'docs' / 'example_planner.py'


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
        self.node.create_subscription(Scene, f'{node.name}/scene', self._scene_callback, 100)
        # Last: endpoints are announced in order, so who reaches the motors has found all others.
        self.node.create_subscription(Twist, f'{namespace}/cmd_vel', self._motor_callback, 100)
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
        # A scene reaches only those whom its publisher has found, and the first one counts too.
        self.wait_for(lambda: self.speeds, 'the example talks to the motors')
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
