"""The slope over the prompt's length comes with how sure it is."""

import numpy as np
import pytest
from robot_llm.bench.engine.length import BARE, NUM_DRAWS, OURS, Runs, slope_ratios

LENGTHS = (128, 256, 512, 1024, 2048, 4096)


def measured(factor: float, noise: float) -> list[Runs]:
    """Return six runs of each length, ours slower per token by a factor."""
    random = np.random.default_rng(1)
    runs = []
    for tokens in LENGTHS:
        bare = (0.006 * tokens + 1e-6 * tokens ** 2) * random.normal(1.0, noise, 6)
        ours = bare + (factor - 1) * 0.006 * tokens + 0.004
        runs.append(Runs({OURS: ours.tolist(), BARE: bare.tolist()}, [tokens] * 6))
    return runs


def test_without_noise_every_draw_is_the_ratio_of_the_slopes() -> None:
    ratios = slope_ratios(measured(1.04, 0.0))
    assert ratios == pytest.approx([1.04] * NUM_DRAWS)


def test_noise_that_both_share_widens_the_draws_around_the_same_ratio() -> None:
    ratios = slope_ratios(measured(1.04, 0.05))
    assert np.median(ratios) == pytest.approx(1.04, abs=0.01)
    assert 0.0 < np.std(ratios) < 0.05
    assert ratios == slope_ratios(measured(1.04, 0.05))
