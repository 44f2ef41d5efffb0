"""Plots → pictures: few colours, readable in black and white, one sentence each."""

from collections.abc import Callable, Mapping
import re
import textwrap
from typing import Any, Final

from robot_llm.bench.plot import Kind, Plot, Series
from robot_llm.bench.table import quantity
from robot_llm.png_plot import draw_png

# Dark to light, so that they differ in grey too; the hatches tell neighbours apart.
GREYS: Final = ('#1f4e79', '#e08a1e', '#9fb8cf', '#5b5b5b', '#e3d5b8', '#a04040', '#c8c8c8',
                '#7fa37a', '#2f2f2f', '#d9c04a')
HATCHES: Final = ('', '//', '', '..', '', 'xx', '--', '\\\\', '', '++')
MARKERS: Final = 'osD^v<>'
MOST_TICKS: Final = 8
MOST_TIMES: Final = 5
"""Ticks of an axis with times: ``250 ms`` and ``500 ms`` must not run into each other."""
MOST_LETTERS: Final = 76
"""Of one line of a title."""
OURS: Final = GREYS[0]
FLOOR: Final = '#888888'
WIDTH: Final = 7.0


def draw(plot: Plot) -> bytes:
    """
    Return the plot as PNG bytes.

    :raises ConfigError: if matplotlib is not installed
    """
    def paint(figure: Any, axes: Any) -> None:
        axis = axes[0]
        for side, label, is_log in (('x', plot.x_label, plot.is_log[0]),
                                    ('y', plot.y_label, plot.is_log[1])):
            if is_log:
                getattr(axis, f'set_{side}scale')('log')
            _label(getattr(axis, f'{side}axis'), label, is_log=is_log)
        PAINTERS[plot.kind](axis, plot)
        axis.set_title(textwrap.fill(plot.title, MOST_LETTERS), loc='left', fontsize=11)
        for side in ('top', 'right'):
            axis.spines[side].set_visible(False)
    return draw_png(paint, size=(WIDTH, _height(plot)), dpi=90)


def _label(axis: Any, label: str, *, is_log: bool) -> None:
    """Write times at the ticks as people say them: ``20 ms``, not ``0.02`` and an ``s``."""
    is_time = _unit(label) == 's'
    text = re.sub(r' *\[s\]', '', label) if is_time else label
    axis.set_label_text(f'{text} (logarithmic)' if is_log else text)
    if is_time:
        if not is_log:
            axis.get_major_locator().set_params(nbins=MOST_TIMES)
        axis.set_major_formatter(lambda value, _: quantity(value, 's') if value else '0')


def _height(plot: Plot) -> float:
    if plot.kind == 'bars':
        return 1.2 + 0.28 * (len(plot.labels) * (len(plot.series) + 0.8))
    if plot.kind == 'stack':
        return max(1.0 + 0.45 * len(plot.labels), 1.6)
    return 3.6


def _colour(series: Series, index: int) -> str:
    return FLOOR if series.style == 'floor' else GREYS[index % len(GREYS)]


def _lines(axis: Any, plot: Plot) -> None:
    for index, series in enumerate(plot.series):
        colour = _colour(series, index)
        if series.style == 'floor':
            axis.plot(series.x, series.y, ':', color=colour, linewidth=2, label=series.name)
            continue
        axis.plot(series.x, series.y, '-', marker=MARKERS[index % len(MARKERS)], markersize=5,
                  color=colour, label=series.name)
        if series.low:
            axis.fill_between(series.x, series.low, series.high, color=colour, alpha=0.2)
    if plot.limit is not None:
        axis.axhline(plot.limit, color='black', linestyle='--', linewidth=1)
    places = sorted({round(x) for series in plot.series for x in series.x})
    if len(places) <= MOST_TICKS and _unit(plot.x_label) != 's':
        axis.set_xticks(places, [f'{place:,}' for place in places])
        axis.minorticks_off()
    if not plot.is_log[1]:
        axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=9)


def _bars(axis: Any, plot: Plot) -> None:
    num_series = len(plot.series)
    thickness = 0.8 / num_series
    longest = max(value for series in plot.series for value in series.y)
    for index, series in enumerate(plot.series):
        for row, value in enumerate(series.y):
            if not value:
                continue
            place = row + (index - (num_series - 1) / 2) * thickness
            errors = ([[value - series.low[row]], [series.high[row] - value]]
                      if series.low else None)
            axis.barh(place, value, thickness * 0.9, color=_colour(series, index),
                      hatch=HATCHES[index % len(HATCHES)], edgecolor='white', xerr=errors,
                      error_kw={'linewidth': 1}, label=series.name if row == 0 else None)
            end = series.high[row] if series.low else value
            axis.text(end * 1.08 if plot.is_log[0] else end + longest * 0.01, place,
                      quantity(value, _unit(plot.x_label)), va='center', fontsize=8)
    axis.set_yticks(range(len(plot.labels)), plot.labels)
    axis.set_ylim(len(plot.labels) - 0.5, -0.5)  # a row whose value is 0 has its place too
    axis.margins(x=0.15)
    if plot.limit is not None:
        axis.axvline(plot.limit, color='black', linestyle='--', linewidth=1)
    if num_series > 1:
        axis.legend(frameon=False, fontsize=8, loc='upper left', bbox_to_anchor=(1.0, 1.0))


def _stack(axis: Any, plot: Plot) -> None:
    lefts = [0.0] * len(plot.labels)
    whole = max(sum(series.y[row] for series in plot.series) for row in range(len(plot.labels)))
    for index, series in enumerate(plot.series):
        axis.barh(range(len(plot.labels)), series.y, 0.6, left=lefts,
                  color=_colour(series, index), hatch=HATCHES[index % len(HATCHES)],
                  edgecolor='white', label=_with_value(series, plot))
        for row, value in enumerate(series.y):
            # A part that is too small for its number is in the legend and the table.
            if value > 0.07 * whole:
                axis.text(lefts[row] + value / 2, row, quantity(value, _unit(plot.x_label)),
                          ha='center', va='center', fontsize=8,
                          bbox={'facecolor': 'white', 'edgecolor': 'none', 'pad': 1})
            lefts[row] += value
    axis.set_yticks(range(len(plot.labels)), plot.labels)
    axis.invert_yaxis()
    if plot.limit is not None:
        axis.axvline(plot.limit, color='black', linestyle='--', linewidth=1)
    axis.legend(frameon=False, fontsize=8, loc='center left', bbox_to_anchor=(1.0, 0.5))


def _with_value(series: Series, plot: Plot) -> str:
    """Return the name for the legend; of a single bar with the length, which may be too short."""
    if len(plot.labels) > 1:
        return series.name
    return f'{series.name} {quantity(series.y[0], _unit(plot.x_label))}'


def _histogram(axis: Any, plot: Plot) -> None:
    axis.hist([series.y for series in plot.series], bins=40, histtype='stepfilled', alpha=0.6,
              color=[_colour(series, index) for index, series in enumerate(plot.series)],
              label=[series.name for series in plot.series])
    if plot.limit is not None:
        axis.axvline(plot.limit, color='black', linestyle='--', linewidth=1)
    if len(plot.series) > 1:
        axis.legend(frameon=False, fontsize=9)


def _unit(label: str) -> str:
    """Return what stands in brackets in a label: ``time [s]`` → ``s``; '' for nothing."""
    match = re.search(r'\[([^]]+)\]', label)
    return match.group(1) if match else ''


PAINTERS: Final[Mapping[Kind, Callable[[Any, Plot], None]]] = {
    'lines': _lines, 'bars': _bars, 'stack': _stack, 'histogram': _histogram}
