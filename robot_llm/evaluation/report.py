"""An evaluation as a table for the terminal, and as one HTML file that needs nothing else."""

import base64
from collections.abc import Iterator, Mapping
import html
from typing import Any, Final

from robot_llm.evaluation.evaluation import Evaluation
from robot_llm.evaluation.metrics import confusion

LABELS: Final[Mapping[str, tuple[str, str]]] = {
    'accuracy': ('right', 'share of scenes whose likeliest word is right'),
    'agreement': ('paraphrases agree', 'pairs of paraphrases with the same likeliest word'),
    'nll': ('NLL', 'negative log-likelihood [nats]; ln(number of words) is knowing nothing'),
    'brier': ('Brier score', 'squared distance to the right answer, 0 to 2'),
    'ece': ('ECE', 'gap between confidence and accuracy, 10 bins'),
    'area_risk_coverage': ('AURC', 'mean error while the least sure scenes are left out'),
    'risk': ('cost', "mean cost of what was published, by the profile's costs"),
    'unsafe': ('unsafe', 'published words that are worse than the fallback'),
    'decided': ('decided', "scenes that got the method's word, not the fallback"),
    'unfamiliar': ('unfamiliar', 'scenes that fell back for being strange'),
}
SHARES: Final = {'accuracy', 'agreement', 'unsafe', 'decided', 'unfamiliar'}


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
               f'{strangers["unfamiliar"]:.0%} as unfamiliar; ' + ', '.join(
                   f'{kind} {row["fallback"]:.0%}' for kind, row in strangers['kinds'].items()))
    if timing := evaluation.timing:
        yield ', '.join(f'{name} {value:.6g}' for name, value in timing.items())


_STYLE: Final = (
    'body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;'
    'color:#222}table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;'
    'padding:.3em .7em;text-align:right}td:first-child,th:first-child{text-align:left}'
    'img{max-width:100%}small{color:#666}')


def html_report(evaluation: Evaluation, plots: Mapping[str, bytes]) -> str:
    """Return one page with its pictures inside; it loads nothing from anywhere."""
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8">',
        f'<title>{html.escape(evaluation.title)}</title><style>{_STYLE}</style>',
        f'<h1>{html.escape(evaluation.title)}</h1>',
        _table([[name, value] for name, value in evaluation.facts.items()], ['', '']),
        '<h2>Figures</h2><p>95% intervals by bootstrap over groups of paraphrases.</p>',
        _figures_table(evaluation)]
    for name, data in plots.items():
        encoded = base64.b64encode(data).decode()
        title = name.replace('_', ' ')
        parts.append(f'<h2>{title.capitalize()}</h2>'
                     f'<img alt="{title}" src="data:image/png;base64,{encoded}">')
    if evaluation.order_bias:
        parts += ['<h2>Order of the words in the prompt</h2>', _table(
            [[', '.join(row['order']), f'{row["accuracy"]:.1%}',
              *(f'{share:+.1%}' for share in row['excess'].values())]
             for row in evaluation.order_bias],
            ['order', 'right', *(f'{word}: chosen − right'
                                 for word in evaluation.order_bias[0]['excess'])])]
    if strangers := evaluation.strangers:
        parts += ['<h2>Strangers: texts that are no scenes</h2>', _table(
            [[kind, row['num_texts'], f'{row["fallback"]:.0%}', f'{row["unfamiliar"]:.0%}']
             for kind, row in (*strangers['kinds'].items(), ('all', strangers))],
            ['kind', 'texts', 'fall back', 'of these as unfamiliar'])]
    if evaluation.timing:
        parts += ['<h2>Time and memory</h2>', _table(
            [[name, f'{value:.6g}'] for name, value in evaluation.timing.items()], ['', ''])]
    return '\n'.join(parts) + '\n'


def _figures_table(evaluation: Evaluation) -> str:
    rows = [[f'{label} — {meaning}', *(
        figure_text(name, r.figures[name], r.intervals[name]) for r in evaluation.methods)]
        for name, (label, meaning) in LABELS.items()]
    return _table(rows, ['', *(result.method for result in evaluation.methods)])


def _table(rows: list[list[Any]], header: list[str]) -> str:
    def line(cells: list[Any], tag: str) -> str:
        inner = ''.join(f'<{tag}>{html.escape(str(cell))}</{tag}>' for cell in cells)
        return f'<tr>{inner}</tr>'
    body = ''.join(line(row, 'td') for row in rows)
    return f'<table>{line(header, "th") if any(header) else ""}{body}</table>'
