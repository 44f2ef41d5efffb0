"""The monitor beside a node in another process: on a terminal, as lines, and stopped."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty
import re
import signal
import sys
import time
from typing import Any

from action_msgs.srv import CancelGoal
import pytest
from robot_llm.cli.monitor_link import MonitorLink
from robot_llm.cli.monitor_state import CancelAnswer, ReplayAnswer
from robot_llm.core.request import FinishReason
from ros_node import NodeProcess, Process, running_node, SCRIPTED, TIMEOUT_S
from ros_planner import connected, Planner
from terminal import Terminal

MONITOR = (sys.executable, '-m', 'robot_llm.cli.monitor')
COLOUR = re.compile(rb'\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;\d+)*m')


@pytest.fixture(scope='module')
def node(ros_domain: int) -> Iterator[NodeProcess]:
    """Run a scripted node."""
    with running_node(SCRIPTED, {}) as process:
        yield process


@pytest.fixture(scope='module')
def planner(node: NodeProcess) -> Iterator[Planner]:
    """Return a planner of it."""
    with connected(node) as planner:
        yield planner


def event_of(link: MonitorLink, is_wanted: Callable[[Any], bool]) -> Any:
    """Return the first event that is wanted."""
    end_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            event = link.events.get(timeout=max(end_s - time.monotonic(), 0.01))
        except Empty:
            raise AssertionError('the event did not come') from None
        if is_wanted(event):
            return event


def is_answer(event: Any) -> bool:
    """Tell whether an event is what came of a key."""
    return isinstance(event, CancelAnswer | ReplayAnswer)


def test_anybody_may_cancel_and_replay(node: NodeProcess, planner: Planner) -> None:
    answer = planner.ask('say-continue hold-detail:watched')
    node.wait_for_gate('watched')
    with MonitorLink(node.name) as link:
        # Its services are found by then; a key that comes sooner is told that nobody answers.
        assert link.wait_until_ready(TIMEOUT_S)
        link.cancel(answer.goal_id)
        event = event_of(link, is_answer)
        assert event == CancelAnswer(answer.goal_id, CancelGoal.Response.ERROR_NONE)
        assert planner.finish(answer).finish_reason == FinishReason.CANCELED
        link.replay(answer.goal_id)
        response = event_of(link, is_answer).response
        assert list(response.tokens) == answer.tokens and response.complete
        link.cancel(answer.goal_id)
        assert event_of(link, is_answer).return_code != CancelGoal.Response.ERROR_NONE
    node.open_gate('watched')


def test_no_cancel_is_sent_without_a_goal(node: NodeProcess) -> None:
    with MonitorLink(node.name) as link:
        for nothing in (b'', bytes(16)):
            with pytest.raises(AssertionError, match='names no goal'):
                link.cancel(nothing)


def test_a_node_that_is_not_there_does_not_answer(ros_domain: int) -> None:
    with MonitorLink('/nowhere') as link:
        link.replay(bytes(15) + b'1')
        assert event_of(link, is_answer).response is None


@contextmanager
def plain(name: str) -> Iterator[Process]:
    """Run the monitor that writes lines."""
    process = Process(*MONITOR, '--plain', '--node', name)
    try:
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0, process.log
        assert 'Traceback' not in process.log
    finally:
        if process.popen.poll() is None:
            process.kill()


def test_lines_tell_a_goal_from_its_decision_to_its_end(
    node: NodeProcess, planner: Planner,
) -> None:
    with plain(node.name) as monitor:
        monitor.wait_for_log('node     IDLE, scripted on CPU\n')
        monitor.wait_for_log('health   OK active\n')
        answer = planner.answer('say-slow')
        short_id = answer.goal_id.hex()[:8]
        monitor.wait_for_log(f'{short_id} END STOP after')
        assert f'{short_id} answer begins: slow' in monitor.log
        assert f'{short_id}   {{"target_speed_mps":0.5,"reason":"all of it"}}' in monitor.log
        assert re.search(f'{short_id} DECISION slow by MODEL after .*mass 100%', monitor.log)


def test_a_monitor_that_stands_still_holds_nothing_up(
    node: NodeProcess, planner: Planner,
) -> None:
    with plain(node.name) as monitor:
        monitor.wait_for_log('node     IDLE')
        monitor.send_signal(signal.SIGSTOP)
        answers = [planner.answer('long say-Sure', profile='talk') for _ in range(8)]
        monitor.send_signal(signal.SIGCONT)
        assert all(a.result.finish_reason == FinishReason.LENGTH for a in answers)
        monitor.wait_for_log(f'{answers[-1].goal_id.hex()[:8]} END LENGTH')
        assert 'lost' not in monitor.log


def test_it_outlives_the_node(own_ros_domain: int) -> None:
    with running_node(SCRIPTED, {}) as node, plain(node.name) as monitor:
        monitor.wait_for_log('node     IDLE')
        assert node.stop() == 0
        monitor.wait_for_log(f'node     {node.name} is not there')
        again = Process(sys.executable, *SCRIPTED, '--ros-args', '-r',
                        f'__ns:={node.name.rpartition("/")[0]}')
        try:
            monitor.wait_for_log('node     IDLE', times=2)
        finally:
            again.send_signal(signal.SIGINT)
            again.wait()


@pytest.fixture
def terminal(node: NodeProcess) -> Iterator[Callable[..., Terminal]]:
    """Return what opens a terminal with a monitor on it."""
    opened: list[Terminal] = []

    def start(**environment: str) -> Terminal:
        opened.append(Terminal(*MONITOR, '--node', node.name, **environment))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.mark.parametrize('end', [b'q', b'\x03', signal.SIGTERM, signal.SIGHUP], ids=repr)
def test_the_terminal_is_given_back(
    terminal: Callable[..., Terminal], end: bytes | signal.Signals,
) -> None:
    one = terminal()
    one.wait_for(b'IDLE')
    if isinstance(end, bytes):
        one.press(end)
    else:
        one.popen.send_signal(end)
    assert one.wait() == 0
    assert one.is_restored() and b'Traceback' not in one.written


def test_c_on_the_terminal_cancels(
    node: NodeProcess, planner: Planner, terminal: Callable[..., Terminal],
) -> None:
    one = terminal()
    one.wait_for(b'IDLE')
    answer = planner.ask('say-continue hold-detail:key')
    node.wait_for_gate('key')
    # Its line in the header comes from ~/status, where the key takes the goal from.
    one.wait_for(b'queue 0  answer')
    one.press(b'c')
    assert planner.finish(answer).finish_reason == FinishReason.CANCELED
    one.wait_for(b'END CANCELED')
    node.open_gate('key')


def test_no_color_means_none(terminal: Callable[..., Terminal], planner: Planner) -> None:
    coloured, plain_one = terminal(), terminal(NO_COLOR='1')
    planner.answer('say-slow')
    for one in (coloured, plain_one):
        one.wait_for(b'END STOP')
        one.press(b'q')
        assert one.wait() == 0
    assert COLOUR.search(coloured.written)
    assert not COLOUR.search(plain_one.written)


def test_a_dumb_terminal_gets_lines(terminal: Callable[..., Terminal]) -> None:
    one = terminal(TERM='dumb')
    one.wait_for(b'lines instead of a screen: TERM=dumb')
    one.wait_for(b'node     IDLE')
    assert b'\x1b' not in one.written
    one.popen.send_signal(signal.SIGTERM)
    assert one.popen.wait(TIMEOUT_S) == 0
