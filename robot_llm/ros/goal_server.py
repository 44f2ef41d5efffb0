"""The action: accept, preempt, cancel, result."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition
import time
from typing import Any, Final

from action_msgs.msg import GoalStatus
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.node import Node
from robot_llm.core.request import FinishReason, Request, Scene
from robot_llm.core.session import Session
from robot_llm.core.timing import GenerationStats
from robot_llm.errors import EngineError, ErrorCode, RequestError, RobotLlmError
from robot_llm.ros.conversions import check_goal, request_from_goal, result_message
from robot_llm.ros.service import Service
from robot_llm_msgs.action import Generate
from robot_llm_msgs.msg import Token

RESULT_TIMEOUT_S: Final = 60
"""How long rclpy keeps a result for a client that asks late; its 900 s would hold all texts."""

CANCEL_RACE_S: Final = 1.0
"""How long a result waits for rclpy to make the goal CANCELING; microseconds are the usual."""


class _ActionServer(ActionServer):
    """
    An action server whose goals run without a callback that waits for them.

    rclpy's way is an execute callback that lasts as long as the goal: a blocked executor thread,
    or a coroutine. Here ``execute()`` only changes the goal's state, and the callback is
    scheduled when its result is there.
    """

    def notify_execute(
        self, goal_handle: Any, execute_callback: Callable[[Any], Any] | None,
    ) -> None:
        """Schedule a callback that was given; an announced execution schedules none."""
        if execute_callback is not None:
            super().notify_execute(goal_handle, execute_callback)


@dataclass(eq=False, slots=True)
class _Goal:
    """A goal that has no result yet."""

    handle: Any
    request: Request


class GoalServer:
    """
    ``~/generate``: lives as long as the node, so that no client waits for a destroyed server.

    Callbacks run on the executor and return at once; ``start``, ``publish_feedback`` and
    ``finish`` are called by the streamer's thread.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._service: Service | None = None
        self._goals: dict[bytes, _Goal] = {}
        self._awaiting_scene: set[Request] = set()
        self._changed = Condition()
        self.last_refusal = ''
        self._server = _ActionServer(
            node, Generate, '~/generate',
            execute_callback=_no_execution,
            goal_callback=self._goal_callback,
            handle_accepted_callback=self._accepted_callback,
            cancel_callback=self._cancel_callback,
            result_timeout=RESULT_TIMEOUT_S)

    def attach(self, service: Service | None) -> None:
        """Serve goals with ``service`` from now on; None refuses them."""
        self._service = service

    # On the executor.

    def _goal_callback(self, goal: Any) -> GoalResponse:
        service = self._service
        try:
            if service is None or not service.accepting:
                raise EngineError('the node is not active; activate it first')
            check_goal(goal, service)
            if service.scene.problem:
                raise RequestError(service.scene.problem)
            service.worker.check_capacity()
        except RobotLlmError as error:
            self._refuse(error)
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _refuse(self, error: RobotLlmError) -> None:
        self.last_refusal = f'{ErrorCode(error.code).name}: {error}'
        self._node.get_logger().warning(f'goal refused, {self.last_refusal}')

    def _accepted_callback(self, goal_handle: Any) -> None:
        """Start a goal; the node may have changed since it was accepted, so all is asked again."""
        try:
            self._begin(goal_handle, time.monotonic())
        except RobotLlmError as error:
            self._refuse(error)
            result = Generate.Result(
                finish_reason=int(FinishReason.ERROR), error_code=int(error.code),
                error_msg=str(error))
            _execute(goal_handle)
            self._server.notify_execute(goal_handle, lambda _: (goal_handle.abort(), result)[1])

    def _begin(self, goal_handle: Any, now_s: float) -> None:
        """
        Make a request of a goal and hand it to the worker, or hold it for its scene.

        :raises RobotLlmError: if it can no longer be served; nothing is kept of it then
        """
        service = self._service
        if service is None or not service.accepting:
            raise EngineError('the node is not active any more; activate it first')
        goal, scene = goal_handle.request, service.scene.current
        goal_id = bytes(goal_handle.goal_id.uuid)
        bound = Scene(int(goal.scene_epoch) or scene.epoch, scene.description)
        request = request_from_goal(
            goal, goal_id, check_goal(goal, service), service.settings,
            scene=bound, now_s=now_s)
        self._goals[goal_id] = _Goal(goal_handle, request)
        service.streamer.register(request)
        if bound.epoch < scene.epoch:
            service.worker.stop(request, FinishReason.SCENE_CHANGED)
        elif bound.epoch > scene.epoch > 0:
            self._await_scene(service, request)
        else:
            self._submit(service, request)

    def _submit(self, service: Service, request: Request) -> None:
        if service.settings.preempt.policy == 'newest_wins':
            for waiting in tuple(self._awaiting_scene):
                self._awaiting_scene.discard(waiting)
                service.worker.stop(waiting, FinishReason.PREEMPTED)
        try:
            service.worker.submit(request)
        except RobotLlmError as error:
            service.worker.stop(request, FinishReason.ERROR, error=error)

    def _await_scene(self, service: Service, request: Request) -> None:
        """Hold a goal whose scene is still on its way: topics and actions race each other."""
        self._awaiting_scene.add(request)
        service.streamer.call_at(
            time.monotonic() + service.settings.scene.wait_s,
            lambda: self._give_up_scene(service, request))

    def _give_up_scene(self, service: Service, request: Request) -> None:
        if request in self._awaiting_scene:
            self._awaiting_scene.discard(request)
            service.worker.stop(request, FinishReason.SCENE_CHANGED, error=RequestError(
                f'scene_epoch={request.scene.epoch} did not arrive on ~/scene within '
                f'scene.wait_s={service.settings.scene.wait_s} s; publish the scene before the '
                'goal, or send 0 for the current one'))

    def change_scene(self, scene: Scene) -> None:
        """End the goals of older scenes, start the ones that waited for this one."""
        service = self._service
        if service is None:
            return
        for goal in tuple(self._goals.values()):
            request = goal.request
            if request.scene.epoch < scene.epoch:
                self._awaiting_scene.discard(request)
                service.worker.stop(request, FinishReason.SCENE_CHANGED)
            elif request in self._awaiting_scene and request.scene.epoch == scene.epoch:
                self._awaiting_scene.discard(request)
                request.scene = scene
                self._submit(service, request)

    def _cancel_callback(self, goal_handle: Any) -> CancelResponse:
        """Stop a goal; rclpy makes it CANCELING after this returns, see ``_send_result``."""
        goal = self._goals.get(bytes(goal_handle.goal_id.uuid))
        service = self._service
        if goal is None or service is None:
            return CancelResponse.REJECT
        self._awaiting_scene.discard(goal.request)
        service.worker.stop(goal.request, FinishReason.CANCELED)
        # Another reason was faster: that is the goal's end, and its result is on the way.
        is_canceled = goal.request.finish_reason is FinishReason.CANCELED
        return CancelResponse.ACCEPT if is_canceled else CancelResponse.REJECT

    # On the streamer's thread.

    def start(self, session: Session) -> None:
        """Make the goal EXECUTING, unless a cancel was faster."""
        goal = self._goals[session.request.request_id]
        if goal.handle.status == GoalStatus.STATUS_ACCEPTED:
            _execute(goal.handle)

    def publish_feedback(self, session: Session, message: Token) -> None:
        """Send one token to the goal's client."""
        goal = self._goals[session.request.request_id]
        goal.handle.publish_feedback(Generate.Feedback(token=message))

    def finish(self, session: Session, stats: GenerationStats) -> None:
        """Let the executor send the goal's one result."""
        goal = self._goals[session.request.request_id]
        result = result_message(session, stats)
        give_up_s = time.monotonic() + CANCEL_RACE_S
        self._schedule(lambda: self._send_result(goal, result, give_up_s))

    def _schedule(self, callback: Callable[[], None]) -> None:
        executor = self._node.executor
        if executor is not None:
            executor.create_task(callback)

    # On the executor again.

    def _send_result(self, goal: _Goal, result: Generate.Result, give_up_s: float) -> None:
        """
        Make the goal terminal and send its result; the result first, the transition last.

        The cancel callback runs before rclpy makes the goal CANCELING, so with several executor
        threads this may be here first; it then queues behind the cancel.
        """
        handle, request = goal.handle, goal.request
        is_canceled = request.finish_reason is FinishReason.CANCELED
        if is_canceled and not handle.is_cancel_requested and time.monotonic() < give_up_s:
            self._schedule(lambda: self._send_result(goal, result, give_up_s))
            return
        if handle.status == GoalStatus.STATUS_ACCEPTED:
            _execute(handle)

        def end(_handle: Any) -> Generate.Result:
            if is_canceled and handle.is_cancel_requested:
                handle.canceled()
            elif request.error is None and request.finish_reason in (
                    FinishReason.STOP, FinishReason.LENGTH):
                handle.succeed()
            else:
                handle.abort()
            with self._changed:
                self._goals.pop(request.request_id, None)
                self._changed.notify_all()
            return result

        self._server.notify_execute(handle, end)

    @property
    def num_open(self) -> int:
        """How many goals have no result yet."""
        return len(self._goals)

    def stop_waiting(self, service: Service) -> None:
        """End the goals that wait for their scene; the worker does not know them."""
        for request in tuple(self._awaiting_scene):
            self._awaiting_scene.discard(request)
            service.worker.stop(request, FinishReason.SHUTDOWN)

    def wait_until_answered(self, timeout_s: float) -> bool:
        """Wait, off the executor, until every goal has its result; False if time runs out."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._goals, timeout_s)

    def close(self) -> None:
        """Destroy the server; after the executor has stopped."""
        self._server.destroy()


def _no_execution(_handle: Any) -> Generate.Result:
    raise AssertionError('goals are executed with their result')


def _execute(handle: Any) -> None:
    """Make a goal EXECUTING; losing the race against a cancel is fine."""
    try:
        handle.execute()
    except Exception:  # noqa: B902  rclpy's RCLError has no public name; anything else shows below
        if handle.status != GoalStatus.STATUS_CANCELING:
            raise
