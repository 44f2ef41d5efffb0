"""The command ``evaluate``: how right, how sure, how steady, how fast."""

import argparse
from collections.abc import Sequence
import json
from pathlib import Path
import statistics
import time
from typing import Any, Final

import numpy as np
from robot_llm.core.head import DecisionHead
from robot_llm.engine.head_file import HeadOrigin
from robot_llm.evaluation.dataset import TEST_GOALS
from robot_llm.evaluation.engine import EvaluationEngine
from robot_llm.evaluation.evaluation import (
    evaluate_method, Evaluation, order_bias, rotations, stranger_figures)
from robot_llm.evaluation.metrics import Predictions
from robot_llm.evaluation.plots import all_plots
from robot_llm.evaluation.prediction import predict, with_method
from robot_llm.evaluation.report import html_report, text_report
from robot_llm.evaluation.scenes import LabelledScene
from robot_llm.evaluation.strangers import load_strangers
from robot_llm.evaluation.workplace import with_order, without_head, Workplace
from robot_llm.profile import DecisionMethod

NUM_TIMED: Final = 100
"""Scenes that are timed with and without the head in turn; the machine's mood hits both."""


def evaluate(options: argparse.Namespace) -> int:
    """Measure, print, and write what was asked for."""
    place = Workplace(options)
    rules = place.profile.decision
    has_head = rules.method != 'words'
    orders = rotations(place.profile.words)[1:] if options.order_scenes else []
    others = [without_head(with_order(place.profile, order)) for order in orders]
    scenes = place.scenes.scenes(options.split)
    goals = place.goals(TEST_GOALS)
    head: DecisionHead | None = None
    with place.open_engine(*others) as engine:
        evaluation = Evaluation(
            f'{place.profile.name} on {engine.info.name} {engine.info.quantization}', {
                'split': options.split, 'scenes': len(scenes),
                'groups': len({scene.group for scene in scenes}), 'goals': len(goals),
                'decides by': rules.method}, [])
        if has_head:
            head, origin = place.open_head(engine.info)
            evaluation.head = head_facts(place, head, origin)
        data = place.evidence(engine, scenes, goals)
        evaluation.methods = [evaluate_method(data, with_method(rules, method), head)
                              for method in methods_with(head)]
        sample = spread(scenes, options.order_scenes)
        by_order = {}
        for profile in (place.plain_profile, *others) if sample else ():
            ordered = place.evidence(engine, sample, goals[:1], profile)
            by_order[profile.words] = predict(ordered, place.plain_profile.decision, None)
        evaluation.order_bias = order_bias(by_order)
        evaluation.strangers = _strangers(place, engine, head, goals)
        evaluation.timing = _timing(place, head, options, scenes)
    write(evaluation, options)
    return 0


def methods_with(head: DecisionHead | None) -> Sequence[DecisionMethod]:
    """Return what there is to compare."""
    if head is None:
        return ('words',)
    return ('words', 'head', 'both') if head.weighs_words else ('words', 'head')


def head_facts(place: Workplace, head: DecisionHead, origin: HeadOrigin) -> dict[str, Any]:
    """Return what a report says of the head itself."""
    return {
        'file': Path(place.profile.decision.head).name, 'num_bytes': head.num_bytes,
        'is_of_these_scenes': origin.scenes_hash == place.scenes.content_hash,
        'versions': dict(origin.versions), 'figures': dict(origin.figures)}


def spread(scenes: Sequence[LabelledScene], count: int) -> tuple[LabelledScene, ...]:
    """Return ``count`` scenes spread evenly over all."""
    if not count:
        return ()
    step = max(len(scenes) / count, 1.0)
    return tuple(scenes[int(i * step)] for i in range(min(count, len(scenes))))


def _strangers(
    place: Workplace, engine: EvaluationEngine, head: DecisionHead | None, goals: Sequence[str],
) -> dict[str, Any]:
    rules = place.profile.decision
    by_kind: dict[str, Predictions] = {}
    for kind, texts in load_strangers().items():
        scenes = [LabelledScene(text, rules.fallback, text) for text in texts]
        by_kind[kind] = predict(place.evidence(engine, scenes, goals[:1]), rules, head)
    return stranger_figures(by_kind)


def _timing(
    place: Workplace, head: DecisionHead | None, options: argparse.Namespace,
    scenes: Sequence[LabelledScene],
) -> dict[str, float]:
    """Time decisions in an engine of their own, with and without the head in turn."""
    if not options.timing:
        return {}
    goal = (options.goal or TEST_GOALS)[0]
    # Read behind the prompt: not even the row of logits that the head needs behind the scene.
    decision = place.plain_profile.decision.model_copy(update={'reads': 'prompt'})
    plain = place.plain_profile.model_copy(
        update={'name': f'{place.profile.name}_words', 'decision': decision})
    profiles = {plain.name: plain}
    if head is not None:
        profiles[place.profile.name] = place.profile
    times: dict[str, list[float]] = {name: [] for name in profiles}
    with EvaluationEngine.open(place.model, profiles) as engine:
        for number, scene in enumerate(spread(scenes, NUM_TIMED)):
            # Whoever is second finds the scene in the cache; so they take turns at that too.
            for name in sorted(profiles, reverse=bool(number % 2)):
                engine.decide(name, 'unknown', goal)
                times[name].append(engine.decide(name, scene.text, goal).decision_s)
    medians = {name: statistics.median(values) for name, values in times.items()}
    timing = {'time to decision, words [s]': medians[plain.name]}
    if head is not None:
        low, middle, high = np.percentile(
            np.array(times[place.profile.name]) / times[plain.name], (25, 50, 75)).tolist()
        longest = max((scene.text for scene in scenes), key=len)
        head_s = seconds_per_head(head, longest)
        timing |= {
            'time to decision, head [s]': medians[place.profile.name],
            'head ÷ words, median of pairs': middle,
            'lower quartile': low, 'upper quartile': high,
            'the head itself [s]': head_s,
            'the head itself ÷ time to decision': head_s / medians[plain.name],
            'memory of the head [bytes]': head.num_bytes}
    return timing


def seconds_per_head(head: DecisionHead, scene: str) -> float:
    """Return what products and distance take, median of 200."""
    hidden = np.ones(head.num_features, np.float32)
    times = []
    for _ in range(200):
        started_s = time.perf_counter()
        features, text = head.features(hidden), head.read(scene)
        head.log_probs(features, text)
        head.is_stranger(features, text, len(scene))
        times.append(time.perf_counter() - started_s)
    return statistics.median(times)


def write(evaluation: Evaluation, options: argparse.Namespace) -> None:
    """Print the table or the JSON; write PNG files and the HTML page where asked for."""
    if options.json:
        print(json.dumps(evaluation.as_json(), ensure_ascii=False))
    else:
        print(text_report(evaluation), end='')
    if not (options.html or options.png):
        return
    plots = all_plots(evaluation)
    if options.html:
        options.html.write_text(html_report(evaluation, plots), encoding='utf-8')
    if options.png:
        options.png.mkdir(parents=True, exist_ok=True)
        for name, data in plots.items():
            (options.png / f'{name}.png').write_bytes(data)
