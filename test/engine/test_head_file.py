"""A head is saved, loaded, and refused where it does not belong."""

from dataclasses import replace
from pathlib import Path

from engine_requests import make_profile
import numpy as np
import pytest
from robot_llm.core.head import DecisionHead, Familiarity
from robot_llm.core.strangers import StrangerPart
from robot_llm.core.text_features import read_text, TextPart
from robot_llm.core.text_tokens import MAX_CHARS
from robot_llm.engine.head_file import (
    HeadOrigin, load_head, open_head, prompt_hash, save_head)
from robot_llm.engine.model import fingerprint
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.errors import ConfigError
from robot_llm.settings import Settings

WORDS = ('stop', 'slow', 'continue')


def make_head(n_embd: int = 16, words: tuple[str, ...] = WORDS) -> DecisionHead:
    random = np.random.default_rng(0)

    def floats(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    familiarity = Familiarity(
        means=floats(len(words), n_embd), axes=floats(2, n_embd),
        axis_variances=np.ones(2, np.float32), rest_variance=0.5, max_distance=3.0)
    return DecisionHead(
        words=words, offset=floats(n_embd), scale=np.ones(n_embd, np.float32),
        weights=floats(n_embd, len(words)), bias=floats(len(words)), temperature=1.5,
        mix=(0.7, 0.2, *(0.0,) * len(words)), familiarity=familiarity, max_chars=120)


@pytest.fixture
def info():
    return ScriptedBackend(Settings(), {'': b'stop\n'}).info


def profile_with(path: Path, **changes):
    return make_profile('drive', method='head', head=str(path), **changes)


def save_for(path: Path, info, profile, head=None, **changes) -> Path:
    save_head(path, head or make_head(), replace(HeadOrigin(
        profile='drive', model='scripted F32', model_hash=info.fingerprint,
        prompt_hash=prompt_hash(info, profile), scenes_hash='s',
        versions={'numpy': '2'}, figures={'accuracy': 0.9}), **changes))
    return path


def test_what_was_saved_is_loaded(tmp_path, info):
    profile = profile_with(tmp_path / 'h.npz')
    save_for(tmp_path / 'h.npz', info, profile)
    head, origin = load_head(tmp_path / 'h.npz')
    expected = make_head()
    for name in ('offset', 'scale', 'weights', 'bias'):
        assert np.array_equal(getattr(head, name), getattr(expected, name))
    assert (head.words, head.temperature, head.mix) == (WORDS, 1.5, expected.mix)
    assert np.array_equal(head.familiarity.axes, expected.familiarity.axes)
    assert head.familiarity.max_distance == 3.0
    assert head.max_chars == 120
    assert origin.figures == {'accuracy': 0.9}
    assert open_head(profile, info) is not None


def test_no_head_takes_scenes_that_are_not_read_to_their_end(tmp_path, info):
    path = save_for(tmp_path / 'h.npz', info, profile_with(tmp_path / 'h.npz'),
                    replace(make_head(), max_chars=10**6))
    assert load_head(path)[0].max_chars == MAX_CHARS


def test_a_head_that_reads_text_is_saved_with_it(tmp_path, info):
    text = text_part()
    strangers = StrangerPart(
        TextPart(text.keys, text.weights_of_ngrams, text.weights[:, :1]), read_text('a dog').words,
        (0.5, 2.0, 1.0), 3.5)
    profile = profile_with(tmp_path / 'h.npz')
    path = save_for(tmp_path / 'h.npz', info, profile,
                    replace(make_head(), text=text, strangers=strangers))
    head, _ = load_head(path)
    assert head.text is not None and head.strangers is not None
    for name in ('keys', 'weights_of_ngrams', 'weights'):
        assert np.array_equal(getattr(head.text, name), getattr(text, name))
        assert getattr(head.text, name).dtype == getattr(text, name).dtype
    read = read_text('a dog')
    assert head.text.logits(read).tolist() == text.logits(read).tolist()
    assert head.strangers.score(2.0, read) == strangers.score(2.0, read)
    assert head.strangers.limit == 3.5
    assert head.num_bytes == make_head().num_bytes + text.num_bytes + strangers.num_bytes


def text_part():
    """Return a part that knows the n-grams of one text."""
    keys = np.unique(np.concatenate([part[0] for part in read_text('a wet dog').parts]))
    return TextPart(keys, np.ones(len(keys), np.float16),
                    np.full((len(keys), 3), 0.25, np.float16))


@pytest.mark.parametrize(('changes', 'problem'), [
    ({'weights_of_ngrams': np.ones(1, np.float16)},
     r'text_weights_of_ngrams has shape \(1,\), not \(31,\)'),
    ({'weights': np.ones((31, 2), np.float16)},
     r'text_weights has shape \(31, 2\), not \(31, 3\)'),
    ({'weights_of_ngrams': np.full(31, np.nan, np.float16)}, 'numbers that are not finite'),
    ({'keys': text_part().keys[::-1]}, 'n-grams are missing or not in order'),
    ({'keys': np.empty(0, np.uint32), 'weights': np.empty((0, 3), np.float16),
      'weights_of_ngrams': np.empty(0, np.float16)}, 'n-grams are missing or not in order')])
def test_a_broken_text_part_is_refused(tmp_path, info, changes, problem):
    text = replace(text_part(), **changes)
    profile = profile_with(tmp_path / 'h.npz')
    path = save_for(tmp_path / 'h.npz', info, profile, replace(make_head(), text=text))
    with pytest.raises(ConfigError, match=problem):
        load_head(path)


def test_the_same_head_makes_the_same_file(tmp_path, info):
    profile = profile_with(tmp_path / 'h.npz')
    first, second = (save_for(tmp_path / name, info, profile).read_bytes() for name in 'ab')
    assert first == second


def test_the_method_words_opens_no_file(info):
    assert open_head(make_profile('drive'), info) is None


@pytest.mark.parametrize(('changes', 'expected'), [
    ({'model_hash': 'f' * 64}, 'was fitted for scripted F32 .ffffffffffff., the model is scripted '
     'F32 .scripted.; fit one: `ros2 run robot_llm evaluate fit --profile drive`, or set '
     'decision.method to words'),
    ({'prompt_hash': 'f' * 64}, 'was fitted with another prompt .*; undo the change, or fit one'),
    ({'head': make_head(8)}, 'takes 8 numbers, scripted gives 16'),
    ({'head': make_head(words=('stop', 'continue', 'slow'))},
     'decides stop, continue, slow, the profile stop, slow, continue'),
])
def test_a_head_for_something_else_is_refused_with_the_remedy(tmp_path, info, changes, expected):
    profile = profile_with(tmp_path / 'h.npz')
    save_for(tmp_path / 'h.npz', info, profile, **changes)
    with pytest.raises(ConfigError, match=expected):
        open_head(profile, info)


@pytest.mark.parametrize('changes', [
    {'system_prompt': 'Other.'}, {'reads': 'scene'}, {'words': ('stop', 'slow', 'go')}])
def test_the_prompt_hash_follows_whatever_the_hidden_state_follows(info, changes):
    assert prompt_hash(info, make_profile('a', **changes)) != prompt_hash(info, make_profile('a'))


def test_the_prompt_hash_leaves_scene_goal_thresholds_and_date_out(info):
    profile = make_profile('a')
    assert prompt_hash(info, profile) == prompt_hash(info, make_profile('b', min_confidence=0.9))
    dated = replace(info, chat_template=info.chat_template + "{{ strftime_now('%d %B %Y') }}")
    assert prompt_hash(dated, profile) == prompt_hash(dated, profile)


@pytest.mark.parametrize('content', [b'', b'hello', b'PK\x03\x04broken'])
def test_what_is_no_head_is_refused(tmp_path, content):
    path = tmp_path / 'h.npz'
    path.write_bytes(content)
    with pytest.raises(ConfigError, match='h.npz'):
        load_head(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match='No such file .*; give the file that `evaluate fit`'):
        load_head(tmp_path / 'none.npz')


def test_a_pickle_is_never_opened(tmp_path):
    path = tmp_path / 'h.npz'
    np.savez(path, facts=np.array([{'evil': 1}], dtype=object))
    with pytest.raises(ConfigError, match='holds no decision head'):
        load_head(path)


@pytest.mark.parametrize('changes', [
    {'bias': np.zeros(2, np.float32)}, {'scale': np.full(16, np.nan, np.float32)}])
def test_shapes_and_numbers_are_checked(tmp_path, info, changes):
    profile = profile_with(tmp_path / 'h.npz')
    save_for(tmp_path / 'h.npz', info, profile, head=replace(make_head(), **changes))
    with pytest.raises(ConfigError, match='fit it again'):
        load_head(tmp_path / 'h.npz')


def test_a_fingerprint_sees_size_head_and_tail(tmp_path):
    path = tmp_path / 'm.gguf'
    base = bytearray(b'GGUF' + bytes(3 * 2**20))
    hashes = set()
    for change in (None, 10, len(base) - 1):
        content = bytearray(base)
        if change is not None:
            content[change] = 1
        path.write_bytes(content)
        hashes.add(fingerprint(path))
    path.write_bytes(base + b'\0')
    hashes.add(fingerprint(path))
    assert len(hashes) == 4
