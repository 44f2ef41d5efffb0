"""Whether two sets of runs differ by more than chance lets them."""

from functools import cache
from itertools import combinations
from math import comb
from typing import Final

import numpy as np
from numpy.typing import NDArray
from robot_llm.bench.sample import Figure, PERCENT

LEVEL: Final = 0.05
"""How often runs of which nothing has changed may be told apart."""
FEWEST_RUNS: Final = 5
"""Of fewer on a side one odd run would decide."""
FEWEST_TO_SPREAD: Final = 3
MOST_SPLITS: Final = 5000
"""As long as there are no more ways to split the runs, all of them are looked at."""
NUM_DRAWN_SPLITS: Final = 999
BLOCK_VALUES: Final = 1_000_000
"""That are shuffled at once, which bounds the memory."""


def differ(before: Figure, after: Figure) -> bool | None:
    """
    Return whether the quoted values differ by more than chance; None with too few runs to tell.

    The runs of both sides are ranked together, and split anew in every way or in many: if the two
    parts lie as far apart in more than 5% of them, the names before and after mean nothing. Of a
    median all ranks count, of a high percentile those from it on, of the largest that one. With
    three or four runs, which cannot tell so little, the two sets have to lie further apart than
    either is wide. Draws of an estimate are no runs: there the intervals that hold 95% of them
    must not touch.

    Source: the median's test is F. Wilcoxon, Individual Comparisons by Ranking Methods, 1945; the
    splits are R. A. Fisher's, The Design of Experiments, 1935, section 21.
    """
    if before.are_draws or after.are_draws:
        return _gap(*((figure.percentile(2.5), figure.percentile(97.5))
                      for figure in (before, after))) > 0
    fewest = min(len(before.values), len(after.values))
    if fewest >= FEWEST_RUNS:
        return _share_of_splits(before, after) <= LEVEL
    if fewest < FEWEST_TO_SPREAD:
        return None
    ranges = [(min(figure.values), max(figure.values)) for figure in (before, after)]
    return _gap(*ranges) > max(high - low for low, high in ranges) or None


def _gap(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return how far two intervals lie apart; below 0 where they share something."""
    return max(other[0] - one[1], one[0] - other[1])


def _share_of_splits(before: Figure, after: Figure) -> float:
    """
    Return in how many of all splits the parts lie at least as far apart as measured.

    1 where the ranks as a whole say the contrary of the quoted values.
    """
    percent, num_before = PERCENT[after.statistic], len(before.values)
    ranks = _ranks(np.array([*before.values, *after.values]))
    measured = float(_differences(ranks[None], num_before, percent)[0])
    if measured * (after.quoted - before.quoted) <= 0:
        return 1.0
    # What is summed in another order may differ in its last digit.
    least = abs(measured) - 1e-6
    if comb(len(ranks), num_before) <= MOST_SPLITS:
        rows = ranks[_all_splits(len(ranks), num_before)]
        return float((np.abs(_differences(rows, num_before, percent)) >= least).mean())
    random = np.random.default_rng(0)
    block = max(BLOCK_VALUES // len(ranks), 1)
    num_found = 0
    for start in range(0, NUM_DRAWN_SPLITS, block):
        rows = np.tile(ranks, (min(block, NUM_DRAWN_SPLITS - start), 1))
        rows = random.permuted(rows, axis=1)
        num_found += int((np.abs(_differences(rows, num_before, percent)) >= least).sum())
    # The split that was measured is one of them.
    return (num_found + 1) / (NUM_DRAWN_SPLITS + 1)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the place of each value among all, from 1 on; equal ones share their mean place."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    means: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return means[places]


@cache
def _all_splits(num_values: int, num_first: int) -> NDArray[np.int64]:
    """Return every order that splits differently, the first part in front."""
    everything = set(range(num_values))
    return np.array([[*first, *sorted(everything - set(first))]
                     for first in combinations(range(num_values), num_first)])


def _differences(
    rows: NDArray[np.float64], num_first: int, percent: int,
) -> NDArray[np.float64]:
    """Return by how much the second part of every row lies above the first one."""
    first, second = (_level(part, percent) for part in (rows[:, :num_first], rows[:, num_first:]))
    return second - first


def _level(ranks: NDArray[np.float64], percent: int) -> NDArray[np.float64]:
    """Return the mean rank in every row: of all, or of those from a high or low percentile on."""
    length = ranks.shape[1]
    num_beyond = max(round(length * min(percent, 100 - percent) / 100), 1)
    if percent > 50:
        ranks = np.partition(ranks, length - num_beyond, axis=1)[:, length - num_beyond:]
    elif percent < 50:
        ranks = np.partition(ranks, num_beyond - 1, axis=1)[:, :num_beyond]
    means: NDArray[np.float64] = ranks.mean(axis=1)
    return means
