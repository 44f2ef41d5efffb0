"""The worker's sign of life: when it last made progress, and who is told so how often."""

from collections.abc import Callable
import math


class Pulse:
    """
    Beats after every decode and whenever the worker finds nothing to do.

    :param clock: monotonic seconds
    :param tell: called on the worker's thread, at most every ``period_s``
    :param period_s: the shortest time between two calls of ``tell`` [s]
    """

    def __init__(
        self, clock: Callable[[], float], tell: Callable[[], None], period_s: float,
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._period_s = period_s
        self._told_s = -math.inf
        self._beat_s = clock()

    def beat(self) -> None:
        """Note progress now; the worker's thread."""
        self._beat_s = self._clock()
        if self._beat_s - self._told_s >= self._period_s:
            self._told_s = self._beat_s
            self._tell()

    @property
    def silence_s(self) -> float:
        """How long there has been no progress [s]; any thread."""
        return self._clock() - self._beat_s
