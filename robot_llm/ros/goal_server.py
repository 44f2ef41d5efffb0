"""The action: accept, preempt, cancel, result."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition
import time
from typing import Any

from rclpy.action import CancelResponse, GoalResponse
from rclpy.node import Node
from robot_llm.core.request import FinishReason, Request
from robot_llm.core.session import Session
from robot_llm.core.timing import GenerationStats
from robot_llm.errors import ErrorCode, MalformedFieldError, NotActiveError, RobotLlmError
from robot_llm.ros.action_server import StreamingActionServer
from robot_llm.ros.conversions import (
    check_deadline, check_goal, request_from_goal, result_message)
from robot_llm.ros.service import Service
from robot_llm_msgs.action import Generate
from robot_llm_msgs.msg import Token


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

    :param on_refusal: told why a goal was refused, since the action cannot tell its client
    :param on_accepted: told that a goal runs or waits now
    """

    def __init__(
        self, node: Node, on_refusal: Callable[[str], None], on_accepted: Callable[[], None],
    ) -> None:
        self._node = node
        self._on_refusal = on_refusal
        self._on_accepted = on_accepted
        self._service: Service | None = None
        self._goals: dict[bytes, _Goal] = {}
        self._changed = Condition()
        self._server = StreamingActionServer(
            node, '~/generate',
            goal_callback=self._goal_callback,
            handle_accepted_callback=self._accepted_callback,
            cancel_callback=self._cancel_callback)

    def attach(self, service: Service | None) -> None:
        """Serve goals with ``service`` from now on; None refuses them."""
        self._service = service

    # On the executor.

    def _goal_callback(self, goal: Any) -> GoalResponse:
        service = self._service
        try:
            if service is None or not service.accepting:
                raise NotActiveError('the node is not active; activate it first')
            check_goal(goal, service)
            # A goal that names a later scene waits for it, whatever is wrong with this one.
            if service.scene.problem and goal.scene_epoch <= service.scene.current.epoch:
                raise MalformedFieldError(service.scene.problem)
            service.worker.requests.check_capacity()
            if service.settings.admission.policy == 'refuse':
                check_deadline(goal, service)
        except RobotLlmError as error:
            self._refuse(error)
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _refuse(self, error: RobotLlmError) -> None:
        reason = f'{ErrorCode(error.code).name}: {error}'
        self._node.get_logger().warning(f'goal refused, {reason}')
        self._on_refusal(reason)

    def _accepted_callback(self, goal_handle: Any) -> None:
        """Start a goal; the node may have changed since it was accepted."""
        goal_id, now_s = bytes(goal_handle.goal_id.uuid), time.monotonic()
        service = self._service
        try:
            if service is None:
                raise NotActiveError('the node was cleaned up; configure and activate it')
            scene = service.scene.current
            request = request_from_goal(
                goal_handle.request, goal_id, check_goal(goal_handle.request, service),
                service.settings, scene=scene, now_s=now_s)
        except RobotLlmError as error:
            # Neither stream nor profile is left to say it on: the result alone does.
            self._refuse(error)
            self._server.finish(goal_handle, Generate.Result(
                finish_reason=int(FinishReason.ERROR), error_code=int(error.code),
                error_msg=str(error)), is_canceled=False, has_succeeded=False)
            return
        if service.settings.admission.policy == 'fallback' and (
                service.predicted_ttft_s(request) > request.decision_timeout_s):
            request.decision_deadline_s = now_s  # it would be missed: let it pass at once
        self._goals[goal_id] = _Goal(goal_handle, request)
        if service.accepting:
            service.dispatcher.dispatch(
                request, scene, is_scene_expected=service.scene.is_expected)
        else:
            # Accepted a moment before the node left active; it says why it did.
            failure = service.worker.requests.failure
            service.dispatcher.refuse(
                request, FinishReason.ERROR if failure else FinishReason.SHUTDOWN, failure)
        self._on_accepted()

    def _cancel_callback(self, goal_handle: Any) -> CancelResponse:
        """Stop a goal at once; its result follows behind rclpy's own step to CANCELING."""
        goal = self._goals.get(bytes(goal_handle.goal_id.uuid))
        service = self._service
        if goal is None or service is None:
            return CancelResponse.REJECT
        service.dispatcher.stop(goal.request, FinishReason.CANCELED)
        # Another reason was faster: that is the goal's end, and its result is on the way.
        is_canceled = goal.request.finish_reason is FinishReason.CANCELED
        return CancelResponse.ACCEPT if is_canceled else CancelResponse.REJECT

    # On the streamer's thread.

    def start(self, session: Session) -> None:
        """Make the goal EXECUTING."""
        self._server.start(self._goals[session.request.request_id].handle)

    def publish_feedback(self, session: Session, message: Token) -> None:
        """Send one token to the goal's client."""
        goal = self._goals[session.request.request_id]
        goal.handle.publish_feedback(Generate.Feedback(token=message))

    def finish(self, session: Session, stats: GenerationStats) -> None:
        """Let the executor send the goal's one result."""
        request = session.request
        goal = self._goals[request.request_id]

        def forget() -> None:
            with self._changed:
                self._goals.pop(request.request_id, None)
                self._changed.notify_all()

        self._server.finish(
            goal.handle, result_message(session, stats),
            is_canceled=request.finish_reason is FinishReason.CANCELED,
            has_succeeded=request.error is None and request.finish_reason in (
                FinishReason.STOP, FinishReason.LENGTH),
            on_sent=forget)

    # The end of the process.

    def wait_until_answered(self, timeout_s: float) -> bool:
        """Wait, off the executor, until every client has its result; False if time runs out."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._goals, timeout_s)

    def close(self) -> None:
        """Destroy the server; after the executor has stopped."""
        self._server.destroy()
