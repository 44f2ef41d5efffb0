"""How right, how sure, how steady: figures of predictions against labels, with intervals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from robot_llm.profile import DecisionRules

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUM_BINS = 10
"""Of the reliability diagram, equally wide; the usual number (Guo et al. 2017)."""


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """
    One row per prompt: ``probabilities`` (num_rows, num_words) beside what is right.

    ``labels`` and ``published`` index ``words``, ``groups`` and ``scenes`` count; shape
    (num_rows,). ``is_fallback`` says that doubt, not the best word, chose ``published``;
    ``is_stranger`` that unfamiliarity did.
    """

    words: tuple[str, ...]
    probabilities: Floats
    labels: Ints
    groups: Ints
    scenes: Ints
    published: Ints
    is_fallback: NDArray[np.bool_]
    is_stranger: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.labels)

    @property
    def best(self) -> Ints:
        """The likeliest word of each row, whatever was published."""
        best: Ints = np.argmax(self.probabilities, axis=1)
        return best

    @property
    def confidence(self) -> Floats:
        """The likeliest word's probability."""
        confidence: Floats = np.max(self.probabilities, axis=1)
        return confidence

    @property
    def is_right(self) -> NDArray[np.bool_]:
        """Whether the likeliest word is the right one."""
        is_right: NDArray[np.bool_] = self.best == self.labels
        return is_right

    def rows(self, which: NDArray[np.int64]) -> 'Predictions':
        """Return some of the rows, a row perhaps more than once."""
        return Predictions(
            self.words, self.probabilities[which], self.labels[which], self.groups[which],
            self.scenes[which], self.published[which], self.is_fallback[which],
            self.is_stranger[which])


def cost_matrix(rules: DecisionRules) -> Floats:
    """Return the profile's costs, shape (right word, decided word)."""
    words = [item.word for item in rules.words]
    return np.array([[rules.cost(right, decided) for decided in words] for right in words])


def unsafe_matrix(rules: DecisionRules) -> NDArray[np.bool_]:
    """Return which decisions are worse than the fallback, shape (right word, decided word)."""
    words = [item.word for item in rules.words]
    return np.array([[rules.is_unsafe(right, decided) for decided in words] for right in words])


def confusion(predictions: Predictions) -> Ints:
    """Return how often a word was likeliest where another is right, (right, likeliest)."""
    num_words = len(predictions.words)
    counts = np.zeros((num_words, num_words), np.int64)
    np.add.at(counts, (predictions.labels, predictions.best), 1)
    return counts


def accuracy(predictions: Predictions) -> float:
    """Return the share of rows whose likeliest word is right."""
    return float(predictions.is_right.mean())


def negative_log_likelihood(predictions: Predictions) -> float:
    """Return the mean of -log p(right word) [nats]; ln(num_words) is knowing nothing."""
    right = predictions.probabilities[np.arange(len(predictions)), predictions.labels]
    return float(-np.log(np.maximum(right, 1e-12)).mean())


def brier_score(predictions: Predictions) -> float:
    """Return the mean squared distance to the right answer, summed over words, 0..2."""
    one_hot = np.eye(len(predictions.words))[predictions.labels]
    return float(((predictions.probabilities - one_hot) ** 2).sum(axis=1).mean())


def reliability(predictions: Predictions) -> list[tuple[int, float, float]]:
    """Return per confidence bin: number of rows, mean confidence, share that was right."""
    index = np.minimum((predictions.confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    rows = []
    for number in range(NUM_BINS):
        inside = index == number
        if inside.any():
            rows.append((int(inside.sum()), float(predictions.confidence[inside].mean()),
                         float(predictions.is_right[inside].mean())))
        else:
            rows.append((0, 0.0, 0.0))
    return rows


def expected_calibration_error(predictions: Predictions) -> float:
    """Return the mean gap between confidence and accuracy, weighted by rows per bin."""
    bins = reliability(predictions)
    return sum(count * abs(sure - right) for count, sure, right in bins) / len(predictions)


def ece_if_calibrated(
    predictions: Predictions, *, num_samples: int = 500, seed: int = 0,
) -> Floats:
    """
    Return the error that a perfectly calibrated head would show on as many rows, per draw.

    It is never 0: each bin's accuracy strays from its confidence by chance. What is right is drawn
    once a group, since paraphrases are right or wrong together.

    :returns: shape (num_samples,)
    """
    random = np.random.default_rng(seed)
    _, groups = np.unique(predictions.groups, return_inverse=True)
    bins = np.minimum((predictions.confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    errors = np.empty(num_samples)
    for number in range(num_samples):
        is_right = random.random(groups.max() + 1)[groups] < predictions.confidence
        gaps = np.bincount(bins, predictions.confidence - is_right, minlength=NUM_BINS)
        errors[number] = np.abs(gaps).sum() / len(predictions)
    return errors


def paraphrase_agreement(predictions: Predictions) -> float:
    """
    Return how often two paraphrases of a group get the same likeliest word, 0..1.

    Rows that differ in the goal only are no paraphrases; every group counts alike.
    """
    _, groups = np.unique(predictions.groups, return_inverse=True)
    texts = np.stack([groups, predictions.scenes], axis=1)
    _, first, scenes = np.unique(texts, axis=0, return_index=True, return_inverse=True)
    num_words = len(predictions.words)

    def word_counts(index: Ints) -> Floats:
        counts = np.zeros((index.max() + 1, num_words))
        np.add.at(counts, (index, predictions.best), 1)
        return counts

    by_group, by_scene = word_counts(groups), word_counts(scenes.reshape(-1))
    # Ordered pairs within the group, less those within one text.
    group_of_scene = groups[first]
    agreeing = (by_group ** 2).sum(axis=1) - np.bincount(
        group_of_scene, (by_scene ** 2).sum(axis=1))
    pairs = by_group.sum(axis=1) ** 2 - np.bincount(
        group_of_scene, by_scene.sum(axis=1) ** 2)
    shares = agreeing[pairs > 0] / pairs[pairs > 0]
    return float(shares.mean()) if len(shares) else 1.0


def risk(predictions: Predictions, costs: Floats) -> float:
    """Return the mean cost of what was published."""
    return float(costs[predictions.labels, predictions.published].mean())


def unsafe_rate(predictions: Predictions, unsafe: NDArray[np.bool_]) -> float:
    """Return the share of rows whose published word is worse than the fallback."""
    return float(unsafe[predictions.labels, predictions.published].mean())


def group_losses(predictions: Predictions, unsafe: NDArray[np.bool_]) -> Floats:
    """Return each group's share of unsafe rows, shape (num_groups,)."""
    losses = unsafe[predictions.labels, predictions.published].astype(np.float64)
    _, groups = np.unique(predictions.groups, return_inverse=True)
    return np.bincount(groups, losses) / np.bincount(groups)


def risk_coverage(predictions: Predictions) -> tuple[Floats, Floats]:
    """Return (coverage, error rate) while the least sure rows are left out one by one."""
    order = np.argsort(-predictions.confidence, kind='stable')
    counts = np.arange(1, len(order) + 1)
    return counts / len(order), np.cumsum(~predictions.is_right[order]) / counts


def scalar_figures(predictions: Predictions, rules: DecisionRules) -> dict[str, float]:
    """Return every figure that is one number."""
    return {
        'accuracy': accuracy(predictions),
        'nll': negative_log_likelihood(predictions),
        'brier': brier_score(predictions),
        'ece': expected_calibration_error(predictions),
        'agreement': paraphrase_agreement(predictions),
        'area_risk_coverage': float(risk_coverage(predictions)[1].mean()),
        'risk': risk(predictions, cost_matrix(rules)),
        'unsafe': unsafe_rate(predictions, unsafe_matrix(rules)),
        'unsafe_by_group': float(group_losses(predictions, unsafe_matrix(rules)).mean()),
        'decided': float((~predictions.is_fallback).mean()),
        'unfamiliar': float(predictions.is_stranger.mean()),
    }


def bootstrap(
    predictions: Predictions,
    figures: Callable[[Predictions], Mapping[str, float]],
    *,
    num_samples: int = 500,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """
    Return a 95% interval per figure, by drawing whole groups with replacement.

    Paraphrases are alike, so that drawing rows would make the intervals too narrow. The interval
    of ``ece`` is the basic one, since drawing adds to it what chance has added before: twice the
    figure, less the percentiles. It begins at 0 where a calibrated head would show as much.
    """
    random = np.random.default_rng(seed)
    members = [np.flatnonzero(predictions.groups == g) for g in np.unique(predictions.groups)]
    samples: dict[str, list[float]] = {}
    for _ in range(num_samples):
        drawn = random.integers(0, len(members), len(members))
        sample = predictions.rows(np.concatenate([members[i] for i in drawn]))
        # A group that was drawn twice counts twice, as two groups.
        sample.groups[:] = np.repeat(np.arange(len(drawn)), [len(members[i]) for i in drawn])
        for name, value in figures(sample).items():
            samples.setdefault(name, []).append(value)
    intervals = {name: (float(np.percentile(values, 2.5)), float(np.percentile(values, 97.5)))
                 for name, values in samples.items()}
    if 'ece' in intervals:
        error, (low, high) = expected_calibration_error(predictions), intervals['ece']
        could_be_none = error <= np.percentile(ece_if_calibrated(predictions), 97.5)
        intervals['ece'] = (0.0 if could_be_none else max(2 * error - high, 0.0),
                            max(2 * error - low, error))
    return intervals
