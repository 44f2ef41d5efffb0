"""Callbacks for an executor that runs, has been shut down, or is not there."""

from types import SimpleNamespace

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from robot_llm.ros.scheduling import schedule


def test_what_comes_behind_the_end_of_the_executor_is_dropped_without_an_error(
    ros_domain: int,
) -> None:
    """It raised, and cost the goal its log line and its record, or the process its exit code."""
    context, ran = Context(), []
    rclpy.init(context=context)
    node = SimpleNamespace(executor=None)
    assert not schedule(node, lambda: ran.append('nobody'))
    node.executor = SingleThreadedExecutor(context=context)
    assert schedule(node, lambda: ran.append('running'))
    node.executor.spin_once(timeout_sec=10.0)
    node.executor.shutdown()
    # A rclpy that does not mind takes it and never runs it.
    assert schedule(node, lambda: ran.append('late')) in (False, True)
    assert ran == ['running']
    rclpy.shutdown(context=context)
