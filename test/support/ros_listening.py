"""Processes beside the node: one that listens, and one that does nothing but keep time."""

from collections.abc import Iterator
from contextlib import contextmanager
import json
from pathlib import Path
import sys
from typing import Any

from ros_node import NodeProcess, Process

LISTENER = Path(__file__).with_name('ros_listener.py')
IDLE = Path(__file__).with_name('ros_idle.py')


@contextmanager
def listening(node: NodeProcess, *, num_lost: int = 0) -> Iterator[Process]:
    """Run a listener beside a node, from when it has subscribed on."""
    process = Process(sys.executable, str(LISTENER), node.name, str(num_lost))
    try:
        process.wait_for_log('listens\n')
        yield process
        assert 'Traceback' not in process.log, process.log
    finally:
        process.kill()


def heard(listener: Process, goal_id: bytes) -> dict[str, Any]:
    """Return a stream as the listener put it together, once it is whole."""
    mark = f'"goal": "{goal_id.hex()}"'
    listener.wait_for_log(mark)
    line = next(line for line in listener.log.splitlines() if mark in line)
    return dict(json.loads(line))


@contextmanager
def keeping_time(rate_hz: float) -> Iterator[Process]:
    """Run a timer like that of the stall probe in a process that does nothing else."""
    # No other process is looked for: this one hears nothing of what happens to the node.
    process = Process(sys.executable, str(IDLE), str(rate_hz),
                      env={'ROS_AUTOMATIC_DISCOVERY_RANGE': 'OFF'})
    try:
        process.wait_for_log('ticks\n')
        yield process
    finally:
        process.kill()


def kept_time(process: Process) -> dict[str, float]:
    """End a process that keeps time; return how late its timer came: ``max_s``, ``p99_s``."""
    assert process.popen.stdin is not None
    process.popen.stdin.close()
    assert process.wait() == 0, process.log
    return dict(json.loads(process.log.splitlines()[-1]))
