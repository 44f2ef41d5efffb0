"""Texts that are no scenes: what a decision head must not be sure about."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from robot_llm.errors import ConfigError
from robot_llm.evaluation.dataset import Dataset
from robot_llm.evaluation.scenes import LabelledScene
import yaml

SHIPPED: Final = Path(__file__).with_name('strangers.yaml')
"""What heads are evaluated on; they are fitted to others, config/scenes/strangers.yaml."""


def load_strangers(path: Path = SHIPPED) -> dict[str, tuple[str, ...]]:
    """
    Return the texts by kind.

    :raises ConfigError: if the file is no mapping of lists of texts
    """
    try:
        content = yaml.safe_load(path.read_text(encoding='utf-8'))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f'{path} cannot be read: {error}') from error
    if not isinstance(content, dict) or not all(
            isinstance(texts, list) and texts and all(isinstance(t, str) and t for t in texts)
            for texts in content.values()):
        raise ConfigError(f'{path}: write kinds with a list of texts each, `code: [...]`')
    return {str(kind): tuple(texts) for kind, texts in content.items()}


def stranger_scenes(by_kind: Mapping[str, Sequence[str]], label: str) -> list[LabelledScene]:
    """Return the texts as scenes, kind by kind, with a label that nobody reads."""
    return [LabelledScene(text, label, text) for texts in by_kind.values() for text in texts]


def by_kinds(data: Dataset, by_kind: Mapping[str, Sequence[str]]) -> Dataset:
    """Return what was extracted of ``stranger_scenes`` with the kinds as words and labels."""
    counts = [len(texts) for texts in by_kind.values()]
    return replace(data, words=tuple(by_kind), labels=np.repeat(
        np.arange(len(counts)), counts).repeat(len(data) // sum(counts)))
