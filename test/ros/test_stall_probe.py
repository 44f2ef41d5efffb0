"""An executor that comes late shows in the probe's figures."""

from collections.abc import Iterator
import time

import pytest
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from robot_llm.core.stall import STALL_S
from robot_llm.ros.stall_probe import StallProbe
from ros_planner import Planner


@pytest.fixture
def node(own_ros_domain: int) -> Iterator[Node]:
    context = Context()
    rclpy.init(context=context)
    node = rclpy.create_node('probed', context=context)
    yield node
    node.destroy_node()
    rclpy.shutdown(context=context)


def test_an_executor_that_was_busy_is_a_stall(node: Node) -> None:
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    probe = StallProbe(node, 100.0)
    while 'executor_delay_max_s' not in probe.figures():
        executor.spin_once(timeout_sec=1.0)
    num_before = probe.figures()['executor_stalls']
    time.sleep(2 * STALL_S)  # what a callback that does not return would do
    executor.spin_once(timeout_sec=1.0)
    assert probe.figures()['executor_stalls'] == num_before + 1
    assert probe.figures()['executor_delay_max_s'] > STALL_S
    probe.close()
    executor.shutdown()


def test_a_rate_of_zero_measures_nothing(node: Node) -> None:
    probe = StallProbe(node, 0.0)
    assert probe.figures() == {} and list(node.timers) == []
    probe.close()


def test_the_diagnostics_tell_how_late_the_executor_was(planner: Planner) -> None:
    planner.wait_for(lambda: any(
        'executor_delay_max_s' in {item.key for item in status.values}
        for status in planner.diagnostics), 'the delay of the executor')
    values = {item.key: item.value for item in planner.diagnostics[-1].values}
    assert float(values['executor_delay_max_s']) >= float(values['executor_delay_p99_s']) >= 0
    assert int(values['executor_stalls']) >= 0
