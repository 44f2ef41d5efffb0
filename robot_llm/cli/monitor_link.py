"""The monitor's place in the graph: topics in, cancel and replay out; it can hold nothing up."""

from collections.abc import Callable
from dataclasses import dataclass
from queue import Full, Queue
from threading import Thread
import time
from typing import Any, Final

from action_msgs.msg import GoalInfo
from action_msgs.srv import CancelGoal
from diagnostic_msgs.msg import DiagnosticArray
import rclpy
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from robot_llm.cli.monitor_state import CancelAnswer, ClockProblem, Presence, ReplayAnswer
from robot_llm.ros.client import STREAM_DEPTH
from robot_llm.ros.message_age import clock_problem, stamp_s
from robot_llm.ros.steady_timer import create_steady_timer
from robot_llm.ros.token_stream import DECISION_DEPTH
from robot_llm_msgs.msg import Decision, Status, Token
from robot_llm_msgs.srv import Replay
from unique_identifier_msgs.msg import UUID

LOOK_PERIOD_S: Final = 0.5
"""How often the graph is looked at; discovery has no callback."""

ANSWER_TIMEOUT_S: Final = 3.0
"""How long a cancel or a replay waits: the node answers within milliseconds, or not at all."""

MAX_EVENTS: Final = 8192
"""Eight whole streams. A screen that stands still for longer (Ctrl-S) sees a gap in the answer."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A call of a service that has not been answered."""

    client: Any
    until_s: float
    to_event: Callable[[Any], Any]


class MonitorLink:
    """
    A node of its own on a thread of its own; whatever comes lies in ``events``.

    Every reader keeps the last messages only, so that a monitor that stands still costs the
    watched node nothing. Use it as a context manager.

    :param server: fully qualified name of the watched node
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self.events: Queue[Any] = Queue(MAX_EVENTS)
        self._context = Context()
        # A log line on the screen would be painted over, and would tear it.
        rclpy.init(args=['--ros-args', '--disable-stdout-logs'], context=self._context,
                   signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node(
            'robot_llm_monitor', context=self._context, use_global_arguments=False)
        self._presence: Presence | None = None
        self._waiting: dict[Any, _Waiting] = {}
        latched = DurabilityPolicy.TRANSIENT_LOCAL
        for message_type, name, qos in (
            (Token, f'{server}/tokens', QoSProfile(
                depth=STREAM_DEPTH, reliability=ReliabilityPolicy.RELIABLE, durability=latched)),
            (Decision, f'{server}/decision', QoSProfile(depth=DECISION_DEPTH)),
            (Status, f'{server}/status', QoSProfile(depth=1, durability=latched)),
            (DiagnosticArray, '/diagnostics', QoSProfile(depth=10)),
        ):
            self.node.create_subscription(message_type, name, self._take, qos)
        self._cancel = self.node.create_client(
            CancelGoal, f'{server}/generate/_action/cancel_goal')
        self._replay = self.node.create_client(Replay, f'{server}/replay')
        create_steady_timer(self.node, LOOK_PERIOD_S, self._look)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._spinner = Thread(target=self._spin, name='robot_llm_monitor_spin')
        self._spinner.start()

    def __enter__(self) -> 'MonitorLink':
        """Return itself."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Stop spinning, join, leave the graph."""
        self._executor.shutdown()
        self._spinner.join()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)

    def wait_until_ready(self, timeout_s: float) -> bool:
        """Wait until the node would answer; False if time runs out."""
        end_s = time.monotonic() + timeout_s
        return all(client.wait_for_service(max(end_s - time.monotonic(), 0.0))
                   for client in (self._cancel, self._replay))

    def cancel(self, goal_id: bytes) -> None:
        """
        Ask the node to cancel a goal, whoever sent it; the answer comes as an event.

        :param goal_id: 16 bytes, not all zero: that would cancel every goal there is
        """
        assert len(goal_id) == 16 and any(goal_id), f'{goal_id!r} names no goal'
        request = CancelGoal.Request(goal_info=GoalInfo(goal_id=UUID(uuid=list(goal_id))))
        self._call(self._cancel, request, lambda response: CancelAnswer(
            goal_id, None if response is None else response.return_code))

    def replay(self, goal_id: bytes) -> None:
        """Ask for everything that was streamed for a goal; the answer comes as an event."""
        self._call(self._replay, Replay.Request(goal_id=UUID(uuid=list(goal_id))),
                   lambda response: ReplayAnswer(goal_id, response))

    def _call(self, client: Any, request: Any, to_event: Callable[[Any], Any]) -> None:
        # On the spin thread: an answer that comes while another thread still sends is lost.
        self._executor.create_task(self._send, client, request, to_event)

    # On the spin thread.

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            return

    def _take(self, message: Any) -> None:
        self._put(message)
        if isinstance(message, Decision) and (
                problem := clock_problem(time.time() - stamp_s(message.stamp))):
            self._put(ClockProblem(problem))

    def _put(self, event: Any) -> bool:
        try:
            self.events.put_nowait(event)
        except Full:
            return False
        return True

    def _send(self, client: Any, request: Any, to_event: Callable[[Any], Any]) -> None:
        if not client.service_is_ready():
            self._put(to_event(None))
            return
        future = client.call_async(request)
        self._waiting[future] = _Waiting(client, time.monotonic() + ANSWER_TIMEOUT_S, to_event)
        future.add_done_callback(lambda done: self._answer(client, done))

    def _answer(self, client: Any, future: Any) -> None:
        if waiting := self._waiting.pop(future, None):
            client.remove_pending_request(future)
            self._put(waiting.to_event(future.result() if future.done() else None))

    def _look(self) -> None:
        """See whether the node is there, and give up on services that do not answer."""
        name = f'{self._server}/status'
        is_there = self.node.count_publishers(name) > 0
        presence = Presence(is_there, () if is_there else self._others())
        if presence != self._presence and self._put(presence):
            self._presence = presence
        now_s = time.monotonic()
        for future, waiting in tuple(self._waiting.items()):
            if waiting.until_s < now_s:
                self._answer(waiting.client, future)

    def _others(self) -> tuple[str, ...]:
        """Return the names of the inference nodes that are in the graph."""
        kind = 'robot_llm_msgs/msg/Status'
        return tuple(sorted(
            name.removesuffix('/status') for name, types in self.node.get_topic_names_and_types()
            if kind in types and self.node.count_publishers(name) > 0))
