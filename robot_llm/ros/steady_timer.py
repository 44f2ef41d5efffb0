"""Timers about real time: a simulation that pauses and a clock that is set move none of them."""

from collections.abc import Callable

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.timer import Timer


def create_steady_timer(node: Node, period_s: float, callback: Callable[[], object]) -> Timer:
    """
    Return a timer of ``node`` on the steady clock; its ``create_timer`` follows ROS time.

    :param period_s: [s], above 0
    """
    return node.create_timer(period_s, callback, clock=Clock(clock_type=ClockType.STEADY_TIME))
