"""What each command does: evaluate, fit, threshold, label."""

import argparse
from collections.abc import Iterator
from importlib.metadata import version
import json
from pathlib import Path
import platform
import re
import sys
from typing import Any

import numpy as np
from robot_llm.engine.head_file import HeadOrigin, prompt_hash, save_head
from robot_llm.errors import ConfigError
from robot_llm.evaluation.dataset import Dataset
from robot_llm.evaluation.engine import EvaluationEngine
from robot_llm.evaluation.fit import fit_head, held_out_predictions
from robot_llm.evaluation.label import append_group, candidates, label_all
from robot_llm.evaluation.prediction import predict
from robot_llm.evaluation.recipe import Recipe
from robot_llm.evaluation.scenes import load_scenes, SceneGroup
from robot_llm.evaluation.strangers import by_kinds, load_strangers, stranger_scenes
from robot_llm.evaluation.threshold import bar_path, choose_bars
from robot_llm.evaluation.workplace import config_folder, Workplace
from robot_llm.record_file import read_records


def fit(options: argparse.Namespace) -> int:
    """
    Fit a head to the fit split and save it.

    :raises ConfigError: with every problem of profile and scenes, or if the profile has a head
        already and no other file is named
    """
    place = Workplace(options)
    path = options.output or place.new_head_path()
    with place.open_engine() as engine:
        info = engine.info
        data = place.evidence(engine, place.scenes.scenes('fit'), place.fit_goals())
        strangers = _strangers(place, engine, options.strangers)
    fitted = fit_head(data, place.say, strangers=strangers)
    origin = HeadOrigin(
        profile=place.profile.name, model=f'{info.name} {info.quantization}',
        model_hash=info.fingerprint, prompt_hash=prompt_hash(info, place.profile),
        scenes_hash=place.scenes.content_hash,
        versions={'python': platform.python_version(), 'numpy': np.__version__,
                  'scikit-learn': version('scikit-learn')},
        figures=fitted.figures)
    save_head(path, fitted.head, origin)
    if options.json:
        print(json.dumps({'file': str(path), 'num_bytes': fitted.head.num_bytes,
                          'figures': fitted.figures}))
        return 0
    for line in _fit_lines(fitted.figures):
        print(line)
    print(f'{path}: {path.stat().st_size} bytes. In the profile:\n'
          f'decision:\n  method: head\n  head: {place.head_name(path)}')
    return 0


def _strangers(
    place: Workplace, engine: EvaluationEngine, path: Path | None,
) -> Dataset | None:
    """Ask about the texts that are no scenes; None where there is no such file."""
    shipped = config_folder() / 'scenes' / 'strangers.yaml'
    if path is None and not shipped.exists():
        return None
    by_kind = load_strangers(path or shipped)
    scenes = stranger_scenes(by_kind, place.profile.decision.fallback)
    return by_kinds(place.evidence(engine, scenes, place.fit_goals()), by_kind)


def _fit_lines(figures: dict[str, Any]) -> Iterator[str]:
    yield (f'held-out folds of the fit split ({figures["num_groups"]} groups, '
           f'C={figures["penalty"]:.2g}, text C={figures["text_penalty"]:.2g}):')
    for name, (low, high) in figures['intervals'].items():
        yield f'  {name:10} {figures[name]:.3f} [{low:.3f}, {high:.3f}]'
    if told := figures.get('told'):
        yield (f'  strangers  {told["strangers"]:.1%} told, {told["scenes"]:.1%} of the scenes '
               'called strange')
    for point in figures['learning_curve']:
        yield f'  with {point["num_groups"]:4} groups {point["accuracy"]:.1%} right'


def threshold(options: argparse.Namespace) -> int:
    """Choose the bars on the threshold split, and say what they guarantee."""
    place = Workplace(options)
    goals = place.fit_goals()
    rules = place.profile.decision
    with place.open_engine() as engine:
        head, recipe = None, None
        if rules.method != 'words':
            head, fitted_on = place.open_head(engine.info)
            recipe = Recipe.of(fitted_on.figures)
        fit_data = place.evidence(engine, place.scenes.scenes('fit'), goals)
        data = place.evidence(engine, place.scenes.scenes('threshold'), goals)
    path = bar_path(held_out_predictions(fit_data, rules, head, recipe), rules)
    choice = choose_bars(path, predict(data, rules, head), rules, options.max_unsafe,
                         options.confidence)
    lines = choice.profile_lines(rules.fallback)
    if options.write:
        write_bars(place.options.profiles / f'{place.profile.name}.yaml', lines)
    if options.json:
        print(json.dumps({
            'bars': dict(zip(choice.words, choice.bars)), 'max_unsafe': choice.max_unsafe,
            'confidence': choice.confidence,
            'num_groups': choice.num_groups, 'observed_unsafe': choice.observed_unsafe,
            'bound': choice.bound, 'decided': choice.decided, 'guarantee': choice.guarantee()}))
        return 0
    print(f'# {choice.num_groups} groups: {choice.observed_unsafe:.2%} unsafe, bound '
          f'{choice.bound:.2%}, {choice.decided:.0%} decided\n# {choice.guarantee()}')
    print(f'decision:\n{lines}', end='')
    return 0


def write_bars(path: Path, lines: str) -> None:
    """
    Put the bars into a profile file, and leave its comments alone.

    :param lines: as ``BarChoice.profile_lines`` gives them
    :raises ConfigError: if the file has no line ``min_confidence`` to replace
    """
    text = path.read_text(encoding='utf-8')
    bars, asymmetric = lines.splitlines()
    changed, count = re.subn(
        r'^  min_confidence: .*\n(  min_confidence_of: .*\n)?', f'{bars}\n{asymmetric}\n', text,
        count=1, flags=re.MULTILINE)
    if not count:
        raise ConfigError(f'{path} has no line `  min_confidence:` to replace; add it by hand')
    path.write_text(changed, encoding='utf-8')


def label(options: argparse.Namespace) -> int:
    """Label recorded scenes in the terminal."""
    place = Workplace(options)
    target: Path = options.output
    known = [text for group in place.scenes.groups for text in group.texts]
    if target.exists():
        labelled = load_scenes(target, place.profile.words)
        known += [text for group in labelled.groups for text in group.texts]

    def keep(group: SceneGroup) -> None:
        # With the first label: a file without any group is none.
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(
                f'profile: {place.profile.name}\nguideline: |\n'
                + ''.join(f'  {line}\n' for line in place.scenes.guideline.splitlines())
                + 'groups:\n', encoding='utf-8')
        append_group(target, group)

    found = candidates(read_records(options.records), place.profile.words, known)
    print(place.scenes.guideline)
    num_labelled = label_all(found[:options.limit], keep, input, print)
    print(f'{num_labelled} of {len(found)} labelled; fit again with --scenes … {target}',
          file=sys.stderr)
    return 0
