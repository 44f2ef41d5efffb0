"""A report: the environment, and of every suite its figures, plots and notes; as JSON and back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
import json
from pathlib import Path
from typing import Any, Final

from robot_llm.bench.machine import Disturbance
from robot_llm.bench.plot import Plot
from robot_llm.bench.sample import Figure
from robot_llm.errors import ConfigError

SCHEMA: Final = 1
"""Of the JSON file; rises when a reader of the old one would read something wrong."""


@dataclass(slots=True)
class SuiteReport:
    """What one suite found, in its order."""

    name: str
    help: str = ''  # noqa: A003  as in Suite
    figures: list[Figure] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: str = ''
    """Why it ended early; '' if it did not."""
    disturbance: Disturbance | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what goes into the JSON report."""
        return {
            'name': self.name, 'help': self.help, 'error': self.error,
            'disturbance': asdict(self.disturbance) if self.disturbance else None,
            'notes': self.notes,
            'figures': [figure.as_dict() for figure in self.figures],
            'plots': [plot.as_dict() for plot in self.plots]}

    @classmethod
    def from_dict(cls, report: Mapping[str, Any]) -> 'SuiteReport':
        """Return what ``as_dict`` wrote."""
        return cls(
            report['name'], report['help'],
            [Figure.from_dict(figure) for figure in report['figures']],
            [Plot.from_dict(plot) for plot in report['plots']],
            list(report['notes']), report['error'],
            Disturbance(**report['disturbance']) if report['disturbance'] else None)


@dataclass(slots=True)
class Report:
    """
    One call of ``bench``.

    ``environment`` is what a figure is worth nothing without: group of facts → name → value.
    """

    environment: dict[str, dict[str, Any]]
    suites: list[SuiteReport] = field(default_factory=list)

    @property
    def sections(self) -> dict[str, SuiteReport]:
        """The suites by names that differ: the second ``sweep`` of two files is ``sweep_2``."""
        found: dict[str, SuiteReport] = {}
        for suite in self.suites:
            number = sum(known.name == suite.name for known in found.values()) + 1
            found[suite.name if number == 1 else f'{suite.name}_{number}'] = suite
        return found

    def write(self, path: Path) -> None:
        """
        Write the JSON file; what was there stays until all of it is written.

        :raises ConfigError: if it cannot be written
        """
        text = json.dumps({
            'schema': SCHEMA, 'environment': self.environment,
            'suites': [suite.as_dict() for suite in self.suites]}, indent=1)
        part = path.with_name(f'{path.name}.part')
        try:
            part.write_text(f'{text}\n', encoding='utf-8')
            part.replace(path)
        except OSError as error:
            raise ConfigError(f'{path} cannot be written: {error.strerror}') from None

    @classmethod
    def read(cls, path: Path) -> 'Report':
        """
        Read a JSON file.

        :raises ConfigError: if it cannot be read, or is no report of this schema
        """
        try:
            report = json.loads(path.read_text(encoding='utf-8'))
            schema = report['schema']
        except OSError as error:
            raise ConfigError(f'{path}: {error.strerror}') from None
        except (ValueError, TypeError, KeyError):
            raise ConfigError(f'{path} is no report of bench --json') from None
        if schema != SCHEMA:
            raise ConfigError(
                f'{path} has schema {schema}, this bench reads {SCHEMA}; measure again')
        try:
            return cls(report['environment'],
                       [SuiteReport.from_dict(suite) for suite in report['suites']])
        except (TypeError, KeyError, ValueError) as error:
            raise ConfigError(f'{path} is a damaged report: {error!r}') from None
