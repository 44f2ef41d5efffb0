"""How many tokens the next prefill chunk may carry, so that a stop is obeyed in time."""

from collections import deque
from typing import Final

STEP: Final = 16
"""Sizes are multiples of it [tokens]; fewer leave a GPU idle."""

BEATS_S: Final = 1.0
"""
Longest chunk where a running decode can be aborted [s].

The abort bounds a stop then; what is left to bound is the silence between two signs of life, and
the work that an abort throws away.
"""
ABORTABLE: Final = 64
"""Smallest chunk there [tokens]: most warm prompts stay one decode on the slowest machine."""

WINDOW: Final = 3
"""Measurements of which the middle one counts, so that a single slow one changes nothing."""


class ChunkSizer:
    """
    Follows the measured prefill rate; before the first measurement it is careful.

    A chunk's time is a fixed part and a part per token. The mean over a chunk that was too small
    is then too slow, and the size grows towards the bound from below, a step per measurement.

    :param largest: of a chunk [tokens], >= 1
    :param is_abortable: whether a running chunk can be ended, so that the bound need not hold it
    :param max_stall_s: how long a chunk may take otherwise [s]
    """

    def __init__(self, *, largest: int, is_abortable: bool, max_stall_s: float) -> None:
        self.largest = largest
        self._is_abortable = is_abortable
        self._smallest = ABORTABLE if is_abortable else STEP
        self.set_max_stall(max_stall_s)
        self._seconds_per_token: deque[float] = deque(maxlen=WINDOW)

    def set_max_stall(self, max_stall_s: float) -> None:
        """Let the next chunks obey another bound [s]; any thread."""
        self._bound_s = BEATS_S if self._is_abortable else max_stall_s

    @property
    def size(self) -> int:
        """What the next chunk may carry at most [tokens]."""
        smallest = min(self._smallest, self.largest)
        if not self._seconds_per_token:
            return smallest
        measured = sorted(self._seconds_per_token)
        # Of two the slower one.
        affordable = self._bound_s / max(measured[len(measured) // 2], 1e-9)
        if affordable >= self.largest:
            return self.largest
        return max(int(affordable) // STEP * STEP, smallest)

    def learn(self, num_tokens: int, elapsed_s: float) -> None:
        """
        Take the time of one chunk into account.

        A remainder that is much shorter than a chunk says little of the rate, unless it took too
        long all the same.

        :param num_tokens: how many were evaluated in one decode
        :param elapsed_s: from the call until the device had finished [s]
        """
        if 2 * num_tokens >= self.size or elapsed_s > self._bound_s:
            self._seconds_per_token.append(elapsed_s / num_tokens)
