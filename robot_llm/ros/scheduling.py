"""Callbacks for the executor, from any thread and at any time."""

from collections.abc import Callable

from rclpy.node import Node


def schedule(node: Node, callback: Callable[[], object]) -> bool:
    """
    Let the executor run ``callback``; any thread.

    :returns: False if nothing runs any more: the process ends, and so does what was to be told
    """
    if (executor := node.executor) is None:
        return False
    try:
        executor.create_task(callback)
    except (AttributeError, RuntimeError):
        # ``shutdown`` frees the guard condition that ``create_task`` triggers: Humble and Jazzy
        # then find None there, and in between every rclpy finds a handle that is not valid.
        return False
    return True
