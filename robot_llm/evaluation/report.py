"""An evaluation as a table for the terminal, and as one HTML file that needs nothing else."""

from collections.abc import Iterator, Mapping
from typing import Final

from robot_llm.evaluation.evaluation import Evaluation
from robot_llm.evaluation.metrics import confusion
from robot_llm.html_page import HtmlPage

LABELS: Final[Mapping[str, tuple[str, str]]] = {
    'accuracy': ('right', 'share of scenes whose likeliest word is right'),
    'agreement': ('paraphrases agree', 'pairs of paraphrases with the same likeliest word'),
    'nll': ('NLL', 'negative log-likelihood [nats]; ln(number of words) is knowing nothing'),
    'brier': ('Brier score', 'squared distance to the right answer, 0 to 2'),
    'ece': ('ECE', 'gap between confidence and accuracy, 10 bins'),
    'ece_if_calibrated': ('ECE by chance', 'what a calibrated head would show on as many scenes'),
    'area_risk_coverage': ('AURC', 'mean error while the least sure scenes are left out'),
    'risk': ('cost', "mean cost of what was published, by the profile's costs"),
    'unsafe': ('unsafe', 'published words that are worse than the fallback'),
    'unsafe_by_group': ('unsafe, by group', 'the same, all groups alike: what `threshold` bounds'),
    'decided': ('decided', "scenes that got the method's word, not the fallback"),
    'unfamiliar': ('unfamiliar', 'scenes that fell back for being strange'),
}
SHARES: Final = {
    'accuracy', 'agreement', 'unsafe', 'unsafe_by_group', 'decided', 'unfamiliar'}


def figure_text(name: str, value: float, interval: tuple[float, float] | None = None) -> str:
    """Return a figure for people, with its 95% interval."""
    def one(number: float) -> str:
        return f'{number:.1%}' if name in SHARES else f'{number:.3f}'
    return one(value) + (f' [{one(interval[0])}, {one(interval[1])}]' if interval else '')


def text_report(evaluation: Evaluation) -> str:
    """Return the table for the terminal."""
    return '\n'.join(_text_lines(evaluation)) + '\n'


def _text_lines(evaluation: Evaluation) -> Iterator[str]:
    yield evaluation.title
    yield ', '.join(f'{name} {value}' for name, value in evaluation.facts.items())
    methods = evaluation.methods
    yield ''
    yield f'{"":18}' + ''.join(f'{result.method:>26}' for result in methods)
    for name, (label, _) in LABELS.items():
        cells = (figure_text(name, r.figures[name], r.intervals[name]) for r in methods)
        yield f'{label:18}' + ''.join(f'{cell:>26}' for cell in cells)
    for result in methods:
        words = result.predictions.words
        width = max(10, *map(len, words)) + 2
        yield ''
        yield f'{result.method}: right word down, likeliest across'
        yield ' ' * width + ''.join(f'{word:>{width}}' for word in words)
        for word, row in zip(words, confusion(result.predictions)):
            yield f'{word:{width}}' + ''.join(f'{count:>{width}}' for count in row)
    for row in evaluation.order_bias:
        excess = ', '.join(f'{word} {share:+.0%}' for word, share in row['excess'].items())
        yield (f'words in the order {", ".join(row["order"])}: {row["accuracy"]:.0%} right, '
               f'chosen more often than right: {excess}')
    if strangers := evaluation.strangers:
        yield ''
        yield (f'strangers: {strangers["fallback"]:.0%} of {strangers["num_texts"]} fall back, '
               f'{strangers["unfamiliar"]:.0%} of all as unfamiliar; ' + ', '.join(
                   f'{kind} {row["fallback"]:.0%}' for kind, row in strangers['kinds'].items()))
    if timing := evaluation.timing:
        yield ', '.join(f'{name} {value:.6g}' for name, value in timing.items())


def html_report(evaluation: Evaluation, plots: Mapping[str, bytes]) -> str:
    """Return one page with its pictures inside."""
    page = HtmlPage(evaluation.title)
    page.table(evaluation.facts.items())
    page.heading('Figures')
    page.paragraph('95% intervals by bootstrap over groups of paraphrases.')
    _add_figures(page, evaluation)
    for name, png in plots.items():
        title = name.replace('_', ' ')
        page.heading(title.capitalize())
        page.picture(png, title)
    if evaluation.order_bias:
        page.heading('Order of the words in the prompt')
        page.table(
            ([', '.join(row['order']), f'{row["accuracy"]:.1%}',
              *(f'{share:+.1%}' for share in row['excess'].values())]
             for row in evaluation.order_bias),
            ['order', 'right', *(f'{word}: chosen − right'
                                 for word in evaluation.order_bias[0]['excess'])])
    if strangers := evaluation.strangers:
        page.heading('Strangers: texts that are no scenes')
        page.table(
            ([kind, row['num_texts'], f'{row["fallback"]:.0%}', f'{row["unfamiliar"]:.0%}']
             for kind, row in (*strangers['kinds'].items(), ('all', strangers))),
            ['kind', 'texts', 'fall back', 'as unfamiliar, of all'])
    if evaluation.timing:
        page.heading('Time and memory')
        page.table((name, f'{value:.6g}') for name, value in evaluation.timing.items())
    return page.text()


def _add_figures(page: HtmlPage, evaluation: Evaluation) -> None:
    page.table(
        ([f'{label} — {meaning}', *(
            figure_text(name, r.figures[name], r.intervals[name]) for r in evaluation.methods)]
         for name, (label, meaning) in LABELS.items()),
        ['', *(result.method for result in evaluation.methods)])
