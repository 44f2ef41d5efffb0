"""Runs suites one after the other into a report, and writes it where the options say."""

import argparse
from collections.abc import Sequence
from dataclasses import replace

from robot_llm.bench.drawing import draw
from robot_llm.bench.environment import environment
from robot_llm.bench.machine import Watch
from robot_llm.bench.page import html_report
from robot_llm.bench.plot import Plot
from robot_llm.bench.report import Report, SuiteReport
from robot_llm.bench.sample import Figure
from robot_llm.bench.suite import Context, Suite
from robot_llm.bench.terminal import Terminal
from robot_llm.errors import RobotLlmError


def measure(suites: Sequence[Suite], context: Context, terminal: Terminal) -> Report:
    """
    Run the suites; one that fails ends early and says why, and the next one runs.

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
        if found.error == 'interrupted':
            break
    return report


def _run(suite: Suite, context: Context, found: SuiteReport, terminal: Terminal) -> None:
    watch = Watch(children=True)
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


def write_outputs(report: Report, options: argparse.Namespace, terminal: Terminal) -> None:
    """
    Write JSON, pictures and page, each where it is wanted.

    The values come first: they took the time, and everything else can be made from them.

    :raises ConfigError: if pictures are wanted and matplotlib is not installed
    """
    if options.json:
        report.write(options.json)
        terminal.line(f'values: {options.json}')
    if not (options.html or options.png):
        return
    pictures = {plot.name: draw(plot) for plot in report.plots}
    if options.png:
        options.png.mkdir(parents=True, exist_ok=True)
        for name, png in pictures.items():
            (options.png / f'{name}.png').write_bytes(png)
        terminal.line(f'pictures: {options.png}')
    if options.html:
        options.html.write_text(html_report(report, pictures), encoding='utf-8')
        terminal.line(f'page: {options.html}')
