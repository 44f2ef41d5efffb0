"""One profile over one side of a scene file: every figure of issue and report, as one value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from robot_llm.core.head import DecisionHead
from robot_llm.evaluation.dataset import Dataset
from robot_llm.evaluation.metrics import (
    bootstrap, confusion, ece_if_calibrated, Predictions, reliability, risk_coverage,
    scalar_figures)
from robot_llm.evaluation.prediction import predict
from robot_llm.profile import DecisionMethod, DecisionRules

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class MethodResult:
    """What one method of deciding gave."""

    method: DecisionMethod
    predictions: Predictions
    figures: dict[str, float]
    intervals: dict[str, Interval]


@dataclass(slots=True, eq=False)
class Evaluation:
    """Everything a report shows; parts that were not asked for stay empty."""

    title: str
    facts: dict[str, Any]
    methods: list[MethodResult]
    order_bias: list[dict[str, Any]] = field(default_factory=list)
    strangers: dict[str, Any] = field(default_factory=dict)
    timing: dict[str, float] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return plain values, for ``--json``."""
        return {
            'title': self.title, 'facts': self.facts,
            'methods': [method_json(result) for result in self.methods],
            'order_bias': self.order_bias, 'strangers': self.strangers, 'timing': self.timing,
            'head': self.head}


def method_json(result: MethodResult) -> dict[str, Any]:
    """Return one method's figures as plain values."""
    predictions = result.predictions
    coverage, error = risk_coverage(predictions)
    steps = np.unique(np.linspace(0, len(coverage) - 1, 50).astype(int))
    return {
        'method': result.method, 'words': list(predictions.words),
        'figures': {
            name: {'value': value, 'interval': list(result.intervals[name])}
            for name, value in result.figures.items()},
        'confusion': confusion(predictions).tolist(),
        'reliability': [
            {'num_rows': count, 'confidence': sure, 'accuracy': right}
            for count, sure, right in reliability(predictions)],
        'risk_coverage': [[float(coverage[i]), float(error[i])] for i in steps]}


def evaluate_method(
    data: Dataset, rules: DecisionRules, head: DecisionHead | None, *, num_samples: int = 500,
) -> MethodResult:
    """Decide every row by ``rules.method`` and measure; intervals by bootstrap over groups."""
    predictions = predict(data, rules, head)
    figures = scalar_figures(predictions, rules)
    intervals = bootstrap(
        predictions, lambda sample: scalar_figures(sample, rules), num_samples=num_samples)
    by_chance = ece_if_calibrated(predictions)
    figures['ece_if_calibrated'] = float(by_chance.mean())
    intervals['ece_if_calibrated'] = (
        float(np.percentile(by_chance, 2.5)), float(np.percentile(by_chance, 97.5)))
    return MethodResult(rules.method, predictions, figures, intervals)


def order_bias(
    by_order: Mapping[tuple[str, ...], Predictions],
) -> list[dict[str, Any]]:
    """
    Return how the choice follows the order of the words in the prompt.

    :param by_order: predictions over the same scenes, by the words in the prompt's order
    :returns: per order: accuracy, and each word's share of the choices minus its share of the
        labels; a model without a bias has the same numbers everywhere
    """
    rows = []
    for order, predictions in by_order.items():
        chosen = np.bincount(predictions.best, minlength=len(order)) / len(predictions)
        right = np.bincount(predictions.labels, minlength=len(order)) / len(predictions)
        excess = {word: float(chosen[i] - right[i]) for i, word in enumerate(predictions.words)}
        rows.append({
            'order': list(order), 'accuracy': float(predictions.is_right.mean()),
            'excess': excess, 'first': excess[order[0]]})
    return rows


def rotations(words: Sequence[str], limit: int = 4) -> list[tuple[str, ...]]:
    """Return orders in which each word stands first once, at most ``limit`` of them."""
    words = tuple(words)
    return [words[i:] + words[:i] for i in range(min(len(words), limit))]


def stranger_figures(by_kind: Mapping[str, Predictions]) -> dict[str, Any]:
    """Return the share of texts that end in the fallback, and why, in all and per kind."""
    kinds = {}
    for kind, predictions in by_kind.items():
        kinds[kind] = {
            'num_texts': len(predictions),
            'fallback': float(predictions.is_fallback.mean()),
            'unfamiliar': float(predictions.is_stranger.mean())}
    total = sum(row['num_texts'] for row in kinds.values())
    return {
        'num_texts': total, 'kinds': kinds,
        **{name: sum(row[name] * row['num_texts'] for row in kinds.values()) / total
           for name in ('fallback', 'unfamiliar')}}
