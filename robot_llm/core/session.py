"""What the listeners of one goal get: decisions, numbered tokens, one END, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from robot_llm.core.decision import Decision, DecisionSource
from robot_llm.core.event import Decided, Delta, Restarted, Stopping
from robot_llm.core.request import FinishReason, Request
from robot_llm.core.timing import Stage


SOURCE_OF_REASON: Final[Mapping[FinishReason, DecisionSource]] = MappingProxyType({
    FinishReason.STOP: DecisionSource.ERROR,
    FinishReason.LENGTH: DecisionSource.ERROR,
    FinishReason.CANCELED: DecisionSource.CANCELED,
    FinishReason.PREEMPTED: DecisionSource.CANCELED,
    FinishReason.SCENE_CHANGED: DecisionSource.STALE_SCENE,
    FinishReason.DEADLINE: DecisionSource.DEADLINE,
    FinishReason.CLIENT_GONE: DecisionSource.CANCELED,
    FinishReason.SHUTDOWN: DecisionSource.CANCELED,
    FinishReason.ERROR: DecisionSource.ERROR,
})
"""What the fallback decision says of a request that ended this way without a sound answer."""


class TokenKind(IntEnum):
    """What a message of the token stream carries; wire values, append only."""

    DECISION = 1
    """The decision word, always the first message."""
    DETAIL = 2
    """A piece of the text behind it."""
    RESTART = 3
    """What came before is void; the same goal starts again for a newer scene."""
    END = 4
    """Nothing follows; carries the finish reason."""


@dataclass(frozen=True, slots=True)
class Token:
    """One message of the token stream; ``seq`` is 0, 1, 2 … per goal, without a gap."""

    seq: int
    kind: TokenKind
    text: str
    num_tokens: int
    finish_reason: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """What is to be published now, the decision before the tokens."""

    decision: Decision | None = None
    tokens: tuple[Token, ...] = ()
    scene_epoch: int = 0
    """The scene that all of it is about."""


class Session:
    """
    The published side of a request; holds the fail-safe rule where the world can see it.

    Pure: ``now_s`` comes in, an ``Output`` goes out, and whoever publishes it stamps the request's
    clock. One thread calls it.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.text = ''
        """What was streamed since the last restart."""
        self.is_over = False
        self.must_stop = False
        """The engine goes on behind a word that was not published; stop it with DEADLINE."""
        self._is_stopping = False
        self.scene_epoch = request.scene.epoch
        self.first_decision: Decision | None = None
        """The first one that was published for this scene, before any revocation."""
        # The request has new ones as soon as it is restarted; these are of the published part.
        self._latch = request.latch
        self._clock = request.clock
        self.decision_deadline_s = request.decision_deadline_s
        """Of the published part too: a word that was late for its scene stays late."""
        self._is_decided = False
        self._next_seq = 0
        self._num_silent_tokens = 0

    def elapsed_s(self, now_s: float) -> float:
        """Return the time since the goal was received [s]."""
        return self._clock.elapsed_s(now_s)

    def decide(self, event: Decided, now_s: float) -> Output:
        """
        Publish the model's decision, unless the deadline was faster.

        A decision that was latched in time and reaches this place after the deadline is late all
        the same: the fallback goes out, and ``must_stop`` is set if that is another word. Nor is
        a word published of a request that was stopped in the meantime.
        """
        if self.is_over or self._is_decided or self._is_stopping:
            self._num_silent_tokens += event.num_tokens
            return Output()
        reason = self.request.finish_reason
        if now_s > self.decision_deadline_s:
            decision = self._fall(DecisionSource.DEADLINE)
            if decision.word != event.decision.word:
                self.must_stop = True
                self.request.withdraw_answer()
        elif reason is not None and self.request.was_stopped:
            decision = self._fall(SOURCE_OF_REASON[reason])
        else:
            decision = self._standing
        return self._publish_first(decision, event.num_tokens)

    def miss_decision_deadline(self, now_s: float) -> Output:
        """Publish the fallback if no decision stands yet; the engine goes on behind it."""
        if self.is_over or self._is_decided or now_s < self.decision_deadline_s:
            return Output()  # a restart has moved the deadline
        decision = self._latch.fall(DecisionSource.DEADLINE, only_if_open=True)
        return self._publish_first(decision, 0) if decision else Output()

    def stop(self, event: Stopping) -> Output:
        """
        Publish what a stop makes of the decision at once; END waits for the engine.

        An engine that is slow to obey, or hangs, must not keep a word alive that is void.
        """
        if self.is_over:
            return Output()
        self._is_stopping = True
        if event.reason is None:
            # What is not published yet is not published at all: the newer scene has its own.
            decision = self._revoke_stale() if self._is_decided else None
        elif not self._is_decided:
            return self._publish_first(self._fall(SOURCE_OF_REASON[event.reason]), 0)
        else:
            decision = (self._latch.fall(SOURCE_OF_REASON[event.reason])
                        if self.request.must_fall else None)
        return Output(decision, (), self.scene_epoch)

    def restart(self, event: Restarted) -> Output:
        """Say that what came before is void, and let its decision fall; nothing if none came."""
        output = Output()
        if self._is_decided and not self.is_over:
            output = Output(self._revoke_stale(), (self._token(TokenKind.RESTART, '', 0),),
                            self.scene_epoch)
        self.text, self._is_decided = '', False
        self.must_stop = self._is_stopping = False
        self.first_decision = None
        self._num_silent_tokens = 0
        self.scene_epoch = event.scene.epoch
        self._latch, self._clock = event.latch, event.clock
        self.decision_deadline_s = event.decision_deadline_s
        return output

    def append(self, event: Delta) -> Output:
        """Publish a piece of the detail; a piece without text waits for the next one."""
        is_void = self.must_stop or not self._is_decided
        if self.is_over or is_void or not event.text:
            self._num_silent_tokens += event.num_tokens
            return Output()
        token = self._token(TokenKind.DETAIL, event.text, event.num_tokens)
        return Output(None, (token,), self.scene_epoch)

    def finish(self) -> Output:
        """Publish the end: the fallback where the decision may not stand, then END; once."""
        request, reason = self.request, self.request.finish_reason
        if self.is_over or reason is None:
            return Output()
        decision: Decision | None = None
        tokens: tuple[Token, ...] = ()
        if not self._is_decided:
            standing = self._latch.standing if request.has_answer else None
            decision = standing or self._fall(SOURCE_OF_REASON[reason])
            tokens = self._publish_first(decision, 0).tokens
        elif request.must_fall:
            decision = self._latch.fall(SOURCE_OF_REASON[reason])
        end = self._token(TokenKind.END, '', 0, reason)
        self.is_over = True
        return Output(decision, (*tokens, end), self.scene_epoch)

    @property
    def _standing(self) -> Decision:
        assert self._latch.standing is not None, 'the model has decided'
        return self._latch.standing

    def _fall(self, source: DecisionSource) -> Decision:
        """Let fall what was not published; if it has fallen before, that holds."""
        return self._latch.fall(source) or self._standing

    def _revoke_stale(self) -> Decision | None:
        is_revoked = 'scene_change' in self.request.profile.decision.revoke_on
        return self._latch.fall(DecisionSource.STALE_SCENE) if is_revoked else None

    def _publish_first(self, decision: Decision, num_tokens: int) -> Output:
        assert not self._is_decided, 'the first decision comes once'
        self._is_decided, self.first_decision = True, decision
        token = self._token(TokenKind.DECISION, decision.word, num_tokens)
        return Output(decision, (token,), self.scene_epoch)

    def _token(
        self, kind: TokenKind, text: str, num_tokens: int, reason: FinishReason | None = None,
    ) -> Token:
        token = Token(
            self._next_seq, kind, text, num_tokens + self._num_silent_tokens, reason)
        self._num_silent_tokens = 0
        self._next_seq += 1
        self.text += text
        return token

    def stamp(self, output: Output, now_s: float) -> None:
        """Stamp on the request's clock that ``output`` was handed to the publishers."""
        if output.decision is not None:
            self._clock.mark(Stage.PUBLISHED, now_s)
        self._clock.publish_tokens(sum(token.num_tokens for token in output.tokens), now_s)
