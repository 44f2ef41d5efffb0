"""What the commands share: which profile, scenes, model and cache; and the engine over them."""

import argparse
from collections.abc import Iterable, Sequence
import os
from pathlib import Path
import sys
import time
from typing import Final

from robot_llm.core.head import DecisionHead
from robot_llm.engine.backend import ModelInfo
from robot_llm.engine.head_file import HeadOrigin, load_head, open_head, prompt_hash
from robot_llm.errors import ConfigError
from robot_llm.evaluation.dataset import (
    Dataset, EvidenceCache, extract, FIT_GOALS, Progress)
from robot_llm.evaluation.engine import EvaluationEngine
from robot_llm.evaluation.scenes import LabelledScene, load_scenes, merge_scenes, SceneSet
from robot_llm.profile import ResponseProfile
from robot_llm.profile_file import load_profiles

PROGRESS_INTERVAL_S: Final = 2.0


def config_folder() -> Path:
    """Return the package's folder of profiles, scenes and heads: installed, or the checkout's."""
    for prefix in os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep):
        folder = Path(prefix, 'share', 'robot_llm', 'config')
        if prefix and folder.is_dir():
            return folder
    return Path(__file__).parents[2] / 'config'


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every command takes."""
    parser.add_argument('--profile', default='drive', help='name of the profile')
    parser.add_argument('--profiles', type=Path, default=config_folder() / 'embedded',
                        help='folder of profile files')
    parser.add_argument('--scenes', type=Path, nargs='+',
                        help="scene files; default: the package's scenes/PROFILE*.yaml")
    parser.add_argument('--model', type=Path, default=os.environ.get('ROBOT_LLM_MODEL'),
                        help='GGUF file; default: $ROBOT_LLM_MODEL')
    parser.add_argument('--cache', type=Path,
                        default=Path('~/.cache/robot_llm/evidence.jsonl').expanduser(),
                        help='what the model said before; an interrupted run goes on from it')
    parser.add_argument('--quiet', action='store_true', help='no progress')


class Workplace:
    """
    The files that the options name, read and checked.

    :param options: with what ``add_options`` adds
    :raises ConfigError: with every problem of profile and scenes
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        profiles = load_profiles(options.profiles, require_heads=False)
        if options.profile not in profiles:
            raise ConfigError(
                f'--profile {options.profile}: there are {", ".join(sorted(profiles))} in '
                f'{options.profiles}')
        self.profile: ResponseProfile = profiles[options.profile]
        # Fitting and measuring need the model's evidence; the head is applied to it afterwards.
        self.plain_profile = without_head(self.profile)
        self.scenes: SceneSet = self._load_scenes()

    def _load_scenes(self) -> SceneSet:
        name = self.profile.name
        files: Sequence[Path] = self.options.scenes or sorted(
            (config_folder() / 'scenes').glob(f'{name}*.yaml'))
        if not files:
            raise ConfigError(f'no scenes for the profile {name}; give --scenes FILE')
        sets = [load_scenes(path, self.profile.words) for path in files]
        for path, found in zip(files, sets):
            if found.profile != name:
                raise ConfigError(f'{path} is for the profile {found.profile}, not {name}')
        return merge_scenes(sets)

    @property
    def model(self) -> Path:
        """
        Return the model's file.

        :raises ConfigError: if none is given
        """
        if not self.options.model:
            raise ConfigError('no model: give --model FILE or set ROBOT_LLM_MODEL')
        return Path(self.options.model)

    def goals(self, several: Sequence[str]) -> Sequence[str]:
        """Return the goals to ask with: the options', else ``several``, or one if none is read."""
        if self.options.goal:
            return tuple(self.options.goal)
        return several[:1] if self.profile.decision.reads == 'scene' else several

    def fit_goals(self) -> Sequence[str]:
        """Return the goals to fit with; none where neither the head nor its method reads one."""
        if self.profile.decision.needs_scene_alone and not self.options.goal:
            return ()
        return self.goals(FIT_GOALS)

    def open_engine(self, *others: ResponseProfile) -> EvaluationEngine:
        """Load the model with the profile, method ``words``, and with others beside it."""
        self.say(f'loading {self.model.name}')
        profiles = {profile.name: profile for profile in (self.plain_profile, *others)}
        return EvaluationEngine.open(self.model, profiles)

    def open_head(self, info: ModelInfo) -> tuple[DecisionHead, HeadOrigin]:
        """
        Load the profile's head, checked as the node checks it.

        :raises ConfigError: if there is none, or it does not fit
        """
        head = open_head(self.profile, info)
        if head is None:
            raise ConfigError(
                f'profile {self.profile.name} has no head; fit one, and set decision.method')
        return head, load_head(Path(self.profile.decision.head))[1]

    def new_head_path(self) -> Path:
        """
        Return where the profile will find its head: by its own key, else in its folder's heads/.

        :raises ConfigError: if a head is there already
        """
        name = self.profile.decision.head or f'heads/{self.profile.name}.npz'
        folder: Path = self.options.profiles
        for place in (folder, folder.parent):
            if (path := place / Path(name).expanduser()).exists():
                raise ConfigError(
                    f'{path} is there already; give --output {path} to replace it, or copy the '
                    'folder of profiles and give --profiles COPY')
        return folder / Path(name).expanduser()

    def head_name(self, path: Path) -> str:
        """Return what `decision.head` has to say for a head file; absolute where it must be."""
        for place in (self.options.profiles.resolve(), self.options.profiles.resolve().parent):
            if path.resolve().is_relative_to(place):
                return path.resolve().relative_to(place).as_posix()
        return str(path.resolve())

    def evidence(
        self, engine: EvaluationEngine, scenes: Iterable[LabelledScene], goals: Sequence[str],
        profile: ResponseProfile | None = None,
    ) -> Dataset:
        """Ask the model about scenes, through the cache."""
        profile = profile or self.plain_profile
        identity = engine.info.fingerprint + prompt_hash(engine.info, profile)
        cache = EvidenceCache(self.options.cache, identity)
        try:
            return extract(
                engine, profile.name, self.profile.words, tuple(scenes), goals, cache=cache,
                progress=self._progress(), prompt_words=profile.words)
        finally:
            cache.close()

    def say(self, line: str) -> None:
        """Tell how far the work is, beside the output proper."""
        if not self.options.quiet:
            print(line, file=sys.stderr, flush=True)

    def _progress(self) -> Progress:
        started_s = last_s = time.monotonic()

        def report(done: int, total: int) -> None:
            nonlocal last_s
            now_s = time.monotonic()
            if now_s - last_s >= PROGRESS_INTERVAL_S:
                last_s = now_s
                rest_s = (now_s - started_s) / done * (total - done)
                self.say(f'  {done} of {total} prompts, {rest_s:.0f} s left')
        return report


def with_order(profile: ResponseProfile, order: Sequence[str]) -> ResponseProfile:
    """Return the profile with its words in another order in the prompt, under another name."""
    by_word = {item.word: item for item in profile.decision.words}
    decision = profile.decision.model_copy(
        update={'words': tuple(by_word[word] for word in order)})
    return profile.model_copy(update={
        'decision': decision, 'name': f'{profile.name}_{"_".join(order)}'})


def without_head(profile: ResponseProfile) -> ResponseProfile:
    """Return the profile deciding by the model's own words; its bars stay."""
    decision = profile.decision.model_copy(update={'method': 'words', 'head': ''})
    return profile.model_copy(update={'decision': decision})
