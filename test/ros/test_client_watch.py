"""Whether the client of a goal can still get its result, as the graph tells."""

from collections.abc import Callable, Iterator
import time
from typing import Any

import pytest
import rclpy
from rclpy.action import ActionClient
from rclpy.context import Context
from rclpy.node import Node
from robot_llm.ros.client_watch import ClientWatch
from robot_llm_msgs.action import Generate
from ros_node import TIMEOUT_S


class Goal:
    """What the watch wants to know of a request."""

    def __init__(self, client: str) -> None:
        self.client = client


class Goals:
    """A dispatcher's open requests."""

    def __init__(self, *goals: Goal) -> None:
        self.requests = goals
        self.on_dispatch: Callable[[Any], None] = lambda _: None


@pytest.fixture
def graph(own_ros_domain: int) -> Iterator[tuple[Node, Node]]:
    """Return the node that serves, and one that asks; in participants of their own."""
    contexts = Context(), Context()
    for context in contexts:
        rclpy.init(context=context)
    server = rclpy.create_node('server', context=contexts[0])
    client = rclpy.create_node('client', context=contexts[1])
    yield server, client
    for node, context in zip((server, client), contexts):
        if context.ok():
            node.destroy_node()
            rclpy.shutdown(context=context)


def wait_until(condition: Callable[[], bool]) -> None:
    """Look at the graph until it tells what it should; nothing calls back when it changes."""
    end_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end_s, 'the graph does not come to it'
        time.sleep(0.01)


def test_a_client_that_stops_listening_is_gone_before_its_node(graph: tuple[Node, Node]) -> None:
    # Symptom: its result cost the whole process 100 ms, since only its node was looked for.
    server, client = graph
    action = ActionClient(client, Generate, '/server/generate')
    goal = Goal('/client')
    watch = ClientWatch(server, Goals(goal), grace_s=10.0)
    wait_until(lambda: '/client' in watch._hearers() and '/client' in watch._names())
    watch._note(goal)
    is_there = watch.presence(goal)
    assert is_there()
    action.destroy()
    wait_until(lambda: not is_there())
    assert '/client' in watch._names()
    assert not watch.presence(goal)(), 'it was seen to listen before'
    watch.close()


def test_a_client_that_never_listened_is_looked_for_by_name(graph: tuple[Node, Node]) -> None:
    server, client = graph
    goal = Goal('/client')
    watch = ClientWatch(server, Goals(goal), grace_s=10.0)
    wait_until(lambda: '/client' in watch._names())
    watch._note(goal)
    is_there = watch.presence(goal)
    assert is_there()
    client.destroy_node()
    rclpy.shutdown(context=client.context)
    wait_until(lambda: not is_there())
    watch.close()


def test_a_client_that_nobody_knows_is_always_there(graph: tuple[Node, Node]) -> None:
    watch = ClientWatch(graph[0], Goals(), grace_s=10.0)
    goal = Goal('/misspelt')
    watch._note(goal)
    assert watch.presence(goal)()
    watch.close()
