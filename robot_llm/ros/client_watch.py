"""Ends the goals of clients that left the graph."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
import time
from typing import Final

from rclpy.node import Node
from robot_llm.core.request import FinishReason, Request
from robot_llm.ros.dispatcher import Dispatcher
from robot_llm.ros.steady_timer import create_steady_timer

LOOKS_PER_GRACE: Final = 4
"""How often the graph is looked at within ``client.grace_s``; a look costs about a millisecond."""


NODE_NAME_UNKNOWN: Final = '_NODE_NAME_UNKNOWN_'
"""What rmw calls the node of an endpoint whose name it has not heard yet."""


class ClientWatch:
    """
    Looks at the graph while goals are open.

    A goal that names its client lives as long as that node is in the graph. DDS tells of a node's
    endpoints before its name: a client whose name has not come yet lives as long as a nameless
    listener to the action's feedback, which every rclpy, rclcpp and command line client is. A goal
    that names none, or a name that never comes (misspelt), lives as long as anybody listens.

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
        self._nameless: defaultdict[Request, set[bytes]] = defaultdict(set)
        """Feedback listeners without a name that were there while a client's name was not."""
        self._hearing: set[Request] = set()
        """Those whose client was seen to listen for results."""
        action = f'{node.get_fully_qualified_name()}/generate/_action'
        self._feedback = f'{action}/feedback'
        self._replies = f'rr{action}/get_resultReply'
        self._timer = create_steady_timer(node, grace_s / LOOKS_PER_GRACE, self._look)
        dispatcher.on_dispatch = self._note

    def _note(self, request: Request) -> None:
        """Look at once: a client may be gone before the next round."""
        self._last_seen[request] = time.monotonic()
        self._is_there(request, self._names(), self._listeners())
        self._note_hearing([request])

    def _look(self) -> None:
        requests = self._dispatcher.requests
        self._last_seen = {r: s for r, s in self._last_seen.items() if r in requests}
        self._known.intersection_update(requests)
        self._hearing.intersection_update(requests)
        for request in self._nameless.keys() - set(requests):
            del self._nameless[request]
        if not requests:
            return
        now_s, names, listeners = time.monotonic(), self._names(), self._listeners()
        self._note_hearing(requests)
        for request in requests:
            if self._is_there(request, names, listeners):
                self._last_seen[request] = now_s
            elif now_s - self._last_seen.get(request, now_s) > self._grace_s:
                self._dispatcher.stop(request, FinishReason.CLIENT_GONE)

    def _is_there(
        self, request: Request, names: set[str], listeners: Mapping[bytes, str],
    ) -> bool:
        """
        Return whether a client is in the graph, and note what its absence will be told by.

        :param listeners: GID → name of the node, of all who listen to the feedback
        """
        if request.client in names:
            self._known.add(request)
            return True
        if request in self._known:
            return False
        if not request.client:
            return bool(listeners)
        nameless = self._nameless[request]
        nameless |= {gid for gid, name in listeners.items() if name == NODE_NAME_UNKNOWN}
        return not nameless.isdisjoint(listeners) if nameless else bool(listeners)

    def _note_hearing(self, requests: Iterable[Request]) -> None:
        hearers = self._hearers()
        self._hearing.update(request for request in requests if request.client in hearers)

    def presence(self, request: Request) -> Callable[[], bool]:
        """
        Return what tells whether the client of an open request can still get its result.

        A client that leaves stops listening for results before its node is gone. One that was
        never seen to listen is looked for by name, and one that names no client that ever was in
        the graph always is there.
        """
        self._note_hearing([request])
        if request in self._hearing:
            return lambda: request.client in self._hearers()
        is_known = request in self._known
        return lambda: not is_known or request.client in self._names()

    def _names(self) -> set[str]:
        return {f'{namespace.rstrip("/")}/{name}'
                for name, namespace in self._node.get_node_names_and_namespaces()}

    def _hearers(self) -> set[str]:
        """Return the nodes that listen for results; empty where the middleware does not tell."""
        return {f'{endpoint.node_namespace.rstrip("/")}/{endpoint.node_name}' for endpoint in
                self._node.get_subscriptions_info_by_topic(self._replies, no_mangle=True)}

    def _listeners(self) -> dict[bytes, str]:
        return {bytes(endpoint.endpoint_gid): endpoint.node_name
                for endpoint in self._node.get_subscriptions_info_by_topic(self._feedback)}

    def close(self) -> None:
        """Stop looking."""
        self._node.destroy_timer(self._timer)
