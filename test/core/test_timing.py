"""Stages add up to the time to the first token, and the rates follow from their definitions."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_llm.core.timing import (
    collect_stats, GenerationStats, Stage, StageClock, StopClock, TokenCounts)

# Whole milliseconds far from zero, as a monotonic clock gives them.
TIMES = st.integers(1_000_000, 2_000_000).map(lambda ms: ms / 1000)
MIDDLE = list(Stage)[1:-1]


def clock_of(marks: dict[Stage, float], tokens: list[tuple[float, int]] = []) -> StageClock:
    clock = StageClock()
    for stage, now_s in marks.items():
        clock.mark(stage, now_s)
    for now_s, num_tokens in tokens:
        clock.publish_tokens(num_tokens, now_s)
    return clock


@given(stages=st.sets(st.sampled_from(MIDDLE)), data=st.data())
def test_the_durations_add_up_to_ttft_whichever_stages_were_reached(
    stages: set[Stage], data: st.DataObject,
) -> None:
    reached = [Stage.RECEIVED, *sorted(stages, key=MIDDLE.index), Stage.PUBLISHED]
    times = sorted(data.draw(st.lists(TIMES, min_size=len(reached), max_size=len(reached))))
    clock = clock_of(dict(zip(reached, times)))
    durations = clock.durations()
    assert sum(durations.values()) == pytest.approx(clock.ttft_s, abs=1e-9)
    assert min(durations.values()) >= 0.0
    assert list(durations) == [stage.value for stage in list(Stage)[1:]]


@given(published_s=TIMES, data=st.data())
def test_the_durations_add_up_when_a_fallback_overtook_the_model(
    published_s: float, data: st.DataObject,
) -> None:
    times = sorted(data.draw(st.lists(TIMES, min_size=len(MIDDLE), max_size=len(MIDDLE))))
    clock = clock_of({Stage.RECEIVED: 1000.0, **dict(zip(MIDDLE, times)),
                      Stage.PUBLISHED: published_s})
    durations = clock.durations()
    assert sum(durations.values()) == pytest.approx(clock.ttft_s, abs=1e-9)
    assert min(durations.values()) >= 0.0


def test_each_duration_is_the_way_from_the_stage_before() -> None:
    clock = clock_of({stage: 10.0 + 2.0 ** index for index, stage in enumerate(Stage)})
    assert list(clock.durations().values()) == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    assert clock.ttft_s == 127.0


def test_without_a_publication_every_duration_is_zero() -> None:
    clock = clock_of({Stage.RECEIVED: 1.0, Stage.STARTED: 2.0})
    assert set(clock.durations().values()) == {0.0}
    assert clock.ttft_s == 0.0
    assert (clock.elapsed_s(4.0), StageClock().elapsed_s(4.0)) == (3.0, 0.0)


def test_the_first_stamp_of_a_stage_stays() -> None:
    clock = clock_of({Stage.RECEIVED: 1.0, Stage.PUBLISHED: 3.0})
    clock.mark(Stage.PUBLISHED, 9.0)
    assert clock.ttft_s == 2.0


def test_tpot_is_the_mean_over_the_tokens_behind_the_first() -> None:
    clock = clock_of({Stage.RECEIVED: 0.0, Stage.PUBLISHED: 1.0},
                     [(1.0, 1), (2.0, 1), (2.5, 0), (3.0, 3)])
    assert clock.tpot_s == pytest.approx(2.0 / 4)


@pytest.mark.parametrize('tokens', [[], [(2.0, 1)]])
def test_fewer_than_two_tokens_have_no_rate(tokens: list[tuple[float, int]]) -> None:
    clock = clock_of({Stage.RECEIVED: 0.0, Stage.PUBLISHED: 1.0}, tokens)
    assert (clock.tpot_s, clock.tpot_percentile_s(95)) == (0.0, 0.0)


@given(st.lists(st.tuples(st.floats(0.001, 9.0), st.integers(1, 5)), min_size=2, max_size=20))
def test_a_percentile_lets_tokens_that_left_together_share_their_gap(
    steps: list[tuple[float, int]],
) -> None:
    times = np.cumsum([gap for gap, _ in steps])
    clock = clock_of({}, [(float(t), count) for t, (_, count) in zip(times, steps)])
    gaps = np.concatenate([np.full(n, (times[i + 1] - times[i]) / n)
                           for i, (_, n) in enumerate(steps[1:])])
    for percentile in (0, 50, 95, 100):
        assert clock.tpot_percentile_s(percentile) == pytest.approx(
            np.percentile(gaps, percentile))


@given(times=st.lists(TIMES, min_size=3, max_size=30))
def test_e2e_is_ttft_and_the_other_tokens_at_their_mean_rate(times: list[float]) -> None:
    received_s, published_s, *rest = sorted(times)
    clock = clock_of({Stage.RECEIVED: received_s, Stage.PUBLISHED: published_s},
                     [(published_s, 1), *((now_s, 1) for now_s in rest)])
    counts = TokenCounts(num_completion_tokens=1 + len(rest))
    stats = collect_stats(clock, StopClock(), counts)
    assert stats.e2e_s == pytest.approx(stats.ttft_s + len(rest) * stats.tpot_s)
    assert stats.e2e_s == pytest.approx(sorted(times)[-1] - received_s, abs=1e-6)


def test_an_empty_generation_has_empty_statistics() -> None:
    assert collect_stats(StageClock(), StopClock(), TokenCounts()) == GenerationStats()


def test_counts_and_floors_arrive_under_their_names() -> None:
    counts = TokenCounts(*range(1, 10))
    stats = collect_stats(StageClock(), StopClock(1.0, 2.0, 4.0), counts,
                          prefill_floor_s=0.5, tpot_floor_s=0.25)
    assert stats.cancel_latency_s == 3.0
    assert (stats.prefill_floor_s, stats.tpot_floor_s) == (0.5, 0.25)
    for name in TokenCounts.__slots__:
        if name not in ('num_prefilled_tokens', 'num_late_tokens', 'num_calls_to_decision'):
            assert getattr(stats, name) == getattr(counts, name)


@pytest.mark.parametrize(('clock', 'latency_s'), [
    (StopClock(), 0.0), (StopClock(idle_s=5.0), 0.0), (StopClock(requested_s=5.0), 0.0),
    (StopClock(5.0, 6.0, 7.0), 2.0), (StopClock(5.0, 4.0, 4.0), 0.0)])
def test_a_cancel_latency_needs_a_request_and_an_idle_engine(
    clock: StopClock, latency_s: float,
) -> None:
    assert clock.latency_s == latency_s
