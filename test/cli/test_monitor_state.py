"""The monitor's knowledge: fed with messages and the time, asked; no node, no terminal."""

from itertools import permutations

from action_msgs.srv import CancelGoal
from diagnostic_msgs.msg import DiagnosticStatus
from monitor_messages import diagnostics, idle, NODE, Sender
import pytest
from robot_llm.cli.monitor_goal import Gap
from robot_llm.cli.monitor_plain import LineWriter
from robot_llm.cli.monitor_state import (
    CancelAnswer, ClockProblem, MAX_GOALS, MonitorState, NOTICE_S, Presence, ReplayAnswer,
    SILENCE_S)
from robot_llm.core.session import TokenKind
from robot_llm_msgs.msg import Decision, Status
from robot_llm_msgs.srv import Replay


def fed(*events: object, now_s: float = 0.0) -> MonitorState:
    """Return a state that has seen the node and ``events``."""
    state = MonitorState(NODE)
    for event in (Presence(True), *events):
        state.feed(event, now_s)
    return state


def test_a_stream_is_the_same_in_every_order_and_twice() -> None:
    tokens = Sender().stream('stop', '\n', 'a', 'b')
    for order in permutations(tokens):
        goal = fed(*order, *order).current
        assert list(goal.pieces()) == tokens
        assert goal.end is tokens[-1] and goal.finish_reason == 'STOP'


def test_missing_messages_are_a_gap_that_a_replay_fills() -> None:
    tokens = Sender().stream('stop', 'a', 'b', 'c')
    state = fed(tokens[0], *tokens[3:])
    assert list(state.current.pieces()) == [tokens[0], Gap(2), *tokens[3:]]
    assert state.current.num_missing == 2
    state.feed(ReplayAnswer(state.current.goal_id, Replay.Response(tokens=tokens)), 1.0)
    assert list(state.current.pieces()) == tokens
    assert state.current.num_missing == 0


def test_a_monitor_that_came_late_sees_what_it_missed_at_the_beginning_too() -> None:
    goal = fed(*Sender().stream('stop', 'a', 'b')[2:]).current
    assert next(goal.pieces()) == Gap(2)


def test_the_times_are_those_of_the_messages() -> None:
    sender = Sender()
    goal = fed(sender.decision('stop', latency_s=0.125), *sender.stream('stop', 'a', 'b')).current
    assert (goal.ttft_s, goal.tpot_s, goal.total_s) == (0.125, 0.25, 1.0)
    assert goal.num_completion_tokens == 3


def test_a_restart_begins_the_time_per_token_anew() -> None:
    sender = Sender()
    before = [sender.token(TokenKind.DECISION, 'stop'), sender.token(TokenKind.RESTART)]
    sender.elapsed_s = 10.0
    goal = fed(*before, *sender.stream('slow', 'a')).current
    assert goal.tpot_s == 0.25 and goal.word == 'slow'


def test_a_revocation_is_the_decision_in_force() -> None:
    sender = Sender()
    goal = fed(*sender.stream('continue'), sender.decision('continue'),
               sender.decision('stop', source=Decision.SOURCE_ERROR)).current
    assert (goal.word, goal.source) == ('stop', 'ERROR')


def test_the_end_of_a_preempted_goal_does_not_hide_the_one_that_runs() -> None:
    first, second = Sender(1), Sender(2)
    *begin, end = first.stream('stop', finish_reason=4)
    state = fed(*begin, second.token(TokenKind.DECISION, 'slow'), end)
    assert state.current.goal_id == second.goal_id
    assert state.goals[first.goal_id].finish_reason == 'PREEMPTED'


def test_what_runs_is_what_the_status_says() -> None:
    sender = Sender(7)
    state = fed(sender.status(elapsed_s=0.5), now_s=10.0)
    assert state.running_goal_id == sender.goal_id == state.current.goal_id
    assert state.elapsed_s(10.25) == 0.75
    assert (state.current.num_prompt_tokens, state.current.num_cached_tokens) == (80, 52)
    state.feed(idle(), 11.0)
    assert state.running_goal_id == b'' and state.elapsed_s(11.0) == 0.0
    assert state.state_name(11.0) == 'IDLE'


def test_a_node_that_says_nothing_is_silent_and_its_health_is_stale() -> None:
    state = fed(idle(), diagnostics())
    assert state.state_name(SILENCE_S - 0.1) == 'IDLE'
    assert state.health(SILENCE_S - 0.1)[:2] == ('OK', 'active')
    assert state.state_name(SILENCE_S) == 'SILENT'
    assert state.health(SILENCE_S)[0] == 'STALE'
    state.feed(idle(), SILENCE_S)
    assert state.state_name(SILENCE_S) == 'IDLE'


def test_a_node_whose_engine_gives_no_sign_of_life_hangs() -> None:
    state = fed(Sender().status())
    state.feed(diagnostics(), SILENCE_S)
    assert (state.state_name(SILENCE_S), state.hang_s(SILENCE_S)) == ('HANGS', SILENCE_S)
    assert state.health(SILENCE_S)[0] == 'OK'
    state.feed(Status(state=Status.STATE_FAILED), SILENCE_S)
    state.feed(diagnostics(), 9.0)
    assert state.state_name(9.0) == 'FAILED'


def test_a_node_that_loads_is_silent_by_design() -> None:
    state = fed(Status(state=Status.STATE_LOADING))
    assert state.state_name(60.0) == 'LOADING'


def test_a_node_that_left_leaves_its_goals_cut_off() -> None:
    ended, running = Sender(1), Sender(2)
    state = fed(*ended.stream('stop'), running.token(TokenKind.DECISION, 'slow'),
                running.status(), diagnostics())
    state.feed(Presence(False, ('/other',)), 1.0)
    assert state.state_name(1.0) == 'NOT THERE' and state.running_goal_id == b''
    assert state.health(1.0)[0] == 'STALE'
    assert [goal.finish_reason for goal in state.goals.values()] == ['STOP', 'CUT OFF']
    state.feed(Presence(True), 60.0)
    state.feed(idle(), 60.0)
    assert state.state_name(60.0) == 'IDLE'


def test_a_node_that_loads_again_ended_nothing_of_what_ran_before() -> None:
    running = Sender()
    state = fed(running.token(TokenKind.DECISION, 'slow'), Status(state=Status.STATE_LOADING))
    assert state.current.finish_reason == 'CUT OFF'


def test_only_the_watched_node_counts_and_the_worst_of_its_parts() -> None:
    state = fed(
        diagnostics(ttft_p50_s='0.5'),
        diagnostics(DiagnosticStatus.WARN, 'hot', part='device', temperature='90'),
        diagnostics(DiagnosticStatus.ERROR, 'on fire', node='/robot_llm_2'))
    assert state.health(0.0) == ('WARN', 'hot', {'ttft_p50_s': '0.5', 'temperature': '90'})


@pytest.mark.parametrize(('code', 'said'), [
    (CancelGoal.Response.ERROR_NONE, 'the node stops it'),
    (CancelGoal.Response.ERROR_GOAL_TERMINATED, 'it has ended already'),
    (99, 'code 99'), (None, 'no answer from the node')])
def test_the_answer_to_a_cancel_is_told_for_a_while(code: int | None, said: str) -> None:
    state = fed(CancelAnswer(Sender(1).goal_id, code))
    assert state.current_notice(NOTICE_S - 0.1) == f'cancel 01010101: {said}'
    assert state.current_notice(NOTICE_S) == ''


def test_a_refused_goal_is_told_but_not_one_of_before() -> None:
    state = fed(idle(last_refusal='old'))
    assert state.current_notice(0.0) == ''
    state.feed(idle(last_refusal='QUEUE_FULL: 4 of 4'), 0.0)
    assert state.current_notice(0.0) == 'goal refused, QUEUE_FULL: 4 of 4'


def test_old_goals_are_forgotten() -> None:
    state = fed(*(Sender(n).token(TokenKind.DECISION, 'stop') for n in range(1, MAX_GOALS + 9)))
    assert len(state.goals) == MAX_GOALS
    assert list(state.goals)[-1] == Sender(MAX_GOALS + 8).goal_id


def test_a_value_that_a_newer_node_sends_keeps_its_number() -> None:
    sender = Sender()
    state = fed(*sender.stream('stop', finish_reason=77), sender.decision('stop', source=88))
    goal = state.current
    assert (goal.finish_reason, goal.source) == ('#77', '#88')


def test_what_nobody_expects_is_an_error() -> None:
    with pytest.raises(TypeError, match='str is nothing the monitor knows'):
        MonitorState(NODE).feed('hello', 0.0)


def test_clocks_that_differ_are_told_for_a_while_and_in_a_line() -> None:
    problem = ClockProblem('the decision is +3.0 s old')
    state = fed(problem)
    assert state.current_notice(1.0) == problem.text and not state.current_notice(NOTICE_S)
    assert f'clock    {problem.text}' in list(LineWriter(state).lines(problem, 0.0))
