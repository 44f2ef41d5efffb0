"""The scene the robot is in: the newest epoch wins, and what contradicts it is a doubt."""

from collections.abc import Callable
from threading import Lock
from typing import Any, Final

from builtin_interfaces.msg import Time
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from robot_llm.core.request import Scene as SceneValue
from robot_llm_msgs.msg import Scene

LOOK_PERIOD_S: Final = 0.1
"""How often ``check_age`` is to be called: a scene that grows too old ends its goals this soon."""


class SceneMonitor:
    """
    ``~/scene`` of a configured node.

    Depth 1: at 30 Hz only the newest message matters. A description over the limit makes the
    scene unusable but still current: what was true before is no longer, and goals are refused
    until the next one arrives.

    An epoch that does not rise is the current scene repeated, or a message that was overtaken.
    Anything else says that whoever counts the epochs has begun again: what the robot sees is not
    the current scene, and is not told by a higher epoch either. Nothing is decided on a scene in
    doubt until an epoch rises above it. The same holds for one that is older than
    ``scene.max_age_s``, until it is repeated.

    :param max_age_s: returns ``scene.max_age_s``
    :param clock: monotonic seconds
    :param on_change: called on the executor with each newer scene, and why it cannot be used
    :param on_doubt: called on any thread with the epoch of a scene in doubt, and why it is
    """

    def __init__(
        self, node: Node, *, max_bytes: int, max_age_s: Callable[[], float],
        clock: Callable[[], float], on_change: Callable[[SceneValue, str], None],
        on_doubt: Callable[[int, str], None],
    ) -> None:
        self._node = node
        self.max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._clock = clock
        self._on_change = on_change
        self._on_doubt = on_doubt
        self._lock = Lock()
        self._scene = SceneValue()
        self._text = ''  # as it came, also if it is over the limit
        self._stamp_ns = 0
        self._heard_s = 0.0
        self._publishers: set[bytes] = set()
        self._contradiction = ''
        self.refusal = ''
        """Why goals on the current scene must be refused; empty if it is usable."""
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
    def is_awaited(self) -> bool:
        """No scene has come yet, and somebody is there who tells what the robot sees."""
        return self.current.epoch == 0 and (
            self._node.count_publishers(self._subscription.topic_name) > 0)

    @property
    def doubt(self) -> str:
        """Why the current scene may not be what the robot sees; empty if nothing says so."""
        with self._lock:
            return self._doubt()

    def _doubt(self) -> str:
        max_age_s, age_s = self._max_age_s(), self._clock() - self._heard_s
        if self._contradiction or not (self._scene.epoch and 0 < max_age_s < age_s):
            return self._contradiction
        return (f'scene {self._scene.epoch} was told {age_s:.1f} s ago and scene.max_age_s='
                f'{max_age_s}; let its publisher repeat it, or see why it does not')

    @property
    def problem(self) -> str:
        """What is wrong with the scene, for the diagnostics; empty if nothing is."""
        return self.refusal or self.doubt or self._deafness()

    def _deafness(self) -> str:
        """Name publishers that DDS does not connect with this subscription."""
        names = sorted({
            f'{endpoint.node_namespace.rstrip("/")}/{endpoint.node_name}'
            for endpoint in self._endpoints()
            if endpoint.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT})
        return (
            f'{", ".join(names)} publishes {self._subscription.topic_name} as best effort, which '
            'never arrives here; publish it as reliable') if names else ''

    def check_age(self) -> None:
        """End what is decided on a scene that has grown too old; call it again and again."""
        with self._lock:
            epoch, doubt = self._scene.epoch, self._doubt()
        if doubt:
            self._on_doubt(epoch, doubt)

    def _scene_callback(self, message: Any) -> None:
        scene = SceneValue(int(message.epoch), message.description)
        if scene.epoch > self.current.epoch:
            self._take(scene, _nanoseconds(message.stamp))
            return
        self.num_ignored += 1
        with self._lock:
            if scene.epoch == self._scene.epoch:
                self._heard_s = self._clock()
            if not scene.epoch or not self._contradicts(message):
                return
            current, is_new = self._scene.epoch, not self._contradiction
            self._contradiction = doubt = (
                f'scene {scene.epoch} came behind scene {current}: its publisher counts anew; '
                f'let epochs begin above {current} (with the time of its start), or clean up and '
                'configure this node')
        if is_new:
            self._node.get_logger().error(doubt)
        self._on_doubt(current, doubt)

    def _contradicts(self, message: Any) -> bool:
        """Whether a message whose epoch does not rise is more than repeated or overtaken."""
        is_lower = message.epoch < self._scene.epoch
        if not is_lower and message.description == self._text:
            return False
        # A message does not tell its publisher; who was not there before may be one started anew.
        if not self._gids() <= self._publishers:
            return True
        return is_lower and not 0 < _nanoseconds(message.stamp) < self._stamp_ns

    def _take(self, scene: SceneValue, stamp_ns: int) -> None:
        num_bytes, refusal = len(scene.description.encode('utf-8', 'replace')), ''
        with self._lock:
            self._text, self._stamp_ns, self._heard_s = (
                scene.description, stamp_ns, self._clock())
            if num_bytes > self.max_bytes:
                refusal = (
                    f'scene {scene.epoch} has {num_bytes} bytes and '
                    f'limits.scene_bytes={self.max_bytes}; shorten the description')
                scene = SceneValue(scene.epoch)
            self._scene, self.refusal, self._contradiction = scene, refusal, ''
            self._publishers = self._gids()
        if refusal:
            self._node.get_logger().error(refusal, throttle_duration_sec=5.0)
        self._on_change(scene, refusal)

    def _gids(self) -> set[bytes]:
        return {bytes(endpoint.endpoint_gid) for endpoint in self._endpoints()}

    def _endpoints(self) -> list[Any]:
        return self._node.get_publishers_info_by_topic(self._subscription.topic_name)

    def close(self) -> None:
        """Destroy the subscription."""
        self._node.destroy_subscription(self._subscription)


def _nanoseconds(stamp: Time) -> int:
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)
