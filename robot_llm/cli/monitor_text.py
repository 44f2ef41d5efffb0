"""Small words for a small screen: times, shares, bars, and text that cannot harm a terminal."""

from typing import Final

BLOCKS: Final = ' ▏▎▍▌▋▊▉█'
CONTROLS: Final = {
    code: '·' for code in (*range(0x20), *range(0x7f, 0xa0), *range(0x202a, 0x202f),
                           *range(0x2066, 0x206a)) if chr(code) != '\n'} | {ord('\t'): ' '}
"""C0, C1 and the marks that turn the direction of writing."""


def printable(text: str) -> str:
    """
    Return ``text`` without anything that a terminal would obey.

    What a model writes may hold escape sequences: they could recolour the screen, or answer for
    the keyboard.
    """
    return text.translate(CONTROLS)


def seconds(value_s: float) -> str:
    """Return a time in at most six characters; nothing for 0, which means unknown."""
    if value_s <= 0:
        return '–'
    if value_s < 0.0995:
        return f'{value_s * 1e3:.1f}ms' if value_s < 0.00995 else f'{value_s * 1e3:.0f}ms'
    return f'{value_s:.2f}s' if value_s < 9.995 else f'{value_s:.0f}s'


def share(value: float) -> str:
    """Return a ratio in percent, four characters wide; what is not nothing does not look so."""
    if 0 < value < 0.005:
        return ' <1%'
    return f'{value:4.0%}'


def bar(value: float, width: int) -> str:
    """Return a ratio 0..1 as a bar of ``width`` cells, in eighths of a cell."""
    eighths = round(min(max(value, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ('█' * full + (BLOCKS[rest] if rest else '')).ljust(width)


def number(value: str) -> str:
    """Return a figure of the diagnostics without the zeros behind it; anything else as it is."""
    head, dot, tail = value.partition('.')
    if dot and head.lstrip('-').isdigit() and tail.isdigit():
        return f'{float(value):.3g}' if abs(float(value)) < 100 else head
    return value
