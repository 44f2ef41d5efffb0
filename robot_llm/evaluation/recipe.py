"""How a head was fitted: both parts' regularisation, and how much each of them counts."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from robot_llm.evaluation.dataset import Dataset
from robot_llm.evaluation.mixing import fit_mix
from robot_llm.evaluation.regression import (
    choose_penalty, fit_regression, fit_temperature, Floats, folds, held_out_logits)
from robot_llm.evaluation.text_regression import (
    choose_text_penalty, fit_text, held_out_text_logits, text_rows)


@dataclass(frozen=True, slots=True)
class Recipe:
    """
    Enough to fit the same head to other rows.

    ``logits = hidden_weight * hidden logits + text_weight * text logits + bias``, calibrated.

    :param penalty: C of the regression on the hidden state
    :param text_penalty: C of the one on the scene's n-grams; 0 if the head reads no text
    :param bias: one number per word
    """

    penalty: float
    text_penalty: float
    hidden_weight: float
    text_weight: float
    bias: tuple[float, ...]

    def combine(self, hidden_logits: Floats, text_logits: Floats) -> Floats:
        """Return the head's logits, shape (num_rows, num_words)."""
        combined: Floats = (
            self.hidden_weight * hidden_logits + self.text_weight * text_logits
            + np.array(self.bias))
        return combined

    def as_figures(self) -> dict[str, Any]:
        """Return plain values, for the head's file."""
        return asdict(self)

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> 'Recipe':
        """Read what ``as_figures`` wrote, from among other figures."""
        return cls(
            figures['penalty'], figures['text_penalty'], figures['hidden_weight'],
            figures['text_weight'], tuple(figures['bias']))


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """
    What folds that never saw a row say of it, shape (num_rows, num_words) each.

    ``logits`` are combined by weights that never saw the row either.
    """

    hidden_logits: Floats
    text_logits: Floats
    logits: Floats


def choose_recipe(data: Dataset) -> tuple[Recipe, HeldOut]:
    """Choose everything by cross-validation over groups, and return what its folds said."""
    penalty, hidden_logits = choose_penalty(data)
    text_penalty, text_logits = 0.0, np.zeros_like(hidden_logits)
    if any(data.texts):
        text_penalty, text_logits = choose_text_penalty(data)
    draft = Recipe(penalty, text_penalty, 1.0, 0.0, (0.0,) * len(data.words))
    logits = np.empty_like(hidden_logits)
    for others, fold in folds(data):
        recipe = _weighed(draft, hidden_logits[others], text_logits[others], data.labels[others])
        logits[fold] = recipe.combine(hidden_logits[fold], text_logits[fold])
    recipe = _weighed(draft, hidden_logits, text_logits, data.labels)
    return recipe, HeldOut(hidden_logits, text_logits, logits)


def _weighed(
    draft: Recipe, hidden_logits: Floats, text_logits: Floats, labels: NDArray[np.int64],
) -> Recipe:
    """Return the recipe with the weights that make these held-out labels the likeliest."""
    if not draft.text_penalty:
        return replace(draft, hidden_weight=1 / fit_temperature(hidden_logits, labels))
    hidden_weight, text_weight, *bias = fit_mix(hidden_logits, text_logits, labels)
    # A head whose hidden state says nothing, or less: its file divides by this weight.
    return replace(
        draft, hidden_weight=max(hidden_weight, 1e-3), text_weight=text_weight, bias=tuple(bias))


def held_out(data: Dataset, recipe: Recipe) -> Floats:
    """Return each row's combined logits from parts that never saw its group."""
    text_logits = (held_out_text_logits(data, recipe.text_penalty) if recipe.text_penalty
                   else np.zeros((len(data), len(data.words))))
    return recipe.combine(held_out_logits(data, recipe.penalty), text_logits)


def fitted_logits(fit: Dataset, others: Dataset, recipe: Recipe) -> Floats:
    """Fit both parts to some rows, and return the combined logits of others."""
    hidden_logits = fit_regression(fit, recipe.penalty).logits(others.hidden)
    text_logits = np.zeros_like(hidden_logits)
    if recipe.text_penalty:
        part, bias = fit_text(text_rows(fit.texts), fit.labels, recipe.text_penalty)
        text_logits = bias + np.stack([part.logits(row) for row in text_rows(others.texts)])
    return recipe.combine(hidden_logits, text_logits)
