"""Runs of which nothing has changed are seldom told apart, whatever is quoted of them."""

from itertools import combinations

import numpy as np
import pytest
from robot_llm.bench import chance
from robot_llm.bench.chance import differ, FEWEST_RUNS, LEVEL
from robot_llm.bench.diff import Change
from robot_llm.bench.engine.length import BARE, OURS, Runs, slope_ratios
from robot_llm.bench.sample import Figure, Statistic

NUM_TRIALS = 300
MOST_FALSE_ALARMS = 0.06
"""``LEVEL``, and what chance adds in so many trials with this seed."""


def share_told_apart(draw, num_before: int, num_after: int, statistic: Statistic) -> float:
    random = np.random.default_rng(0)
    found = 0
    for _ in range(NUM_TRIALS):
        before, after = (Figure('f', 's', tuple(draw(random, number)), statistic=statistic)
                         for number in (num_before, num_after))
        found += Change('s', before, after).verdict in ('better', 'worse')
    return found / NUM_TRIALS


@pytest.mark.parametrize('num_runs', [(3, 3), (3, 4), (4, 4), (5, 5), (7, 7), (5, 21), (21, 21)])
@pytest.mark.parametrize('draw', [
    lambda random, number: random.normal(1.0, 0.1, number),
    lambda random, number: random.lognormal(0.0, 0.5, number)], ids=['even', 'with a tail'])
def test_runs_of_no_change_are_seldom_told_apart(draw, num_runs: tuple[int, int]) -> None:
    assert LEVEL < MOST_FALSE_ALARMS
    assert share_told_apart(draw, *num_runs, 'median') < MOST_FALSE_ALARMS


@pytest.mark.parametrize('statistic', ['p95', 'max'])
def test_high_percentiles_of_no_change_are_seldom_told_apart(statistic: Statistic) -> None:
    assert share_told_apart(
        lambda random, number: random.lognormal(0.0, 0.5, number), 100, 100,
        statistic) < MOST_FALSE_ALARMS


def test_slopes_of_no_change_are_seldom_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their values are 200 draws of one estimate each, which taken for runs always differ."""
    monkeypatch.setattr('robot_llm.bench.engine.length.NUM_DRAWS', 100)
    random = np.random.default_rng(2)
    lengths = (128, 256, 512, 1024, 2048, 4096)

    def slope() -> Figure:
        runs = []
        for tokens in lengths:
            number = 2 * min(4096 // tokens, 3)
            true_s = 0.03 + 0.0058 * tokens + 1.3e-6 * tokens ** 2
            runs.append(Runs({name: list(true_s * random.normal(1.0, 0.03, number))
                              for name in (OURS, BARE)}, [tokens] * number))
        return Figure('slope', 'x', slope_ratios(runs), are_draws=True)

    slopes = [slope() for _ in range(40)]
    verdicts = [Change('engine', *pair).verdict for pair in combinations(slopes, 2)]
    assert verdicts.count('different') < MOST_FALSE_ALARMS * len(verdicts)


def test_a_change_of_many_spreads_is_found_from_three_runs_on() -> None:
    for num_runs in (3, 4, FEWEST_RUNS, 7, 21, 200):
        random = np.random.default_rng(1)
        before, after = (Figure('f', 's', tuple(random.normal(mean, 0.02, num_runs)))
                         for mean in (1.0, 1.5))
        assert differ(before, after)


@pytest.mark.parametrize(('before', 'after'), [
    ((1.0,), (9.0,)), ((1.0, 1.0), (9.0, 9.0)),
    # Apart, by less than either is wide.
    ((1.0, 1.1, 1.3), (1.5, 1.6, 1.7)), ((1.0, 1.1, 1.2, 1.3), (1.2, 1.3, 1.4))])
def test_of_few_runs_that_lie_close_nothing_is_said(before, after) -> None:
    assert differ(Figure('f', 's', before), Figure('f', 's', after)) is None


def test_all_splits_and_some_of_them_tell_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    before, after = (Figure('f', 's', tuple(random.normal(mean, 0.1, 7))) for mean in (1.0, 1.07))
    every = chance._share_of_splits(before, after)
    monkeypatch.setattr(chance, 'MOST_SPLITS', 0)
    monkeypatch.setattr(chance, 'BLOCK_VALUES', 1000)
    assert chance._share_of_splits(before, after) == pytest.approx(every, abs=0.05)


def test_runs_without_any_spread_differ_by_their_ranks() -> None:
    """Any two halves of them have medians as far apart as the measured ones."""
    before, after = (Figure('tokens', 'tokens', (value,) * 5) for value in (30.0, 40.0))
    assert differ(before, after)


def test_one_value_far_out_is_chance_and_ten_are_not() -> None:
    calm, one, ten = (
        Figure('stop', 's', (0.0,) * (100 - number) + (1.0,) * number, statistic='max')
        for number in (0, 1, 10))
    assert differ(calm, one) is False
    assert differ(calm, ten) is True


def test_draws_differ_where_their_intervals_do_not_touch() -> None:
    def draws(middle: float, width: float) -> Figure:
        return Figure('slope', 'x', tuple(np.linspace(middle - width, middle + width, 200)),
                      are_draws=True)

    assert differ(draws(1.0, 0.1), draws(1.3, 0.1))
    assert not differ(draws(1.0, 0.1), draws(1.15, 0.1))
