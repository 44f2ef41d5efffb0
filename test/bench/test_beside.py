"""What is measured beside something is measured beside it: a dead process is no company."""

from collections.abc import Callable
import subprocess
import sys

import pytest
from robot_llm.bench import beside as module
from robot_llm.bench.beside import beside
from robot_llm.bench.client import BenchError


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what makes every child run the given code instead of a role."""
    start = subprocess.Popen

    def run(code: str) -> None:
        monkeypatch.setattr(module.subprocess, 'Popen', lambda command, **options: start(
            [sys.executable, '-c', code], **options))
    return run


def test_a_child_that_dies_at_its_start_is_no_company(children) -> None:
    children('raise SystemExit(3)')
    with pytest.raises(BenchError, match='burn is not ready within'):
        with beside(('burn',)):
            raise AssertionError('measured beside nothing')


def test_a_child_that_never_gets_ready_is_not_waited_for_for_ever(children, monkeypatch) -> None:
    monkeypatch.setattr(module, 'READY_TIMEOUT_S', 0.05)
    children('import time; time.sleep(60)')
    with pytest.raises(BenchError, match='subscribe is not ready within 0 s, and runs'):
        with beside(('subscribe',)):
            raise AssertionError('measured beside nothing')


def test_a_child_that_ends_too_early_spoils_what_was_measured(children) -> None:
    children('print("ready", flush=True); input()')
    processes = []
    start = module.subprocess.Popen
    module.subprocess.Popen = lambda *args, **options: processes.append(  # the fixture undoes it
        start(*args, stdin=subprocess.PIPE, **options)) or processes[-1]
    with pytest.raises(BenchError, match='publish ended with 0 while something was measured'):
        with beside(('publish',)):
            processes[0].communicate('end\n')


def test_a_child_that_lives_is_ended_with_its_context(children) -> None:
    children('print("ready", flush=True); import time; time.sleep(60)')
    with beside(('burn', 'burn')):
        pass
