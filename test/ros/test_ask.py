"""``ask`` as a person runs it: what is printed, and the exit code."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
import json
import signal
import subprocess
import sys
from threading import Event
import time

import pytest
from robot_llm.core.request import FinishReason
from robot_llm.ros.client import Client
from robot_llm_msgs.msg import GenerationStats
from ros_node import Process, TIMEOUT_S
from ros_planner import Planner

ASK = (sys.executable, '-m', 'robot_llm.cli.ask')

_gates = (f'a{number}' for number in count())


def ask(*arguments: str, stdin: bytes = b'') -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*ASK, *arguments], input=stdin, capture_output=True, timeout=TIMEOUT_S)


@contextmanager
def asking(planner: Planner, stage: str, *arguments: str) -> Iterator[tuple[Process, str]]:
    """Run ``ask`` until the engine is held; the name of its gate comes with it."""
    gate = next(_gates)
    process = Process(*ASK, '--node', planner.node_process.name, *arguments,
                      f'hold-{stage}:{gate} say-continue')
    try:
        planner.node_process.wait_for_gate(gate)
        yield process, gate
    finally:
        process.kill()


def test_a_whole_answer_is_printed_and_the_exit_code_is_0(planner: Planner) -> None:
    done = ask('--node', planner.node_process.name, 'say-continue')
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert text.startswith('continue  [')
    assert '{"target_speed_mps":0.5' in text
    for line in ('decision  continue  by MODEL', 'end       STOP', 'time      ', 'tokens    '):
        assert line in text
    # Fast DDS tells of itself there now and then.
    assert not [line for line in done.stderr.splitlines() if b'RTPS' not in line]


def test_json_is_one_object_and_nothing_else(planner: Planner) -> None:
    done = ask('--node', planner.node_process.name, '--json', 'say-continue')
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report['decision'], report['decision_source']) == ('continue', 'MODEL')
    assert report['detail'] == {'target_speed_mps': 0.5, 'reason': 'all of it'}
    assert report['stream_equals_result'] is True
    assert report['stats'].keys() == GenerationStats.get_fields_and_field_types().keys()


def test_the_prompt_may_come_on_standard_input(planner: Planner) -> None:
    done = ask('--node', planner.node_process.name, '-', stdin='say-slow grüße'.encode())
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b'slow  [')


@pytest.mark.parametrize('stage', ['prefill', 'detail'])
def test_ctrl_c_cancels_the_goal_and_waits_for_its_end(planner: Planner, stage: str) -> None:
    with asking(planner, stage) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait() == 10 + FinishReason.CANCELED, process.log
        assert 'end       CANCELED' in process.log
        assert 'Traceback' not in process.log
    assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP


def test_another_goal_ends_ask_with_the_finish_reason(planner: Planner) -> None:
    with asking(planner, 'detail') as (process, _):
        assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP
        assert process.wait() == 10 + FinishReason.PREEMPTED, process.log


@pytest.mark.parametrize('stage', ['prefill', 'detail'])
def test_a_client_that_is_killed_does_not_keep_the_node(planner: Planner, stage: str) -> None:
    with asking(planner, stage) as (process, gate):
        process.kill()
        planner.node_process.open_gate(gate)
    assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP
    assert 'Traceback' not in planner.node_process.log


@pytest.mark.parametrize('options', [(), ('--json',)])
def test_a_refused_goal_says_why(planner: Planner, options: tuple[str, ...]) -> None:
    done = ask('--node', planner.node_process.name, '--profile', 'drvie', *options, 'say-slow')
    assert done.returncode == 4
    if options:
        assert json.loads(done.stdout)['problem'] == done.stderr.decode().strip()
    else:
        assert done.stdout == b''
    assert b"the goal was refused: UNKNOWN_PROFILE: profile 'drvie' is not loaded" in done.stderr


def test_no_node_is_said_in_a_sentence(ros_domain: int) -> None:
    done = ask('--node', '/nobody', '--timeout', '0.2', 'Hello?')
    assert done.returncode == 3
    assert done.stderr.startswith(b'/nobody does not answer; is it running and active?')
    assert done.stdout == b''


def test_ctrl_c_while_waiting_for_the_node_leaves_quietly(ros_domain: int) -> None:
    process = Process(*ASK, '--node', '/nobody', '--timeout', '60', 'Hello?')
    with Client('/nobody', name='watcher') as watcher:
        # The graph tells nobody when it changes; the status is what `ask` subscribes to last.
        end_s = time.monotonic() + TIMEOUT_S
        while watcher.node.count_subscribers('/nobody/status') < 2 and time.monotonic() < end_s:
            Event().wait(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130, process.log
    assert 'Traceback' not in process.log


@pytest.mark.parametrize('arguments', [
    [], ['--scene-epoch', '-1', 'x'], ['--max-tokens', 'many', 'x'], ['--seed', str(2**32), 'x'],
    ['--decision-deadline', 'nan', 'x'], ['--total-deadline', 'inf', 'x'],
    ['--total-deadline', '1e12', 'x'], ['--decision-deadline', '-1', 'x'],
    ['--timeout', 'nan', 'x'], ['--node', 'no name!', 'x'], ['--node', '', 'x'],
    [b'\xff\xfe'], ['--stop', b'\xff', 'x'], ['--unknown', 'x']], ids=str)
def test_bad_arguments_are_refused_with_the_usage(arguments: list[str]) -> None:
    done = ask(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(b'usage: ask')
    assert b'Traceback' not in done.stderr


def test_a_prompt_on_standard_input_that_is_no_text_is_refused() -> None:
    done = ask('-', stdin=b'\xff\xfe')
    assert done.returncode == 2
    assert b'the prompt is not UTF-8' in done.stderr
