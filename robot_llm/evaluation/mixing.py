"""The weights of the method ``both``: how much the head counts, how much the model's own words."""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.head import LEAST_LOG_PROB

Floats = NDArray[np.float64]

_NUM_STEPS: Final = 50
_RIDGE: Final = 1e-3
"""Keeps the Newton steps finite where a weight changes nothing."""


def fit_mix(
    head_logits: Floats, word_log_probs: Floats, labels: NDArray[np.int64],
) -> tuple[float, ...]:
    """
    Return (head weight, word weight, bias per word) of the likeliest combination.

    Newton's method on a convex likelihood of 2 + num_words numbers.

    :param head_logits: held-out and calibrated, shape (num_rows, num_words)
    :param word_log_probs: in the model's own distribution, shape (num_rows, num_words)
    """
    num_rows, num_words = head_logits.shape
    features = np.zeros((num_rows, num_words, 2 + num_words))
    features[:, :, 0] = _log_softmax(head_logits)
    features[:, :, 1] = np.maximum(_log_softmax(word_log_probs), LEAST_LOG_PROB)
    features[:, :, 2:] = np.eye(num_words)
    weights = np.zeros(2 + num_words)
    weights[0] = 1.0
    for _ in range(_NUM_STEPS):
        probabilities = np.exp(_log_softmax(features @ weights))
        mean = np.einsum('nk,nkf->nf', probabilities, features)
        gradient = (mean - features[np.arange(num_rows), labels]).mean(axis=0)
        gradient += _RIDGE * (weights - np.eye(len(weights))[0])
        spread = features - mean[:, None, :]
        hessian = np.einsum('nk,nkf,nkg->fg', probabilities, spread, spread) / num_rows
        step = np.linalg.solve(hessian + _RIDGE * np.eye(len(weights)), gradient)
        weights -= step
        if np.abs(step).max() < 1e-8:
            break
    return tuple(float(weight) for weight in weights)


def _log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    normalised: Floats = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return normalised
