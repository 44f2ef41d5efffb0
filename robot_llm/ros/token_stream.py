"""Publishers of tokens and decisions, sequence numbers, replay service."""

from threading import Lock
import time
from typing import Any, Final

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robot_llm.core.history import History
from robot_llm.core.session import Output, Session, TokenKind
from robot_llm.ros.conversions import decision_message, token_message
from robot_llm.settings import Settings
from robot_llm_msgs.msg import Decision, Token
from robot_llm_msgs.srv import Replay

DECISION_DEPTH: Final = 128
"""
Decisions kept for a subscriber that pauses, on both sides: of a burst of goals that preempt each
other every one has its decision, and those that fell last are the ones that must not be lost.
"""

ACK_TIMEOUT_S: Final = 0.2
"""How long the last messages may take to their subscribers; one that is dead never says so."""


class TokenStream:
    """
    ``~/tokens``, ``~/decision`` and ``~/replay`` of a configured node.

    Decisions have a topic of their own: a slow subscriber loses the first messages of a stream,
    and that is where the decision is. Their lifespan keeps DDS from delivering an old one late.
    Tokens are transient local, so that an ``echo`` started in mid-answer shows the answer whole.
    """

    def __init__(self, node: Node, settings: Settings) -> None:
        self._node = node
        self._history: History[Token] = History(settings.history.goals)
        self._lock = Lock()  # the streamer appends, the executor replays
        lifespan = Duration(seconds=settings.topics.decision_lifespan_s)
        self._tokens = node.create_publisher(Token, '~/tokens', QoSProfile(
            depth=settings.topics.token_depth, reliability=ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL))
        self._decisions = node.create_publisher(Decision, '~/decision', QoSProfile(
            depth=DECISION_DEPTH, reliability=ReliabilityPolicy.RELIABLE, lifespan=lifespan))
        self._replay = node.create_service(Replay, '~/replay', self._replay_callback)

    def open(self, goal_id: bytes) -> None:
        """Let ``~/replay`` know a goal before its first token."""
        with self._lock:
            self._history.open(goal_id)

    def publish(self, session: Session, output: Output, elapsed_s: float) -> list[Token]:
        """
        Publish the decision first, then the tokens.

        :returns: the token messages, for the action's feedback
        """
        request, stamp = session.request, self._node.get_clock().now().to_msg()
        if output.decision is not None:
            self._decisions.publish(
                decision_message(output.decision, request, stamp,
                                 scene_epoch=output.scene_epoch, latency_s=elapsed_s))
        messages = [
            token_message(token, request, stamp, scene_epoch=output.scene_epoch,
                          elapsed_s=elapsed_s)
            for token in output.tokens]
        for token, message in zip(output.tokens, messages):
            self._tokens.publish(message)
            with self._lock:
                self._history.append(request.request_id, message)
                if token.kind is TokenKind.END:
                    self._history.close(request.request_id)
        return messages

    def _replay_callback(self, request: Any, response: Any) -> Any:
        with self._lock:
            goal_id = bytes(request.goal_id.uuid)
            replay = self._history.replay(
                goal_id if any(goal_id) else self._history.newest, int(request.from_seq))
        response.tokens = list(replay.items)
        response.complete = replay.is_complete
        response.lost = replay.is_lost
        return response

    def close(self) -> None:
        """Destroy publishers and service, after the last messages have been acknowledged."""
        give_up_s = time.monotonic() + ACK_TIMEOUT_S
        # A lost message is repeated only while its publisher lives; a fallback matters most.
        for publisher in (self._decisions, self._tokens):
            rest_s = max(give_up_s - time.monotonic(), 0.0)  # below 0 it would wait for ever
            publisher.wait_for_all_acked(Duration(seconds=rest_s))
        self._node.destroy_service(self._replay)
        self._node.destroy_publisher(self._decisions)
        self._node.destroy_publisher(self._tokens)
