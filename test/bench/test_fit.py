"""The fit of times over prompt lengths."""

import numpy as np
import pytest
from robot_llm.bench.fit import fit_lengths

LENGTHS = (128, 256, 512, 1024, 2048, 4096)


def seconds(a: float, b: float, c: float) -> list[float]:
    return [a + b * length + c * length ** 2 for length in LENGTHS]


@pytest.mark.parametrize(('a', 'b', 'c'), [
    (0.01, 2e-3, 3e-7), (0.0, 1e-4, 0.0), (0.002, 5e-5, 1e-8)])
def test_the_coefficients_of_a_parabola_come_back(a: float, b: float, c: float) -> None:
    fit = fit_lengths(LENGTHS, seconds(a, b, c))
    assert (fit.a_s, fit.b_s, fit.c_s) == pytest.approx((a, b, c), rel=1e-6, abs=1e-12)
    assert fit.r_squared == pytest.approx(1.0)
    assert fit.at(512) == pytest.approx(seconds(a, b, c)[2])


def test_noise_of_some_percent_moves_the_slope_by_some_percent() -> None:
    random = np.random.default_rng(1)
    times = np.repeat(seconds(0.01, 2e-3, 3e-7), 3) * random.normal(1.0, 0.02, 18)
    assert fit_lengths(np.repeat(LENGTHS, 3), times).b_s == pytest.approx(2e-3, rel=0.1)


def test_two_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match='2 lengths'):
        fit_lengths([128, 256, 256], [1.0, 2.0, 2.0])
