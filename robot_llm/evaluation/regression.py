"""Multinomial logistic regression by scikit-learn, and what is fitted on its held-out folds."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from robot_llm.errors import ConfigError
from robot_llm.evaluation.dataset import Dataset

NUM_FOLDS: Final = 5
PENALTIES: Final = tuple(float(c) for c in np.logspace(-4, 0, 5))
"""Tried for C of scikit-learn, from the strongest regularisation to almost none."""

Floats = NDArray[np.float64]


def scikit(name: str) -> Any:
    """
    Import a part of scikit-learn, which the node does without.

    :raises ConfigError: with the command that installs it
    """
    import importlib
    try:
        return importlib.import_module(f'sklearn.{name}')
    except ImportError as error:
        raise ConfigError(
            f'fitting needs scikit-learn ({error}): pip install scikit-learn') from error


@dataclass(frozen=True, slots=True, eq=False)
class Scaler:
    """Zero mean and unit variance, per number of the hidden state; shape (num_features,) each."""

    offset: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, hidden: NDArray[np.float32]) -> 'Scaler':
        """Fit to rows, shape (num_rows, num_features); a constant number keeps its size."""
        scale = hidden.std(axis=0)
        return cls(hidden.mean(axis=0), np.where(scale > 1e-6, scale, 1.0).astype(np.float32))

    def __call__(self, hidden: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scale rows, shape (num_rows, num_features)."""
        return ((hidden - self.offset) / self.scale).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """``logits = scaler(hidden) @ weights + bias``; weights (num_features, num_words)."""

    scaler: Scaler
    weights: NDArray[np.float32]
    bias: NDArray[np.float32]

    def logits(self, hidden: NDArray[np.float32]) -> Floats:
        """Return the logits of rows, shape (num_rows, num_words)."""
        return (self.scaler(hidden) @ self.weights + self.bias).astype(np.float64)


def fit_regression(data: Dataset, penalty: float) -> Regression:
    """
    Fit to all rows; every class must be among the labels.

    :param penalty: C of scikit-learn, the inverse of the regularisation's strength
    """
    scaler = Scaler.of(data.hidden)
    # What comes out is calibrated afterwards; the last digits of an optimum change nothing.
    model = scikit('linear_model').LogisticRegression(C=penalty, max_iter=2000, tol=1e-3)
    model.fit(scaler(data.hidden), data.labels)
    weights, bias = class_columns(model)
    return Regression(scaler, weights.astype(np.float32), bias.astype(np.float32))


def class_columns(model: Any) -> tuple[Floats, Floats]:
    """Return a fitted model's weights, a column per word, and its biases."""
    weights, bias = model.coef_, model.intercept_
    if len(weights) == 1:  # scikit-learn keeps one row for two classes
        weights = np.concatenate([-weights, weights]) / 2
        bias = np.concatenate([-bias, bias]) / 2
    return weights.T, bias


def folds(data: Dataset, seed: int = 0) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield (fit, held-out) rows, whole groups on one side, labels balanced."""
    yield from _splits(data.labels.tobytes(), data.groups.tobytes(), seed)


@lru_cache(maxsize=4)
def _splits(
    labels: bytes, groups: bytes, seed: int,
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    # A search over penalties asks for the same folds again and again; thousands of groups take
    # seconds to balance.
    splitter = scikit('model_selection').StratifiedGroupKFold(
        NUM_FOLDS, shuffle=True, random_state=seed)
    classes = np.frombuffer(labels, np.int64)
    return list(splitter.split(classes, classes, np.frombuffer(groups, np.int64)))


def held_out_logits(data: Dataset, penalty: float, seed: int = 0) -> Floats:
    """Return each row's logits from a fit that never saw its group, (num_rows, num_words)."""
    logits = np.empty((len(data), len(data.words)))
    for fit, held_out in folds(data, seed):
        logits[held_out] = fit_regression(data.rows(fit), penalty).logits(data.hidden[held_out])
    return logits


def fit_temperature(logits: Floats, labels: NDArray[np.int64]) -> float:
    """
    Return what the logits must be divided by to be as sure as they are right.

    Source: Guo et al. 2017, on calibration of modern neural networks.
    """
    grid = np.logspace(-1.3, 1.7, 301)
    return float(grid[int(np.argmin([mean_nll(logits / t, labels) for t in grid]))])


def mean_nll(logits: Floats, labels: NDArray[np.int64]) -> float:
    """Return the mean of -log p(right word) [nats]."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-log_probs[np.arange(len(labels)), labels].mean())


def calibrated_nll(logits: Floats, labels: NDArray[np.int64]) -> float:
    """Return the mean of -log p(right word) once the temperature is fitted [nats]."""
    return mean_nll(logits / fit_temperature(logits, labels), labels)


def choose_penalty(data: Dataset) -> tuple[float, Floats]:
    """
    Return the C with the best held-out likelihood once calibrated, and its held-out logits.

    The grid is left from its strong end as soon as a step has brought nothing.
    """
    best = (np.inf, PENALTIES[0], np.empty(0))
    for penalty in PENALTIES:
        logits = held_out_logits(data, penalty)
        nll = calibrated_nll(logits, data.labels)
        if nll >= best[0]:
            break
        best = (nll, penalty, logits)
    return best[1], best[2]
