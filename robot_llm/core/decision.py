"""A row of logits and a set of words → probabilities, confidence, the word, or the fallback."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class DecisionSource(IntEnum):
    """Who decided; wire values, append only."""

    MODEL = 1
    """The model, with enough confidence."""
    LOW_CONFIDENCE = 2
    """The fallback: the model's best word, or the whole set, was too unlikely."""
    UNFAMILIAR = 3
    """The fallback: the scene is unlike anything the decision head was fitted on."""
    DEADLINE = 4
    """The fallback: no decision in time, or no whole answer in time."""
    STALE_SCENE = 5
    """The fallback: the scene changed."""
    CANCELED = 6
    """The fallback: the goal ended before it was decided."""
    ERROR = 7
    """The fallback: the engine or the answer failed."""


@dataclass(frozen=True, slots=True)
class Decision:
    """
    One decision, ready to publish.

    ``probabilities`` has shape (num_words,), in the order of ``words``, and sums to 1; it is empty
    when the model was not asked. ``probability_mass`` is what the whole set had in the model's own
    distribution, 0..1.
    """

    word: str
    source: DecisionSource
    words: tuple[str, ...]
    probabilities: tuple[float, ...] = ()
    confidence: float = 0.0
    probability_mass: float = 0.0


def decide(
    words: Sequence[str],
    log_probs: NDArray[np.float64],
    *,
    fallback: str,
    min_confidence: float,
    min_probability_mass: float,
) -> Decision:
    """
    Choose a word, or the fallback where the model is in doubt.

    :param words: the decision set, shape (num_words,)
    :param log_probs: natural logarithm of each word's probability in the model's distribution,
        shape (num_words,); NaN or no finite entry counts as doubt
    :param fallback: the word that never moves the robot, one of ``words``
    :param min_confidence: the share of the set's mass that the best word needs, 0..1
    :param min_probability_mass: what the set needs of the whole distribution, 0..1
    """
    top = np.max(log_probs)
    if not np.isfinite(top):
        return Decision(fallback, DecisionSource.LOW_CONFIDENCE, tuple(words))
    weights = np.exp(log_probs - top)
    mass = min(float(np.exp(top) * weights.sum()), 1.0)
    probabilities = weights / weights.sum()
    best = int(np.argmax(probabilities))
    confidence = float(probabilities[best])
    is_sure = confidence >= min_confidence and mass >= min_probability_mass
    return Decision(
        word=words[best] if is_sure else fallback,
        source=DecisionSource.MODEL if is_sure else DecisionSource.LOW_CONFIDENCE,
        words=tuple(words),
        probabilities=tuple(float(p) for p in probabilities),
        confidence=confidence,
        probability_mass=mass)


def log_softmax_at(
    logits: NDArray[np.float32], token_ids: Sequence[int],
) -> NDArray[np.float64]:
    """
    Return the log-probabilities of a few tokens without normalising the whole row.

    :param logits: shape (n_vocab,), float32; not changed
    :param token_ids: which entries, shape (num_tokens,)
    :returns: shape (num_tokens,), float64
    """
    top = float(logits.max())
    log_total = top + float(np.log(np.exp(logits - top).sum(dtype=np.float64)))
    return logits[list(token_ids)].astype(np.float64) - log_total


class DecisionLatch:
    """
    The fail-safe rule as an object: one decision, after which only the fallback may follow.

    States: open → standing → fallen, or open → fallen. Nothing leads back.
    """

    def __init__(self, words: Sequence[str], fallback: str) -> None:
        self._words = tuple(words)
        self._fallback = fallback
        self._has_fallen = False
        self.standing: Decision | None = None
        """The decision that holds, published or about to be."""
        self.num_dropped = 0
        """Decisions that came after another one stood."""

    def offer(self, decision: Decision) -> Decision:
        """
        Latch the first decision; drop and count every later one.

        :returns: the decision that stands
        """
        if self.standing is None:
            self.standing = decision
        else:
            self.num_dropped += 1
        return self.standing

    def fall(self, source: DecisionSource) -> Decision | None:
        """
        Replace what stands by the fallback; only once.

        What the model had said stays in the message, so that an operator sees what was revoked.

        :param source: why
        :returns: the decision to publish, None if the latch has fallen before
        """
        if self._has_fallen:
            return None
        self._has_fallen = True
        said = self.standing or Decision(self._fallback, source, self._words)
        self.standing = Decision(
            self._fallback, source, self._words, said.probabilities, said.confidence,
            said.probability_mass)
        return self.standing
