"""Labelled hidden states → a decision head with its own cross-validated figures."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.head import DecisionHead, LEAST_LOG_PROB
from robot_llm.errors import ConfigError
from robot_llm.evaluation.dataset import Dataset
from robot_llm.evaluation.familiarity import fit_familiarity, held_out_distances, QUANTILE
from robot_llm.evaluation.metrics import (
    accuracy, bootstrap, expected_calibration_error, negative_log_likelihood,
    paraphrase_agreement, Predictions)
from robot_llm.evaluation.mixing import fit_mix
from robot_llm.evaluation.regression import (
    choose_penalty, fit_regression, fit_temperature, Floats, folds, held_out_logits, NUM_FOLDS)
from robot_llm.profile import DecisionRules

MIN_GROUPS: Final = 2 * NUM_FOLDS
CURVE_SHARES: Final = (0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class FittedHead:
    """A head, the figures of its cross-validation, and the held-out probabilities they are of."""

    head: DecisionHead
    figures: dict[str, Any]
    held_out: Predictions


def fit_head(data: Dataset, report: Callable[[str], None] = lambda line: None) -> FittedHead:
    """
    Fit the head and everything that goes with it, on the fit split alone.

    :param report: takes a line per step, for people
    :raises ConfigError: if there are too few groups, or nothing to learn in them
    """
    _check_size(data)
    report(f'{len(data)} rows in {data.num_groups} groups: choosing the regularisation')
    penalty, logits = choose_penalty(data)
    temperature = fit_temperature(logits, data.labels)
    held_out = as_predictions(data, logits / crossed_temperatures(data, logits)[:, None])
    _check_learned(held_out)
    report(f'C={penalty:.2g}, temperature {temperature:.2f}: fitting to all groups')
    regression = fit_regression(data, penalty)
    report('measuring how far ordinary scenes lie apart')
    limit = float(np.quantile(held_out_distances(data), QUANTILE))
    familiarity = fit_familiarity(data, regression.scaler, max_distance=limit)
    head = DecisionHead(
        words=data.words, offset=regression.scaler.offset, scale=regression.scaler.scale,
        weights=regression.weights, bias=regression.bias, temperature=temperature,
        mix=fit_mix(logits / temperature, data.log_probs, data.labels), familiarity=familiarity)
    report('drawing the learning curve')
    figures = {
        'num_groups': data.num_groups, 'num_rows': len(data), 'num_folds': NUM_FOLDS,
        'penalty': penalty, 'temperature': temperature, **_figures(held_out),
        'intervals': bootstrap(held_out, _figures, num_samples=200),
        'learning_curve': learning_curve(data, penalty)}
    return FittedHead(head, figures, held_out)


def held_out_predictions(
    data: Dataset, rules: DecisionRules, head: DecisionHead | None, penalty: float,
) -> Predictions:
    """
    Return what the method says of the fit split's rows from folds that never saw them.

    :param penalty: the C with which ``head`` was fitted
    """
    if head is None:
        return as_predictions(data, data.log_probs)
    logits = held_out_logits(data, penalty) / head.temperature
    if rules.method == 'both':
        head_weight, word_weight, *bias = head.mix
        own = np.maximum(data.log_probs - np.logaddexp.reduce(
            data.log_probs, axis=1, keepdims=True), LEAST_LOG_PROB)
        log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        logits = head_weight * log_probs + word_weight * own + np.array(bias)
    return as_predictions(data, logits)


def as_predictions(data: Dataset, logits: Floats) -> Predictions:
    """Return what would be decided by the likeliest word alone."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = shifted / shifted.sum(axis=1, keepdims=True)
    nothing = np.zeros(len(data), np.bool_)
    return Predictions(
        data.words, probabilities, data.labels, data.groups, data.scenes,
        np.argmax(probabilities, axis=1), nothing, nothing.copy())


def crossed_temperatures(data: Dataset, logits: Floats) -> NDArray[np.float64]:
    """Return each row's temperature as the other folds' rows give it, so that no row sees it."""
    temperatures = np.empty(len(data))
    for others, fold in folds(data):
        temperatures[fold] = fit_temperature(logits[others], data.labels[others])
    return temperatures


def learning_curve(data: Dataset, penalty: float) -> list[dict[str, float]]:
    """Return held-out accuracy and likelihood by the number of groups that were fitted to."""
    curve = []
    random = np.random.default_rng(0)
    for share in CURVE_SHARES:
        logits = np.empty((len(data), len(data.words)))
        num_groups = 0
        for fit, held_out in folds(data):
            groups = random.permutation(np.unique(data.groups[fit]))
            kept = groups[:max(int(round(share * len(groups))), 2 * len(data.words))]
            part = data.rows(fit[np.isin(data.groups[fit], kept)])
            if len(np.unique(part.labels)) < len(data.words):
                break
            num_groups = len(kept)
            logits[held_out] = fit_regression(part, penalty).logits(data.hidden[held_out])
        else:
            scaled = logits / fit_temperature(logits, data.labels)
            predictions = as_predictions(data, scaled)
            curve.append({'num_groups': num_groups, 'accuracy': accuracy(predictions),
                          'nll': negative_log_likelihood(predictions)})
    return curve


def _figures(predictions: Predictions) -> dict[str, float]:
    return {
        'accuracy': accuracy(predictions), 'nll': negative_log_likelihood(predictions),
        'ece': expected_calibration_error(predictions),
        'agreement': paraphrase_agreement(predictions)}


def _check_size(data: Dataset) -> None:
    if not data.hidden.shape[1]:
        raise ConfigError('this model or runtime gives no hidden state; use decision.method words')
    for index, word in enumerate(data.words):
        num_groups = len(np.unique(data.groups[data.labels == index]))
        if num_groups < MIN_GROUPS:
            raise ConfigError(
                f'{word!r} has {num_groups} groups to fit to, {MIN_GROUPS} are needed for '
                f'{NUM_FOLDS} folds; label {MIN_GROUPS - num_groups} more')


def _check_learned(held_out: Predictions) -> None:
    """Refuse labels that the hidden states do not explain: a head would be sure of nothing."""
    counts = np.bincount(held_out.labels, minlength=len(held_out.words))
    majority = counts.max() / counts.sum()
    low, _ = bootstrap(
        held_out, lambda sample: {'accuracy': accuracy(sample)}, num_samples=200)['accuracy']
    if low <= majority:
        raise ConfigError(
            f'nothing was learned: {accuracy(held_out):.0%} of the held-out scenes are right '
            f'(at least {low:.0%} with 97.5% confidence), always saying the commonest word gives '
            f'{majority:.0%}; check the labels, add scenes, or use a larger model')
