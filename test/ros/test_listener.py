"""A listener in a process of its own that comes late, or stands still, has the exact text."""

from collections.abc import Callable
from itertools import count
import signal
import time

import pytest
from robot_llm.ros.answer import Answer
from ros_listening import heard, listening
from ros_node import Process, TIMEOUT_S
from ros_planner import Planner

STOPPED_S = 2.0

_gates = (f'n{number}' for number in count())


@pytest.fixture(scope='module')
def executor() -> str:
    """Return one executor: what is tested here is behind the publishers."""
    return 'single_threaded'


@pytest.fixture
def half_said(planner: Planner) -> tuple[Answer, Callable[[], None]]:
    """Return a goal in the middle of its answer, and what lets it go on."""
    gate = next(_gates)
    answer = planner.ask(f'hold-detail:{gate} long say-continue')
    planner.node_process.wait_for_gate(gate)
    assert answer.wait_for(lambda: len(answer.tokens) >= 2, TIMEOUT_S)
    return answer, lambda: planner.node_process.open_gate(gate)


def check_heard(listener: Process, answer: Answer) -> dict[str, object]:
    assert answer.result is not None
    stream = heard(listener, answer.goal_id)
    assert stream['text'] == answer.result.text
    assert stream['seqs'] == [token.seq for token in answer.tokens]
    return stream


def test_one_that_starts_in_mid_answer(
    planner: Planner, half_said: tuple[Answer, Callable[[], None]],
) -> None:
    answer, go_on = half_said
    with listening(planner.node_process) as listener:
        listener.wait_for_log(f'hears {answer.goal_id.hex()}')
        go_on()
        planner.finish(answer)
        assert check_heard(listener, answer)['replayed'] == 0


def test_one_that_lost_the_beginning_asks_for_it(planner: Planner) -> None:
    with listening(planner.node_process, num_lost=3) as listener:
        answer = planner.answer('long say-continue')
        assert check_heard(listener, answer)['replayed'] == 3


def test_one_that_stands_still_for_two_seconds(
    planner: Planner, half_said: tuple[Answer, Callable[[], None]],
) -> None:
    answer, go_on = half_said
    with listening(planner.node_process) as listener:
        listener.wait_for_log(f'hears {answer.goal_id.hex()}')
        listener.send_signal(signal.SIGSTOP)
        go_on()
        # Nobody waits for it: these goals come to their ends meanwhile.
        planner.finish(answer)
        meanwhile = [planner.answer('long say-continue') for _ in range(5)]
        time.sleep(STOPPED_S)
        listener.send_signal(signal.SIGCONT)
        for each in (answer, *meanwhile):
            check_heard(listener, each)
