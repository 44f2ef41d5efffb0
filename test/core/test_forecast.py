"""The time to a decision, predicted from what earlier goals took."""

import dataclasses

import pytest
from robot_llm.core.forecast import Forecast, MEMORY
from robot_llm.core.request import Request, Scene
from robot_llm.core.timing import GenerationStats
from robot_llm.profile import DecisionRules, DecisionWord, ResponseProfile
from robot_llm.settings import SamplingParams

PROFILE = ResponseProfile(
    name='p', description='d', system_prompt='s' * 88,
    decision=DecisionRules(
        words=(DecisionWord(word='go', meaning='m'), DecisionWord(word='no', meaning='m')),
        fallback='no', min_confidence=0.5))
STATS = GenerationStats(
    queue_s=5.0, prefill_s=1.0, sample_s=0.01, ttft_s=6.2, e2e_s=8.0, num_prompt_tokens=60,
    num_cached_tokens=40)


def request(prompt: str = 'x' * 100, num_prefilled_tokens: int = 20) -> Request:
    asked = Request(b'', PROFILE, prompt, SamplingParams(), scene=Scene(1, 'y' * 12))
    asked.counts.num_prefilled_tokens = num_prefilled_tokens
    return asked


def test_nothing_is_predicted_before_anything_was_learnt() -> None:
    assert Forecast().ttft_s(request(), num_ahead=3) == 0.0


def test_the_prediction_follows_bytes_rate_overhead_and_queue() -> None:
    forecast = Forecast()
    forecast.learn(request(), STATS)
    static = len(PROFILE.static_prompt)
    num_tokens = 60 / (static + 112) * 212
    expected_s = num_tokens * 1.0 / 20 + (6.2 - 5.0 - 1.0)
    assert forecast.ttft_s(request('x' * 200), num_ahead=0) == pytest.approx(expected_s)
    assert forecast.ttft_s(request('x' * 200), num_ahead=2) == pytest.approx(
        expected_s + 2 * (8.0 - 5.0))


def test_what_was_stopped_before_it_was_decided_teaches_nothing() -> None:
    forecast = Forecast()
    forecast.learn(request(), dataclasses.replace(STATS, sample_s=0.0))
    assert forecast.ttft_s(request(), num_ahead=1) == 0.0


def test_a_decision_that_needs_the_scene_alone_does_not_wait_for_the_goal() -> None:
    early = PROFILE.model_copy(update={'decision': PROFILE.decision.model_copy(
        update={'method': 'head', 'reads': 'scene', 'head': 'h.npz'})})
    forecast = Forecast()
    asked = request(num_prefilled_tokens=50)
    asked.profile, asked.counts.num_late_tokens = early, 30
    forecast.learn(asked, STATS)
    num_scene_tokens = 60 / (len(PROFILE.static_prompt) + 112) * 12
    expected_s = num_scene_tokens * 1.0 / 20 + (6.2 - 5.0 - 1.0)
    for goal in ('x', 'x' * 5000):
        asked.prompt = goal
        assert forecast.ttft_s(asked, num_ahead=0) == pytest.approx(expected_s)


def test_a_prompt_that_was_cached_whole_teaches_nothing() -> None:
    forecast = Forecast()
    forecast.learn(request(num_prefilled_tokens=0), dataclasses.replace(
        STATS, num_prompt_tokens=40))
    assert forecast.ttft_s(request(), num_ahead=1) == 0.0


def test_the_past_fades() -> None:
    forecast = Forecast()
    forecast.learn(request(), STATS)
    before_s = forecast.ttft_s(request(), num_ahead=0)
    slower = dataclasses.replace(STATS, prefill_s=2.0, ttft_s=7.2)
    forecast.learn(request(), slower)
    after_s = forecast.ttft_s(request(), num_ahead=0)
    num_tokens = 60 / (len(PROFILE.static_prompt) + 112) * 112
    assert after_s - before_s == pytest.approx((1 - MEMORY) * num_tokens * 1.0 / 20)
