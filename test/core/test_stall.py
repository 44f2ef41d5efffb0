"""Delays of a timer by a clock that the test moves."""

import pytest
from robot_llm.core.stall import STALL_S, StallMeter, WINDOW_S


def test_a_meter_that_was_called_once_knows_no_delay() -> None:
    meter = StallMeter(100.0)
    assert meter.figures() == {'executor_stalls': 0}
    assert meter.tick(5.0) == 0.0
    assert meter.figures() == {'executor_stalls': 0}


def test_a_delay_is_what_comes_on_top_of_the_period() -> None:
    meter = StallMeter(100.0)
    assert [meter.tick(now_s) for now_s in (1.0, 1.01, 1.09, 1.095)] == pytest.approx(
        [0.0, 0.0, 0.07, 0.0])
    figures = meter.figures()
    assert figures['executor_delay_max_s'] == pytest.approx(0.07)
    assert figures['executor_stalls'] == 1


@pytest.mark.parametrize(('excess_s', 'num_stalls'), [(-0.001, 0), (0.001, 1)])
def test_a_stall_is_a_delay_above_the_limit(excess_s: float, num_stalls: int) -> None:
    meter = StallMeter(10.0)
    meter.tick(0.0)
    meter.tick(0.1 + STALL_S + excess_s)
    assert meter.figures()['executor_stalls'] == num_stalls


def test_the_window_forgets_and_the_count_does_not() -> None:
    meter = StallMeter(10.0)
    times_s = [0.0, 0.5] + [0.5 + 0.1 * n for n in range(1, round(WINDOW_S * 10) + 1)]
    for now_s in times_s:
        meter.tick(now_s)
    figures = meter.figures()
    assert figures['executor_delay_max_s'] == pytest.approx(0.0, abs=1e-9)
    assert figures['executor_stalls'] == 1


def test_one_late_call_in_a_hundred_does_not_move_the_percentile_to_it() -> None:
    meter, now_s = StallMeter(100.0), 0.0
    for number in range(201):
        now_s += 0.01 + (0.2 if number == 100 else 0.0)
        meter.tick(now_s)
    figures = meter.figures()
    assert figures['executor_delay_p99_s'] < 0.01 < figures['executor_delay_max_s']
