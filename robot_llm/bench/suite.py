"""A suite: what ``bench`` can measure, what it gets to measure with, and what it yields."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from robot_llm.bench.plot import Plot
from robot_llm.bench.sample import Figure
from robot_llm.settings import Settings

Finding = Figure | Plot | str
"""What a suite yields as soon as it knows it; a text is a note that stands in the report."""


def some_of(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Return what reads names with commas between them, all of them known, from an option."""
    def read(text: str) -> tuple[str, ...]:
        names = tuple(filter(None, text.split(',')))
        if strange := set(names) - set(known):
            raise argparse.ArgumentTypeError(
                f'{", ".join(sorted(strange))}: there are {", ".join(known)}')
        return names
    return read


@dataclass(frozen=True, slots=True)
class Context:
    """What every suite gets; what only it needs stands in ``options`` under its own names."""

    options: argparse.Namespace
    settings: Settings
    """``model.path`` and what else the common options say."""
    profiles: Path
    num_runs: int
    """Runs that count."""
    is_quick: bool
    """Whether the reader prefers an answer now to a narrow spread."""
    say: Callable[[str], None] = field(default=lambda text: None)
    """Tells how far the work is; not part of the report."""

    @property
    def model(self) -> Path:
        """The GGUF file."""
        return Path(self.settings.model.path)


@dataclass(frozen=True, slots=True)
class Suite:
    """
    One sub-command. Its module is imported only when it is asked for.

    The module has ``run(context: Context) -> Iterator[Finding]``, and where it takes options of
    its own ``add_options(parser)``, every one with a default. It raises ``RobotLlmError`` for what
    the user can mend.
    """

    name: str
    help: str  # noqa: A003  argparse calls it so
    module: str

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that only this suite takes."""
        if add := getattr(import_module(self.module), 'add_options', None):
            add(parser)

    def run(self, context: Context) -> Iterator[Finding]:
        """Measure, and yield what was found."""
        findings: Iterator[Finding] = import_module(self.module).run(context)
        return findings
