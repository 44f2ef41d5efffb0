"""What the diagnostics say of the goals so far."""

import dataclasses

import pytest
from robot_llm.core.decision import Decision, DecisionSource
from robot_llm.core.request import FinishReason, Request
from robot_llm.core.tally import Tally, WINDOW
from robot_llm.core.timing import GenerationStats
from robot_llm.profile import DecisionRules, DecisionWord, ResponseProfile
from robot_llm.settings import SamplingParams

PROFILE = ResponseProfile(
    name='p', description='d', system_prompt='s',
    decision=DecisionRules(
        words=(DecisionWord(word='go', meaning='m'), DecisionWord(word='no', meaning='m')),
        fallback='no', min_confidence=0.5))
STATS = GenerationStats(ttft_s=0.5, tpot_s=0.1, num_prompt_tokens=100, num_cached_tokens=80)


def finished(reason: FinishReason) -> Request:
    request = Request(b'', PROFILE, 'x', SamplingParams())
    request.finish(reason)
    return request


def test_an_empty_tally_has_every_count_at_zero_and_no_percentile() -> None:
    figures = Tally().figures()
    assert figures['goals_preempted'] == figures['decisions_deadline'] == 0
    assert not [key for key in figures if '_p50' in key or key == 'cached_token_rate']


def test_goals_decisions_and_dropped_decisions_are_counted() -> None:
    tally = Tally()
    late = finished(FinishReason.DEADLINE)
    late.latch.fall(DecisionSource.DEADLINE)
    late.latch.offer(Decision('go', DecisionSource.MODEL, PROFILE.words))
    tally.learn(late, dataclasses.replace(STATS, num_wasted_tokens=2))
    tally.learn(finished(FinishReason.STOP), STATS)
    figures = tally.figures()
    assert (figures['goals_deadline'], figures['goals_stop']) == (1, 1)
    assert (figures['decisions_deadline'], figures['decisions_dropped']) == (1, 1)
    assert figures['wasted_tokens'] == 2
    assert figures['deadline_misses'] == 1
    assert figures['cached_token_rate'] == pytest.approx(0.8)


def test_percentiles_look_back_on_the_window_and_leave_out_what_did_not_happen() -> None:
    tally = Tally()
    for ttft_s in [9.0] * 10 + [1.0] * WINDOW:
        tally.learn(finished(FinishReason.STOP), dataclasses.replace(STATS, ttft_s=ttft_s))
    figures = tally.figures()
    assert figures['ttft_p99_s'] == pytest.approx(1.0)
    assert 'cancel_latency_p99_s' not in figures
