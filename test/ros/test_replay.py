"""Whoever comes late, or lost something, gets the exact text all the same."""

from collections.abc import Callable
from itertools import count
import uuid

import pytest
from robot_llm.core.session import TokenKind
from ros_node import TIMEOUT_S
from ros_planner import connected, Planner

_gates = (f'r{number}' for number in count())

KEPT_GOALS = 3


@pytest.fixture(scope='module')
def planner(scripted: Callable[..., Planner]) -> Planner:
    """Return a planner of a node that keeps few goals."""
    return scripted(history__goals=KEPT_GOALS)


def test_a_finished_stream_is_replayed_whole(planner: Planner) -> None:
    answer = planner.answer('say-continue')
    replay = planner.replay(answer.goal_id)
    assert list(replay.tokens) == answer.tokens
    assert (replay.complete, replay.lost) == (True, False)


@pytest.mark.parametrize('from_seq', [1, 5])
def test_a_stream_is_replayed_from_where_it_broke_off(planner: Planner, from_seq: int) -> None:
    answer = planner.answer('say-continue')
    replay = planner.replay(answer.goal_id, from_seq)
    assert list(replay.tokens) == answer.tokens[from_seq:]
    assert replay.complete


def test_behind_the_end_there_is_nothing_more(planner: Planner) -> None:
    answer = planner.answer('say-slow')
    replay = planner.replay(answer.goal_id, len(answer.tokens))
    assert list(replay.tokens) == []
    assert (replay.complete, replay.lost) == (True, False)


def test_a_running_stream_is_replayed_so_far(planner: Planner) -> None:
    gate = next(_gates)
    answer = planner.ask(f'hold-detail:{gate} say-continue')
    planner.node_process.wait_for_gate(gate)
    assert answer.wait_for(lambda: len(answer.tokens) == 2, TIMEOUT_S)
    replay = planner.replay(answer.goal_id)
    assert list(replay.tokens) == answer.tokens
    assert (replay.complete, replay.lost) == (False, False)
    planner.node_process.open_gate(gate)
    planner.finish(answer)
    assert list(planner.replay(answer.goal_id).tokens) == answer.tokens


def test_a_goal_that_has_said_nothing_yet_is_neither_complete_nor_lost(planner: Planner) -> None:
    before, gate = planner.answer('say-slow'), next(_gates)
    answer = planner.ask(f'hold-prefill:{gate} say-continue')
    planner.node_process.wait_for_gate(gate)
    replay = planner.replay(answer.goal_id)
    assert (list(replay.tokens), replay.complete, replay.lost) == ([], False, False)
    assert list(planner.replay(bytes(16)).tokens) == before.tokens
    planner.node_process.open_gate(gate)
    planner.finish(answer)
    assert list(planner.replay(answer.goal_id).tokens) == answer.tokens


def test_no_goal_id_means_the_most_recent_goal(planner: Planner) -> None:
    planner.answer('say-slow')
    answer = planner.answer('say-continue')
    assert list(planner.replay(bytes(16)).tokens) == answer.tokens


def test_an_unknown_goal_is_lost(planner: Planner) -> None:
    replay = planner.replay(uuid.uuid4().bytes)
    assert list(replay.tokens) == []
    assert (replay.complete, replay.lost) == (False, True)


def test_the_oldest_goals_are_lost(planner: Planner) -> None:
    answers = [planner.answer('say-slow') for _ in range(KEPT_GOALS + 1)]
    lost = [planner.replay(answer.goal_id).lost for answer in answers]
    assert lost == [True] + [False] * KEPT_GOALS


def test_a_subscriber_that_starts_in_mid_answer_gets_the_exact_text(planner: Planner) -> None:
    gate = next(_gates)
    answer = planner.ask(f'hold-detail:{gate} say-continue')
    planner.node_process.wait_for_gate(gate)
    assert answer.wait_for(lambda: len(answer.tokens) == 2, TIMEOUT_S)
    with connected(planner.node_process) as late:
        heard = late.heard[answer.goal_id]
        late.wait_for(lambda: len(heard) == 2, 'what has been said so far')
        planner.node_process.open_gate(gate)
        result = planner.finish(answer)
        late.wait_for(lambda: heard[-1].kind == TokenKind.END, 'the end')
        assert heard == answer.tokens
        assert ''.join(token.text for token in heard) == result.text


def test_a_subscriber_that_starts_after_the_end_gets_the_exact_text(planner: Planner) -> None:
    answer = planner.answer('say-continue')
    with connected(planner.node_process) as late:
        heard = late.heard[answer.goal_id]
        late.wait_for(lambda: len(heard) == len(answer.tokens), 'the whole stream')
        assert heard == answer.tokens
