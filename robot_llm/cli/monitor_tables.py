"""The monitor's figures: the times of the last goals, the node's health; knows no terminal."""

from collections.abc import Iterator, Mapping
import re
from typing import Final

from rich.text import Text
from robot_llm.cli.monitor_goal import GoalView
from robot_llm.cli.monitor_state import MonitorState
from robot_llm.cli.monitor_text import number, printable, seconds
from robot_llm.cli.monitor_view import BAD, BUSY, DOUBT, fitted, GOOD, Painted, QUIET, WHOLE

LEVEL_STYLES: Final = {'OK': GOOD, 'WARN': DOUBT, 'ERROR': BAD, 'STALE': QUIET}

FIRST: Final = ('ttft', 'tpot', 'cancel_latency')
"""What an operator looks for; behind it whatever the node sends."""
IN_HEADER: Final = frozenset({'model', 'device', 'quantization', 'lifecycle_state',
                              'queue_length'})
PERCENTILE: Final = re.compile(r'(?P<name>\w+)_p(?P<percentile>\d+)_s')

GOAL_ROW: Final = '{:<8} {:<24} {:<13} {:>6} {:>6} {:>5} {:>6}'
GOAL_TITLES: Final = GOAL_ROW.format(
    'goal', 'decision', 'end', 'first', '/token', 'count', 'total')


def paint_goals(state: MonitorState, width: int, height: int, _now_s: float) -> Painted:
    """
    Return the last goals, the newest first, one line each.

    ``first`` is the time from the goal to its decision, ``/token`` the mean time of the tokens
    behind it, ``total`` the time to the END: what the node wrote on its messages.
    """
    lines = [Text(f' {GOAL_TITLES}', QUIET)]
    for goal in [goal for goal in reversed(state.goals.values()) if goal.tokens][:height - 1]:
        lines.append(_goal_line(goal))
    return Painted('last goals', fitted(lines, width, height))


def _goal_line(goal: GoalView) -> Text:
    reason = goal.finish_reason
    style = (BUSY if not reason else GOOD if reason in WHOLE
             else BAD if reason in ('ERROR', 'CUT OFF') else DOUBT)
    source = '' if goal.source in ('', 'MODEL') else f' {goal.source}'
    row = GOAL_ROW.format(
        goal.short_id, printable(f'{goal.word}{source}')[:24], reason or 'running',
        seconds(goal.ttft_s), seconds(goal.tpot_s), goal.num_completion_tokens,
        seconds(goal.total_s))
    line = Text(f' {row}')
    line.stylize(style, 35, 48)
    return line


def paint_health(state: MonitorState, width: int, height: int, now_s: float) -> Painted:
    """Return level, message and as many of the figures as there is room for."""
    level, message, values = state.health(now_s)
    lines = [Text.assemble((f' {level} ', f'bold reverse {LEVEL_STYLES[level]}'), ' ',
                           printable(message))]
    lines += [_health_line(name, value, width) for name, value in health_rows(values)]
    hidden = len(lines) - height
    if hidden > 0:
        del lines[height - 1:]
        lines.append(Text(f' {hidden + 1} more: h', QUIET))
    return Painted('health', fitted(lines, width, height))


def _health_line(name: str, value: str, width: int) -> Text:
    """Return a figure at the right edge, where it is found at a glance."""
    return Text(f' {name} {value.rjust(width - len(name) - 3)}')


def health_rows(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the figures worth a line; zeros and what the header shows are left out."""
    percentiles: dict[str, list[str]] = {}
    others: dict[str, str] = {}
    for key, value in values.items():
        if match := PERCENTILE.fullmatch(key):
            percentiles.setdefault(match['name'], []).append(
                f'p{match["percentile"]} {seconds(_float(value)):>5}')
        elif value and key not in IN_HEADER and _float(value) != 0.0:
            others[key] = printable(number(value))
    for name in sorted(percentiles, key=lambda n: FIRST.index(n) if n in FIRST else len(FIRST)):
        yield name, ' '.join(percentiles[name])
    yield from others.items()


def health_text(state: MonitorState, now_s: float) -> Text:
    """Return everything that ``/diagnostics`` says of the node."""
    level, message, values = state.health(now_s)
    width = max((len(key) for key in values), default=0)
    text = Text.assemble(
        (f' {level} ', f'bold reverse {LEVEL_STYLES[level]}'), ' ', printable(message), '\n')
    for key, value in values.items():
        text.append(f'\n{key:<{width}}  {printable(value)}')
    return text


def _float(value: str) -> float:
    """Return a figure; what is none is worth a line as well."""
    try:
        return float(value)
    except ValueError:
        return 1.0
