"""What the listeners of one goal get: decisions, numbered tokens, one END, and its result."""

from dataclasses import dataclass
from enum import IntEnum

from robot_llm.core.decision import Decision, DecisionSource
from robot_llm.core.event import Decided, Delta
from robot_llm.core.request import FinishReason, Request, SOURCE_OF_REASON
from robot_llm.core.timing import Stage


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


class Session:
    """
    The published side of a request; holds the fail-safe rule where the world can see it.

    Pure: ``now_s`` comes in, an ``Output`` goes out, and whoever publishes it stamps the request's
    clock. One thread calls it.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.text = ''
        self.is_over = False
        self.must_stop = False
        """The engine goes on behind a word that was not published; stop it with DEADLINE."""
        self._next_seq = 0
        self._num_silent_tokens = 0

    @property
    def is_decided(self) -> bool:
        """A decision was published."""
        return self._next_seq > 0

    def decide(self, event: Decided, now_s: float) -> Output:
        """
        Publish the model's decision, unless the deadline was faster.

        A decision that was latched in time and reaches this place after the deadline is late all
        the same: the fallback goes out, and ``must_stop`` is set if that is another word.
        """
        if self.is_over or self.is_decided:
            self._num_silent_tokens += event.num_tokens
            return Output()
        decision = self.request.latch.standing
        if now_s > self.request.decision_deadline_s:
            decision = self.request.fall(DecisionSource.DEADLINE)
            assert decision is not None, 'only this thread lets a decision fall'
            self.must_stop = decision.word != event.decision.word
        return self._publish_first(decision, event.num_tokens)

    def miss_decision_deadline(self) -> Output:
        """Publish the fallback if no decision stands yet; the engine goes on behind it."""
        if self.is_over:
            return Output()
        decision = self.request.fall(DecisionSource.DEADLINE, only_if_open=True)
        return self._publish_first(decision, 0) if decision else Output()

    def append(self, event: Delta) -> Output:
        """Publish a piece of the detail; a piece without text waits for the next one."""
        if self.is_over or not event.text:
            self._num_silent_tokens += event.num_tokens
            return Output()
        return Output(tokens=(self._token(TokenKind.DETAIL, event.text, event.num_tokens),))

    def finish(self) -> Output:
        """Publish the end: the fallback where the decision may not stand, then END; once."""
        request, reason = self.request, self.request.finish_reason
        if self.is_over or reason is None:
            return Output()
        decision: Decision | None = None
        tokens: tuple[Token, ...] = ()
        if request.must_fall:
            decision = request.fall(SOURCE_OF_REASON[reason])
        if not self.is_decided and request.latch.standing is not None:
            first = self._publish_first(request.latch.standing, 0)
            decision, tokens = first.decision, first.tokens
        end = self._token(TokenKind.END, '', 0, reason)
        self.is_over = True
        return Output(decision, (*tokens, end))

    def _publish_first(self, decision: Decision | None, num_tokens: int) -> Output:
        assert decision is not None and not self.is_decided, 'the first decision comes once'
        return Output(
            decision, (self._token(TokenKind.DECISION, decision.word, num_tokens),))

    def _token(
        self, kind: TokenKind, text: str, num_tokens: int, reason: FinishReason | None = None,
    ) -> Token:
        token = Token(
            self._next_seq, kind, text, num_tokens + self._num_silent_tokens, reason)
        self._num_silent_tokens = 0
        self._next_seq += 1
        self.text += text
        return token


def stamp_output(request: Request, output: Output, now_s: float) -> None:
    """Stamp on the request's clock that ``output`` was handed to the publishers."""
    if output.decision is not None:
        request.clock.mark(Stage.PUBLISHED, now_s)
    request.clock.publish_tokens(sum(token.num_tokens for token in output.tokens), now_s)
