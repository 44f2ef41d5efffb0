"""What has come back of one goal so far, on the planner's side."""

from collections.abc import Callable
import math
from threading import Condition
import time
from typing import Any, Final

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Time
from robot_llm.core.session import TokenKind
from robot_llm.ros.message_age import stamp_s
from robot_llm_msgs.action import Generate
from robot_llm_msgs.msg import Decision, Token

END_TIMEOUT_S: Final = 2.0
"""How long the END may lag behind the result; between two topics DDS promises no order."""

TokenCallback = Callable[[Token], None]
CallSoon = Callable[[Callable[[], object]], object]
"""Lets the spin thread call something."""


class Answer:
    """
    What has come back of one goal so far; filled on the client's spin thread.

    ``wait`` and ``wait_for`` block the calling thread, which must not be the spin thread.
    """

    def __init__(
        self, goal_id: bytes, on_token: TokenCallback | None, call_soon: CallSoon,
    ) -> None:
        self.goal_id = goal_id
        self.tokens: list[Token] = []
        self.decisions: list[Decision] = []
        self.result: Generate.Result | None = None
        self.status = GoalStatus.STATUS_UNKNOWN
        self.is_rejected = False
        self.failure = ''
        """Why no result will come; empty unless the goal could not be followed."""
        self.age_s = math.inf
        """Of the messages, when they came, by this machine's clock: the age nearest to 0 [s]."""
        self._handle: Any = None
        self._wants_cancel = False
        self._on_token = on_token
        self._call_soon = call_soon
        self._changed = Condition()

    @property
    def is_accepted(self) -> bool:
        """The node has taken the goal; a result will come."""
        return self._handle is not None

    @property
    def text(self) -> str:
        """The text that was streamed so far, or since the last restart."""
        kinds = [token.kind for token in self.tokens]
        start = len(kinds) - kinds[::-1].index(TokenKind.RESTART) if (
            TokenKind.RESTART in kinds) else 0
        return ''.join(token.text for token in self.tokens[start:])

    @property
    def is_over(self) -> bool:
        """The result is there and the stream has ended, or neither will come."""
        if self.is_rejected or self.failure:
            return True
        return self.result is not None and self.has_end

    @property
    def has_end(self) -> bool:
        """The stream has ended."""
        return bool(self.tokens) and self.tokens[-1].kind == TokenKind.END

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the result and the end of the stream; False if the time runs out."""
        return self.wait_for(lambda: self.is_over, timeout_s)

    def wait_for_result(self, timeout_s: float | None = None) -> bool:
        """
        Wait for the result, and then for the end of the stream, ``END_TIMEOUT_S`` at most.

        :returns: False if the time runs out; True does not say that the stream has ended, which
            never comes where ``~/tokens`` is not connected
        """
        has_result = self.wait_for(lambda: self.result is not None or self.is_over, timeout_s)
        if has_result:
            self.wait(END_TIMEOUT_S)
        return has_result

    def wait_for(self, condition: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Wait until ``condition``, asked after every message of this goal, holds."""
        with self._changed:
            return self._changed.wait_for(condition, timeout_s)

    def cancel(self) -> None:
        """Ask the node to cancel; a goal that is not accepted yet is cancelled once it is."""
        with self._changed:
            self._wants_cancel = True
            if self._handle is not None:
                self._call_soon(self._handle.cancel_goal_async)

    # On the spin thread.

    def add_token(self, token: Token) -> None:
        """Take a message of the stream; one that came before is left out."""
        with self._changed:
            if token.seq < len(self.tokens):
                return
            self.tokens.append(token)
            self._note_age(token.stamp)
            self._changed.notify_all()
        if self._on_token is not None:
            self._on_token(token)

    def add_decision(self, decision: Decision) -> None:
        """Take a decision; the last one holds."""
        with self._changed:
            self.decisions.append(decision)
            self._note_age(decision.stamp)
            self._changed.notify_all()

    def _note_age(self, stamp: Time) -> None:
        # What is late on its way, or was held up here, tells less of the clocks than the others.
        self.age_s = min(self.age_s, time.time() - stamp_s(stamp), key=abs)

    def fail(self, reason: str) -> None:
        """Note that no result will come."""
        with self._changed:
            self.failure = reason
            self._changed.notify_all()

    def on_accepted(self, future: Any) -> None:
        """Follow an accepted goal to its result."""
        handle = future.result()
        with self._changed:
            self.is_rejected = not handle.accepted
            if handle.accepted:
                self._handle = handle
                handle.get_result_async().add_done_callback(self._on_result)
                if self._wants_cancel:
                    handle.cancel_goal_async()
            self._changed.notify_all()

    def _on_result(self, future: Any) -> None:
        with self._changed:
            response = future.result()
            if response is None:
                self.failure = 'the node went away before the result'
            else:
                self.result, self.status = response.result, response.status
            self._changed.notify_all()
