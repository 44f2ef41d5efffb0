"""The listening process, from the outside: start it, and read what it has heard."""

from collections.abc import Iterator
from contextlib import contextmanager
import json
from pathlib import Path
import sys
from typing import Any

from ros_node import NodeProcess, Process

LISTENER = Path(__file__).with_name('ros_listener.py')


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
