"""A fitted head as a file: saved, loaded, and refused where it does not belong."""

from collections.abc import Mapping
from dataclasses import dataclass, field
import datetime
import hashlib
import json
from pathlib import Path
from typing import Any, Final
import zipfile

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.head import DecisionHead, Familiarity
from robot_llm.core.prompt import build_prompt, PromptRenderer
from robot_llm.core.strangers import StrangerPart
from robot_llm.core.text_features import TextPart
from robot_llm.core.text_tokens import MAX_CHARS
from robot_llm.engine.backend import ModelInfo
from robot_llm.errors import ConfigError
from robot_llm.profile import ResponseProfile

FORMAT: Final = 4
_ARRAYS: Final = ('offset', 'scale', 'weights', 'bias')
_FAMILIARITY_ARRAYS: Final = ('means', 'axes', 'axis_variances')
_TEXT_ARRAYS: Final = {
    'keys': np.uint32, 'weights_of_ngrams': np.float16, 'weights': np.float16}
# A template that writes the date must not make the hash another one every day.
_SOME_DAY: Final = datetime.datetime(2000, 1, 1)


@dataclass(frozen=True, slots=True)
class HeadOrigin:
    """What a head was fitted for and on; everything a person would ask of it."""

    profile: str
    model: str
    """For people; ``model_hash`` is what counts."""
    model_hash: str
    prompt_hash: str
    scenes_hash: str
    versions: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Of its own cross-validation on the fit split."""


def prompt_hash(info: ModelInfo, profile: ResponseProfile) -> str:
    """
    Return a hash of everything in a prompt that is neither scene nor goal.

    System prompt, words, meanings, headers and chat template: the hidden state depends on all.
    """
    renderer = PromptRenderer(
        info.chat_template, bos_token=info.bos_text, eos_token=info.eos_text, nonce='0' * 16,
        now=_SOME_DAY)
    segments = build_prompt(
        renderer, system_prompt=profile.static_prompt, scene_header=profile.scene_header,
        scene='<scene>', goal_header=profile.goal_header, prompt='<goal>')
    text = json.dumps([
        profile.decision.reads, *([segment.text, segment.is_control] for segment in segments)])
    return hashlib.sha256(text.encode()).hexdigest()


def save_head(path: Path, head: DecisionHead, origin: HeadOrigin) -> None:
    """Write one ``.npz``: plain arrays, and a JSON text for everything else."""
    familiarity = head.familiarity
    facts = {
        'format': FORMAT, 'words': head.words, 'temperature': head.temperature, 'mix': head.mix,
        'max_chars': head.max_chars,
        'rest_variance': familiarity.rest_variance, 'max_distance': familiarity.max_distance,
        'origin': {name: getattr(origin, name) for name in HeadOrigin.__slots__}}
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: getattr(head, name) for name in _ARRAYS}
    arrays |= {name: getattr(familiarity, name) for name in _FAMILIARITY_ARRAYS}
    if head.text is not None:
        arrays |= _text_arrays('text', head.text)
    if head.strangers is not None:
        arrays |= _text_arrays('stranger', head.strangers.text)
        arrays['known_words'] = head.strangers.known_words
        facts |= {'stranger_weights': head.strangers.weights,
                  'stranger_limit': head.strangers.limit}
    with path.open('wb') as file:
        np.savez(file, facts=np.array(json.dumps(facts)), **arrays)


def _text_arrays(name: str, part: TextPart) -> dict[str, NDArray[Any]]:
    return {f'{name}_{array}': getattr(part, array) for array in _TEXT_ARRAYS}


def load_head(path: Path) -> tuple[DecisionHead, HeadOrigin]:
    """
    Read what ``save_head`` wrote; no code in the file is ever run.

    :raises ConfigError: if the file is missing, or is no head of this format
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            facts = json.loads(str(file['facts']))
            if facts['format'] != FORMAT:
                raise ConfigError(
                    f'{path}: format {facts["format"]}, this version reads {FORMAT}; fit it again')
            head = _head(facts, {name: file[name] for name in file.files if name != 'facts'})
    except OSError as error:
        raise ConfigError(
            f'{path}: {error.strerror or error}; give the file that `evaluate fit` wrote'
        ) from error
    except (EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise ConfigError(f'{path} holds no decision head ({error}); fit it again') from error
    _check_arrays(path, head)
    return head, HeadOrigin(**facts['origin'])


def _head(facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> DecisionHead:
    def floats(name: str) -> NDArray[np.float32]:
        return np.asarray(arrays[name], np.float32)

    def text(name: str) -> TextPart | None:
        return TextPart(**{
            array: np.asarray(arrays[f'{name}_{array}'], kind)
            for array, kind in _TEXT_ARRAYS.items()}) if f'{name}_keys' in arrays else None

    stranger_text = text('stranger')
    return DecisionHead(
        words=tuple(facts['words']), temperature=facts['temperature'], mix=tuple(facts['mix']),
        # Nothing behind these is read, so nothing behind them may be decided on.
        max_chars=min(int(facts['max_chars']), MAX_CHARS),
        familiarity=Familiarity(
            rest_variance=facts['rest_variance'], max_distance=facts['max_distance'],
            **{name: floats(name) for name in _FAMILIARITY_ARRAYS}),
        text=text('text'),
        strangers=None if stranger_text is None else StrangerPart(
            stranger_text, np.asarray(arrays['known_words'], np.uint32),
            tuple(facts['stranger_weights']), facts['stranger_limit']),
        **{name: floats(name) for name in _ARRAYS})


def _check_arrays(path: Path, head: DecisionHead) -> None:
    """Refuse shapes that do not fit each other, and numbers that are none."""
    num_features, num_words, familiarity = head.num_features, len(head.words), head.familiarity
    wanted: dict[str, tuple[NDArray[Any], tuple[int, ...]]] = {
        'offset': (head.offset, (num_features,)),
        'scale': (head.scale, (num_features,)),
        'weights': (head.weights, (num_features, num_words)),
        'bias': (head.bias, (num_words,)),
        'means': (familiarity.means, (num_words, num_features)),
        'axes': (familiarity.axes, (len(familiarity.axis_variances), num_features))}
    texts = [('text', head.text, num_words)]
    if head.strangers is not None:
        texts.append(('stranger', head.strangers.text, 1))
    for name, part, num_columns in texts:
        if part is not None:
            num_ngrams = len(part.keys)
            wanted[f'{name}_weights'] = (part.weights, (num_ngrams, num_columns))
            wanted[f'{name}_weights_of_ngrams'] = (part.weights_of_ngrams, (num_ngrams,))
    problems = [
        f'{path}: {name} has shape {array.shape}, not {shape}; fit it again'
        for name, (array, shape) in wanted.items() if array.shape != shape]
    if not all(np.isfinite(array).all() for array, _ in wanted.values()):
        problems.append(f'{path} holds numbers that are not finite; fit it again')
    if any(part is not None and (not len(part.keys) or (part.keys[1:] <= part.keys[:-1]).any())
           for _, part, _ in texts):
        problems.append(f'{path}: its n-grams are missing or not in order; fit it again')
    if problems:
        raise ConfigError(*problems)


def open_head(profile: ResponseProfile, info: ModelInfo) -> DecisionHead | None:
    """
    Load the head of a profile and check that it is for this model and this prompt.

    Runs at configure: a head on another model's hidden states would decide at random, and surely.

    :returns: None for the method ``words``
    :raises ConfigError: with what differs and the remedy
    """
    if profile.decision.method == 'words':
        return None
    path = Path(profile.decision.head)
    head, origin = load_head(path)
    remedy = (f'fit one: `ros2 run robot_llm evaluate fit --profile {profile.name}`, or set '
              'decision.method to words')
    problems = []
    if origin.model_hash != info.fingerprint:
        problems.append(
            f'profile {profile.name}: decision.head={path.name} was fitted for {origin.model} '
            f'({origin.model_hash[:12]}), the model is {info.name} {info.quantization} '
            f'({info.fingerprint[:12]}); {remedy}')
    elif head.num_features != info.num_features:
        problems.append(
            f'profile {profile.name}: decision.head={path.name} takes {head.num_features} '
            f'numbers, {info.name} gives {info.num_features}; {remedy}')
    if head.words != profile.words:
        problems.append(
            f'profile {profile.name}: decision.head={path.name} decides {", ".join(head.words)}, '
            f'the profile {", ".join(profile.words)}; {remedy}')
    elif origin.prompt_hash != prompt_hash(info, profile):
        problems.append(
            f'profile {profile.name}: decision.head={path.name} was fitted with another prompt '
            '(system prompt, meanings, headers or chat template); undo the change, or '
            f'{remedy}')
    if problems:
        raise ConfigError(*problems)
    return head
