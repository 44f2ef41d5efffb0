"""One goal as its client saw it: arrivals beside the stages of the node; pure arithmetic."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from robot_llm.core.timing import Stage

OF_NODE: Final = tuple(stage.value for stage in Stage if stage is not Stage.RECEIVED)
"""The node's stages, as fields of the statistics, in order."""

STAGES: Final = (
    'goal sent to received', *(name.removesuffix('_s') for name in OF_NODE),
    'published to received')
"""Where the client's time to first token goes, in order."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message with tokens in it, as it came in; END and RESTART carry none."""

    received_s: float
    """Monotonic [s]."""
    age_s: float
    """From the stamp (handed to the publisher) to the client's callback [s]; system clock."""
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """
    The times of one finished goal.

    Durations are taken on the client's monotonic clock. Only what lies between the two processes
    (``stamp_*``) is a difference of system times, so both must run on one machine.

    :param sent_s: when the client sent the goal, monotonic [s]
    :param decision_s: when the first message of ``~/decision`` came in, monotonic [s]
    :param result_s: when the result was there, monotonic [s]
    :param goal_way_s: from sending the goal until the node had received it [s]
    :param latency_s: from there until the decision was handed to the publisher [s]
    :param arrivals: DECISION first, then DETAIL
    :param stats: the result's statistics by field
    """

    sent_s: float
    decision_s: float
    result_s: float
    goal_way_s: float
    latency_s: float
    arrivals: tuple[Arrival, ...]
    stats: Mapping[str, float]

    @property
    def ttft_s(self) -> float:
        """From sending the goal to its first token at the client [s]."""
        return self.arrivals[0].received_s - self.sent_s

    @property
    def time_to_decision_s(self) -> float:
        """From sending the goal to the message on ``~/decision`` [s]."""
        return self.decision_s - self.sent_s

    @property
    def num_tokens(self) -> int:
        """Tokens that came in."""
        return sum(arrival.num_tokens for arrival in self.arrivals)

    @property
    def answer_s(self) -> float:
        """From sending the goal to its last token at the client [s]."""
        return self.arrivals[-1].received_s - self.sent_s

    @property
    def tpot_s(self) -> float:
        """Mean time per token after the first message, at the client [s]; 0 with one message."""
        num_later = self.num_tokens - self.arrivals[0].num_tokens
        later_s = self.arrivals[-1].received_s - self.arrivals[0].received_s
        return later_s / num_later if num_later else 0.0

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """Time between tokens [s]; tokens of one message share the gap before it."""
        return tuple(
            (later.received_s - earlier.received_s) / later.num_tokens
            for earlier, later in zip(self.arrivals, self.arrivals[1:])
            for _ in range(later.num_tokens))

    @property
    def predicted_answer_s(self) -> float:
        """The client's TTFT + (N - 1) times the node's own TPOT [s]."""
        return self.ttft_s + max(self.num_tokens - 1, 0) * self.stats['tpot_s']

    @property
    def split_s(self) -> dict[str, float]:
        """
        Return the parts of ``ttft_s`` by the names in ``STAGES`` [s].

        The first and the last are transport, by the stamps of the messages; what lies between is
        the node's own statistics. Nothing is a remainder: that they add up is a result. The last
        two overlap by a publisher's call: the message may be there before the call returns.
        """
        stages = (self.stats[name] for name in OF_NODE)
        return dict(zip(STAGES, (self.goal_way_s, *stages, self.arrivals[0].age_s)))

    @property
    def handed_s(self) -> float:
        """From the first token's sampling to its stamp: its way to the streamer's thread [s]."""
        return self.latency_s - sum(self.stats[name] for name in OF_NODE[:-1])

    @property
    def split_ratio(self) -> float:
        """The sum of the split over what the client measured; 1 if they agree."""
        return sum(self.split_s.values()) / self.ttft_s


def wasted_tokens(
    num_clients: int, *, leaving: float, after_tokens: int, answer_tokens: int,
) -> tuple[int, int]:
    """
    Return what it costs to go on for clients that left: tokens nobody reads, tokens read.

    :param leaving: share of the clients that leave
    :param after_tokens: how far their answers have come by then
    :param answer_tokens: length of a whole answer
    """
    num_leaving = round(num_clients * leaving)
    wasted = num_leaving * (answer_tokens - after_tokens)
    return wasted, num_clients * answer_tokens - wasted


def share(flags: Iterable[bool]) -> float:
    """Return how many of ``flags`` are true, 0 to 1; 0 of none."""
    values = tuple(flags)
    return sum(values) / len(values) if values else 0.0
