"""The decision head: hidden state and scene text → probabilities, and how strange both are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.strangers import StrangerPart
from robot_llm.core.text_features import read_text, TextFeatures, TextPart

Floats = NDArray[np.float32]

LEAST_LOG_PROB = -30.0
"""An impossible word counts as this unlikely, so that a weight of 0 can silence it."""


@dataclass(frozen=True, slots=True, eq=False)
class Familiarity:
    """
    How far a hidden state lies from everything the head was fitted on.

    A Mahalanobis distance to the nearest class mean. The covariance within the classes keeps its
    ``num_axes`` widest axes; all others are shrunk to one variance, so that nothing of size
    num_features squared has to be kept. The square is divided by num_features: an ordinary scene
    is near 1.

    Source: Lee et al. 2018, a simple unified framework for detecting out-of-distribution
    samples; Tipping and Bishop 1999 for the covariance.

    :param means: of the classes, in scaled features, shape (num_words, num_features)
    :param axes: orthonormal, shape (num_axes, num_features)
    :param axis_variances: shape (num_axes,), each above 0
    :param rest_variance: of every direction beside the axes, above 0
    :param max_distance: the limit; a scene beyond it is a stranger whatever its text
    """

    means: Floats
    axes: Floats
    axis_variances: Floats
    rest_variance: float
    max_distance: float

    def distance(self, features: Floats) -> float:
        """
        Return the distance to the nearest class, >= 0; NaN in, infinity out.

        :param features: one scaled hidden state, shape (num_features,)
        """
        offsets = features - self.means
        along = offsets @ self.axes.T
        rest = np.maximum((offsets ** 2).sum(axis=1) - (along ** 2).sum(axis=1), 0.0)
        squares = (along ** 2 / self.axis_variances).sum(axis=1) + rest / self.rest_variance
        nearest = float(squares.min())
        return float(np.sqrt(nearest / len(features))) if np.isfinite(nearest) else float('inf')


@dataclass(frozen=True, slots=True, eq=False)
class DecisionHead:
    """
    A multinomial logistic regression on hidden state and scene text; immutable, no I/O.

    ``log_softmax((scale(hidden) @ weights + text(scene) + bias) / temperature)``

    :param words: the classes, in the order of the columns
    :param offset: subtracted from the hidden state, shape (num_features,)
    :param scale: divides it then, shape (num_features,), each above 0
    :param weights: shape (num_features, num_words)
    :param bias: shape (num_words,)
    :param temperature: above 1 makes the probabilities less sure; fitted on held-out folds
    :param mix: weights of (head, model's own words) for the method ``both``, and a bias per word
    :param familiarity: how far a hidden state is from those of the fit
    :param text: what the n-grams of the scene say; None reads the hidden state alone
    :param max_chars: of the longest scene it was fitted to; a longer one is a stranger, since
        what it says of one danger drowns in the rest
    :param strangers: what is a stranger beside the distance; None goes by the distance alone
    """

    words: tuple[str, ...]
    offset: Floats
    scale: Floats
    weights: Floats
    bias: Floats
    temperature: float
    mix: tuple[float, ...]
    familiarity: Familiarity
    max_chars: int
    text: TextPart | None = None
    strangers: StrangerPart | None = None

    @property
    def num_features(self) -> int:
        """How long the hidden state is that it takes."""
        return len(self.offset)

    @property
    def num_bytes(self) -> int:
        """What the arrays take in memory [bytes]."""
        arrays: Sequence[Floats] = (
            self.offset, self.scale, self.weights, self.bias, self.familiarity.means,
            self.familiarity.axes, self.familiarity.axis_variances)
        parts = (part.num_bytes for part in (self.text, self.strangers) if part is not None)
        return sum(array.nbytes for array in arrays) + sum(parts)

    @property
    def weighs_words(self) -> bool:
        """Whether the weights for the method ``both`` were fitted."""
        return self.mix[1] != 0.0

    def read(self, scene: str) -> TextFeatures | None:
        """Return what is read of a scene's text; None for a head that reads none."""
        return read_text(scene) if self.text or self.strangers else None

    def features(self, hidden: Floats) -> Floats:
        """Return the scaled hidden state, shape (num_features,)."""
        return ((hidden - self.offset) / self.scale).astype(np.float32)

    def log_probs(
        self, features: Floats, text: TextFeatures | None,
    ) -> NDArray[np.float64]:
        """
        Return the log-probability of each word, shape (num_words,), float64.

        :param features: what ``features`` returned, shape (num_features,)
        :param text: what ``read`` returned
        """
        logits = (features @ self.weights + self.bias).astype(np.float64)
        if self.text is not None:
            assert text is not None, 'what read() returned'
            logits += self.text.logits(text)
        return log_softmax(logits / self.temperature)

    def mixed(
        self, log_probs: NDArray[np.float64], word_log_probs: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """
        Return the head's and the model's opinion as one, shape (num_words,), float64.

        :param log_probs: what ``log_probs`` returned, shape (num_words,)
        :param word_log_probs: the words in the model's own distribution, shape (num_words,)
        """
        head_weight, word_weight, *bias = self.mix
        own = np.maximum(log_softmax(word_log_probs), LEAST_LOG_PROB)
        return log_softmax(
            head_weight * log_probs + word_weight * own + np.array(bias))

    def is_stranger(
        self, features: Floats, text: TextFeatures | None, num_chars: int,
    ) -> bool:
        """
        Whether the scene is unlike anything the head was fitted on; see ``log_probs``.

        :param num_chars: of the scene's text
        """
        if num_chars > self.max_chars:
            return True
        distance = self.familiarity.distance(features)
        if distance > self.familiarity.max_distance:
            return True
        if self.strangers is None:
            return False
        assert text is not None, 'what read() returned'
        # In doubt, where a number is none, a stranger.
        return not self.strangers.score(distance, text) <= self.strangers.limit


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the normalised row, shape (n,); NaN or infinite logits give NaN."""
    with np.errstate(invalid='ignore', over='ignore'):
        shifted = logits - np.max(logits)
        normalised: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return normalised
