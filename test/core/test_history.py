"""A late subscriber gets a stream whole, or hears that it is lost."""

from hypothesis import given
from hypothesis import strategies as st
import pytest
from robot_llm.core.history import History, Replay

A, B, C = b'a' * 16, b'b' * 16, b'c' * 16


def history_of(max_goals: int, *appended: tuple[bytes, str]) -> History[str]:
    history: History[str] = History(max_goals)
    for goal_id, item in appended:
        history.append(goal_id, item)
        history.check_integrity()
    return history


def test_a_running_stream_is_replayed_from_any_number_on() -> None:
    history = history_of(1, (A, 'x0'), (A, 'x1'), (A, 'x2'))
    assert history.replay(A) == Replay(('x0', 'x1', 'x2'), is_complete=False, is_lost=False)
    assert history.replay(A, 2).items == ('x2',)
    assert history.replay(A, 3) == Replay((), is_complete=False, is_lost=False)
    assert history.replay(A, 2**32 - 1).items == ()


def test_a_closed_stream_is_complete() -> None:
    history = history_of(1, (A, 'x0'))
    history.close(A)
    history.close(A)
    assert history.replay(A, 1) == Replay((), is_complete=True, is_lost=False)
    with pytest.raises(AssertionError, match='closed stream of goal 6161'):
        history.append(A, 'x1')


def test_an_unknown_goal_is_lost() -> None:
    history = history_of(1)
    history.close(A)
    assert history.replay(A) == Replay((), is_complete=False, is_lost=True)


def test_an_opened_goal_has_said_nothing_yet_and_is_not_lost() -> None:
    history = history_of(2, (A, 'a0'))
    history.open(B)
    history.open(B)
    assert history.replay(B) == Replay((), is_complete=False, is_lost=False)
    assert history.newest == A
    history.append(B, 'b0')
    assert history.newest == B


def test_a_goal_that_waits_costs_one_that_has_ended_and_not_the_running_one() -> None:
    history = history_of(2, (A, 'a0'), (B, 'b0'))
    history.close(B)
    history.open(C)
    assert history.replay(B).is_lost
    assert history.replay(A).items == ('a0',)
    assert not history.replay(C).is_lost


def test_the_oldest_goal_is_dropped_whole() -> None:
    history = history_of(2, (A, 'a0'), (B, 'b0'), (A, 'a1'), (C, 'c0'))
    assert history.replay(A).is_lost
    assert history.replay(B).items == ('b0',)
    assert history.replay(C).items == ('c0',)


def test_a_goal_dropped_while_it_runs_does_not_come_back_with_wrong_numbers() -> None:
    history = history_of(1, (A, 'a0'), (B, 'b0'), (A, 'a1'))
    assert history.replay(A).is_lost
    assert history.replay(B).items == ('b0',)
    history.close(A)
    history.check_integrity()
    assert not history._dropped_open


def test_a_replay_does_not_change_when_the_stream_goes_on() -> None:
    history = history_of(1, (A, 'x0'))
    replay = history.replay(A)
    history.append(A, 'x1')
    assert replay.items == ('x0',)


@pytest.mark.parametrize('max_goals', [0, -1])
def test_a_history_of_no_goals_is_refused(max_goals: int) -> None:
    with pytest.raises(ValueError, match=f'max_goals={max_goals}'):
        History(max_goals)


@given(st.integers(1, 3), st.lists(st.tuples(st.sampled_from('abcde'), st.booleans())))
def test_every_replay_is_a_whole_stream_or_lost(
    max_goals: int, steps: list[tuple[str, bool]],
) -> None:
    history: History[int] = History(max_goals)
    num_items: dict[bytes, int] = {}
    closed: set[bytes] = set()
    for name, closes in steps:
        goal_id = name.encode() * 16
        if closes:
            history.close(goal_id)
            closed.update({goal_id} & num_items.keys())
        elif goal_id not in closed:
            history.append(goal_id, num_items.setdefault(goal_id, 0))
            num_items[goal_id] += 1
        history.check_integrity()
        for known, count in num_items.items():
            replay = history.replay(known)
            assert replay.is_lost or replay.items == tuple(range(count))
            assert replay.is_complete == (known in closed and not replay.is_lost)
    kept = [g for g in num_items if not history.replay(g).is_lost]
    assert len(kept) == min(max_goals, len(num_items))
    assert not num_items or list(num_items)[-1] in kept
