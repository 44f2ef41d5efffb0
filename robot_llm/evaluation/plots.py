"""The four plots of an evaluation, as PNG bytes."""

from collections.abc import Mapping
from typing import Any

from robot_llm.evaluation.evaluation import Evaluation, MethodResult
from robot_llm.evaluation.metrics import confusion, NUM_BINS, reliability, risk_coverage
from robot_llm.png_plot import draw_png


def draw_reliability(results: list[MethodResult]) -> bytes:
    """Draw confidence against accuracy, a diagram per method; on the diagonal it is honest."""
    def draw(figure: Any, axes: Any) -> None:
        for axis, result in zip(axes, results):
            bins = [row for row in reliability(result.predictions) if row[0]]
            total = sum(row[0] for row in bins)
            axis.plot([0, 1], [0, 1], ':', color='grey')
            axis.bar([row[1] for row in bins], [row[2] for row in bins], width=0.8 / NUM_BINS,
                     color='tab:blue', alpha=0.75)
            for count, sure, right in bins:
                axis.annotate(f'{count / total:.0%}', (sure, right), ha='center', va='bottom',
                              fontsize=7)
            axis.set(xlim=(0, 1), ylim=(0, 1.05), xlabel='confidence', ylabel='share right',
                     title=f'{result.method}: ECE {result.figures["ece"]:.3f}')
    return draw_png(draw, num_columns=len(results))


def draw_confusion(results: list[MethodResult]) -> bytes:
    """Draw which word was likeliest where which is right, a matrix per method."""
    def draw(figure: Any, axes: Any) -> None:
        for axis, result in zip(axes, results):
            counts = confusion(result.predictions)
            shares = counts / counts.sum(axis=1, keepdims=True).clip(1)
            words = result.predictions.words
            axis.imshow(shares, cmap='Blues', vmin=0, vmax=1)
            for (row, column), share in _cells(shares):
                axis.text(column, row, f'{share:.0%}', ha='center', va='center',
                          color='white' if share > 0.55 else 'black')
            axis.set(xticks=range(len(words)), yticks=range(len(words)), xlabel='likeliest word',
                     ylabel='right word',
                     title=f'{result.method}: {result.figures["accuracy"]:.0%} right')
            axis.set_xticklabels(words)
            axis.set_yticklabels(words)
    return draw_png(draw, num_columns=len(results))


def _cells(shares: Any) -> list[tuple[tuple[int, int], float]]:
    rows, columns = shares.shape
    return [((i, j), float(shares[i, j])) for i in range(rows) for j in range(columns)]


def draw_risk_coverage(results: list[MethodResult]) -> bytes:
    """Draw how the error falls while the least sure scenes are left out."""
    def draw(figure: Any, axes: Any) -> None:
        for result in results:
            axes[0].plot(*risk_coverage(result.predictions), label=result.method)
        axes[0].set(xlabel='coverage: share of scenes decided', ylabel='share of those wrong',
                    xlim=(0, 1), ylim=(0, None), title='risk and coverage')
        axes[0].legend()
    return draw_png(draw)


def draw_learning_curve(curve: list[dict[str, float]]) -> bytes:
    """Draw held-out accuracy by the number of situations fitted to."""
    def draw(figure: Any, axes: Any) -> None:
        axes[0].plot([point['num_groups'] for point in curve],
                     [point['accuracy'] for point in curve], 'o-')
        axes[0].set(xlabel='situations fitted to', ylabel='held-out accuracy', xlim=(0, None),
                    title='what more scenes would bring')
        axes[0].grid(alpha=0.3)
    return draw_png(draw)


def all_plots(evaluation: Evaluation) -> Mapping[str, bytes]:
    """Return PNG bytes by file name without suffix."""
    plots = {
        'reliability': draw_reliability(evaluation.methods),
        'confusion': draw_confusion(evaluation.methods),
        'risk_coverage': draw_risk_coverage(evaluation.methods)}
    if curve := evaluation.head.get('figures', {}).get('learning_curve'):
        plots['learning_curve'] = draw_learning_curve(curve)
    return plots
