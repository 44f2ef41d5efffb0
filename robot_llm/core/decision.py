"""A row of logits and a set of words → probabilities, confidence, the word, or the fallback."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from threading import Lock
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.head import DecisionHead
from robot_llm.profile import DecisionRules

NO_BARS: Final[Mapping[str, float]] = MappingProxyType({})


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
    distribution, 0..1. ``uncalibrated`` are the probabilities before a calibration; empty without.
    """

    word: str
    source: DecisionSource
    words: tuple[str, ...]
    probabilities: tuple[float, ...] = ()
    confidence: float = 0.0
    probability_mass: float = 0.0
    uncalibrated: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """
    What one evaluated prompt says about its decision; copied, valid for ever.

    ``log_probs`` are the words' in the model's own distribution, shape (num_words,), NaN where
    the model was not asked;
    ``hidden`` is a linear image of the probed token's state, shape (num_features,), empty if the
    runtime gives none; ``scene`` is the scene's text.
    """

    log_probs: NDArray[np.float64]
    hidden: NDArray[np.float32]
    scene: str = ''


def decide_by(
    rules: DecisionRules, evidence: Evidence, head: DecisionHead | None,
    bias: NDArray[np.float64] | None = None,
) -> Decision:
    """
    Choose a word by the profile's method, or the fallback where there is doubt.

    :param head: of ``rules.words``; None only for the method ``words``
    :param bias: see ``decide``
    """
    words = tuple(item.word for item in rules.words)
    by_model = decide(
        words, evidence.log_probs, fallback=rules.fallback, min_confidence=rules.min_confidence,
        min_probability_mass=rules.min_probability_mass, min_confidence_of=rules.min_confidence_of,
        bias=bias)
    if rules.method == 'words':
        return by_model
    assert head is not None and head.words == words, 'checked when the profile is compiled'
    features, text = head.features(evidence.hidden), head.read(evidence.scene)
    log_probs = head.log_probs(features, text)
    if rules.method == 'both':
        log_probs = head.mixed(log_probs, evidence.log_probs)
    decision = replace(
        decide(words, log_probs, fallback=rules.fallback, min_confidence=rules.min_confidence,
               min_probability_mass=0.0, min_confidence_of=rules.min_confidence_of),
        probability_mass=by_model.probability_mass)
    if head.is_stranger(features, text, len(evidence.scene)):
        return replace(decision, word=rules.fallback, source=DecisionSource.UNFAMILIAR)
    if by_model.probability_mass < rules.min_probability_mass:
        return replace(decision, word=rules.fallback, source=DecisionSource.LOW_CONFIDENCE)
    return decision


def decide(
    words: Sequence[str],
    log_probs: NDArray[np.float64],
    *,
    fallback: str,
    min_confidence: float,
    min_probability_mass: float,
    min_confidence_of: Mapping[str, float] = NO_BARS,
    bias: NDArray[np.float64] | None = None,
) -> Decision:
    """
    Choose a word, or the fallback where the model is in doubt.

    :param words: the decision set, shape (num_words,)
    :param log_probs: natural logarithm of each word's probability in the model's distribution,
        shape (num_words,); NaN or no finite entry counts as doubt
    :param fallback: the word that never moves the robot, one of ``words``
    :param min_confidence: the share of the set's mass that the best word needs, 0..1
    :param min_probability_mass: what the set needs of the whole distribution, 0..1
    :param min_confidence_of: a bar of its own for some of the words, instead of
        ``min_confidence``
    :param bias: logarithm of each word's probability where nothing is known, shape (num_words,);
        divided out. Source: contextual calibration, Zhao et al. 2021, "Calibrate Before Use"
    """
    top = np.max(log_probs)
    if not np.isfinite(top):
        return Decision(fallback, DecisionSource.LOW_CONFIDENCE, tuple(words))
    weights = np.exp(log_probs - top)
    mass = min(float(np.exp(top) * weights.sum()), 1.0)
    probabilities = said = weights / weights.sum()
    if bias is not None:
        logits = log_probs - bias
        probabilities = np.exp(logits - np.max(logits))
        probabilities /= probabilities.sum()
    best = int(np.argmax(probabilities))
    confidence = float(probabilities[best])
    bar = min_confidence_of.get(words[best], min_confidence)
    is_sure = confidence >= bar and mass >= min_probability_mass
    return Decision(
        word=words[best] if is_sure else fallback,
        source=DecisionSource.MODEL if is_sure else DecisionSource.LOW_CONFIDENCE,
        words=tuple(words),
        probabilities=tuple(float(p) for p in probabilities),
        confidence=confidence,
        probability_mass=mass,
        uncalibrated=() if bias is None else tuple(float(p) for p in said))


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

    States: open → standing → fallen, or open → fallen. Nothing leads back. Any thread may call:
    the worker offers while the deadline falls.
    """

    def __init__(self, words: Sequence[str], fallback: str) -> None:
        self._words = tuple(words)
        self._fallback = fallback
        self._has_fallen = False
        self._lock = Lock()
        self.standing: Decision | None = None
        """The decision that holds, published or about to be."""
        self.num_dropped = 0
        """Decisions that came after another one stood."""

    def offer(self, decision: Decision) -> Decision:
        """
        Latch the first decision; drop and count every later one.

        :returns: the decision that stands
        """
        with self._lock:
            if self.standing is None:
                self.standing = decision
            else:
                self.num_dropped += 1
            return self.standing

    def fall(self, source: DecisionSource, *, only_if_open: bool = False) -> Decision | None:
        """
        Replace what stands by the fallback; only once.

        What the model had said stays in the message, so that an operator sees what was revoked.

        :param source: why
        :param only_if_open: do nothing if a decision stands already
        :returns: the decision to publish, None if nothing changed
        """
        with self._lock:
            if self._has_fallen or (only_if_open and self.standing is not None):
                return None
            self._has_fallen = True
            said = self.standing or Decision(self._fallback, source, self._words)
            self.standing = Decision(
                self._fallback, source, self._words, said.probabilities, said.confidence,
                said.probability_mass, said.uncalibrated)
            return self.standing
