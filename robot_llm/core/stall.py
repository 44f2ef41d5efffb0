"""How late a periodic callback comes: what the executor was busy with instead."""

from collections import deque
import math
from typing import Final

import numpy as np

WINDOW_S: Final = 60.0
"""How far the largest and the 99th percentile look back."""

STALL_S: Final = 0.05
"""A delay that counts as a stall: a planner at 20 Hz would miss its turn."""


class StallMeter:
    """
    Times the calls of one timer; one thread calls at a time.

    A delay is the time between two calls less the period. An executor that is busy for a shorter
    time than a period may go unseen: the rate says what is found.

    :param rate_hz: how often the timer is set to call
    """

    def __init__(self, rate_hz: float) -> None:
        self._period_s = 1.0 / rate_hz
        self._delays_s: deque[float] = deque(maxlen=math.ceil(rate_hz * WINDOW_S))
        self._last_s: float | None = None
        self._num_stalls = 0

    def tick(self, now_s: float) -> float:
        """
        Note a call of the timer.

        :param now_s: monotonic clock [s]
        :returns: the delay of this call [s], at least 0
        """
        last_s, self._last_s = self._last_s, now_s
        if last_s is None:
            return 0.0
        delay_s = max(now_s - last_s - self._period_s, 0.0)
        self._delays_s.append(delay_s)
        self._num_stalls += delay_s > STALL_S
        return delay_s

    def figures(self) -> dict[str, int | float]:
        """Return the delays of the last minute, and the stalls since the start."""
        figures: dict[str, int | float] = {'executor_stalls': self._num_stalls}
        if delays_s := tuple(self._delays_s):
            figures['executor_delay_max_s'] = max(delays_s)
            figures['executor_delay_p99_s'] = float(np.percentile(delays_s, 99))
        return figures
