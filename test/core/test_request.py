"""A request moves along its table, and the first terminal reason wins."""

from itertools import product
from threading import Barrier, Thread

from engine_requests import make_profile, make_request
import pytest
from robot_llm.core.decision import Decision, DecisionSource
from robot_llm.core.request import (
    FinishReason, Request, RequestEvent, RequestStatus, TRANSITIONS)
from robot_llm.core.session import SOURCE_OF_REASON
from robot_llm.errors import (
    DecodeError, IllegalTransitionError, LimitInDetailError, RobotLlmError, SchemaNotMetError)

DRIVE = make_profile('drive')
GO = Decision('continue', DecisionSource.MODEL, DRIVE.words, (0.1, 0.1, 0.8), 0.8, 0.5)


def a_request(**rules: object) -> Request:
    return make_request(make_profile('drive', **rules))


@pytest.mark.parametrize(('status', 'event'), list(product(RequestStatus, RequestEvent)))
def test_every_status_and_event_moves_as_the_table_says_or_raises_unchanged(
    status: RequestStatus, event: RequestEvent,
) -> None:
    request = a_request()
    request.status = status
    if (status, event) in TRANSITIONS:
        request.apply(event)
        assert request.status is TRANSITIONS[status, event]
    else:
        with pytest.raises(IllegalTransitionError, match=f'{event.name} while {status.name}'):
            request.apply(event)
        assert request.status is status


def test_nothing_leaves_finished() -> None:
    assert not [status for status, _ in TRANSITIONS if status is RequestStatus.FINISHED]


def test_a_zeroed_message_is_no_reason_and_no_source() -> None:
    for enum in (FinishReason, DecisionSource):
        assert [int(member) for member in enum] == list(range(1, len(enum) + 1))
    assert set(SOURCE_OF_REASON) == set(FinishReason)
    assert DecisionSource.MODEL not in SOURCE_OF_REASON.values()


def test_the_first_terminal_reason_and_its_error_stay() -> None:
    request, error = a_request(), DecodeError('no')
    assert not request.is_stopping
    assert request.stop(FinishReason.CANCELED, 1.0, error=error)
    assert request.is_stopping
    assert not request.stop(FinishReason.DEADLINE, 2.0)
    assert not request.finish(FinishReason.STOP, error=LimitInDetailError('no'))
    assert (request.finish_reason, request.error) == (FinishReason.CANCELED, error)
    assert request.stop_clock.requested_s == 1.0


def test_an_end_that_nobody_asked_for_is_no_stop() -> None:
    request = a_request()
    assert request.finish(FinishReason.STOP)
    assert not request.stop(FinishReason.CANCELED, 1.0)
    assert request.finish_reason is FinishReason.STOP
    assert request.stop_clock.requested_s is None


def test_the_first_terminal_reason_wins_under_threads() -> None:
    reasons = list(FinishReason)
    for _ in range(50):
        request, barrier = a_request(), Barrier(len(reasons))
        winners: list[FinishReason] = []

        def end(reason: FinishReason) -> None:
            error = RobotLlmError(reason.name)
            barrier.wait()
            if (request.finish(reason, error=error) if reason % 2
                    else request.stop(reason, float(reason), error=error)):
                winners.append(reason)

        threads = [Thread(target=end, args=(reason,)) for reason in reasons]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert winners == [request.finish_reason]
        assert str(request.error) == winners[0].name
        asked_s = None if winners[0] % 2 else float(winners[0])
        assert request.stop_clock.requested_s == asked_s


def test_one_decision_stands_under_threads() -> None:
    for _ in range(50):
        request, barrier = a_request(), Barrier(4)
        standing: list[Decision | None] = []

        def offer() -> None:
            barrier.wait()
            standing.append(request.latch.offer(GO))

        def fall() -> None:
            barrier.wait()
            standing.append(request.latch.fall(DecisionSource.DEADLINE, only_if_open=True))

        threads = [Thread(target=target) for target in (offer, fall, offer, fall)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {id(d) for d in standing if d is not None} == {id(request.latch.standing)}


def test_a_fall_only_if_open_leaves_a_standing_decision() -> None:
    request = a_request()
    assert request.latch.offer(GO) is GO
    assert request.latch.fall(DecisionSource.DEADLINE, only_if_open=True) is None
    assert request.latch.standing is GO


@pytest.mark.parametrize('reason', FinishReason)
def test_without_a_decision_every_end_falls(reason: FinishReason) -> None:
    request = a_request(revoke_on=frozenset())
    request.finish(reason)
    assert request.must_fall


ALL = frozenset(('error', 'deadline', 'refused_detail', 'scene_change'))
REVOKED_BY = [
    (FinishReason.STOP, None, None),
    (FinishReason.LENGTH, None, None),
    (FinishReason.CANCELED, None, None),
    (FinishReason.PREEMPTED, None, None),
    (FinishReason.CLIENT_GONE, None, None),
    (FinishReason.SCENE_CHANGED, None, 'scene_change'),
    (FinishReason.DEADLINE, None, 'deadline'),
    (FinishReason.LENGTH, LimitInDetailError('cut'), 'refused_detail'),
    (FinishReason.ERROR, SchemaNotMetError('wrong'), 'refused_detail'),
    (FinishReason.ERROR, DecodeError('broken'), 'error'),
]


@pytest.mark.parametrize(('reason', 'error', 'kind'), REVOKED_BY)
def test_a_decision_is_revoked_for_the_reasons_that_the_profile_names(
    reason: FinishReason, error: RobotLlmError | None, kind: str | None,
) -> None:
    named = frozenset() if kind is None else frozenset((kind,))
    for revoke_on, expected in ((ALL, kind is not None), (ALL - named, False),
                                (named, kind is not None)):
        request = a_request(revoke_on=revoke_on)
        request.latch.offer(GO)
        request.finish(reason, error=error)
        assert request.must_fall is expected


def test_a_node_that_goes_away_always_revokes() -> None:
    request = a_request(revoke_on=frozenset())
    request.latch.offer(GO)
    request.stop(FinishReason.SHUTDOWN, 0.0)
    assert request.must_fall
