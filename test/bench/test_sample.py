"""Medians, spreads and ratios of repeated measurements."""

import pytest
from robot_llm.bench.sample import Figure, interleave, ratio


def test_the_measures_take_turns_and_the_first_round_only_warms_up() -> None:
    calls: list[str] = []

    def measure(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    values = interleave({name: lambda name=name: measure(name) for name in 'ab'}, num_runs=2)
    assert calls == ['a', 'b'] * 3
    assert values == {'a': (3.0, 5.0), 'b': (4.0, 6.0)}


def test_a_ratio_is_taken_run_by_run() -> None:
    figure = ratio('r', (1.0, 4.0, 9.0), (1.0, 2.0, 3.0))
    assert figure.values == (1.0, 2.0, 3.0)
    assert figure.median == 2.0


@pytest.mark.parametrize(('percent', 'expected'), [(0, 1.0), (50, 3.0), (99, 4.0), (100, 4.0)])
def test_a_percentile_is_one_of_the_values(percent: float, expected: float) -> None:
    assert Figure('f', 's', (4.0, 1.0, 3.0, 2.0)).percentile(percent) == expected


def test_the_report_holds_every_value() -> None:
    report = Figure('f', 's', (2.0, 1.0, 3.0)).as_dict()
    assert (report['median'], report['min'], report['max']) == (2.0, 1.0, 3.0)
    assert report['values'] == [2.0, 1.0, 3.0]
