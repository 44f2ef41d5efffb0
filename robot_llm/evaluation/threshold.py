"""Bars per word with a guarantee on the unsafe decisions, by conformal risk control."""

from dataclasses import dataclass
import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from robot_llm.errors import ConfigError
from robot_llm.evaluation.metrics import group_losses, Predictions, unsafe_matrix
from robot_llm.profile import DecisionRules

Floats = NDArray[np.float64]

NUM_STEPS: Final = 400
LEAST_PRICE_INVERSE: Final = 1e-5
"""The path ends where one unsafe decision outweighs 100,000 that are lost to the fallback."""


@dataclass(frozen=True, slots=True)
class BarChoice:
    """
    The bars that were chosen, and what the guarantee rests on.

    ``bars`` has one entry per word, in the profile's order; the fallback's is 0.
    """

    words: tuple[str, ...]
    bars: tuple[float, ...]
    max_unsafe: float
    num_groups: int
    observed_unsafe: float
    """On the threshold split, which chose them."""
    decided: float
    confidence: float = 0.0
    """0 is a promise on average, anything else one with this probability."""

    @property
    def bound(self) -> float:
        """Return what the level is held against, 0..1; see ``risk_bound``."""
        return risk_bound(self.num_groups, self.observed_unsafe, self.confidence)

    def guarantee(self) -> str:
        """Return the guarantee in words, with its assumptions."""
        how = (
            f'This holds with a probability of {self.confidence:.0%} over the draw of a threshold '
            f'set of {self.num_groups} situations like this one, for new situations'
        ) if self.confidence else (
            f'This is an average over threshold sets of {self.num_groups} situations like this '
            'one and over the next situation,')
        return (
            f'Of the decisions on new situations, at most {self.max_unsafe:.2%} are expected to '
            f'be unsafe, that is, to cost more than the fallback would have. {how} all drawn from '
            'the same source (exchangeable), with paraphrases counted as one situation. It says '
            'nothing about one particular site, word or day, nor about scenes that are told in '
            'another way than these, and it ends when model, prompt, head or bars change.')

    def profile_lines(self, fallback: str) -> str:
        """Return the lines for the profile's ``decision``; bars are rounded up, never down."""
        bars = ', '.join(
            f'{word}: {math.ceil(bar * 1e4) / 1e4:.4f}'
            for word, bar in zip(self.words, self.bars) if word != fallback)
        # Above chance, so that a word that is no better than the others is never published.
        chance = math.ceil(1e2 / len(self.words) + 1e-9) / 1e2
        return f'  min_confidence: {chance}\n  min_confidence_of: {{{bars}}}\n'


def risk_bound(num_groups: int, observed: float, confidence: float) -> float:
    """
    Return how high the risk may be for all that was observed, 0..1.

    :param observed: mean loss of that many groups, each loss between 0 and 1
    :param confidence: 0 gives what conformal risk control adds up, (n * observed + 1) / (n + 1),
        a bound on average; anything above it the risk that is exceeded with a probability of
        1 - confidence at most, by Chernoff's bound for means of losses between 0 and 1

    Source: Angelopoulos et al. 2022, conformal risk control; Hoeffding 1963, theorem 1, as in
    Bates et al. 2021, distribution-free, risk-controlling prediction sets.
    """
    if not confidence:
        return (num_groups * observed + 1) / (num_groups + 1)
    enough = -math.log(1 - confidence) / num_groups
    low, high = observed, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _divergence(observed, middle) < enough else (low, middle)
    return high


def _divergence(observed: float, risk: float) -> float:
    """Return the Kullback-Leibler divergence between two coins [nats]."""
    if risk >= 1.0:
        return math.inf if observed < 1.0 else 0.0
    return sum(p * math.log(p / q) for p, q in ((observed, risk), (1 - observed, 1 - risk))
               if p > 0)


def missing_groups(num_groups: int, max_unsafe: float, confidence: float = 0.0) -> int:
    """
    Return how many situations are missing for a level that no amount of caution can reach.

    Even without one unsafe decision the bound is 1 / (n + 1), or, with a confidence,
    1 - (1 - confidence) ** (1 / n).
    """
    needed = (math.log(1 - confidence) / math.log(1 - max_unsafe) if confidence
              else 1 / max_unsafe - 1)
    return max(math.ceil(needed - 1e-9) - num_groups, 0)


def bar_path(held_out: Predictions, rules: DecisionRules) -> Floats:
    """
    Return ever higher bars, shape (num_steps, num_words): the order in which caution grows.

    Along the path an unsafe decision becomes dearer, beside one that is lost to the fallback; each
    word's bar is the cheapest at that price, by the probabilities themselves. So the words that
    risk more get the higher bars. No label is read; the guarantee does not rest on the path.

    :param held_out: of the fit split, from folds that never saw the row
    """
    unsafe = unsafe_matrix(rules)
    fallback = held_out.words.index(rules.fallback)
    prices = 1 / np.logspace(0, np.log10(LEAST_PRICE_INVERSE), NUM_STEPS)
    path = np.zeros((NUM_STEPS + 1, len(held_out.words)))
    path[-1] = 1.0
    for word in range(len(held_out.words)):
        chosen = held_out.best == word
        # Sorted from the surest down: the first k rows are what a bar lets through.
        order = np.argsort(-held_out.confidence[chosen], kind='stable')
        sure = held_out.confidence[chosen][order]
        risk = (held_out.probabilities[chosen] @ unsafe[:, word])[order]
        gains = np.arange(len(sure) + 1) - np.multiply.outer(
            prices, np.concatenate([[0.0], np.cumsum(risk)]))
        passed = np.argmax(gains, axis=1)
        bars = np.concatenate([[1.0], sure])[passed]
        bars[passed == len(sure)] = 0.0
        path[:-1, word] = bars
    path[:, fallback] = 0.0
    return np.maximum.accumulate(path, axis=0)


def with_bars(predictions: Predictions, bars: Floats, fallback: int) -> Predictions:
    """Return what is published under these bars; a stranger's fallback stays."""
    falls = predictions.is_stranger | (predictions.confidence < bars[predictions.best])
    return Predictions(
        predictions.words, predictions.probabilities, predictions.labels, predictions.groups,
        predictions.scenes, np.where(falls, fallback, predictions.best), falls,
        predictions.is_stranger)


def choose_bars(
    path: Floats, calibration: Predictions, rules: DecisionRules, max_unsafe: float,
    confidence: float = 0.0,
) -> BarChoice:
    """
    Return the least cautious bars of the path from which on the bound on the risk meets the level.

    The unit is the group: its paraphrases are not independent, its loss is their mean. The loss
    falls along the path, so that a bound for each of its bars is one for the bars that are chosen.

    :param path: shape (num_steps, num_words), ever higher
    :param calibration: of the threshold split, which neither fit nor path has seen
    :param max_unsafe: the level, 0..1, above 0
    :param confidence: see ``risk_bound``
    :raises ConfigError: if the split has too few groups for the level, with how many are missing
    """
    num_groups = len(np.unique(calibration.groups))
    if missing := missing_groups(num_groups, max_unsafe, confidence):
        raise ConfigError(
            f'--max-unsafe {max_unsafe}: the threshold split has {num_groups} groups, '
            f'{num_groups + missing} are needed, {missing} are missing (a fifth of all groups '
            f'is in this split: about {5 * missing} more in the file); the strictest level these '
            f'allow is {risk_bound(num_groups, 0.0, confidence):.4f}')
    unsafe = unsafe_matrix(rules)
    fallback = calibration.words.index(rules.fallback)
    for bars in path:
        published = with_bars(calibration, bars, fallback)
        observed = float(group_losses(published, unsafe).mean())
        choice = BarChoice(
            calibration.words, tuple(float(bar) for bar in bars), max_unsafe, num_groups, observed,
            float((~published.is_fallback).mean()), confidence)
        if choice.bound <= max_unsafe + 1e-12:
            return choice
    raise ConfigError(
        f'--max-unsafe {max_unsafe}: not even certainty is safe enough on this split; a decision '
        'of the fallback itself must be able to be wrong')
