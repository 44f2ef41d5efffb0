"""Repeated measurements: interleaved, medians with spread, and ratios run by run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Measure = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Figure:
    """
    One measured quantity.

    ``values`` has shape (num_runs,), in the order of the runs, the warm-up left out.
    """

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The value to quote."""
        return median(self.values)

    def percentile(self, percent: float) -> float:
        """Return the nearest-rank percentile."""
        ordered = sorted(self.values)
        return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]

    def as_dict(self) -> dict[str, Any]:
        """Return what goes into the JSON report."""
        return {'name': self.name, 'unit': self.unit, 'median': self.median,
                'min': min(self.values), 'max': max(self.values), 'p99': self.percentile(99),
                'values': list(self.values)}


def interleave(measures: Mapping[str, Measure], *, num_runs: int) -> dict[str, tuple[float, ...]]:
    """
    Run every measure in turn, A B C A B C …, so that a slower minute is everybody's.

    :param measures: by name; each returns one value
    :param num_runs: how often each counts; one run before them warms up and does not
    :returns: by name, shape (num_runs,)
    """
    values: dict[str, list[float]] = {name: [] for name in measures}
    for run in range(num_runs + 1):
        for name, measure in measures.items():
            value = measure()
            if run:
                values[name].append(value)
    return {name: tuple(numbers) for name, numbers in values.items()}


def ratio(name: str, ours: Sequence[float], theirs: Sequence[float]) -> Figure:
    """Return the ratio run by run: the two of one run saw the same machine."""
    return Figure(name, 'x', tuple(a / b for a, b in zip(ours, theirs)))
