"""A node that dies while it is measured is noticed at once, and its last words are kept."""

import argparse
from pathlib import Path
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from robot_llm.bench import cancel as cancel_suite, node as module
from robot_llm.bench.client import BenchClient, BenchError
from robot_llm.bench.suite import Context
from robot_llm.core.request import FinishReason
from robot_llm.settings import Settings


class Client(BenchClient):
    """The waiting alone, without ROS."""

    def __init__(self, server: str) -> None:
        self.server, self.node_pid = server, 0
        self.has_ended = lambda: False

    def wait_until_ready(self, timeout_s: float, *, or_failed: bool = False) -> bool:
        return True

    def __exit__(self, *error: object) -> None:
        pass


def silent_goal() -> Any:
    """Return a goal of which nothing comes in."""
    answer = SimpleNamespace(
        is_over=False, result=None,
        wait_for=lambda condition, timeout_s: bool(time.sleep(0.001)) or condition())
    return SimpleNamespace(answer=answer, heard=SimpleNamespace(num_tokens=0), result_s=0.0)


@pytest.mark.parametrize('wait', [
    lambda client: client.wait_for_end(silent_goal()),
    lambda client: client.wait_for_tokens(silent_goal(), 1),
    lambda client: client.wait_until(lambda: False, 'nothing came')],
    ids=['end', 'tokens', 'condition'])
def test_every_wait_ends_with_the_node(wait) -> None:
    client = Client('/robot_llm')
    client.has_ended = lambda: True
    with pytest.raises(BenchError, match='/robot_llm has ended'):
        wait(client)


def test_the_last_words_of_a_node_that_died_stand_in_the_error(monkeypatch) -> None:
    def start(model: Path, namespace: str, log: Any, *args: object, **options: object):
        return subprocess.Popen(
            [sys.executable, '-c', 'input(); print("x" * 9000 + "out of memory"); exit(7)'],
            stdin=subprocess.PIPE, stdout=log)

    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(module, 'start_node', lambda *args, **options: started.append(
        start(*args, **options)) or started[-1])
    monkeypatch.setattr(module, 'BenchClient', Client)
    monkeypatch.setattr(module, 'use_own_domain', lambda: None)
    context = Context(argparse.Namespace(), Settings(), Path(), 1, True)
    with pytest.raises(BenchError) as caught:
        with module.measured_node(context) as client:
            started[0].communicate(b'\n')
            client.wait_for_end(silent_goal())
    said = str(caught.value)
    assert 'has ended; the node ended with 7' in said and said.endswith('out of memory\n')
    assert len(said) < 5000


def test_a_goal_that_ended_before_its_cancel_does_not_count(monkeypatch) -> None:
    """On a fast machine the prompt is evaluated before anybody can cancel it."""
    reasons = iter([FinishReason.CANCELED, FinishReason.STOP, FinishReason.CANCELED])
    stats = SimpleNamespace(cancel_latency_s=0.25)
    monkeypatch.setattr(cancel_suite, '_prefill', lambda *args: SimpleNamespace(
        answer=SimpleNamespace(cancel=lambda: None), finish_reason=next(reasons), result_s=0.0,
        result=SimpleNamespace(stats=stats)))
    client = SimpleNamespace(wait_for_end=lambda goal: None, settle=lambda: None)
    found = cancel_suite._latencies(
        Context(argparse.Namespace(), Settings(), Path(), 2, True), client, 'prefill', 2)
    assert [idle_s for idle_s, _ in found] == [0.25]
