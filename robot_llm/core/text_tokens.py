"""The text of a scene → words, numbers, and lengths in metres, whatever unit they are told in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import math
import re
from types import MappingProxyType
from typing import Final, NamedTuple

from robot_llm.core.numerals import (
    decimals_at, DIGITS, fraction_at, is_digit, plain_spelling, value_at)

_WORD: Final = re.compile(
    DIGITS + r'|(?<=\d)(?:[-–—/]| [-–—] )(?=\d)|[^\W\d_]+|[%.;:!?",]')
PUNCTUATION: Final = frozenset('.;:!?",')
MAX_CHARS: Final = 2000
"""What lies behind is not read: a longer scene is strange to every head."""
_RANGE_SIGNS: Final = frozenset(('-', '–', '—', ' - ', ' – ', ' — ', '/'))
"""Between digits; they join them and are no words."""
_PADDING: Final = ('',) * 6
"""Behind the last word, so that looking ahead needs no care."""

_METRES: Final[Mapping[str, float]] = MappingProxyType({
    name: metres for metres, names in (
        (1.0, 'm metre metres meter meters'),
        (0.1, 'dm decimetre decimetres decimeter decimeters'),
        (0.01, 'cm centimetre centimetres centimeter centimeters'),
        (0.001, 'mm millimetre millimetres millimeter millimeters'),
        (1000.0, 'km kilometre kilometres kilometer kilometers'),
        (0.3048, 'ft foot feet'), (0.0254, 'inch inches'), (0.9144, 'yd yard yards'),
        (0.75, 'step steps pace paces stride strides')) for name in names.split()})
_UNITS: Final = f'(?:{"|".join(_METRES)})'
_SMALLER: Final[Mapping[float, tuple[float, ...]]] = MappingProxyType({
    1000.0: (1.0,), 1.0: (0.1, 0.01, 0.001), 0.9144: (0.3048, 0.0254), 0.3048: (0.0254,)})
"""The units that a length may go on in: "2 m 80 cm", "six feet two inches"."""
_ARTICLES: Final = ('a', 'an')
_NO_CENTIMETRES: Final = frozenset((*_METRES, 'degree', 'degrees', 'deg', 'percent', '%'))
"""Behind "one metre twenty" they show that the twenty is something else."""


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


class _Length(NamedTuple):
    """A length, the unit of its number [m], and where the words behind it begin."""

    metres: float
    unit: float
    end: int


def text_tokens(text: str) -> list[Token]:
    """
    Return words in lower case, punctuation, numbers and lengths, in the order of the text.

    "1900 mm", "1,9 m", "one point nine metres" and "one metre ninety" are the same; so are "seven"
    and "7". Of a range, "two to three metres", both ends are lengths. A number whose unit is not
    known is no length, and what may be two lengths is the nearer one.
    """
    plain = plain_spelling(text[:MAX_CHARS].casefold(), _UNITS)
    words = [*_WORD.findall(plain), *_PADDING]
    tokens: list[Token] = []
    start = 0
    while start < len(words) - len(_PADDING):
        token, start = _length_behind_unit(words, start) or _number(words, start) or (
            words[start], start + 1)
        if token not in _RANGE_SIGNS:
            tokens.append(token)
    return tokens


def words_of(tokens: Sequence[Token], steps: float) -> list[str]:
    """Return the tokens as words, numbers by their size; see ``Number.size``."""
    return [token if isinstance(token, str) else token.size(steps) for token in tokens]


def _length_behind_unit(words: Sequence[str], start: int) -> tuple[Number, int] | None:
    """Read what sensors write: ``range_mm=1450``."""
    metres = _METRES.get(words[start], 1.0)
    if metres > 0.01 or not words[start + 1][:1].isdecimal() or words[start + 2] in _METRES:
        return None
    found = value_at(words, start + 1, metres)
    return (Number(found[0] * metres, True), found[1]) if found else None


def _number(words: Sequence[str], start: int) -> tuple[Number, int] | None:
    """Read a number, and the unit behind it or behind the range that it begins."""
    if (length := _length(words, start)) is not None:
        return Number(length.metres, True), length.end
    if (found := value_at(words, start)) is None:
        return None
    value, end = found
    num_joining = _num_joining(words, start, end)
    farther = _length(words, end + num_joining) if num_joining else None
    if farther is not None:
        nearer, _ = value_at(words, start, farther.unit) or found
        if nearer * farther.unit < farther.metres:
            return Number(nearer * farther.unit, True), end
    return Number(value, False), end


def _num_joining(words: Sequence[str], start: int, end: int) -> int:
    """Return how many words behind the number at ``start`` make it one end of a range."""
    if list(words[end:end + 2]) == ['.', '.']:
        return 2
    return int(words[end] in ('to', 'or') or words[end] in _RANGE_SIGNS
               or (words[end] == 'and' and words[start - 1] == 'between'))


def _length(words: Sequence[str], start: int) -> _Length | None:
    """Read a number with its unit, and what belongs to it behind the unit."""
    if (amount := _amount(words, start)) is None:
        return None
    value, end = amount
    unit = _METRES[words[end]]
    rest, end = _rest(words, end + 1, unit)
    return _Length(value * unit + rest, unit, end)


def _amount(words: Sequence[str], start: int) -> tuple[float, int] | None:
    """Return a number, and where its unit stands; None if none does."""
    if words[start] in _ARTICLES and words[start + 1] in _METRES and words[start + 1] != 'm':
        # How much "a fraction of a metre" is nobody knows.
        return None if words[start - 2] == 'fraction' else (1.0, start + 1)
    if (part := fraction_at(words, start)) and words[part[1]] in _METRES:
        return part
    # "A point sixteen inches away" is no decimal: people tell the digits.
    is_decimal = words[start] == 'point' and is_digit(words[start + 1])
    found = decimals_at(words, start) if is_decimal else None
    if found is None:
        if (found := value_at(words, start)) is None:
            return None
        end = found[1]
        part = fraction_at(words, end + 1) if words[end] == 'and' else None
        if part and words[part[1]] in _METRES and words[part[1] - 1] not in _ARTICLES:
            return found[0] + part[0], part[1]
        if unit := _METRES.get(words[end]):
            found = value_at(words, start, unit)
    return found if found and words[found[1]] in _METRES else None


def _rest(words: Sequence[str], start: int, unit: float) -> tuple[float, int]:
    """Return what follows a unit and belongs to it [m]: "and a half", "twenty", "5 cm"."""
    part = fraction_at(words, start + 1) if words[start] == 'and' else None
    if part and words[part[1]] not in (*_METRES, 'of', 'open') and (
            words[part[1] - 1] not in _ARTICLES):
        return part[0] * unit, part[1]
    if unit == 1.0 and words[start].isalpha() and (found := value_at(words, start)) and (
            10 <= found[0] < 100 and words[found[1]] not in _NO_CENTIMETRES):
        return found[0] / 100, found[1]
    more = _amount(words, start) if words[start] not in _ARTICLES else None
    if more and (smaller := _METRES[words[more[1]]]) in _SMALLER.get(unit, ()) and (
            more[0] * smaller < unit):
        return more[0] * smaller, more[1] + 1
    if unit == _METRES['ft'] and (found := value_at(words, start)) and (
            words[found[1]] == 'in' and found[0] < 12):
        return found[0] * _METRES['inch'], found[1] + 1
    return 0.0, start
