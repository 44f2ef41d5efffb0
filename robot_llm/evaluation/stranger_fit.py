"""What is a stranger: fitted to scenes and other texts, with a limit from held-out scenes."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.strangers import StrangerPart
from robot_llm.core.text_features import TextPart
from robot_llm.evaluation.dataset import Dataset
from robot_llm.evaluation.familiarity import (
    distances, FAR_QUANTILE, fit_familiarity, QUANTILE)
from robot_llm.evaluation.regression import Floats, folds, NUM_FOLDS, Scaler, scikit
from robot_llm.evaluation.text_regression import fit_text, text_rows, Texts

MAX_NGRAMS: Final = 2**13
"""That are kept for telling scenes from other texts; 64 kB."""
PENALTY: Final = 10.0
"""C of scikit-learn. On held-out folds of `drive` 30 and 100 told one text in 247 less."""


@dataclass(frozen=True, slots=True, eq=False)
class StrangerFit:
    """
    The fitted part, and what it says of scenes and strangers of folds it never saw.

    :param max_distance: of the hidden state; what is farther is strange for that alone
    :param figures: share of the held-out scenes that are called strange, and of the held-out
        strangers, in all and by kind
    """

    part: StrangerPart
    max_distance: float
    figures: dict[str, float]


def fit_strangers(data: Dataset, strangers: Dataset) -> StrangerFit:
    """
    Fit what tells a scene from another text.

    The three signs are weighed by what they say of held-out folds, of scenes and of strangers, and
    the limits let all but 3 of 100 held-out scenes pass.

    :param strangers: texts that are no scenes; its words are their kinds
    """
    rows, strange_rows = text_rows(data.texts), text_rows(strangers.texts)
    scene_signs = np.empty((len(data), 3))
    stranger_signs = np.empty((len(strangers), 3))
    fold_of = np.random.default_rng(0).permutation(len(strangers)) % NUM_FOLDS
    for number, (fit, held_out) in enumerate(folds(data)):
        others = data.rows(fit)
        own_scaler = Scaler.of(others.hidden)
        own = fit_familiarity(others, own_scaler)
        is_held_out = fold_of == number
        telling = _fit_part([rows[i] for i in fit],
                            [strange_rows[i] for i in np.flatnonzero(~is_held_out)])
        scene_signs[held_out] = _signs(
            telling, distances(own, own_scaler, data.hidden[held_out]),
            [rows[i] for i in held_out])
        stranger_signs[is_held_out] = _signs(
            telling, distances(own, own_scaler, strangers.hidden[is_held_out]),
            [strange_rows[i] for i in np.flatnonzero(is_held_out)])
    weights = _weigh(scene_signs, stranger_signs)
    farthest = float(np.quantile(scene_signs[:, 0], FAR_QUANTILE))
    is_near = scene_signs[:, 0] <= farthest
    limit = float(np.quantile((scene_signs @ weights)[is_near], QUANTILE / is_near.mean()))

    def is_told(signs: Floats) -> NDArray[np.bool_]:
        told: NDArray[np.bool_] = (signs[:, 0] > farthest) | (signs @ weights > limit)
        return told

    told = is_told(stranger_signs)
    figures = {'scenes': float(is_told(scene_signs).mean()), 'strangers': float(told.mean())}
    figures |= {kind: float(told[strangers.labels == index].mean())
                for index, kind in enumerate(strangers.words)}
    part = replace(
        _fit_part(rows, strange_rows), weights=tuple(weights.tolist()), limit=limit)
    return StrangerFit(part, float(np.exp(farthest)), figures)


def _fit_part(rows: Texts, strange_rows: Texts) -> StrangerPart:
    """Fit the n-grams, and note the scenes' words; the signs are not weighed yet."""
    labels = np.repeat([0, 1], [len(rows), len(strange_rows)])
    both, _ = fit_text(
        [*rows, *strange_rows], labels, PENALTY, max_ngrams=MAX_NGRAMS, class_weight='balanced')
    text = TextPart(both.keys, both.weights_of_ngrams, both.weights[:, 1:] - both.weights[:, :1])
    known_words = np.unique(np.concatenate([row.words for row in rows]))
    return StrangerPart(text, known_words, (0.0, 0.0, 1.0), np.inf)


def _signs(part: StrangerPart, far: NDArray[np.float64], rows: Texts) -> Floats:
    return np.stack([part.signs(float(distance), row) for distance, row in zip(far, rows)])


def _weigh(scene_signs: Floats, stranger_signs: Floats) -> Floats:
    """Return the weights of the signs that tell the two apart best; none speaks for a scene."""
    signs = np.concatenate([scene_signs, stranger_signs])
    scale = np.maximum(scene_signs.std(axis=0), 0.01)
    model = scikit('linear_model').LogisticRegression(class_weight='balanced')
    model.fit(signs / scale, np.repeat([0, 1], [len(scene_signs), len(stranger_signs)]))
    weights: Floats = np.maximum(model.coef_[0], 0.0) / scale
    return weights
