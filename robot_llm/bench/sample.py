"""Repeated measurements: interleaved, medians with spread, ratios run by run, targets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

Measure = Callable[[], float]
Statistic = Literal['median', 'p95', 'p99', 'max', 'min']

PERCENT: Final[Mapping[Statistic, int]] = {
    'min': 0, 'median': 50, 'p95': 95, 'p99': 99, 'max': 100}
"""The percentile that each statistic is."""
ENOUGH_FOR_P95: Final = 20
ENOUGH_FOR_P99: Final = 100
"""Of fewer values such a percentile lies between the last two: say the largest instead."""

YES_OR_NO = 'yes/no'
"""The unit of a figure whose values are 1 for yes and 0 for no; the worst of them is quoted."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure is held against: a ceiling, or a floor."""

    limit: float
    is_floor: bool = False

    def is_met(self, value: float) -> bool:
        """Whether ``value`` is on the right side of the limit, or on it."""
        return value >= self.limit if self.is_floor else value <= self.limit

    def __str__(self) -> str:
        """Return the relation and the limit."""
        return f'{">=" if self.is_floor else "<="} {self.limit:.4g}'


@dataclass(frozen=True, slots=True)
class Figure:
    """
    One measured quantity.

    ``values`` has shape (num_runs,), in the order of the runs, the warm-up left out. ``statistic``
    is the one of them to quote and to hold against ``target``; ``note`` says in one line what the
    numbers alone do not. With ``are_draws`` the values are no runs but draws of one estimate,
    whose distribution they show: more draws say nothing more of what was measured.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    target: Target | None = None
    statistic: Statistic = 'median'
    note: str = ''
    are_draws: bool = False

    @property
    def median(self) -> float:
        """The middle of the values."""
        return self.percentile(50)

    @property
    def quoted(self) -> float:
        """The value to quote."""
        return self.percentile(PERCENT[self.statistic])

    @property
    def is_met(self) -> bool | None:
        """Whether the quoted value meets the target; None without one."""
        return None if self.target is None else self.target.is_met(self.quoted)

    def percentile(self, percent: float) -> float:
        """Return a percentile, in proportion between two values, as everywhere in the package."""
        return float(np.percentile(self.values, percent))

    def as_dict(self) -> dict[str, Any]:
        """Return what goes into the JSON report."""
        report = {
            'name': self.name, 'unit': self.unit, 'statistic': self.statistic,
            'quoted': self.quoted, 'median': self.median, 'min': min(self.values),
            'p25': self.percentile(25), 'p75': self.percentile(75), 'p99': self.percentile(99),
            'max': max(self.values), 'target': str(self.target) if self.target else None,
            'is_met': self.is_met, 'note': self.note, 'are_draws': self.are_draws,
            'values': list(self.values)}
        if self.target is not None:
            report |= {'limit': self.target.limit, 'is_floor': self.target.is_floor}
        return report

    @classmethod
    def from_dict(cls, report: Mapping[str, Any]) -> 'Figure':
        """Return the figure that ``as_dict`` wrote; what it computed is computed anew."""
        target = (Target(report['limit'], report['is_floor'])
                  if report['target'] is not None else None)
        return cls(report['name'], report['unit'], tuple(report['values']), target,
                   report['statistic'], report['note'], report.get('are_draws', False))


def highest(num_values: int) -> Statistic:
    """Return ``p99`` where so many values have one, or else ``max``."""
    return 'p99' if num_values >= ENOUGH_FOR_P99 else 'max'


def tail(name: str, values: Sequence[float]) -> Iterator[Figure]:
    """Yield the high percentiles of pooled seconds, as far as there are enough values for them."""
    if len(values) >= ENOUGH_FOR_P95:
        yield Figure(f'{name}, p95', 's', tuple(values), statistic='p95')
    last = highest(len(values))
    yield Figure(f'{name}, {last}', 's', tuple(values), statistic=last)


def yes_or_no(name: str, answers: Sequence[bool], *, note: str = '') -> Figure:
    """Return a figure that is met where every answer is yes."""
    return Figure(name, YES_OR_NO, tuple(map(float, answers)), Target(1.0, is_floor=True), 'min',
                  note)


def interleave(
    measures: Mapping[str, Measure], *, num_runs: int, num_warm_up: int = 1,
) -> dict[str, tuple[float, ...]]:
    """
    Run every measure in turn, A B C A B C …, so that a slower minute is everybody's.

    :param measures: by name; each returns one value
    :param num_runs: how often each counts
    :param num_warm_up: rounds before them, which do not
    :returns: by name, shape (num_runs,)
    """
    values: dict[str, list[float]] = {name: [] for name in measures}
    for run in range(num_runs + num_warm_up):
        for name, measure in measures.items():
            value = measure()
            if run >= num_warm_up:
                values[name].append(value)
    return {name: tuple(numbers) for name, numbers in values.items()}


def ratio(
    name: str, ours: Sequence[float], theirs: Sequence[float], target: Target | None = None,
    *, note: str = '',
) -> Figure:
    """Return the ratio run by run: the two of one run saw the same machine."""
    return Figure(name, 'x', tuple(a / b for a, b in zip(ours, theirs)), target, note=note)
