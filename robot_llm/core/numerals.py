"""Numbers as people and sensors tell them: digits, words, spoken decimals, fractions → values."""

from collections.abc import Mapping, Sequence
import re
from types import MappingProxyType
from typing import Final
import unicodedata

DIGITS: Final = (
    r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?(?![.,]?\d)|[1-9]\d{0,2}(?:[\u2009\u202f'’]\d{3})+(?!\w)|"
    r'[1-9]\d{0,2}(?:\.\d{3})+,\d+(?![.,]?\d)|'
    r'\d+(?:[.,·٫]\d+(?:e[-+]?\d{1,2}(?![\w.]))?)?|(?<![\w.])\.\d+')
"""Thousands "12,500.5", "12'500" and "12.500,5"; "2.8", "2,8", "2.8e-1"; ".5"."""

# English; other languages need digits.
_ONES: Final[Mapping[str, int]] = MappingProxyType({word: value for value, word in enumerate(
    'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen '
    'fifteen sixteen seventeen eighteen nineteen'.split())})
_TENS: Final[Mapping[str, int]] = MappingProxyType({word: 10 * tens for tens, word in enumerate(
    'twenty thirty forty fifty sixty seventy eighty ninety'.split(), start=2)})
_BIG: Final[Mapping[str, int]] = MappingProxyType({'hundred': 100, 'thousand': 1000})
_PARTS: Final[Mapping[str, int]] = MappingProxyType({
    'half': 2, 'halves': 2, 'quarter': 4, 'quarters': 4} | {
        word + plural: parts for plural in ('', 's') for word, parts in (
            *((word, parts) for parts, word in enumerate(
                'third fourth fifth sixth seventh eighth ninth tenth'.split(), start=3)),
            ('hundredth', 100), ('thousandth', 1000))})
_POINTS: Final = frozenset('point comma dot decimal'.split())
_ZEROS: Final = frozenset(('oh', 'o', 'nought', 'naught'))
_LEAST_DECIMAL_M: Final = 0.1
"""Nobody tells a shorter length to three decimals of its unit: "1,500 mm" has a thousand."""

_SPELLINGS: Final = tuple((re.compile(pattern), spelled) for pattern, spelled in (
    # 6'2" and 2m80.
    (r'(\d)\s?[\'’′]\s?(\d{1,2}(?:\.\d+)?)\s?(?:["”″]|[\'’′]{2})', r'\1 ft \2 in'),
    (r'(?<![\w.,])(\d{1,3})m(\d\d)(?!\w)', r'\1.\2 m'),
    (r'\b({0})-(?=(?:{0})\b(?!-(?:hundred|thousand)))'.format('|'.join((*_ONES, *_TENS)[1:10])),
     r'\1 to ')))
_VULGAR: Final = re.compile(
    r'(?:(\d{1,3})\s?)?([\u00bc-\u00be\u2150-\u215e])(?:\s(?:of\s)?an?(?=\s))?')


def plain_spelling(text: str, units: str) -> str:
    """
    Return a text with the numbers that are told by signs as decimals: "2½", "1 1/2 m", "2m80".

    :param text: in lower case
    :param units: a pattern of what makes "1/2" half of something; "gate 1/2" stays as it is
    """
    for pattern, spelled in _SPELLINGS:
        text = pattern.sub(spelled, text)
    text = _VULGAR.sub(
        lambda found: f'{int(found[1] or 0) + unicodedata.numeric(found[2]):.3f}', text)
    return re.sub(
        r'(?<![\w./,])(?:(\d{1,3})[ -])?(\d)[/⁄](\d\d?)(?:\s(?:of\s)?an?)?'
        rf'(?=[\s-]?(?:(?:to|or|[-–])\s?\S+\s)?{units}\b)', _as_decimal, text)


def _as_decimal(found: re.Match[str]) -> str:
    whole, part, parts = (int(number or 0) for number in found.groups())
    return f'{whole + part / parts:.3f}' if part < parts else found[0]


def value_at(
    words: Sequence[str], start: int, metres: float = 0.0,
) -> tuple[float, int] | None:
    """
    Return the number that begins here, and where the words behind it begin.

    :param words: in lower case, with a few empty ones at the end
    :param metres: its unit, as far as that is known; "1,500 m" are the nearer 1.5
    """
    begin = start
    if words[start] == 'a' and words[start + 1] in (*_BIG, 'dozen', 'half', 'couple'):
        start += 1
    word = words[start]
    if word[:1].isdecimal() or word[1:2].isdecimal():
        value, end = _from_digits(word, metres), start + 1
        value, end = _with_decimals(words, value, end) if word.isdecimal() else (value, end)
        value, end = _multiplied(words, value, end)
    elif word in _ONES or word in _TENS or word in _BIG:
        value, end = _with_decimals(words, *_from_words(words, start))
        value, end = _multiplied(words, value, end)
    elif word == 'half':
        is_of_dozen = words[start + 1] == 'a' and words[start + 2] == 'dozen'
        value, end = 0.5, start + 1 + is_of_dozen
    elif word == 'dozen':
        value, end = 12.0, start + 1
    elif word == 'couple' and start > begin:
        value, end = 2.0, start + 1 + (words[start + 1] == 'of')
    else:
        return None
    if word != 'dozen' and words[end] == 'dozen':
        value, end = 12 * value, end + 1
    if list(words[end:end + 3]) == ['and', 'a', 'half']:
        value, end = value + 0.5, end + 3
    return value, end


def is_digit(word: str) -> bool:
    """Return whether a word is one digit, such as "five", or digits."""
    return word.isdecimal() or word in _ZEROS or _ONES.get(word, 10) < 10


def decimals_at(words: Sequence[str], start: int) -> tuple[float, int] | None:
    """Return what "point seven five" says, 0..1, and where the words behind it begin."""
    if words[start] not in _POINTS:
        return None
    digits, end = '', start + 1
    while True:
        if words[end] in _ZEROS:
            digits, end = digits + '0', end + 1
        elif words[end].isdecimal() and not digits:
            return float(f'0.{words[end]}'), end + 1
        elif words[end] in _ONES or words[end] in _TENS:
            value, end = _below_hundred(words, end)
            digits += str(value)
        else:
            return (float(f'0.{digits}'), end) if digits else None


def fraction_at(words: Sequence[str], start: int) -> tuple[float, int] | None:
    """
    Return what "three quarters of a" or "half an" says, and where its unit has to stand.

    A part that could be an ordinal, "a third metre", needs the "of a".
    """
    value, end = 1.0, start
    if words[start] in ('a', 'an'):
        end += 1
    elif words[start] in _ONES or words[start].isdecimal():
        value, end = float(_ONES.get(words[start], words[start][:9])), start + 1
    if (parts := _PARTS.get(words[end])) is None:
        return None
    end += 1
    if words[end] == 'of' and words[end + 1] in ('a', 'an', 'one'):
        return value / parts, end + 2
    if parts == 2 and words[end] in ('a', 'an'):
        return value / parts, end + 1
    return (value / parts, end) if parts in (2, 4) else None


def _from_digits(word: str, metres: float) -> float:
    comma = word.count(',')
    if '.' in word and comma:
        # Two different signs: the last one is the decimal point.
        word = (word.replace(',', '') if word.rindex('.') > word.rindex(',')
                else word.replace('.', ''))
    elif re.fullmatch(r"[1-9]\d{0,2}(?:[,\u2009\u202f'’]\d{3})+", word):
        separated = re.sub(r'\D', '', word)
        if comma != 1 or float(word.replace(',', '.')) * metres < _LEAST_DECIMAL_M:
            word = separated
    # More digits than a float has are no size that anybody tells.
    return min(float(re.sub('[,·٫]', '.', word)), 1e9)


def _with_decimals(words: Sequence[str], value: float, end: int) -> tuple[float, int]:
    decimals = decimals_at(words, end)
    return (value + decimals[0], decimals[1]) if decimals else (value, end)


def _multiplied(words: Sequence[str], value: float, end: int) -> tuple[float, int]:
    """Return "2 hundred" and "two point five thousand" as one number."""
    while factor := _BIG.get(words[end]):
        value, end = min(value * factor, 1e9), end + 1
    return value, end


def _from_words(words: Sequence[str], start: int) -> tuple[float, int]:
    """Return the value of number words that belong together; "two three" are two numbers."""
    value, end = _below_thousand(words, start)
    if words[end] == 'thousand':
        value, end = (value or 1) * 1000, end + 1
        rest_at = end + (words[end] == 'and')
        rest, rest_end = _below_thousand(words, rest_at)
        if rest_end > rest_at and words[rest_end] != 'thousand':
            value, end = value + rest, rest_end
    return float(value), end


def _below_thousand(words: Sequence[str], start: int) -> tuple[int, int]:
    value, end = _below_hundred(words, start)
    if words[end] == 'hundred':
        value, end = (value or 1) * 100, end + 1
        rest_at = end + (words[end] == 'and')
        rest, rest_end = _below_hundred(words, rest_at)
        # "Between one hundred and two hundred" are two numbers.
        if rest_end > rest_at and words[rest_end] != 'hundred':
            value, end = value + rest, rest_end
    return value, end


def _below_hundred(words: Sequence[str], start: int) -> tuple[int, int]:
    """Return 0 and ``start`` where there is no number."""
    if (value := _ONES.get(words[start])) is not None:
        return value, start + 1
    if (tens := _TENS.get(words[start])) is None:
        return 0, start
    ones = _ONES.get(words[start + 1], 0)
    return (tens + ones, start + 2) if 0 < ones < 10 else (tens, start + 1)
