"""How unlike every scene a text is: three signs of a stranger, weighed into one score."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.text_features import Keys, TextFeatures, TextPart


@dataclass(frozen=True, slots=True, eq=False)
class StrangerPart:
    """
    What tells a text that is no scene; immutable, no I/O.

    The signs: the logarithm of the hidden state's distance, the share of words that no scene of
    the fit has, and a linear model on n-grams that was fitted to scenes and to other texts. The
    last one knows commands to the reader, which are made of the scenes' own words.

    :param text: one column, above 0 for what is no scene
    :param known_words: keys of the scenes' words, ascending, shape (num_known,)
    :param weights: of the three signs
    :param limit: a score above it is a stranger's, however near its hidden state is
    """

    text: TextPart
    known_words: Keys
    weights: tuple[float, ...]
    limit: float

    @property
    def num_bytes(self) -> int:
        """What the arrays take in memory [bytes]."""
        return self.text.num_bytes + self.known_words.nbytes

    def signs(self, distance: float, text: TextFeatures) -> NDArray[np.float64]:
        """
        Return what is weighed, shape (3,).

        :param distance: of the hidden state, as ``Familiarity.distance`` gives it
        """
        return np.array([
            np.log(max(distance, 1e-3)), unknown_share(text, self.known_words),
            self.text.logits(text)[0]])

    def score(self, distance: float, text: TextFeatures) -> float:
        """Return how strange a scene is."""
        return float(self.signs(distance, text) @ np.array(self.weights))


def unknown_share(text: TextFeatures, known_words: Keys) -> float:
    """Return the share of different words that are not known, 0..1; 1 without any word."""
    is_known = np.isin(text.words, known_words)
    return float(1 - is_known.mean()) if len(is_known) else 1.0
