"""A report on the terminal: a line per figure as soon as it is known, and how far the work is."""

from collections.abc import Mapping
import sys
import time
from typing import Any, Final, TextIO

from robot_llm.bench.plot import Plot
from robot_llm.bench.report import SuiteReport
from robot_llm.bench.sample import Figure
from robot_llm.bench.suite import Finding
from robot_llm.bench.table import line_of

CLEAR_LINE: Final = '\r\x1b[K'


class Terminal:
    """
    Figures go to ``out``; progress to ``err``, in place if that is a terminal.

    :param is_quiet: no progress
    """

    def __init__(
        self, *, is_quiet: bool = False, out: TextIO | None = None, err: TextIO | None = None,
    ) -> None:
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self._is_quiet = is_quiet
        self._in_place = self._err.isatty()
        self._started_s = time.monotonic()

    def say(self, text: str) -> None:
        """Tell how far the work is."""
        if self._is_quiet:
            return
        elapsed = f'{time.monotonic() - self._started_s:4.0f} s'
        if self._in_place:
            self._err.write(f'{CLEAR_LINE}{elapsed}  {text}'[:110])
        else:
            self._err.write(f'{elapsed}  {text}\n')
        self._err.flush()

    def _write(self, line: str) -> None:
        if self._in_place and not self._is_quiet:
            self._err.write(CLEAR_LINE)
            self._err.flush()
        self._out.write(line + '\n')
        self._out.flush()

    def environment(self, groups: Mapping[str, Mapping[str, Any]]) -> None:
        """Print where the figures hold."""
        for group, facts in groups.items():
            told = (f'{name} {value}' for name, value in facts.items() if value not in ('', None))
            self._write(f'{group:9} {", ".join(told)}')

    def begin(self, suite: SuiteReport) -> None:
        """Print a suite's head."""
        self._write(f'\n{suite.name}: {suite.help}')

    def finding(self, finding: Finding) -> None:
        """Print a figure or a note; a plot has its place in the page."""
        if isinstance(finding, Figure):
            self._write(line_of(finding))
        elif not isinstance(finding, Plot):
            self._write('  ' + finding.replace('\n', '\n  '))

    def end(self, suite: SuiteReport) -> None:
        """Print what spoils a suite, if anything does."""
        if suite.error:
            self._write(f'  ended early: {suite.error}')
        if seen := suite.disturbance:
            if seen.problems:
                self._write(f'  disturbed: {"; ".join(seen.problems)}')
            self._write(f'  {seen.elapsed_s:.0f} s')

    def line(self, text: str) -> None:
        """Print a line of the output proper."""
        self._write(text)
