"""Multinomial logistic regression on the n-grams of scenes, by scikit-learn."""

from collections.abc import Sequence
import importlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.text_features import Half, text_halves, TextPart, weigh
from robot_llm.evaluation.dataset import Dataset
from robot_llm.evaluation.regression import (
    calibrated_nll, class_columns, Floats, folds, scikit)

NUM_BUCKETS: Final = 2**14
"""256 kB with three words. On the fit split of `drive` four times as many bring nothing."""
TEXT_PENALTIES: Final = (1.0, 3.0, 10.0, 30.0)
"""Tried for C of scikit-learn, from the strongest regularisation on."""

Texts = list[tuple[Half, Half]]


def text_rows(texts: Sequence[str]) -> Texts:
    """Return the n-grams of each text."""
    return [text_halves(text, NUM_BUCKETS) for text in texts]


def fit_text(rows: Texts, labels: NDArray[np.int64], penalty: float) -> tuple[TextPart, Floats]:
    """
    Fit to all rows; every class must be among the labels.

    :returns: the weights, and a bias per word
    """
    counts = np.ones(NUM_BUCKETS)
    for halves in rows:
        for buckets, _ in halves:
            counts[buckets] += 1
    telling = (1 + np.log((1 + len(rows)) / counts)).astype(np.float32)
    # Warm starts and exact optima buy nothing: the probabilities are calibrated afterwards.
    model = scikit('linear_model').LogisticRegression(C=penalty, max_iter=200, tol=1e-3)
    model.fit(_matrix(rows, telling), labels)
    weights, bias = class_columns(model)
    return TextPart(telling, weights.astype(np.float32)), bias


def _matrix(rows: Texts, telling: NDArray[np.float32]) -> Any:
    """Return the weighed n-grams as a sparse matrix, (num_rows, NUM_BUCKETS)."""
    csr_matrix = importlib.import_module('scipy.sparse').csr_matrix  # comes with scikit-learn
    halves = [half for row in rows for half in row]
    ends = np.cumsum([0] + [sum(len(buckets) for buckets, _ in row) for row in rows])
    values = np.concatenate([weigh(values, telling[buckets]) for buckets, values in halves])
    return csr_matrix(
        (values, np.concatenate([buckets for buckets, _ in halves]), ends),
        shape=(len(rows), NUM_BUCKETS))


def held_out_text_logits(data: Dataset, penalty: float, seed: int = 0) -> Floats:
    """Return each row's logits from a fit that never saw its group, (num_rows, num_words)."""
    rows = text_rows(data.texts)
    logits = np.empty((len(data), len(data.words)))
    for fit, held_out in folds(data, seed):
        part, bias = fit_text([rows[i] for i in fit], data.labels[fit], penalty)
        matrix = _matrix([rows[i] for i in held_out], part.weights_of_ngrams)
        logits[held_out] = matrix @ part.weights + bias
    return logits


def choose_text_penalty(data: Dataset) -> tuple[float, Floats]:
    """Return the C with the best held-out likelihood once calibrated, and its logits."""
    best = (np.inf, TEXT_PENALTIES[0], np.empty(0))
    for penalty in TEXT_PENALTIES:
        logits = held_out_text_logits(data, penalty)
        nll = calibrated_nll(logits, data.labels)
        if nll >= best[0]:
            break
        best = (nll, penalty, logits)
    return best[1], best[2]
