"""Figures as lines for a terminal: the value, its spread, its target, met or missed."""

from typing import Final

from robot_llm.bench.sample import Figure, YES_OR_NO

NAME_WIDTH: Final = 48
PREFIXES: Final = ((1.0, ''), (1e-3, 'm'), (1e-6, 'µ'), (1e-9, 'n'))


def quantity(value: float, unit: str) -> str:
    """Return a value with its unit: three digits, seconds in the prefix that suits them."""
    if unit == YES_OR_NO:
        return 'yes' if value else 'no'
    if unit == 's' and value:
        scale, prefix = next(
            (pair for pair in PREFIXES if abs(value) >= pair[0]), PREFIXES[-1])
        return f'{value / scale:.3g} {prefix}s'
    digits = f'{value:.0f}' if abs(value) >= 1000 else f'{value:.3g}'
    return f'{digits} {unit}'.rstrip()


def cells_of(figure: Figure) -> tuple[str, str, str]:
    """Return the quoted value, the quartiles around the median, and the verdict; '' for none."""
    statistic = '' if figure.statistic == 'median' or figure.unit == YES_OR_NO else (
        f'{figure.statistic} ')
    spread = '' if len(figure.values) < 2 or figure.unit == YES_OR_NO else (
        f'{quantity(figure.percentile(25), figure.unit)} … '
        f'{quantity(figure.percentile(75), figure.unit)}')
    verdict = ''
    if figure.target is not None:
        limit = quantity(figure.target.limit, figure.unit)
        relation = '>=' if figure.target.is_floor else '<='
        wanted = limit if figure.unit == YES_OR_NO else f'{relation} {limit}'
        verdict = f'{"met   " if figure.is_met else "MISSED"} ({wanted})'
    return statistic + quantity(figure.quoted, figure.unit), spread, verdict


def line_of(figure: Figure) -> str:
    """Return the lines of one figure, its note below it."""
    value, spread, verdict = cells_of(figure)
    line = f'  {figure.name:{NAME_WIDTH}} {value:>14}  {spread:24}  {verdict}'.rstrip()
    return f'{line}\n      {figure.note}' if figure.note else line
