"""Ends the goals of clients that left the graph."""

from collections.abc import Callable
import time
from typing import Final

from rclpy.node import Node
from robot_llm.core.request import FinishReason, Request
from robot_llm.ros.dispatcher import Dispatcher

LOOKS_PER_GRACE: Final = 4
"""How often the graph is looked at within ``client.grace_s``; a look costs about a millisecond."""


class ClientWatch:
    """
    Looks at the graph while goals are open.

    A goal that names its client lives as long as that node is in the graph. One that names none
    lives as long as anybody listens to the action's feedback, which every rclpy, rclcpp and
    command line client does. A name that was never seen says nothing: it may be misspelt, or its
    discovery late, and the goal lives on.

    DDS needs its lease (20 s in Fast DDS) to notice a client that was killed; see README.

    :param grace_s: how long a client may be away, a restart of its discovery included [s]
    """

    def __init__(self, node: Node, dispatcher: Dispatcher, grace_s: float) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self._grace_s = grace_s
        self._seen: dict[Request, float] = {}
        self._feedback = f'{node.get_fully_qualified_name()}/generate/_action/feedback'
        self._timer = node.create_timer(grace_s / LOOKS_PER_GRACE, self._look)

    def _look(self) -> None:
        requests = self._dispatcher.requests
        self._seen = {r: seen_s for r, seen_s in self._seen.items() if r in requests}
        if not requests:
            return
        now_s, is_present = time.monotonic(), self._presence()
        for request in requests:
            if is_present(request):
                self._seen[request] = now_s
            elif now_s - self._seen.get(request, now_s) > self._grace_s:
                self._dispatcher.stop(request, FinishReason.CLIENT_GONE)

    def _presence(self) -> Callable[[Request], bool]:
        names = {
            f'{namespace.rstrip("/")}/{name}'
            for name, namespace in self._node.get_node_names_and_namespaces()}
        has_listener = self._node.count_subscribers(self._feedback) > 0
        return lambda request: request.client in names if request.client else has_listener

    def close(self) -> None:
        """Stop looking."""
        self._node.destroy_timer(self._timer)
