"""Scenes and goals → what the model says of each, as arrays; kept in a resumable cache."""

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
import hashlib
import json
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.decision import Evidence
from robot_llm.evaluation.engine import EvaluationEngine
from robot_llm.evaluation.scenes import LabelledScene

FIT_GOALS: Final = (
    'Drive on to the charging dock.', 'Go to room 4.', 'May I go on?',
    'Bring the parcel to the front desk.')
"""A head is fitted with all of them, so that it does not hang on one."""
TEST_GOALS: Final = ('Drive on to the charging dock.', 'Return to the workshop.')
"""A head is evaluated with these; it never saw the second one."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """
    One row per scene and goal, or per scene alone.

    ``hidden`` has shape (num_rows, num_features), ``log_probs`` (num_rows, num_words); ``labels``
    index ``words``, ``groups`` and ``scenes`` count from 0, ``decision_s`` is 0 for what came from
    the cache. All others have shape (num_rows,).
    """

    words: tuple[str, ...]
    hidden: NDArray[np.float32]
    log_probs: NDArray[np.float64]
    labels: NDArray[np.int64]
    groups: NDArray[np.int64]
    scenes: NDArray[np.int64]
    decision_s: NDArray[np.float64]
    texts: tuple[str, ...]
    """The scenes' own, num_rows of them."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.labels)

    @property
    def num_groups(self) -> int:
        """How many situations there are."""
        return len(np.unique(self.groups))

    def rows(self, which: NDArray[Any]) -> 'Dataset':
        """Return some of the rows, by index or by mask."""
        return Dataset(
            self.words, self.hidden[which], self.log_probs[which], self.labels[which],
            self.groups[which], self.scenes[which], self.decision_s[which],
            tuple(np.array(self.texts, object)[which]))


class EvidenceCache:
    """
    Evidence by model, prompt, scene and goal, one line of JSON each; an interrupted run goes on.

    :param path: grows line by line; None keeps nothing
    :param identity: of model and prompt; another one's lines are never found
    """

    def __init__(self, path: Path | None, identity: str) -> None:
        self._identity = identity
        self._found: dict[str, Evidence] = {}
        self._file: TextIO | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                self._found = dict(_read(path))
            self._file = path.open('a', encoding='utf-8')

    def get(self, scene: str, goal: str | None) -> Evidence | None:
        """Return what was kept, None if nothing was."""
        return self._found.get(self._key(scene, goal))

    def put(self, scene: str, goal: str | None, evidence: Evidence) -> None:
        """Keep evidence, on disk before this returns."""
        key = self._key(scene, goal)
        self._found[key] = evidence
        if self._file is not None:
            hidden = base64.b64encode(evidence.hidden.astype('<f4').tobytes()).decode()
            line = {'key': key, 'log_probs': evidence.log_probs.tolist(), 'hidden': hidden}
            self._file.write(json.dumps(line) + '\n')
            self._file.flush()

    def _key(self, scene: str, goal: str | None) -> str:
        return hashlib.sha256(repr((self._identity, scene, goal)).encode()).hexdigest()[:32]

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._file is not None:
            self._file.close()


def _read(path: Path) -> Iterator[tuple[str, Evidence]]:
    for line in path.read_text(encoding='utf-8').splitlines():
        try:
            item = json.loads(line)
            hidden = np.frombuffer(base64.b64decode(item['hidden']), '<f4').astype(np.float32)
            yield item['key'], Evidence(np.array(item['log_probs'], np.float64), hidden)
        except (ValueError, KeyError, TypeError):
            continue  # the line during which the last run was killed


def extract(
    engine: EvaluationEngine,
    profile_name: str,
    words: tuple[str, ...],
    scenes: Sequence[LabelledScene],
    goals: Sequence[str],
    *,
    cache: EvidenceCache,
    progress: Progress = lambda done, total: None,
    prompt_words: Sequence[str] = (),
) -> Dataset:
    """
    Ask the model about every scene with every goal.

    :param words: the profile's, in its order
    :param goals: none at all reads the scenes alone: the hidden states behind them, and NaN for
        the log-probabilities
    :param prompt_words: the order in which the prompt has them, if it is another one
    :param progress: called behind each row with (done, total)
    :returns: a scene's goals stand together, a group's scenes too
    """
    group_names = {name: i for i, name in enumerate(dict.fromkeys(s.group for s in scenes))}
    evidences, times = [], []
    asked: Sequence[str | None] = goals or (None,)
    total = len(scenes) * len(asked)
    for scene in scenes:
        for goal in asked:
            evidence, decision_s = cache.get(scene.text, goal), 0.0
            if evidence is None:
                evidence, decision_s = _ask(engine, profile_name, words, scene.text, goal)
                cache.put(scene.text, goal, evidence)
            evidences.append(evidence)
            times.append(decision_s)
            progress(len(evidences), total)
    repeats = len(asked)
    columns = [list(prompt_words or words).index(word) for word in words]
    return Dataset(
        words=words,
        hidden=np.stack([evidence.hidden for evidence in evidences]),
        log_probs=np.stack([evidence.log_probs for evidence in evidences])[:, columns],
        labels=np.repeat([words.index(scene.label) for scene in scenes], repeats),
        groups=np.repeat([group_names[scene.group] for scene in scenes], repeats),
        scenes=np.repeat(np.arange(len(scenes)), repeats),
        decision_s=np.array(times),
        texts=tuple(scene.text for scene in scenes for _ in asked))


def _ask(
    engine: EvaluationEngine, profile_name: str, words: Sequence[str], scene: str,
    goal: str | None,
) -> tuple[Evidence, float]:
    if goal is None:
        return Evidence(np.full(len(words), np.nan), engine.read_scene(profile_name, scene)), 0.0
    outcome = engine.decide(profile_name, scene, goal, gathers_all=True)
    return outcome.evidence, outcome.decision_s
