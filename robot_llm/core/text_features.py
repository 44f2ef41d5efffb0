"""The text of a scene → hashed n-grams → logits: what a head reads beside the hidden state."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
import math
import re
from types import MappingProxyType
from typing import Final
import zlib

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Half = tuple[NDArray[np.int64], Floats]
"""The buckets one kind of n-gram falls into, and 1 + log(count) of each; shape (n,) both."""

_NUMBER: Final = re.compile(r'\d+(?:[.,]\d+)?')
_WORD: Final = re.compile(r'[^\W_]+|#-?\d+|%')
_NUMBERS: Final[Mapping[str, float]] = MappingProxyType({
    **{word: float(value) for value, word in enumerate(
        'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen '
        'fifteen sixteen seventeen eighteen nineteen twenty'.split())},
    **{word: 10.0 * tens for tens, word in enumerate(
        'thirty forty fifty sixty seventy eighty ninety hundred'.split(), start=3)},
    'half': 0.5, 'thousand': 1000.0})
"""English; other languages need digits."""
_UNITS: Final[Mapping[str, str]] = MappingProxyType({
    'metre': 'm', 'metres': 'm', 'meter': 'm', 'meters': 'm', 'centimetre': 'cm',
    'centimetres': 'cm', 'centimeter': 'cm', 'centimeters': 'cm', 'percent': '%'})
_COARSE: Final = 3
"""Steps of a number's size that are one in the pairs with a neighbour: a factor of 2.8."""
_LENGTHS: Final = (2, 3, 4, 5)
"""Of the character n-grams, within a word and its borders."""
_MAX_CHARS: Final = 2000
"""What lies behind adds nothing but time: 2,000 characters take 3 ms."""


@dataclass(frozen=True, slots=True, eq=False)
class TextPart:
    """
    A linear model on the n-grams of the scene's text; immutable, no I/O.

    :param weights_of_ngrams: how telling a bucket is whatever the word, as inverse document
        frequency, shape (num_buckets,)
    :param weights: shape (num_buckets, num_words)
    """

    weights_of_ngrams: Floats
    weights: Floats

    def logits(self, text: str) -> NDArray[np.float64]:
        """Return what the text adds to each word's logit, shape (num_words,), float64."""
        total = np.zeros(self.weights.shape[1])
        for buckets, values in text_halves(text, len(self.weights)):
            total += weigh(values, self.weights_of_ngrams[buckets]) @ self.weights[buckets]
        return total


def weigh(values: Floats, weights_of_ngrams: Floats) -> Floats:
    """Return the weighed half, of length 1; shape (n,)."""
    weighed = values * weights_of_ngrams
    return (weighed / max(float(np.linalg.norm(weighed)), 1e-6)).astype(np.float32)


def text_halves(text: str, num_buckets: int) -> tuple[Half, Half]:
    """
    Return the n-grams of words, and those of characters.

    Words, their pairs and the company of numbers carry the meaning; with pieces of words an
    unknown form of a known word still says something. N-grams that share a bucket are added.
    """
    words = normalized_words(text[:_MAX_CHARS])
    return _count(_word_ngrams(words), num_buckets), _count(_char_ngrams(words), num_buckets)


def normalized_words(text: str) -> list[str]:
    """Return the words in lower case; a number becomes its size, in steps of the root of two."""
    def from_digits(match: re.Match[str]) -> str:
        return f' {_size(float(match[0].replace(",", ".")))} '
    words = _WORD.findall(_NUMBER.sub(from_digits, text.casefold()))
    return [_size(_NUMBERS[word]) if word in _NUMBERS else _UNITS.get(word, word)
            for word in words]


def _size(value: float) -> str:
    return f'#{math.floor(2 * math.log2(min(max(value, 0.01), 1e9)))}'


def _word_ngrams(words: list[str]) -> Iterator[str]:
    for word in words:
        yield f'w {word}'
    for left, right in zip(words, words[1:]):
        yield f'w {left} {right}'
    # "7 m" and "6 m" are far alike, and a number belongs to the word after next as well.
    coarse = [f'#{int(word[1:]) // _COARSE}' if word[0] == '#' else word for word in words]
    for gap in (1, 2):
        for left, right in zip(coarse, coarse[gap:]):
            if '#' in (left[0], right[0]):
                yield f'{gap} {left} {right}'


def _char_ngrams(words: list[str]) -> Iterator[str]:
    for word in words:
        padded = f' {word} '
        for length in _LENGTHS:
            for start in range(len(padded) - length + 1):
                yield padded[start:start + length]


def _count(ngrams: Iterator[str], num_buckets: int) -> Half:
    # crc32: the same on every machine and in every version, unlike Python's own hash.
    counts: dict[int, int] = {}
    for ngram in ngrams:
        bucket = zlib.crc32(ngram.encode('utf-8', 'replace')) % num_buckets
        counts[bucket] = counts.get(bucket, 0) + 1
    buckets = np.fromiter(counts, np.int64, len(counts))
    return buckets, 1 + np.log(np.fromiter(counts.values(), np.float32, len(counts)))
