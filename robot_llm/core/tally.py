"""What the goals of this node came to: counts since configure, percentiles of the last ones."""

from collections import Counter, deque
from typing import Final

import numpy as np
# np.percentile imports it at its first call, and that would be on the executor.
import numpy.ma  # noqa: F401
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason, Request
from robot_llm.core.timing import GenerationStats

WINDOW: Final = 100
"""How many goals the percentiles look back on."""

TIMES: Final = ('ttft_s', 'tpot_s', 'cancel_latency_s')
PERCENTILES: Final = (50, 99)


class Tally:
    """Counts goals, decisions and tokens for the diagnostics; one thread calls it at a time."""

    def __init__(self) -> None:
        self._stats: deque[GenerationStats] = deque(maxlen=WINDOW)
        self._sources: Counter[DecisionSource] = Counter()
        self._reasons: Counter[FinishReason] = Counter()
        self._num_dropped = 0
        self._num_deadline_misses = 0
        self._num_wasted_tokens = 0

    def learn(self, request: Request, stats: GenerationStats) -> None:
        """Count a finished goal."""
        self._stats.append(stats)
        self._num_dropped += request.latch.num_dropped
        self._num_wasted_tokens += stats.num_wasted_tokens
        if request.finish_reason is not None:
            self._reasons[request.finish_reason] += 1
        source = request.latch.standing.source if request.latch.standing is not None else None
        if source is not None:
            self._sources[source] += 1
        self._num_deadline_misses += (
            source is DecisionSource.DEADLINE or request.finish_reason is FinishReason.DEADLINE)

    def figures(self) -> dict[str, int | float]:
        """
        Return every figure under a key that says its unit.

        A percentile is there once a goal has such a time; a count always.
        """
        figures: dict[str, int | float] = {
            f'goals_{reason.name.lower()}': self._reasons[reason] for reason in FinishReason}
        figures |= {
            f'decisions_{source.name.lower()}': self._sources[source]
            for source in DecisionSource}
        figures['decisions_dropped'] = self._num_dropped
        figures['deadline_misses'] = self._num_deadline_misses
        figures['wasted_tokens'] = self._num_wasted_tokens
        stats = tuple(self._stats)
        for name in TIMES:
            times = [time for time in (getattr(s, name) for s in stats) if time > 0]
            if times:
                figures |= {f'{name[:-2]}_p{p}_s': float(np.percentile(times, p))
                            for p in PERCENTILES}
        if num_prompt_tokens := sum(s.num_prompt_tokens for s in stats):
            figures['cached_token_rate'] = (
                sum(s.num_cached_tokens for s in stats) / num_prompt_tokens)
        return figures
