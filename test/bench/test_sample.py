"""Medians, spreads, ratios and targets of repeated measurements."""

import pytest
from robot_llm.bench.sample import Figure, highest, interleave, ratio, Target, yes_or_no


def test_the_measures_take_turns_and_the_first_round_only_warms_up() -> None:
    calls: list[str] = []

    def measure(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    values = interleave({name: lambda name=name: measure(name) for name in 'ab'}, num_runs=2)
    assert calls == ['a', 'b'] * 3
    assert values == {'a': (3.0, 5.0), 'b': (4.0, 6.0)}


def test_no_warm_up_counts_from_the_first_round() -> None:
    assert interleave({'a': lambda: 1.0}, num_runs=2, num_warm_up=0) == {'a': (1.0, 1.0)}


def test_a_ratio_is_taken_run_by_run() -> None:
    figure = ratio('r', (1.0, 4.0, 9.0), (1.0, 2.0, 3.0))
    assert figure.values == (1.0, 2.0, 3.0)
    assert figure.median == 2.0


@pytest.mark.parametrize(('percent', 'expected'), [
    (0, 1.0), (25, 1.75), (50, 2.5), (75, 3.25), (100, 4.0)])
def test_a_percentile_lies_in_proportion_between_two_values(
        percent: float, expected: float) -> None:
    assert Figure('f', 's', (4.0, 1.0, 3.0, 2.0)).percentile(percent) == expected


@pytest.mark.parametrize('num_values', range(2, 40))
def test_the_middle_half_lies_in_the_middle(num_values: int) -> None:
    figure = Figure('f', 's', tuple(map(float, range(1, num_values + 1))))
    assert figure.percentile(25) - 1 == pytest.approx(num_values - figure.percentile(75))


def test_the_99th_of_a_hundred_is_not_the_largest() -> None:
    figure = Figure('f', 's', tuple(map(float, range(1, 101))), statistic=highest(100))
    assert figure.statistic == 'p99' and 99 <= figure.quoted < 100
    assert highest(99) == 'max'


@pytest.mark.parametrize(('statistic', 'quoted'), [
    ('median', 2.0), ('max', 3.0), ('min', 1.0), ('p95', 2.9)])
def test_the_statistic_that_is_quoted_is_held_against_the_target(statistic, quoted) -> None:
    values = (1.0, 2.0, 3.0)
    figure = Figure('f', 's', values, Target(quoted), statistic)
    assert figure.quoted == quoted
    assert figure.is_met
    assert not Figure('f', 's', values, Target(quoted - 0.1), statistic).is_met


@pytest.mark.parametrize(('value', 'is_met'), [(0.94, False), (0.95, True), (1.2, True)])
def test_a_floor_is_met_from_the_limit_on(value: float, is_met: bool) -> None:
    assert Target(0.95, is_floor=True).is_met(value) is is_met


def test_one_no_among_the_answers_is_a_no() -> None:
    assert yes_or_no('same text', [True, True]).is_met
    assert not yes_or_no('same text', [True, False]).is_met


def test_the_report_holds_every_value_and_the_verdict() -> None:
    report = Figure('f', 's', (2.0, 1.0, 3.0), Target(1.5)).as_dict()
    assert (report['median'], report['min'], report['max']) == (2.0, 1.0, 3.0)
    assert report['values'] == [2.0, 1.0, 3.0]
    assert (report['target'], report['is_met']) == ('<= 1.5', False)
    assert Figure('f', 's', (2.0,)).as_dict()['is_met'] is None
