"""SIGINT and SIGTERM in every stage: results first, then exit code 0, and no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
import signal
import time
from typing import Any

from action_msgs.msg import GoalStatus
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode
from ros_lifecycle import Lifecycle
from ros_node import NodeProcess, REAL, running_node, SCRIPTED, TIMEOUT_S
from ros_planner import connected, Planner, reasons

_gates = (f'e{number}' for number in count())

# The contract is one second; this bound is for a machine that others keep busy as well.
END_TIMEOUT_S = 10.0

SHUTDOWN = (
    GoalStatus.STATUS_ABORTED, FinishReason.SHUTDOWN, ErrorCode.NONE, 'stop',
    DecisionSource.CANCELED)

each_signal = pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])


@contextmanager
def started(
    program: tuple[str, ...], executor: str, **parameters: Any,
) -> Iterator[tuple[NodeProcess, Planner]]:
    named = {name.replace('__', '.'): value for name, value in parameters.items()}
    with running_node(program, {'executor': executor} | named) as node:
        with connected(node) as planner:
            yield node, planner


def check_end(node: NodeProcess, number: signal.Signals, where: str) -> None:
    """End a node; the time is for the report, the bound is for a node that hangs."""
    started_s = time.monotonic()
    assert node.stop(number, END_TIMEOUT_S) == 0, node.log
    print(f'{number.name} {where}: {time.monotonic() - started_s:.2f} s')
    assert 'Traceback' not in node.log and 'Error' not in node.log, node.log
    assert '[FATAL]' not in node.log and '[ERROR]' not in node.log, node.log


@each_signal
def test_an_idle_node_ends(executor: str, ros_domain: int, number: signal.Signals) -> None:
    with started(SCRIPTED, executor) as (node, planner):
        assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP
        check_end(node, number, 'idle')


def test_a_running_and_a_queued_goal_get_their_results_first(
    executor: str, ros_domain: int,
) -> None:
    """On SIGINT; docs/contract.md has every stage on SIGTERM."""
    with started(SCRIPTED, executor, preempt__policy='queue') as (node, planner):
        gate = next(_gates)
        running = planner.ask(f'hold-detail:{gate} say-continue')
        node.wait_for_gate(gate)
        queued = planner.ask('say-continue')
        assert queued.wait_for(lambda: queued.is_accepted, TIMEOUT_S)
        check_end(node, signal.SIGINT, 'held in the detail, one queued')
        for answer in (running, queued):
            planner.finish(answer)
            assert reasons(answer) == SHUTDOWN


def test_a_prefill_of_the_real_model_is_left(ros_domain: int, model_path: Path) -> None:
    with started(REAL, 'multi_threaded', model__path=model_path) as (node, planner):
        answer = planner.ask('The robot sees a box. ' * 500)
        planner.wait_for(lambda: planner.statuses[-1].num_prompt_tokens > 3000, 'the prefill')
        check_end(node, signal.SIGINT, 'in the prefill of the real model')
        stats = planner.finish(answer).stats
        assert reasons(answer) == SHUTDOWN
        assert stats.num_completion_tokens == 0


def test_an_answer_of_the_real_model_is_left(ros_domain: int, model_path: Path) -> None:
    with started(REAL, 'multi_threaded', model__path=model_path) as (node, planner):
        answer = planner.ask('Tell me a long story.', profile='talk', temperature=0.0)
        assert answer.wait_for(lambda: len(answer.tokens) > 3, TIMEOUT_S)
        check_end(node, signal.SIGTERM, 'in the detail of the real model')
        planner.finish(answer)
        assert answer.result.finish_reason == FinishReason.SHUTDOWN
        assert answer.result.decision == 'Sorry'


@each_signal
def test_loading_that_takes_for_ever_is_given_up(
    executor: str, ros_domain: int, number: signal.Signals,
) -> None:
    parameters = {'executor': executor, 'model.path': 'hold-load'}
    with running_node(SCRIPTED, parameters) as node:
        node.wait_for_log('gate load reached')
        started_s = time.monotonic()
        assert node.stop(number, END_TIMEOUT_S) == 0, node.log
        print(f'{number.name} while loading: {time.monotonic() - started_s:.2f} s')
        assert 'Traceback' not in node.log and '[FATAL]' not in node.log, node.log


def test_loading_by_a_manager_is_given_up(executor: str, ros_domain: int) -> None:
    parameters = {'executor': executor, 'model.path': 'hold-load', 'autostart': False}
    with running_node(SCRIPTED, parameters) as node, Planner(node) as planner:
        manager = Lifecycle(planner)
        manager.start_configure()
        node.wait_for_log('gate load reached')
        assert node.stop(signal.SIGTERM, END_TIMEOUT_S) == 0, node.log
        assert 'Traceback' not in node.log and '[FATAL]' not in node.log, node.log


def test_loading_of_the_real_model_is_given_up(ros_domain: int, model_path: Path) -> None:
    parameters = {'model.path': model_path, 'model.n_threads': 1}
    with running_node(REAL, parameters) as node, Planner(node) as planner:
        planner.wait_for(lambda: bool(planner.statuses), 'the first status, of a loading node')
        started_s = time.monotonic()
        assert node.stop(signal.SIGINT, END_TIMEOUT_S) == 0, node.log
        print(f'SIGINT while the real model is loaded: {time.monotonic() - started_s:.2f} s')
        assert 'Traceback' not in node.log and '[FATAL]' not in node.log, node.log


def test_a_second_signal_does_not_break_the_end(executor: str, ros_domain: int) -> None:
    with started(SCRIPTED, executor) as (node, planner):
        gate = next(_gates)
        answer = planner.ask(f'hold-detail:{gate} say-continue')
        node.wait_for_gate(gate)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            node.send_signal(number)
        assert node.wait(END_TIMEOUT_S) == 0, node.log
        planner.finish(answer)
        assert reasons(answer) == SHUTDOWN
        assert 'Traceback' not in node.log, node.log
