"""The scene the robot is in: the newest epoch wins, older ones are ignored and counted."""

from collections.abc import Callable
from threading import Lock
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from robot_llm.core.request import Scene as SceneValue
from robot_llm_msgs.msg import Scene


class SceneMonitor:
    """
    ``~/scene`` of a configured node.

    Depth 1: at 30 Hz only the newest message matters. A description over the limit makes the
    scene unusable but still current: what was true before is no longer, and goals are refused
    until the next one arrives.

    :param on_change: called on the executor with each newer scene, and why it cannot be used
    """

    def __init__(
        self, node: Node, *, max_bytes: int, on_change: Callable[[SceneValue, str], None],
    ) -> None:
        self._node = node
        self.max_bytes = max_bytes
        self._on_change = on_change
        self._lock = Lock()
        self._scene = SceneValue()
        self.problem = ''
        """Why goals must be refused for now; empty if the scene is usable."""
        self.num_ignored = 0
        """Messages whose epoch did not rise."""
        self._subscription = node.create_subscription(
            Scene, '~/scene', self._scene_callback,
            QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE))

    @property
    def current(self) -> SceneValue:
        """The newest scene; epoch 0 before the first."""
        with self._lock:
            return self._scene

    @property
    def is_expected(self) -> bool:
        """Somebody tells the robot what it sees, or has done so before."""
        return self.current.epoch > 0 or (
            self._node.count_publishers(self._subscription.topic_name) > 0)

    def _scene_callback(self, message: Any) -> None:
        scene = SceneValue(int(message.epoch), message.description)
        num_bytes = len(scene.description.encode('utf-8', 'replace'))
        with self._lock:
            if scene.epoch <= self._scene.epoch:
                self.num_ignored += 1
                self._node.get_logger().warning(
                    f'scene epoch {scene.epoch} does not rise above {self._scene.epoch}; '
                    'ignored', throttle_duration_sec=5.0)
                return
            self.problem = ''
            if num_bytes > self.max_bytes:
                self.problem = (
                    f'scene {scene.epoch} has {num_bytes} bytes and '
                    f'limits.scene_bytes={self.max_bytes}; shorten the description')
                self._node.get_logger().error(self.problem, throttle_duration_sec=5.0)
                scene = SceneValue(scene.epoch)
            self._scene = scene
        self._on_change(scene, self.problem)

    def close(self) -> None:
        """Destroy the subscription."""
        self._node.destroy_subscription(self._subscription)
