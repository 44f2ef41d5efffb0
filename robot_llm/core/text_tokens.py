"""The text of a scene → words, numbers, and lengths in metres, whatever unit they are told in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import math
import re
from types import MappingProxyType
from typing import Final

_WORD: Final = re.compile(r'\d+(?:[.,]\d+)?|[^\W\d_]+|[%.;:!?",]')
PUNCTUATION: Final = frozenset('.;:!?",')
MAX_CHARS: Final = 2000
"""What lies behind adds nothing but time."""

# English; other languages need digits.
_ONES: Final[Mapping[str, int]] = MappingProxyType({word: value for value, word in enumerate(
    'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen '
    'fifteen sixteen seventeen eighteen nineteen'.split())})
_TENS: Final[Mapping[str, int]] = MappingProxyType({word: 10 * tens for tens, word in enumerate(
    'twenty thirty forty fifty sixty seventy eighty ninety'.split(), start=2)})
_BIG: Final[Mapping[str, int]] = MappingProxyType({'hundred': 100, 'thousand': 1000})
_METRES: Final[Mapping[str, float]] = MappingProxyType({
    name: metres for metres, names in (
        (1.0, 'm metre metres meter meters'),
        (0.1, 'dm decimetre decimetres decimeter decimeters'),
        (0.01, 'cm centimetre centimetres centimeter centimeters'),
        (0.001, 'mm millimetre millimetres millimeter millimeters'),
        (1000.0, 'km kilometre kilometres kilometer kilometers'),
        (0.3048, 'ft foot feet'), (0.0254, 'inch inches'), (0.9144, 'yd yard yards'),
        (0.75, 'step steps pace paces stride strides')) for name in names.split()})


@dataclass(frozen=True, slots=True)
class Number:
    """A number of the text; ``is_length`` if a unit of length came with it, in metres then."""

    value: float
    is_length: bool

    def size(self, steps: float) -> str:
        """
        Return its size on a logarithmic scale, as a word.

        :param steps: how many there are to a factor of two
        """
        value = min(max(self.value, 0.01), 1e9)
        return f'{"@" if self.is_length else "#"}{math.floor(steps * math.log2(value) + 1e-9)}'


Token = str | Number


def text_tokens(text: str) -> list[Token]:
    """
    Return words in lower case, punctuation, numbers and lengths, in the order of the text.

    "1900 mm", "1,9 m" and "one metre ninety" are the same; so are "seven" and "7".
    """
    words = _WORD.findall(text[:MAX_CHARS].casefold())
    tokens: list[Token] = []
    start = 0
    while start < len(words):
        token, start = _length_behind_unit(words, start) or _number(words, start) or (
            words[start], start + 1)
        tokens.append(token)
    return tokens


def words_of(tokens: Sequence[Token], steps: float) -> list[str]:
    """Return the tokens as words, numbers by their size; see ``Number.size``."""
    return [token if isinstance(token, str) else token.size(steps) for token in tokens]


def _length_behind_unit(words: Sequence[str], start: int) -> tuple[Number, int] | None:
    """Read what sensors write: ``range_mm=1450``."""
    metres = _METRES.get(words[start], 1.0)
    behind = words[start + 1:start + 3]
    if metres > 0.01 or not behind or not behind[0][0].isdecimal() or behind[-1] in _METRES:
        return None
    return Number(_from_digits(behind[0]) * metres, True), start + 2


def _number(words: Sequence[str], start: int) -> tuple[Number, int] | None:
    """Read a number and the unit behind it."""
    behind = words[start + 1] if start + 1 < len(words) else ''
    if words[start] in ('a', 'an') and behind in _METRES and behind != 'm':
        value, end = 1.0, start + 1
    elif (found := _value(words, start)) is not None:
        value, end = found
    else:
        return None
    unit = end + (words[end:end + 1] in (['a'], ['an']) and words[end - 1] == 'half')
    metres = _METRES.get(words[unit]) if unit < len(words) else None
    if metres is None:
        return Number(value, False), end
    end, value = unit + 1, value * metres
    if list(words[end:end + 3]) == ['and', 'a', 'half']:
        return Number(value + metres / 2, True), end + 3
    # "One metre twenty", unless the twenty has a unit of its own.
    more = _TENS.get(words[end], 0) if metres == 1.0 and end < len(words) else 0
    if more and not (end + 1 < len(words) and words[end + 1] in _METRES):
        return Number(value + more / 100, True), end + 1
    return Number(value, True), end


def _value(words: Sequence[str], start: int) -> tuple[float, int] | None:
    """Return the number that begins here, and where the words behind it begin."""
    begin = start
    if words[start] == 'a' and words[start + 1:start + 2] and words[start + 1] in (
            *_BIG, 'dozen', 'half', 'couple'):
        start += 1
    word = words[start]
    if word[0].isdecimal():
        value, end = _from_digits(word), start + 1
    elif word in _ONES or word in _TENS or word in _BIG:
        value, end = _from_words(words, start)
    elif word == 'half':
        value, end = 0.5, start + 1
    elif word == 'dozen':
        value, end = 12.0, start + 1
    elif word == 'couple' and start > begin:
        value, end = 2.0, start + 1 + (words[start + 1:start + 2] == ['of'])
    else:
        return None
    if word != 'dozen' and words[end:end + 1] == ['dozen']:
        value, end = 12 * value, end + 1
    if list(words[end:end + 3]) == ['and', 'a', 'half']:
        value, end = value + 0.5, end + 3
    return value, end


def _from_digits(word: str) -> float:
    # More digits than a float has are no size that anybody tells.
    return min(float(word.replace(',', '.')), 1e9)


def _from_words(words: Sequence[str], start: int) -> tuple[float, int]:
    """Return the value of number words that belong together; "two three" are two numbers."""
    thousands, value, end = 0.0, 0.0, start
    while end < len(words):
        word, rest = words[end], value % 100
        if word in _ONES:
            if rest and (rest < 20 or rest % 10 or not 0 < _ONES[word] < 10):
                break
            value += _ONES[word]
        elif word in _TENS:
            if rest:
                break
            value += _TENS[word]
        elif word == 'hundred':
            value = (value or 1.0) * 100
        elif word == 'thousand':
            thousands, value = thousands + (value or 1.0) * 1000, 0.0
        elif not (word == 'and' and value + thousands >= 100 and end + 1 < len(words) and (
                words[end + 1] in _ONES or words[end + 1] in _TENS)):
            break
        end += 1
    return min(thousands + value, 1e9), end
