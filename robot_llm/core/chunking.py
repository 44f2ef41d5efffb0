"""How many tokens the next decode may carry, so that a stop is obeyed in time."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from robot_llm.core.decode_cost import DecodeCost

STEP: Final = 16
"""Larger sizes are multiples of it [tokens]; fewer leave a GPU idle."""

TILE: Final = 64
"""
Where a decode can be aborted, so on a CPU, sizes are multiples of it [tokens].

llama.cpp's flash attention computes this many rows at once there, and what is left over costs
nearly as much as a whole tile. Measured over a prompt of 2,048 tokens (0.5B, Q4_0, one x86 core):
17.8 s in chunks of 144, 15.8 s in chunks of 128, 16.0 s in chunks of 512.
"""

LOSS_S: Final = 4.0
"""
Longest chunk where a running decode can be aborted [s].

The abort bounds a stop there, and what it throws away is left to bound. A chunk that was thrown
away halves this for the next ones, down to ``ABORTABLE`` tokens, and one that came through doubles
it again. So a planner that preempts faster than a chunk is computed comes through a long prompt in
the end, and whoever does not pays for no cut.
"""
WIDEST: Final = 2 * TILE
"""
Largest chunk there, unless the user names one [tokens].

The rows of a chunk are multiplied with all of its columns, those of later tokens too, which are
then masked: the wider the chunk, the more for nothing. Prompts of 2,048 and 4,096 tokens took 9%
and 15% less in chunks of 128 than in chunks of 512 (0.5B, Q4_0, one x86 core).
"""
ABORTABLE: Final = TILE
"""Smallest chunk there [tokens]: most warm prompts stay one decode on the slowest machine."""

WINDOW: Final = 3
"""Measurements of which the middle one counts, so that a single slow one changes nothing."""

TOKEN_SHARE: Final = 1.25
"""
How long a call may always take, in the time of one token.

No call is shorter than one token. Where that alone is about the bound and further tokens cost
little (a large model on a GPU), to take them one by one would end a stop a few milliseconds
sooner, and take many times as long.
"""
DOUBT: Final = 200
"""So many calls of one token in a row, and two are tried: what made them slow may be over."""


class ChunkSizer:
    """
    Follows the measured times; before the first measurement it is careful.

    A call's time is a fixed part and a part per token. From ``STEP`` tokens on the size is what
    the mean time per token affords: the mean over a chunk that was too small is too slow, so the
    size grows towards the bound from below. Below, where that would stop too early, a line
    through the times of one token and of a few says how many more fit.

    :param n_ubatch: how many tokens the runtime evaluates at once, >= 1
    :param chunk_tokens: the largest chunk, if the user names one; 0 = none
    :param is_abortable: whether a running call can be ended, so that the bound need not hold it
    :param max_stall_s: how long a call may take otherwise [s]
    """

    def __init__(
        self, n_ubatch: int, chunk_tokens: int, *, is_abortable: bool, max_stall_s: float,
    ) -> None:
        self.largest = chunk_tokens or (min(n_ubatch, WIDEST) if is_abortable else n_ubatch)
        self._is_abortable = is_abortable
        self._loss_s = LOSS_S
        self.set_max_stall(max_stall_s)
        self._seconds_per_token: deque[float] = deque(maxlen=WINDOW)
        self._single_s: deque[float] = deque(maxlen=WINDOW)
        self._further_s: deque[float] = deque(maxlen=WINDOW)
        self._num_single = self._num_last = 0
        self.decode_cost = DecodeCost()
        """Of calls behind the prefill: with a row of logits a token costs more than without."""

    def set_max_stall(self, max_stall_s: float) -> None:
        """Let the next calls obey another bound [s]; any thread."""
        self._max_stall_s = max_stall_s

    @property
    def bound_s(self) -> float:
        """How long a call may take [s]."""
        if self._is_abortable:
            return self._loss_s
        single_s = _middle(self._single_s) if self._single_s else 0.0
        return max(self._max_stall_s, TOKEN_SHARE * single_s)

    @property
    def size(self) -> int:
        """What the next chunk may carry at most [tokens]."""
        smallest = min(ABORTABLE if self._is_abortable else STEP, self.largest)
        if not self._seconds_per_token:
            return smallest
        affordable = self.bound_s / max(_middle(self._seconds_per_token), 1e-9)
        if affordable >= self.largest:
            return self.largest
        if self._is_abortable or affordable >= smallest:
            step = TILE if self._is_abortable else STEP
            return max(int(affordable) // step * step, smallest)
        return min(self._few(affordable), smallest)

    def _few(self, affordable: float) -> int:
        """Return how many tokens fit where they are fewer than ``STEP``; at least one."""
        size = affordable
        if self._single_s and self._further_s:
            spare_s = self.bound_s - _middle(self._single_s)
            by_line = 1 + spare_s / max(_middle(self._further_s), 1e-9)
            # The mean errs towards its own size: it is too small on the way up, too large on the
            # way down. The line is a difference of noisy times: no more than doubled at once.
            sure = affordable if affordable >= self._num_last else 1
            size = max(min(by_line, 2 * affordable), sure)
        return max(int(size), 2 if self._num_single >= DOUBT else 1)

    def limit(self, num_tokens: int) -> int:
        """
        Return how many tokens a call outside the prefill may carry.

        :param num_tokens: what it could carry if nothing had to be bounded
        """
        if self._is_abortable:
            return num_tokens
        return self.decode_cost.fitting(min(self.size, num_tokens), self.bound_s)

    def learn(self, num_tokens: int, elapsed_s: float) -> None:
        """
        Take the time of one chunk into account.

        A remainder that is much shorter than a chunk says little of the rate, unless it took too
        long all the same.

        :param num_tokens: how many were evaluated in one call
        :param elapsed_s: from the call until the device had finished [s]
        """
        size, bound_s = self.size, self.bound_s
        self.learn_few(num_tokens, elapsed_s)
        if num_tokens == size:
            self._loss_s = min(2 * self._loss_s, LOSS_S)
        if 2 * num_tokens >= size or (num_tokens > 1 and elapsed_s > bound_s):
            self._seconds_per_token.append(elapsed_s / num_tokens)
            self._num_last = num_tokens

    def note_abort(self, num_tokens: int) -> None:
        """Make the next chunks shorter, since one of this length was thrown away."""
        if num_tokens > ABORTABLE and self._seconds_per_token:
            took_s = num_tokens * _middle(self._seconds_per_token)
            self._loss_s = min(self._loss_s, took_s) / 2

    def learn_few(self, num_tokens: int, elapsed_s: float) -> None:
        """Take the time of a call with a few tokens into account, in the prefill or behind it."""
        if num_tokens == 1:
            self._single_s.append(elapsed_s)
            self._num_single += 1
        elif num_tokens <= STEP and self._single_s:
            if self._num_single >= DOUBT:
                self._further_s.clear()
            self._num_single = 0
            self._further_s.append(
                (elapsed_s - _middle(self._single_s)) / (num_tokens - 1))


def _middle(values: Sequence[float]) -> float:
    """Return the middle value, of two the larger one."""
    return sorted(values)[len(values) // 2]
