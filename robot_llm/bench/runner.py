"""Runs suites one after the other into a report, and writes it where the options say."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
import tempfile

from robot_llm.bench.drawing import draw
from robot_llm.bench.environment import environment
from robot_llm.bench.machine import Watch
from robot_llm.bench.page import html_report
from robot_llm.bench.plot import Plot
from robot_llm.bench.report import Report, SuiteReport
from robot_llm.bench.sample import Figure
from robot_llm.bench.suite import Context, Suite
from robot_llm.bench.terminal import Terminal
from robot_llm.errors import ConfigError, RobotLlmError
from robot_llm.png_plot import require_matplotlib


def measure(
    suites: Sequence[Suite], context: Context, terminal: Terminal, *,
    keep: Callable[[Report], None],
) -> Report:
    """
    Run the suites; one that fails ends early and says why, and the next one runs.

    :param keep: gets the report after every suite: the next one may take an hour, or all down
    :raises ModelLoadError: if the model's file cannot be read
    """
    report = Report(environment(context))
    terminal.environment(report.environment)
    for suite in suites:
        report.suites.append(found := SuiteReport(suite.name, suite.help))
        terminal.begin(found)
        try:
            _run(suite, with_defaults(context, suite), found, terminal)
        except KeyboardInterrupt:
            # What was measured so far is worth keeping; who pressed Ctrl-C wants no more of it.
            found.error = 'interrupted'
        terminal.end(found)
        keep(report)
        if found.error == 'interrupted':
            break
    return report


def _run(suite: Suite, context: Context, found: SuiteReport, terminal: Terminal) -> None:
    watch = Watch(children=True, knows_others=not getattr(context.options, 'node', ''))
    try:
        for finding in suite.run(context):
            if isinstance(finding, Figure):
                found.figures.append(finding)
            elif isinstance(finding, Plot):
                found.plots.append(finding)
            else:
                found.notes.append(finding)
            terminal.finding(finding)
            watch.calibrate()
    except RobotLlmError as error:
        found.error = str(error)
    except Exception as error:  # noqa: B902  the other suites' figures must not be lost with it
        found.error = f'{type(error).__name__}: {error}'
    finally:
        found.disturbance = watch.stop()


def with_defaults(context: Context, suite: Suite) -> Context:
    """Return the context with the suite's own options, where ``bench all`` did not parse them."""
    own = argparse.ArgumentParser()
    suite.add_options(own)
    return replace(context, options=argparse.Namespace(
        **{**vars(own.parse_args([])), **vars(context.options)}))


def prepare_outputs(options: argparse.Namespace) -> None:
    """
    Make the folders of the outputs, and see that everything can be written, before it is measured.

    :raises ConfigError: if a place cannot be written to, or pictures need matplotlib
    """
    for name in ('json', 'html', 'png'):
        if (path := getattr(options, name)) is None:
            continue
        folder = path if name == 'png' else path.parent
        if folder is not path and path.is_dir():
            raise ConfigError(f'--{name} {path} is a folder; give a file in it')
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise ConfigError(
                f'--{name} {path} cannot be written: {error.strerror}; give another place'
            ) from None
    if options.html or options.png:
        require_matplotlib()


def keep_values(report: Report, options: argparse.Namespace, terminal: Terminal) -> None:
    """Write the values that are known so far, if they are wanted; a full disk is told."""
    if options.json:
        try:
            report.write(options.json)
        except ConfigError as error:
            terminal.line(str(error))


def write_outputs(report: Report, options: argparse.Namespace, terminal: Terminal) -> None:
    """
    Write JSON, pictures and page, each where it is wanted.

    The values come first: they took the time, and everything else can be made from them.

    :raises ConfigError: if a file cannot be written, or matplotlib is not installed
    """
    if options.json:
        report.write(options.json)
        terminal.line(f'values: {options.json}')
    if not (options.html or options.png):
        return
    pictures = {(section, plot.name): draw(plot)
                for section, suite in report.sections.items() for plot in suite.plots}
    if options.png:
        for (section, name), png in pictures.items():
            number = section.removeprefix(report.sections[section].name)
            (options.png / f'{name}{number}.png').write_bytes(png)
        terminal.line(f'pictures: {options.png}')
    if options.html:
        options.html.write_text(html_report(report, pictures), encoding='utf-8')
        terminal.line(f'page: {options.html}')
