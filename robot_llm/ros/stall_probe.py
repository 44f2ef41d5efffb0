"""A timer on the executor that measures how late the executor is."""

import time

from rclpy.node import Node
from robot_llm.core.stall import StallMeter
from robot_llm.ros.steady_timer import create_steady_timer


class StallProbe:
    """
    Measures the executor of a configured node, from its first callback on.

    :param rate_hz: how often it looks; 0 never looks
    """

    def __init__(self, node: Node, rate_hz: float) -> None:
        self._node = node
        self._meter = StallMeter(rate_hz) if rate_hz else None
        self._timer = (
            create_steady_timer(node, 1.0 / rate_hz, self._tick) if rate_hz else None)

    def _tick(self) -> None:
        if self._meter is not None:
            self._meter.tick(time.monotonic())

    def figures(self) -> dict[str, int | float]:
        """Return what was measured, for the diagnostics; nothing if it never looks."""
        return self._meter.figures() if self._meter is not None else {}

    def close(self) -> None:
        """Stop looking."""
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
