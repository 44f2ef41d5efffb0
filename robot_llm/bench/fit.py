"""The time to the first token as a line plus a square term of the prompt's length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class LengthFit:
    """
    ``ttft_s = a_s + b_s * T + c_s * T ** 2`` over T prompt tokens.

    ``b_s`` is what the weights cost per token, ``c_s`` what attention adds per token and token
    before it, ``a_s`` what a request costs whatever its length.
    """

    a_s: float
    b_s: float
    c_s: float
    r_squared: float
    """Share of the variance that the fit explains, up to 1."""

    def at(self, num_tokens: float) -> float:
        """Return the fitted time of a prompt [s]."""
        return self.a_s + self.b_s * num_tokens + self.c_s * num_tokens ** 2


def fit_lengths(num_tokens: Sequence[float], seconds: Sequence[float]) -> LengthFit:
    """
    Fit the three coefficients by least squares of the relative error.

    The relative error, because the longest prompt takes a hundred times the shortest one's time
    and would alone decide the fit otherwise.

    :param num_tokens: tokens that were evaluated, shape (num_points,), at least three lengths
    :param seconds: what each took [s], shape (num_points,), positive
    :raises ValueError: with fewer than three different lengths
    """
    lengths, times = np.asarray(num_tokens, np.float64), np.asarray(seconds, np.float64)
    if len(np.unique(lengths)) < 3:
        raise ValueError(f'{len(np.unique(lengths))} lengths do not tell a square; give three')
    powers = np.stack([np.ones_like(lengths), lengths, lengths ** 2], axis=1)
    # Columns of equal size, or the squares of thousands drown the constant.
    scale = powers.max(axis=0)
    weighted = powers / scale / times[:, None]
    coefficients = np.linalg.lstsq(weighted, np.ones_like(times), rcond=None)[0] / scale
    residual = times - powers @ coefficients
    spread = times - times.mean()
    a_s, b_s, c_s = map(float, coefficients)
    return LengthFit(a_s, b_s, c_s, float(1 - residual @ residual / (spread @ spread)))
