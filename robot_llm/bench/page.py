"""A report as one HTML page: where it was measured, the pictures, every figure."""

from collections.abc import Iterable, Mapping
from typing import Any

from robot_llm.bench.report import Report, SuiteReport
from robot_llm.bench.sample import Figure
from robot_llm.bench.table import cells_of
from robot_llm.html_page import HtmlPage


def html_report(report: Report, pictures: Mapping[tuple[str, str], bytes]) -> str:
    """
    Return the page; it loads nothing from anywhere.

    :param pictures: PNG bytes by section and the plot's name; a plot without one is left out
    """
    page = HtmlPage('robot_llm bench: ' + ', '.join(
        str(report.environment.get(group, {}).get(name, ''))
        for group, name in (('model', 'name'), ('model', 'quantization'), ('machine', 'cpu'))))
    page.contents([('environment', 'environment'),
                   *((section, section) for section in report.sections)])
    for section, suite in report.sections.items():
        _add_suite(page, section, suite, pictures)
    page.heading('Environment', anchor='environment')
    page.table([group, name, value] for group, facts in report.environment.items()
               for name, value in _told(facts))
    return page.text()


def _told(facts: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((name, value) for name, value in facts.items() if value not in ('', None))


def _add_suite(
    page: HtmlPage, section: str, suite: SuiteReport, pictures: Mapping[tuple[str, str], bytes],
) -> None:
    page.heading(f'{section}: {suite.help}', anchor=section)
    if suite.error:
        page.paragraph(f'Ended early: {suite.error}', is_bad=True)
    seen = suite.disturbance
    if seen and seen.problems:
        page.paragraph(
            f'The machine disturbed this suite: {"; ".join(seen.problems)}.', is_bad=True)
    for plot in suite.plots:
        if picture := pictures.get((section, plot.name)):
            page.picture(picture, plot.title, plot.caption)
    for note in suite.notes:
        (page.preformatted if '\n' in note else page.paragraph)(note)
    if suite.figures:
        page.table(map(_row, suite.figures), ['', 'value', 'half of the runs', 'runs', 'target'])
    if seen:
        others = ('' if seen.others_share is None else
                  f'others used {seen.others_share:.2f} cores, ')
        page.paragraph(
            f'{seen.elapsed_s:.0f} s; load {seen.load_before:.1f} before and '
            f'{seen.load_after:.1f} after, {others}'
            f'{seen.involuntary_switches} involuntary context switches, equal work took up to '
            f'{seen.calibration_spread:.2f} times as long')


def _row(figure: Figure) -> list[str]:
    name = f'{figure.name} ({figure.note})' if figure.note else figure.name
    value, spread, verdict = cells_of(figure)
    return [name, value, spread, str(len(figure.values)), verdict]
