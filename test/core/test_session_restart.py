"""What listeners get when a goal starts again for a newer scene."""

import math

from engine_requests import make_profile, make_request
import pytest
from robot_llm.core.decision import Decision, DecisionSource
from robot_llm.core.event import Decided, Delta, Restarted
from robot_llm.core.request import FinishReason, Request, Scene
from robot_llm.core.session import Session, TokenKind
from robot_llm.core.timing import Stage

NEW = Scene(7, 'new')


def ask(**rules: object) -> Request:
    request = make_request(make_profile('text', text=True, **rules))
    request.decision_timeout_s = 1.0
    request.decision_deadline_s = 1.0
    return request


def decided(request: Request, word: str) -> Decided:
    decision = Decision(word, DecisionSource.MODEL, request.profile.words)
    request.latch.offer(decision)
    return Decided(request, decision, 1)


def restarted(request: Request, now_s: float = 0.5) -> Restarted:
    assert request.ask_restart(NEW, 3, now_s) and request.take_restart(now_s)
    return Restarted.of(request)


def test_a_published_decision_is_revoked_for_its_scene_before_the_restart_is_told() -> None:
    request = ask()
    session = Session(request)
    session.decide(decided(request, 'continue'), 0.1)
    output = session.restart(restarted(request))
    assert output.decision is not None
    assert (output.decision.word, output.decision.source) == (
        'stop', DecisionSource.STALE_SCENE)
    assert [token.kind for token in output.tokens] == [TokenKind.RESTART]
    assert output.scene_epoch == 0, 'it is the old scene that the word is revoked for'


def test_a_profile_that_revokes_nothing_on_a_scene_change_only_tells_the_restart() -> None:
    request = ask(revoke_on=frozenset({'error'}))
    session = Session(request)
    session.decide(decided(request, 'continue'), 0.1)
    output = session.restart(restarted(request))
    assert output.decision is None
    assert [token.kind for token in output.tokens] == [TokenKind.RESTART]


def test_nothing_is_told_if_nothing_was_published() -> None:
    request = ask()
    output = Session(request).restart(restarted(request))
    assert (output.decision, output.tokens) == (None, ())


def test_the_newer_scene_gets_a_decision_of_its_own_and_the_text_begins_anew() -> None:
    request = ask()
    session = Session(request)
    outputs = [session.decide(decided(request, 'continue'), 0.1),
               session.append(Delta(request, '\nold', 2)),
               session.restart(restarted(request)),
               session.decide(decided(request, 'slow'), 0.6),
               session.append(Delta(request, '\nnew', 2))]
    request.finish(FinishReason.STOP)
    outputs.append(session.finish())
    tokens = [token for output in outputs for token in output.tokens]
    assert [token.seq for token in tokens] == list(range(6))
    assert [token.kind.name for token in tokens] == [
        'DECISION', 'DETAIL', 'RESTART', 'DECISION', 'DETAIL', 'END']
    assert [output.decision.word for output in outputs if output.decision] == [
        'continue', 'stop', 'slow']
    assert outputs[-1].scene_epoch == 7
    assert session.text == 'slow\nnew'


@pytest.mark.parametrize(('now_s', 'is_missed'), [(1.2, False), (1.5, True)])
def test_the_newer_scene_has_the_whole_time_for_its_decision(
    now_s: float, is_missed: bool,
) -> None:
    request = ask()
    session = Session(request)
    session.restart(restarted(request, 0.5))
    assert (session.miss_decision_deadline(now_s).decision is not None) is is_missed


def test_the_time_before_the_restart_counts_as_queue_and_the_stages_still_add_up() -> None:
    request = ask()
    clock = request.clock
    session = Session(request)
    clock.mark(Stage.RECEIVED, 0.0)
    session.stamp(session.decide(decided(request, 'continue'), 0.1), 0.1)
    session.restart(restarted(request))
    request.clock.mark(Stage.STARTED, 0.6)
    request.clock.mark(Stage.SAMPLED, 0.9)
    session.stamp(session.decide(decided(request, 'slow'), 0.9), 1.0)
    durations = request.clock.durations()
    assert durations['queue_s'] == pytest.approx(0.6)
    assert sum(durations.values()) == pytest.approx(request.clock.ttft_s) == pytest.approx(1.0)


def test_a_restart_is_refused_once_the_request_has_ended() -> None:
    request = ask()
    request.finish(FinishReason.STOP)
    assert not request.ask_restart(NEW, 3, 0.0)
    assert not request.take_restart(math.inf)


def test_a_word_that_was_late_for_its_scene_stays_late_when_a_restart_moves_the_deadline() -> None:
    request = ask()
    session = Session(request)
    late = decided(request, 'continue')
    restarted(request, now_s=0.9)  # taken by the worker, and not yet told to the session
    output = session.decide(late, 1.1)
    assert output.decision is not None
    assert (output.decision.word, output.decision.source) == ('stop', DecisionSource.DEADLINE)
