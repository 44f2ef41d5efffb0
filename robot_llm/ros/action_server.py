"""An action server whose goals run without a callback that waits for them."""

from collections.abc import Callable
from threading import Lock
import time
from typing import Any, Final

from action_msgs.msg import GoalStatus
from rclpy.action import ActionServer, CancelResponse, server as rclpy_server
from rclpy.node import Node
from rclpy.qos import QoSProfile
from robot_llm.ros.scheduling import schedule
from robot_llm_msgs.action import Generate

RESULT_TIMEOUT_S: Final = 60
"""How long rclpy keeps a result for a client that asks late; its 900 s would hold all texts."""

CANCEL_RACE_S: Final = 1.0
"""How long a result waits for rclpy to make the goal CANCELING; microseconds are the usual."""

BURST: Final = QoSProfile(depth=128)
"""
Of the action's services, on both sides; reliable and volatile, as rclpy's default.

The default keeps 10: of more goals, cancels or results within one pause of the other side the
oldest are dropped without a word, and a client waits for ever.
"""

SENDS_ARE_SEEN: Final = all(
    hasattr(ActionServer, name) for name in ('_send_result_response', '_execute_expire_goals'))
"""Whether this rclpy tells when a result has left; otherwise a goal counts as answered before."""

CANCELS_ARE_OURS: Final = all(
    hasattr(rclpy_server, name) for name in ('GoalEvent', 'RCLError')
) and hasattr(rclpy_server.ServerGoalHandle, '_update_state')
"""Whether this rclpy lets a request to cancel be answered here; otherwise it answers by itself."""


class StreamingActionServer(ActionServer):
    """
    rclpy's action server, turned around: the result comes to the goal.

    rclpy's way is an execute callback that lasts as long as the goal: a blocked executor thread,
    or a coroutine that every wake-up of the executor steps once more. Here ``execute()`` only
    changes the goal's state, and ``finish`` schedules the callback when the result is there.
    """

    def __init__(
        self,
        node: Node,
        name: str,
        *,
        goal_callback: Callable[[Any], Any],
        handle_accepted_callback: Callable[[Any], None],
        cancel_callback: Callable[[Any], Any],
    ) -> None:
        super().__init__(
            node, Generate, name,
            execute_callback=_no_execution,
            goal_callback=goal_callback,
            handle_accepted_callback=handle_accepted_callback,
            cancel_callback=cancel_callback,
            goal_service_qos_profile=BURST,
            result_service_qos_profile=BURST,
            cancel_service_qos_profile=BURST,
            result_timeout=RESULT_TIMEOUT_S)
        self._owner = node
        self._sent_lock = Lock()
        self._unsent: dict[bytes, tuple[Callable[[], None], Callable[[], bool]]] = {}

    def notify_execute(
        self, goal_handle: Any, execute_callback: Callable[[Any], Any] | None,
    ) -> None:
        """Schedule a callback that was given; an announced execution schedules none."""
        if execute_callback is not None:
            super().notify_execute(goal_handle, execute_callback)

    def start(self, goal_handle: Any) -> None:
        """Make a goal EXECUTING, unless a cancel was faster; any thread."""
        if goal_handle.status != GoalStatus.STATUS_ACCEPTED:
            return
        try:
            goal_handle.execute()
        except Exception:  # noqa: B902  rclpy's RCLError has no public name
            if goal_handle.status != GoalStatus.STATUS_CANCELING:
                raise

    def finish(
        self, goal_handle: Any, result: Generate.Result, *, is_canceled: bool,
        has_succeeded: bool, is_awaited: Callable[[], bool] = lambda: True,
        on_sent: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Make a goal terminal and send its one result, on the executor; any thread may call this.

        :param is_canceled: the goal's client asked for its end: CANCELED
        :param has_succeeded: SUCCEEDED, otherwise ABORTED
        :param is_awaited: asked when the result is to leave; False if its client has left
        :param on_sent: called once the result has left, or nobody asked for it in time
        """
        give_up_s = time.monotonic() + CANCEL_RACE_S

        def end(_handle: Any) -> Generate.Result:
            # rclpy sends what this returns; the transition comes first only for rclpy.
            if is_canceled and goal_handle.is_cancel_requested:
                goal_handle.canceled()
            elif has_succeeded:
                goal_handle.succeed()
            else:
                goal_handle.abort()
            if SENDS_ARE_SEEN:
                with self._sent_lock:
                    self._unsent[bytes(goal_handle.goal_id.uuid)] = on_sent, is_awaited
            else:
                on_sent()
            return result

        def send() -> None:
            # The cancel callback runs before rclpy makes the goal CANCELING. With several
            # executor threads this may be here first; it then queues behind the cancel.
            is_early = is_canceled and not goal_handle.is_cancel_requested
            if is_early and time.monotonic() < give_up_s:
                schedule(self._owner, send)
                return
            self.start(goal_handle)
            self.notify_execute(goal_handle, end)

        schedule(self._owner, send)

    # rclpy sends a result in a task of its own, once the client has asked for it, and drops the
    # task if the executor is shut down first: whoever ends the process has to wait for it. There
    # is no public hook; the two names below are those of Humble's and Jazzy's rclpy.

    def _send_result_response(self, request_header: Any, future: Any) -> None:
        with self._sent_lock:
            sent = {goal_id: is_awaited for goal_id, (_, is_awaited) in self._unsent.items()
                    if self._result_futures.get(goal_id) is future}
        # For a client that is gone rmw_fastrtps waits 100 ms, and rclpy holds the GIL meanwhile:
        # every thread of the process would stand still.
        if all(is_awaited() for is_awaited in sent.values()):
            super()._send_result_response(request_header, future)
        self._note_sent(list(sent))

    async def _execute_expire_goals(self, expired_goals: Any) -> None:
        await super()._execute_expire_goals(expired_goals)
        self._note_sent([bytes(goal.goal_id.uuid) for goal in expired_goals])

    def _note_sent(self, goal_ids: list[bytes]) -> None:
        with self._sent_lock:
            taken = [self._unsent.pop(goal_id, None) for goal_id in goal_ids]
        for on_sent, _ in filter(None, taken):
            on_sent()

    # rclpy takes the goals that refuse a cancel out of the list that it goes through, and so
    # passes over the one behind each: that goal is reported as canceling, and runs on.

    async def _execute_cancel_request(self, request_header_and_message: Any) -> None:
        if not CANCELS_ARE_OURS:
            await super()._execute_cancel_request(request_header_and_message)
            return
        request_header, request = request_header_and_message
        with self._lock:
            response = self._handle.process_cancel_request(
                request, self._action_type.Impl.CancelGoalService.Response)
        response.goals_canceling = [
            goal for goal in response.goals_canceling if self._cancel(bytes(goal.goal_id.uuid))]
        try:
            self._handle.send_cancel_response(request_header, response)
        except rclpy_server.RCLError:
            self._logger.warning('a cancel is not answered; its client may have gone away')

    def _cancel(self, goal_id: bytes) -> bool:
        """Ask a goal's callback and make the goal CANCELING; False if it runs on or has ended."""
        goal_handle = self._goal_handles.get(goal_id)
        if goal_handle is None or self._cancel_callback(goal_handle) != CancelResponse.ACCEPT:
            return False
        try:
            goal_handle._update_state(rclpy_server.GoalEvent.CANCEL_GOAL)
        except rclpy_server.RCLError:  # it has become terminal in between
            return False
        return True


def _no_execution(_handle: Any) -> Generate.Result:
    raise AssertionError('goals are executed with their result')
