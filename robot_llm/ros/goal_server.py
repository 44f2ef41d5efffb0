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
from robot_llm.errors import (
    DeadlineTooShortError, ErrorCode, MalformedFieldError, NotActiveError, RobotLlmError)
from robot_llm.ros.action_server import StreamingActionServer
from robot_llm.ros.conversions import check_goal, request_from_goal, result_message
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

    The callbacks are in the node's default callback group, which is mutually exclusive, and so
    are the lifecycle transitions. rclpy calls the two of one goal's acceptance without letting go
    of the group: what a goal was accepted with cannot be cleaned up before its stream is open.

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
        self._admitted: tuple[Request, Service] | None = None
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
        try:
            self._admitted = self._admit(goal)
        except RobotLlmError as error:
            self._refuse(error)
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _admit(self, goal: Any) -> tuple[Request, Service]:
        """
        Return a goal's request, ready but for its id, and what will serve it.

        :raises RobotLlmError: if the goal is refused
        """
        service = self._service
        if service is None or not service.accepting:
            raise NotActiveError('the node is not active; activate it first')
        scene, policy = service.scene.current, service.settings.admission.policy
        request = request_from_goal(
            goal, check_goal(goal, service), service.settings, scene=scene,
            now_s=time.monotonic())
        # A goal that names a later scene waits for it, whatever is wrong with this one.
        if service.scene.refusal and goal.scene_epoch <= scene.epoch:
            raise MalformedFieldError(service.scene.refusal)
        service.dispatcher.check_capacity()
        if policy != 'off' and (
                predicted_s := service.predicted_ttft_s(request)) > request.decision_timeout_s:
            if policy == 'refuse':
                raise DeadlineTooShortError(predicted_s, request.decision_timeout_s)
            request.decision_deadline_s -= request.decision_timeout_s  # let it pass at once
        return request, service

    def _refuse(self, error: RobotLlmError) -> None:
        reason = f'{ErrorCode(error.code).name}: {error}'
        self._node.get_logger().warning(f'goal refused, {reason}')
        self._on_refusal(reason)

    def _accepted_callback(self, goal_handle: Any) -> None:
        """Start what was admitted a moment ago."""
        assert self._admitted is not None, 'rclpy accepts what the goal callback has accepted'
        (request, service), self._admitted = self._admitted, None
        request.request_id = bytes(goal_handle.goal_id.uuid)
        self._goals[request.request_id] = _Goal(goal_handle, request)
        service.stream.open(request.request_id)
        service.dispatcher.dispatch(
            request, service.scene.current, is_scene_awaited=service.scene.is_awaited,
            doubt=service.scene.doubt)
        if not service.accepting:
            # The node left active in between, on another thread; it says why it did.
            failure = service.worker.requests.failure
            service.dispatcher.stop(
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

    def finish(
        self, session: Session, stats: GenerationStats, *, is_awaited: Callable[[], bool],
    ) -> None:
        """Let the executor send the goal's one result, unless nobody is left to get it."""
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
            is_awaited=is_awaited, on_sent=forget)

    # The end of the process.

    def wait_until_answered(self, timeout_s: float) -> bool:
        """Wait, off the executor, until every client has its result; False if time runs out."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._goals, timeout_s)

    def close(self) -> None:
        """Destroy the server; after the executor has stopped."""
        self._server.destroy()
