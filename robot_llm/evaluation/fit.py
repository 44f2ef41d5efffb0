"""Labelled hidden states → a decision head with its own cross-validated figures."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from robot_llm.core.head import DecisionHead, Familiarity, LEAST_LOG_PROB
from robot_llm.errors import ConfigError
from robot_llm.evaluation.dataset import Dataset
from robot_llm.evaluation.familiarity import fit_familiarity, held_out_distances, QUANTILE
from robot_llm.evaluation.metrics import (
    accuracy, bootstrap, expected_calibration_error, negative_log_likelihood,
    paraphrase_agreement, Predictions)
from robot_llm.evaluation.mixing import fit_mix
from robot_llm.evaluation.recipe import (
    choose_recipe, fitted_logits, held_out, HeldOut, Recipe)
from robot_llm.evaluation.regression import (
    fit_regression, fit_temperature, Floats, folds, NUM_FOLDS, Regression)
from robot_llm.evaluation.stranger_fit import fit_strangers
from robot_llm.evaluation.text_regression import fit_text, text_rows
from robot_llm.profile import DecisionRules

MIN_GROUPS: Final = 2 * NUM_FOLDS
CURVE_SHARES: Final = (0.2, 0.4, 0.6, 0.8)
"""Of the groups; the whole is what the folds said anyway."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedHead:
    """A head, the figures of its cross-validation, and the held-out probabilities they are of."""

    head: DecisionHead
    figures: dict[str, Any]
    held_out: Predictions


def fit_head(
    data: Dataset, report: Callable[[str], None] = lambda line: None, *,
    strangers: Dataset | None = None,
) -> FittedHead:
    """
    Fit the head and everything that goes with it, on the fit split alone.

    :param strangers: texts that are no scenes, its words their kinds; None goes by the distance of
        the hidden state alone
    :param report: takes a line per step, for people
    :raises ConfigError: if there are too few groups, or nothing to learn in them
    """
    _check_size(data)
    report(f'{len(data)} rows in {data.num_groups} groups: choosing the regularisation')
    recipe, out = choose_recipe(data)
    held_out_rows = as_predictions(data, out.logits)
    _check_learned(held_out_rows)
    report(f'C={recipe.penalty:.2g}, weight {recipe.hidden_weight:.2f}; text: '
           f'C={recipe.text_penalty:.2g}, weight {recipe.text_weight:.2f}: fitting to all groups')
    regression = fit_regression(data, recipe.penalty)
    report('measuring how far ordinary scenes lie apart')
    limit = float(np.quantile(held_out_distances(data), QUANTILE))
    familiarity = fit_familiarity(data, regression.scaler, max_distance=limit)
    combined = recipe.combine(out.hidden_logits, out.text_logits)
    # Scenes that were read without a goal say nothing of the model's own words.
    mix = (fit_mix(combined, data.log_probs, data.labels) if np.isfinite(data.log_probs).all()
           else (1.0, 0.0, *(0.0,) * len(data.words)))
    head = _assemble(data, regression, recipe, familiarity, mix)
    told: dict[str, Any] = {}
    if strangers is not None and head.text is not None:
        report(f'{len(strangers)} texts that are no scenes: fitting what tells them')
        stranger_fit = fit_strangers(data, strangers)
        head = replace(head, strangers=stranger_fit.part, familiarity=replace(
            familiarity, max_distance=stranger_fit.max_distance))
        told = {'told': stranger_fit.figures}
    report('drawing the learning curve')
    figures = {
        'num_groups': data.num_groups, 'num_rows': len(data), 'num_folds': NUM_FOLDS,
        **recipe.as_figures(), **_figures(held_out_rows),
        'alone': _alone(data, out), **told,
        'intervals': bootstrap(held_out_rows, _figures, num_samples=200),
        'learning_curve': [*learning_curve(data, recipe), _point(data.num_groups * (
            NUM_FOLDS - 1) // NUM_FOLDS, held_out_rows)]}
    return FittedHead(head, figures, held_out_rows)


def _assemble(
    data: Dataset, regression: Regression, recipe: Recipe, familiarity: Familiarity,
    mix: tuple[float, ...],
) -> DecisionHead:
    """Fold the recipe's weights into the head: its text part and its bias are divided by T."""
    temperature = 1 / recipe.hidden_weight
    bias = regression.bias + temperature * np.array(recipe.bias)
    text = None
    if recipe.text_penalty:
        part, text_bias = fit_text(text_rows(data.texts), data.labels, recipe.text_penalty)
        factor = temperature * recipe.text_weight
        text = replace(part, weights=(factor * part.weights).astype(np.float32))
        bias = bias + factor * text_bias
    return DecisionHead(
        words=data.words, offset=regression.scaler.offset, scale=regression.scaler.scale,
        weights=regression.weights, bias=bias.astype(np.float32), temperature=temperature,
        mix=mix, familiarity=familiarity, max_chars=max(map(len, data.texts)), text=text)


def _alone(data: Dataset, out: HeldOut) -> dict[str, float]:
    """Return how often each part by itself is right."""
    return {name: float((np.argmax(logits, axis=1) == data.labels).mean())
            for name, logits in (('hidden', out.hidden_logits), ('text', out.text_logits))}


def held_out_predictions(
    data: Dataset, rules: DecisionRules, head: DecisionHead | None, recipe: Recipe | None,
) -> Predictions:
    """
    Return what the method says of the fit split's rows from folds that never saw them.

    :param recipe: with which ``head`` was fitted; both None for the method ``words``
    """
    if head is None or recipe is None:
        return as_predictions(data, data.log_probs)
    logits = held_out(data, recipe)
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


def learning_curve(data: Dataset, recipe: Recipe) -> list[dict[str, float]]:
    """Return held-out accuracy and likelihood by the number of groups that were fitted to."""
    curve = []
    random = np.random.default_rng(0)
    for share in CURVE_SHARES:
        logits = np.empty((len(data), len(data.words)))
        num_groups = 0
        for fit, others in folds(data):
            groups = random.permutation(np.unique(data.groups[fit]))
            kept = groups[:max(int(round(share * len(groups))), 2 * len(data.words))]
            part = data.rows(fit[np.isin(data.groups[fit], kept)])
            if len(np.unique(part.labels)) < len(data.words):
                break
            num_groups = len(kept)
            logits[others] = fitted_logits(part, data.rows(others), recipe)
        else:
            scaled = logits / fit_temperature(logits, data.labels)
            curve.append(_point(num_groups, as_predictions(data, scaled)))
    return curve


def _point(num_groups: int, predictions: Predictions) -> dict[str, float]:
    return {'num_groups': num_groups, 'accuracy': accuracy(predictions),
            'nll': negative_log_likelihood(predictions)}


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
