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

    A goal that names its client lives as long as that node is in the graph. One that names none,
    or a name that was not in the graph when the goal came (misspelt, or not discovered yet), lives
    as long as anybody listens to the action's feedback, which every rclpy, rclcpp and command line
    client does.

    DDS needs the client's lease to notice that it was killed: 20 s in Fast DDS, or what
    config/fastdds_lease.xml gives it.

    :param grace_s: how long a client may be away, a restart of its discovery included [s]
    """

    def __init__(self, node: Node, dispatcher: Dispatcher, grace_s: float) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self._grace_s = grace_s
        self._last_seen: dict[Request, float] = {}
        self._known: set[Request] = set()
        self._feedback = f'{node.get_fully_qualified_name()}/generate/_action/feedback'
        self._timer = node.create_timer(grace_s / LOOKS_PER_GRACE, self._look)
        dispatcher.on_dispatch = self._note

    def _note(self, request: Request) -> None:
        """Look at once: a client may be gone before the next round."""
        self._last_seen[request] = time.monotonic()
        if request.client in self._names():
            self._known.add(request)

    def _look(self) -> None:
        requests = self._dispatcher.requests
        self._last_seen = {r: s for r, s in self._last_seen.items() if r in requests}
        self._known.intersection_update(requests)
        if not requests:
            return
        now_s, names = time.monotonic(), self._names()
        has_listener = self._node.count_subscribers(self._feedback) > 0
        for request in requests:
            if request.client in names:
                self._known.add(request)
            is_named = request in self._known
            if request.client in names or (has_listener and not is_named):
                self._last_seen[request] = now_s
            elif now_s - self._last_seen.get(request, now_s) > self._grace_s:
                self._dispatcher.stop(request, FinishReason.CLIENT_GONE)

    def presence(self, request: Request) -> Callable[[], bool]:
        """
        Return what tells whether the client of an open request is still there.

        One that names no client that ever was in the graph always is.
        """
        is_known = request in self._known
        return lambda: not is_known or request.client in self._names()

    def _names(self) -> set[str]:
        return {f'{namespace.rstrip("/")}/{name}'
                for name, namespace in self._node.get_node_names_and_namespaces()}

    def close(self) -> None:
        """Stop looking."""
        self._node.destroy_timer(self._timer)
