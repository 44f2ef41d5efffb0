"""Multinomial logistic regression on the n-grams of scenes, by scikit-learn."""

from collections.abc import Sequence
from functools import lru_cache
import importlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.text_features import (
    Halfs, Keys, PART_WEIGHTS, read_text, TextFeatures, TextPart)
from robot_llm.evaluation.dataset import Dataset
from robot_llm.evaluation.regression import (
    calibrated_nll, class_columns, Floats, folds, scikit)

MAX_NGRAMS: Final = 2**15
"""That a head keeps; 450 kB with three words."""
LEAST_TEXTS: Final = (1, 1, 2, 1, 2)
"""In how many texts an n-gram of each kind must stand: most pairs stand in one alone."""
TEXT_PENALTIES: Final = (3.0, 10.0, 30.0)
"""Tried for C of scikit-learn, from the strongest regularisation on."""

Texts = list[TextFeatures]


_read = lru_cache(maxsize=2**14)(read_text)
"""A fit reads each text some twenty times."""


def text_rows(texts: Sequence[str]) -> Texts:
    """Return what is read of each text."""
    return [_read(text) for text in texts]


def vocabulary(rows: Texts) -> tuple[Keys, Halfs]:
    """Return the keys of all n-grams that stand in enough texts, and how telling each is."""
    kept, counts = [], []
    for kind, least in enumerate(LEAST_TEXTS):
        keys, found = np.unique(np.concatenate([row.parts[kind][0] for row in rows]),
                                return_counts=True)
        kept.append(keys[found >= least])
        counts.append(found[found >= least])
    keys, first = np.unique(np.concatenate(kept), return_index=True)
    telling = 1 + np.log((1 + len(rows)) / (1 + np.concatenate(counts)[first]))
    return keys, telling.astype(np.float16)


def text_matrix(rows: Texts, keys: Keys, telling: Halfs) -> Any:
    """
    Return the weighed n-grams as a sparse matrix, (num_rows, num_ngrams).

    What ``known_parts`` gives of each row, of all rows at once.
    """
    csr_matrix = importlib.import_module('scipy.sparse').csr_matrix  # comes with scikit-learn
    where, columns, weighed = [], [], []
    for kind, weight in enumerate(PART_WEIGHTS):
        parts = [row.parts[kind] for row in rows]
        found = np.concatenate([part[0] for part in parts])
        of_row = np.repeat(np.arange(len(rows)), [len(part[0]) for part in parts])
        column = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
        is_known = keys[column] == found
        of_row, column = of_row[is_known], column[is_known]
        values = np.concatenate([part[1] for part in parts])[is_known] * telling[
            column].astype(np.float32)
        lengths = np.sqrt(np.bincount(of_row, values ** 2, len(rows)))
        where.append(of_row)
        columns.append(column)
        weighed.append(values * weight / np.maximum(lengths, 1e-6)[of_row])
    return csr_matrix(
        (np.concatenate(weighed).astype(np.float32),
         (np.concatenate(where), np.concatenate(columns))), shape=(len(rows), len(keys)))


def fit_text(
    rows: Texts, labels: NDArray[np.int64], penalty: float, *, max_ngrams: int = MAX_NGRAMS,
    class_weight: str | None = None,
) -> tuple[TextPart, Floats]:
    """
    Fit to all rows; every class must be among the labels.

    Fitted twice where there are too many n-grams: the second time to those that said most.

    :param class_weight: of scikit-learn
    :returns: the weights, and a bias per word
    """
    def fitted(matrix: Any) -> tuple[Floats, Floats]:
        # Warm starts and exact optima buy nothing: what comes out is calibrated afterwards.
        model = scikit('linear_model').LogisticRegression(
            C=penalty, max_iter=200, tol=1e-3, class_weight=class_weight)
        model.fit(matrix, labels)
        return class_columns(model)

    keys, telling = vocabulary(rows)
    matrix = text_matrix(rows, keys, telling)
    weights, bias = fitted(matrix)
    if len(keys) > max_ngrams:
        said = weights.std(axis=1) * np.sqrt(
            np.asarray(matrix.multiply(matrix).sum(axis=0)).ravel())
        kept = np.sort(np.argsort(-said, kind='stable')[:max_ngrams])
        keys, telling = keys[kept], telling[kept]
        weights, bias = fitted(text_matrix(rows, keys, telling))
    return TextPart(keys, telling, weights.astype(np.float16)), bias


def held_out_text_logits(data: Dataset, penalty: float, seed: int = 0) -> Floats:
    """Return each row's logits from a fit that never saw its group, (num_rows, num_words)."""
    rows = text_rows(data.texts)
    logits = np.empty((len(data), len(data.words)))
    for fit, held_out in folds(data, seed):
        part, bias = fit_text([rows[i] for i in fit], data.labels[fit], penalty)
        matrix = text_matrix([rows[i] for i in held_out], part.keys, part.weights_of_ngrams)
        logits[held_out] = matrix @ part.weights.astype(np.float32) + bias
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
