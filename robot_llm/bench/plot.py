"""What a picture shows, as a value: it lies in the JSON report and can be drawn from it again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal['lines', 'bars', 'stack', 'histogram']
Style = Literal['ours', 'other', 'floor']


@dataclass(frozen=True, slots=True)
class Series:
    """
    One line, one colour of bars, or one part of a stack.

    ``x`` and ``y`` have one shape, (num_points,). ``low`` and ``high`` bound the spread around
    ``y``, the same shape or empty. Of bars and stacks ``x`` is empty and ``y`` belongs to the
    plot's ``labels``; of a histogram ``y`` holds the values that are counted.
    """

    name: str
    y: tuple[float, ...]
    x: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    style: Style = 'other'
    """``floor`` is what the hardware allows: drawn dotted."""


@dataclass(frozen=True, slots=True)
class Plot:
    """
    One picture.

    * lines: y over x
    * bars: horizontal, a group per label, a bar per series
    * stack: horizontal, a bar per label, its parts one after the other are the series
    * histogram: how often which value came, a series over the other
    """

    name: str
    """The file's name without suffix; unique in a report."""
    title: str
    """The sentence that a reader shall take away."""
    kind: Kind
    series: tuple[Series, ...]
    x_label: str = ''
    y_label: str = ''
    labels: tuple[str, ...] = ()
    is_log: tuple[bool, bool] = (False, False)
    """Whether x and y grow by factors."""
    limit: float | None = None
    """Where a promise ends: drawn as a line across."""
    caption: str = ''

    def as_dict(self) -> dict[str, Any]:
        """Return what goes into the JSON report."""
        return asdict(self)

    @classmethod
    def from_dict(cls, report: Mapping[str, Any]) -> 'Plot':
        """Return the plot that ``as_dict`` wrote."""
        series = tuple(
            Series(one['name'], tuple(one['y']), tuple(one['x']), tuple(one['low']),
                   tuple(one['high']), one['style']) for one in report['series'])
        is_log = tuple(bool(flag) for flag in report['is_log'])
        return cls(**{**report, 'series': series, 'labels': tuple(report['labels']),
                      'is_log': (is_log[0], is_log[1])})
