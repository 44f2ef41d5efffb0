"""The text of a scene → weighed n-grams → logits: what a head reads beside the hidden state."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
import zlib

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.text_tokens import PUNCTUATION, text_tokens, Token, words_of

Floats = NDArray[np.float32]
Halfs = NDArray[np.float16]
Keys = NDArray[np.uint32]
Part = tuple[Keys, Floats]
"""The keys of one kind of n-gram, each once, and 1 + log(count) of each; shape (n,) both."""

PART_WEIGHTS: Final = (1.0, 0.3, 1.0, 0.5, 0.8)
"""How much each kind counts, in the order of ``text_parts``; chosen by the held-out folds."""
_LENGTHS: Final = (2, 3, 4, 5)
"""Of the character n-grams, within a word and its borders."""
_GAP: Final = 6
"""How far apart the two words of a pair may stand."""
_NEGATIONS: Final = frozenset(
    'no not nobody nothing none never without neither nor cannot t isn aren hasn'.split())
"""English, as the apostrophe leaves them: "isn't" is two words."""
_SCOPE: Final = 5
"""Words behind a negation that it may be about, within its clause."""
_MAX_LENGTHS: Final = 8
"""Lengths of a text that are held against each of its words."""


@dataclass(frozen=True, slots=True, eq=False)
class TextFeatures:
    """
    What is read of one text.

    :param parts: its n-grams by kind, in the order of ``PART_WEIGHTS``
    :param words: a key per different word, ascending; no numbers, no punctuation
    """

    parts: tuple[Part, ...]
    words: Keys


@dataclass(frozen=True, slots=True, eq=False)
class TextPart:
    """
    A linear model on the n-grams of the scene's text; immutable, no I/O.

    :param keys: of the n-grams that it knows, ascending, shape (num_ngrams,)
    :param weights_of_ngrams: how telling an n-gram is whatever the word, as inverse document
        frequency, shape (num_ngrams,)
    :param weights: shape (num_ngrams, num_words)
    """

    keys: Keys
    weights_of_ngrams: Halfs
    weights: Halfs

    @property
    def num_bytes(self) -> int:
        """What the arrays take in memory [bytes]."""
        return self.keys.nbytes + self.weights_of_ngrams.nbytes + self.weights.nbytes

    def logits(self, text: TextFeatures) -> NDArray[np.float64]:
        """Return what a text adds to each word's logit, shape (num_words,), float64."""
        total = np.zeros(self.weights.shape[1])
        for rows, values in known_parts(text.parts, self.keys, self.weights_of_ngrams):
            total += values @ self.weights[rows].astype(np.float32)
        return total


def known_parts(
    parts: Sequence[Part], keys: Keys, weights_of_ngrams: Halfs,
) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Yield per kind the rows of the n-grams that are known, and their weighed values."""
    for (found, values), weight in zip(parts, PART_WEIGHTS, strict=True):
        rows = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
        is_known = keys[rows] == found
        rows = rows[is_known]
        weighed = values[is_known] * weights_of_ngrams[rows].astype(np.float32)
        length = max(float(np.linalg.norm(weighed)), 1e-6)
        yield rows, (weighed * (weight / length)).astype(np.float32)


def read_text(text: str) -> TextFeatures:
    """
    Return five kinds of n-grams, and the words.

    Words and their neighbours; pieces of words, with which an unknown form of a known word still
    says something; pairs of words that stand near each other, in their order; words behind a
    negation; and lengths beside every word of the text, since what stands where at which distance
    decides. Numbers are sizes: fine ones alone, coarser ones in company.
    """
    tokens = text_tokens(text)
    fine, middle, coarse = (words_of(tokens, steps) for steps in (4, 2, 1))
    kinds = (
        _words(tokens, fine, middle, coarse), _pieces(middle), _pairs(coarse), _negated(coarse),
        _lengths(words_of(tokens, 1.5)))
    words = sorted({_key(token) for token in tokens
                    if isinstance(token, str) and token not in PUNCTUATION})
    return TextFeatures(tuple(_count(kind, ngrams) for kind, ngrams in enumerate(kinds)),
                        np.array(words, np.uint32))


def _words(
    tokens: Sequence[Token], fine: Sequence[str], middle: Sequence[str], coarse: Sequence[str],
) -> Iterator[str]:
    yield from fine
    for token, medium, rough in zip(tokens, middle, coarse):
        if not isinstance(token, str):
            yield f'm{medium}'
            yield f'c{rough}'
    for left, right in zip(middle, middle[1:]):
        yield f'{left} {right}'


def _pieces(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if word not in PUNCTUATION:
            padded = f' {word} '
            for length in _LENGTHS:
                for start in range(len(padded) - length + 1):
                    yield padded[start:start + length]


def _pairs(words: Sequence[str]) -> Iterator[str]:
    for start, left in enumerate(words):
        for right in words[start + 1:start + 1 + _GAP]:
            yield f'{left} {right}'


def _negated(words: Iterable[str]) -> Iterator[str]:
    num_left = 0
    for word in words:
        if word in PUNCTUATION:
            num_left = 0
        elif num_left:
            num_left -= 1
            yield word
        if word in _NEGATIONS:
            num_left = _SCOPE


def _lengths(words: Sequence[str]) -> Iterator[str]:
    lengths = sorted({word for word in words if word[0] == '@'})[:_MAX_LENGTHS]
    for word in dict.fromkeys(words):
        if word[0] not in '@#' and word not in PUNCTUATION:
            for length in lengths:
                yield f'{length} {word}'


def _count(kind: int, ngrams: Iterable[str]) -> Part:
    counts: dict[int, int] = {}
    for ngram in ngrams:
        key = _key(f'{kind}{ngram}')
        counts[key] = counts.get(key, 0) + 1
    values = 1 + np.log(np.fromiter(counts.values(), np.float32, len(counts)))
    return np.fromiter(counts, np.uint32, len(counts)), values


def _key(ngram: str) -> int:
    # crc32: the same on every machine and in every version, unlike Python's own hash.
    return zlib.crc32(ngram.encode('utf-8', 'replace'))
