"""
A client that leaves must not keep the engine.

``ROBOT_LLM_DEFAULT_LEASE=1`` also waits for DDS's own lease of 20 s.
"""

from collections.abc import Iterator, Mapping
from itertools import count
import os
from pathlib import Path
import signal
import sys
from typing import Any

import pytest
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from robot_llm_msgs.msg import Token
from ros_node import Process
from ros_planner import Planner

# A client in a process of its own, which leaves without a word of farewell to its goal.
CLIENT = """
import os, signal, sys
from robot_llm.ros.client import Client
from robot_llm_msgs.action import Generate
client = Client(sys.argv[1], name=sys.argv[3])
assert client.wait_until_ready(60.0)
answer = client.send(Generate.Goal(prompt=sys.argv[2]))
answer.wait_for(lambda: answer.is_accepted, 60.0)
print('accepted', flush=True)
sys.stdin.readline()
client.close()
"""


# What README tells an operator to use, with a lease that a test can wait for.
LEASE_FILE = Path(__file__).parents[2] / 'config' / 'fastdds_lease.xml'
LEASES = ('1',) + (('default',) if os.environ.get('ROBOT_LLM_DEFAULT_LEASE') else ())

_names = count()
_visitors: list[Process] = []


@pytest.fixture(scope='module')
def watching(scripted: Any) -> Planner:
    return scripted(client__grace_s=0.5, preempt__policy='queue')


def visit(
    planner: Planner, prompt: str, *, env: Mapping[str, str] | None = None,
) -> Process:
    visitor = Process(
        sys.executable, '-c', CLIENT, planner.node_process.name, prompt, f'visitor{next(_names)}',
        env=env)
    _visitors.append(visitor)
    visitor.wait_for_log('accepted\n')
    return visitor


def ends(planner: Planner) -> list[FinishReason]:
    """Return how the goals of others ended, as the token topic tells."""
    return [FinishReason(t.finish_reason) for t in planner.others if t.kind == TokenKind.END]


@pytest.fixture
def onlooker(watching: Planner) -> Iterator[Planner]:
    watching.others = []

    def note(token: Token) -> None:
        with watching.seen:
            watching.others.append(token)
            watching.seen.notify_all()

    watching.node.create_subscription(
        Token, f'{watching.node_process.name}/tokens', note, 100)
    yield watching
    for visitor in _visitors:
        if visitor.popen.poll() is None:
            visitor.kill()
    _visitors.clear()


def test_a_client_that_closes_ends_its_goal_and_the_next_one_is_served(
    onlooker: Planner,
) -> None:
    visitor = visit(onlooker, 'hold-detail:g1 say-continue')
    onlooker.node_process.wait_for_gate('g1')
    visitor.write('leave')
    assert visitor.wait() == 0
    onlooker.wait_for(lambda: FinishReason.CLIENT_GONE in ends(onlooker), 'the end CLIENT_GONE')
    assert onlooker.answer('say-slow').result.finish_reason == FinishReason.STOP


def test_a_client_that_stays_keeps_its_goal(onlooker: Planner) -> None:
    visitor = visit(onlooker, 'hold-detail:g2 say-continue')
    onlooker.node_process.wait_for_gate('g2')
    # As long as it takes to find another client gone.
    other = visit(onlooker, 'say-slow')
    other.write('leave')
    assert other.wait() == 0
    onlooker.wait_for(lambda: FinishReason.CLIENT_GONE in ends(onlooker), 'the other one gone')
    onlooker.node_process.open_gate('g2')
    onlooker.wait_for(lambda: FinishReason.STOP in ends(onlooker), 'the end of the goal')
    visitor.write('leave')
    assert visitor.wait() == 0


def test_a_client_that_is_killed_breaks_nothing(onlooker: Planner) -> None:
    visitor = visit(onlooker, 'hold-detail:g3 say-continue')
    onlooker.node_process.wait_for_gate('g3')
    visitor.send_signal(signal.SIGKILL)
    visitor.wait()
    # DDS needs its lease to notice; until then the engine is the dead client's, by policy queue.
    onlooker.node_process.open_gate('g3')
    onlooker.wait_for(lambda: bool(ends(onlooker)), 'the end of the goal')
    assert onlooker.answer('say-slow').result.finish_reason == FinishReason.STOP


@pytest.fixture
def lease_env(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a client whose lease is so many seconds."""
    if request.param == 'default':
        return {}
    path = tmp_path / 'lease.xml'
    text = LEASE_FILE.read_text()
    assert '<sec>3</sec>' in text
    path.write_text(text.replace('<sec>3</sec>', f'<sec>{request.param}</sec>'))
    # Fast DDS 2 (Humble, Jazzy) and 3 (Kilted) read it from different names.
    return {'FASTRTPS_DEFAULT_PROFILES_FILE': str(path),
            'FASTDDS_DEFAULT_PROFILES_FILE': str(path)}


@pytest.mark.parametrize('lease_env', LEASES, indirect=True)
@pytest.mark.parametrize('stage', ['queued', 'prefill', 'decision', 'detail'])
def test_a_killed_client_frees_the_engine_after_its_lease(
    onlooker: Planner, lease_env: dict[str, str], stage: str,
) -> None:
    gate, node = f'k{next(_names)}', onlooker.node_process
    if stage == 'queued':
        running = onlooker.ask(f'hold-detail:{gate} say-continue')
        node.wait_for_gate(gate)
        visitor = visit(onlooker, 'say-slow', env=lease_env)
    else:
        visitor = visit(onlooker, f'hold-{stage}:{gate} say-continue', env=lease_env)
        node.wait_for_gate(gate)
    visitor.kill()
    onlooker.wait_for(lambda: FinishReason.CLIENT_GONE in ends(onlooker), 'the end CLIENT_GONE')
    if stage == 'queued':
        node.open_gate(gate)
        assert onlooker.finish(running).finish_reason == FinishReason.STOP
    assert onlooker.answer('say-slow').result.finish_reason == FinishReason.STOP
