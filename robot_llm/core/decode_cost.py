"""What a wider decode costs on this device, learned from the decodes that happen anyway."""

from collections import deque
from statistics import median
from typing import Final

MAX_WIDTH: Final = 32
"""Wider decodes are prefill: another kernel on many devices, and no guide to a few tokens."""
NUM_KEPT: Final = 15
"""Of each kind, the last ones: enough for a median, few enough to follow a throttled clock."""
NUM_NEEDED: Final = 3


class DecodeCost:
    """
    The time of a decode as a line over its width, the number of tokens it evaluates.

    A single token reads all weights; each further one adds its own arithmetic. On a GPU that is
    next to nothing, on a CPU nearly as much again. Medians, so that one stalled decode says
    nothing.
    """

    def __init__(self) -> None:
        self._single: deque[float] = deque(maxlen=NUM_KEPT)
        self._wide: deque[tuple[int, float]] = deque(maxlen=NUM_KEPT)

    def observe(self, width: int, duration_s: float) -> None:
        """
        Learn from one decode.

        :param width: tokens in it
        :param duration_s: until the device had finished [s]
        """
        if width == 1:
            self._single.append(duration_s)
        elif width <= MAX_WIDTH:
            self._wide.append((width, duration_s))

    def fitting(self, num_tokens: int, bound_s: float) -> int:
        """
        Return how many of so many tokens one decode may evaluate, at least one.

        All of them as long as nothing is known.

        :param bound_s: how long the decode may take [s]
        """
        if not self.is_known:
            return num_tokens
        single_s, further_s = self.line()
        # The bound may follow a device that became faster sooner than these medians do.
        if (spare_s := bound_s - single_s) <= 0:
            return 1
        if further_s * (num_tokens - 1) <= spare_s:
            return num_tokens
        return 1 + int(spare_s / further_s)

    @property
    def is_known(self) -> bool:
        """Whether enough decodes of both kinds were seen."""
        return min(len(self._single), len(self._wide)) >= NUM_NEEDED

    def line(self) -> tuple[float, float]:
        """Return the time of one token, and of each further one in the same decode [s]."""
        assert self.is_known
        single_s = median(self._single)
        slopes = [(duration_s - single_s) / (width - 1) for width, duration_s in self._wide]
        return single_s, max(median(slopes), 0.0)
