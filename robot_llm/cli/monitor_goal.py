"""One goal as an onlooker sees it: its stream, its decisions, the times that can be told."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from robot_llm_msgs.msg import Decision, Status, Token


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages that did not come; ``~/replay`` has them."""

    num_messages: int


@dataclass(eq=False, slots=True)
class GoalView:
    """
    What the topics have told of one goal.

    There is no result on a topic, so the times are those of the messages: ``Decision.latency_s``
    and ``Token.elapsed_s``, both counted by the node from the arrival of the goal.
    """

    goal_id: bytes
    scene_epoch: int = 0
    decisions: list[Decision] = field(default_factory=list)
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    is_cut_off: bool = False
    """The node went away before the END."""
    _tokens: dict[int, Token] = field(default_factory=dict)

    @property
    def short_id(self) -> str:
        """The first eight digits, as in the node's log."""
        return self.goal_id.hex()[:8]

    # What comes in.

    def add_token(self, token: Token) -> None:
        """Take a message of the stream, in any order and any number of times."""
        self._tokens.setdefault(int(token.seq), token)
        self.scene_epoch = max(self.scene_epoch, int(token.scene_epoch))

    def add_decision(self, decision: Decision) -> None:
        """Take a decision; the last one holds."""
        self.decisions.append(decision)
        self.scene_epoch = max(self.scene_epoch, int(decision.scene_epoch))

    def add_status(self, status: Status) -> None:
        """Take the counts of a heartbeat; a goal that is shorter than its period has none."""
        self.num_prompt_tokens = max(self.num_prompt_tokens, status.num_prompt_tokens)
        self.num_cached_tokens = max(self.num_cached_tokens, status.num_cached_tokens)

    # What can be told.

    @property
    def tokens(self) -> list[Token]:
        """The messages that came, in their order."""
        return [self._tokens[seq] for seq in sorted(self._tokens)]

    def pieces(self) -> Iterator[Token | Gap]:
        """Yield the stream in order, and a gap where messages are missing."""
        expected = 0
        for token in self.tokens:
            if token.seq > expected:
                yield Gap(token.seq - expected)
            yield token
            expected = token.seq + 1

    @property
    def num_missing(self) -> int:
        """How many messages before the newest one did not come."""
        return max(self._tokens, default=-1) + 1 - len(self._tokens)

    @property
    def end(self) -> Token | None:
        """The END, None while there is none."""
        last = self._tokens.get(max(self._tokens, default=0))
        return last if last is not None and last.kind == TokenKind.END else None

    @property
    def finish_reason(self) -> str:
        """Why it ended; empty while it has not."""
        if self.end is None:
            return 'CUT OFF' if self.is_cut_off else ''
        return name_of(FinishReason, self.end.finish_reason)

    @property
    def word(self) -> str:
        """The decision in force; empty before there is one."""
        if self.decisions:
            return str(self.decisions[-1].word)
        words = [t.text for t in self.tokens if t.kind == TokenKind.DECISION]
        return str(words[-1]) if words else ''

    @property
    def source(self) -> str:
        """Who made the decision in force; empty if only its word was seen, in the stream."""
        return name_of(DecisionSource, self.decisions[-1].source) if self.decisions else ''

    @property
    def num_completion_tokens(self) -> int:
        """Tokens behind the messages that came."""
        return sum(token.num_tokens for token in self._tokens.values())

    @property
    def ttft_s(self) -> float:
        """Time from the goal to its first decision [s]; 0 before there is one."""
        if self.decisions:
            return float(self.decisions[0].latency_s)
        words = [t.elapsed_s for t in self.tokens if t.kind == TokenKind.DECISION]
        return float(words[0]) if words else 0.0

    @property
    def tpot_s(self) -> float:
        """Mean time per token behind the last decision [s]; 0 before there are two messages."""
        tokens = self.tokens
        begin = max((i for i, t in enumerate(tokens) if t.kind == TokenKind.DECISION), default=0)
        timed = [token for token in tokens[begin:] if token.num_tokens]
        num_tokens = sum(token.num_tokens for token in timed[1:])
        return (timed[-1].elapsed_s - timed[0].elapsed_s) / num_tokens if num_tokens else 0.0

    @property
    def total_s(self) -> float:
        """Time from the goal to its newest message [s]; 0 before the first one."""
        return float(self.tokens[-1].elapsed_s) if self._tokens else 0.0


def name_of(kind: type[DecisionSource] | type[FinishReason], value: int) -> str:
    """Return an enumeration's name; a value that a newer node may send keeps its number."""
    try:
        return kind(value).name
    except ValueError:
        return f'#{value}'
