"""The stage clock, and the statistics of one generation."""

from dataclasses import dataclass
from enum import Enum

import numpy as np


class Stage(Enum):
    """
    What a request has behind it, in order; the value names the duration that ends here.

    Every stage is stamped once. ``ttft_s`` is the way from RECEIVED to PUBLISHED.
    """

    RECEIVED = ''
    STARTED = 'queue_s'
    TEMPLATED = 'template_s'
    TOKENIZED = 'tokenize_s'
    PREFIX_LOOKED_UP = 'prefix_lookup_s'
    PREFILLED = 'prefill_s'
    SAMPLED = 'sample_s'
    PUBLISHED = 'publish_s'


class StageClock:
    """When each stage was reached, and when each token left; monotonic seconds."""

    def __init__(self) -> None:
        self._marks: dict[Stage, float] = {}
        self._tokens: list[tuple[float, int]] = []

    def restarted(self) -> 'StageClock':
        """Return a clock of the same arrival; what was before counts as the queue's time."""
        clock = StageClock()
        if Stage.RECEIVED in self._marks:
            clock.mark(Stage.RECEIVED, self._marks[Stage.RECEIVED])
        return clock

    def mark(self, stage: Stage, now_s: float) -> None:
        """Stamp ``stage``; the first stamp stays."""
        self._marks.setdefault(stage, now_s)

    def publish_tokens(self, num_tokens: int, now_s: float) -> None:
        """Stamp that ``num_tokens`` tokens were handed to the publisher together."""
        if num_tokens:
            self._tokens.append((now_s, num_tokens))

    def elapsed_s(self, now_s: float) -> float:
        """Return the time since the request was received [s]."""
        return now_s - self._marks.get(Stage.RECEIVED, now_s)

    def durations(self) -> dict[str, float]:
        """
        Return the length of every stage [s]; they add up to ``ttft_s``.

        A fallback may be published before the model has decided (a deadline, a cancel): the stage
        it falls into ends there, and whatever came later counts as 0.
        """
        durations = {stage.value: 0.0 for stage in list(Stage)[1:]}
        if Stage.PUBLISHED not in self._marks:
            return durations
        published = self._marks[Stage.PUBLISHED]
        last = self._marks[Stage.RECEIVED]
        for stage in list(Stage)[1:]:
            reached = min(self._marks.get(stage, published), published)
            durations[stage.value] = max(reached - last, 0.0)
            last = max(reached, last)
        return durations

    @property
    def ttft_s(self) -> float:
        """Time from the goal to its decision at the publisher [s]; 0 if none was published."""
        if Stage.PUBLISHED not in self._marks:
            return 0.0
        return self._marks[Stage.PUBLISHED] - self._marks[Stage.RECEIVED]

    @property
    def tpot_s(self) -> float:
        """Mean time per token after the first [s]; 0 with fewer than two tokens."""
        num_tokens = sum(count for _, count in self._tokens)
        if num_tokens < 2:
            return 0.0
        first = self._marks.get(Stage.PUBLISHED, self._tokens[0][0])
        return max(self._tokens[-1][0] - first, 0.0) / (num_tokens - 1)

    def tpot_percentile_s(self, percentile: float) -> float:
        """
        Return a percentile of the time per token [s]; 0 with fewer than two publications.

        Tokens that left together (forced ones, a word of several tokens) share their gap.
        """
        gaps = [(later - earlier) / count for (earlier, _), (later, count)
                in zip(self._tokens, self._tokens[1:]) for _ in range(count)]
        return float(np.percentile(gaps, percentile)) if gaps else 0.0


@dataclass(slots=True)
class StopClock:
    """A cancel's three stamps, monotonic seconds; None means it did not happen."""

    requested_s: float | None = None
    """The terminal reason was latched, the engine told to stop."""
    acknowledged_s: float | None = None
    """The worker knows: it will evaluate nothing more of this request."""
    idle_s: float | None = None

    @property
    def latency_s(self) -> float:
        """From the request to the idle engine [s]; 0 if nothing was stopped."""
        if self.requested_s is None or self.idle_s is None:
            return 0.0
        return max(self.idle_s - self.requested_s, 0.0)


@dataclass(slots=True)
class TokenCounts:
    """
    What the engine did for one request; each field is one of GenerationStats.

    Three are not: ``num_prefilled_tokens`` is for the status heartbeat, and
    ``num_calls_to_decision`` and ``num_late_tokens`` (of the prompt) tell what was evaluated
    behind the decision from what was before it.
    """

    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    num_prefilled_tokens: int = 0
    num_late_tokens: int = 0
    num_prefill_chunks: int = 0
    num_completion_tokens: int = 0
    num_forced_tokens: int = 0
    num_decode_calls: int = 0
    num_calls_to_decision: int = 0
    num_wasted_tokens: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0

    @property
    def num_tokens_to_decision(self) -> int:
        """How many tokens of the prompt were evaluated before the decision."""
        return self.num_prefilled_tokens - self.num_late_tokens

    def void(self) -> None:
        """Start again: the answer so far was wasted, the work it took stays counted."""
        self.num_wasted_tokens += self.num_completion_tokens
        self.num_completion_tokens = 0
        self.num_prompt_tokens = self.num_cached_tokens = 0
        self.num_prefilled_tokens = self.num_late_tokens = 0


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """The statistics of one generation; field by field the message of the same name."""

    queue_s: float = 0.0
    template_s: float = 0.0
    tokenize_s: float = 0.0
    prefix_lookup_s: float = 0.0
    prefill_s: float = 0.0
    sample_s: float = 0.0
    publish_s: float = 0.0
    ttft_s: float = 0.0
    tpot_s: float = 0.0
    tpot_p95_s: float = 0.0
    e2e_s: float = 0.0
    cancel_latency_s: float = 0.0
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    num_prefill_chunks: int = 0
    num_completion_tokens: int = 0
    num_forced_tokens: int = 0
    num_decode_calls: int = 0
    num_wasted_tokens: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    prefill_floor_s: float = 0.0
    tpot_floor_s: float = 0.0


def collect_stats(
    clock: StageClock,
    stop_clock: StopClock,
    counts: TokenCounts,
    *,
    prefill_floor_s: float = 0.0,
    tpot_floor_s: float = 0.0,
) -> GenerationStats:
    """
    Put the statistics of a finished generation together.

    ``e2e_s = ttft_s + (num_completion_tokens - 1) * tpot_s`` by definition; END is not in it.

    :param prefill_floor_s: what the hardware needs at least for this prefill [s], 0 = unknown
    :param tpot_floor_s: what the hardware needs at least for one token [s], 0 = unknown
    """
    tokens_after_first = max(counts.num_completion_tokens - 1, 0)
    durations = clock.durations()
    return GenerationStats(
        queue_s=durations['queue_s'],
        template_s=durations['template_s'],
        tokenize_s=durations['tokenize_s'],
        prefix_lookup_s=durations['prefix_lookup_s'],
        prefill_s=durations['prefill_s'],
        sample_s=durations['sample_s'],
        publish_s=durations['publish_s'],
        ttft_s=clock.ttft_s,
        tpot_s=clock.tpot_s,
        tpot_p95_s=clock.tpot_percentile_s(95),
        e2e_s=clock.ttft_s + tokens_after_first * clock.tpot_s,
        cancel_latency_s=stop_clock.latency_s,
        num_prompt_tokens=counts.num_prompt_tokens,
        num_cached_tokens=counts.num_cached_tokens,
        num_prefill_chunks=counts.num_prefill_chunks,
        num_completion_tokens=counts.num_completion_tokens,
        num_forced_tokens=counts.num_forced_tokens,
        num_decode_calls=counts.num_decode_calls,
        num_wasted_tokens=counts.num_wasted_tokens,
        num_draft_tokens=counts.num_draft_tokens,
        num_accepted_tokens=counts.num_accepted_tokens,
        prefill_floor_s=prefill_floor_s,
        tpot_floor_s=tpot_floor_s)
