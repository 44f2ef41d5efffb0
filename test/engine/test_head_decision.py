"""A head decides inside a generation: pinned prefixes, chunks, shared tokens, many words."""

from engine_requests import make_profile, make_request
from engine_running import generate, open_runtime
import numpy as np
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.head import DecisionHead, Familiarity
from robot_llm.engine.head_file import HeadOrigin, prompt_hash, save_head
from robot_llm.engine.scripted import N_EMBD, ScriptedBackend
from robot_llm.settings import Settings

MANY = tuple(f'w{number:02}' for number in range(64))
SCRIPT = {'': b'stop\nas scripted'}


def biased_head(words, favourite, max_distance=1e9) -> DecisionHead:
    """Return a head that is sure of one word, whatever it reads."""
    num_words = len(words)
    bias = np.zeros(num_words, np.float32)
    bias[words.index(favourite)] = 12.0
    familiarity = Familiarity(
        means=np.zeros((num_words, N_EMBD), np.float32), axes=np.eye(2, N_EMBD, dtype=np.float32),
        axis_variances=np.ones(2, np.float32), rest_variance=1.0, max_distance=max_distance)
    return DecisionHead(
        words=words, offset=np.zeros(N_EMBD, np.float32), scale=np.ones(N_EMBD, np.float32),
        weights=np.zeros((N_EMBD, num_words), np.float32), bias=bias, temperature=1.0,
        mix=(1.0, 0.0, *(0.0,) * num_words), familiarity=familiarity)


def runtime_with(tmp_path, fitted, *, chunk_tokens=128, **profile_changes):
    settings = Settings.from_flat({'engine.chunk_tokens': chunk_tokens})
    backend = ScriptedBackend(settings, SCRIPT, word_probabilities={fitted.words[0]: 0.9})
    path = tmp_path / 'head.npz'
    profile = make_profile('drive', words=fitted.words, text=True,
                           **({'method': 'head', 'head': str(path)} | profile_changes))
    save_head(path, fitted, HeadOrigin(
        'drive', 'scripted', backend.info.fingerprint, prompt_hash(backend.info, profile), ''))
    return open_runtime(backend, settings, profile), profile


@pytest.mark.parametrize('words', [('stop', 'slow', 'continue'), ('no', 'yes'), MANY])
@pytest.mark.parametrize('method', ['head', 'both'])
@pytest.mark.parametrize('reads', ['prompt', 'scene'])
def test_the_heads_word_goes_out_and_the_detail_stands_behind_it(tmp_path, words, method, reads):
    favourite = words[-1]
    runtime, profile = runtime_with(
        tmp_path, biased_head(words, favourite), method=method, reads=reads)
    for _ in range(2):  # the second one finds everything in the cache
        answered = generate(runtime, make_request(profile, scene='A dog.'))
        assert answered.decision.word == favourite
        assert answered.decision.source is DecisionSource.MODEL
        assert answered.decision.probabilities[-1] > 0.9
        assert answered.detail == 'as scripted'


@pytest.mark.parametrize('reads', ['prompt', 'scene'])
def test_chunks_do_not_change_what_is_read(tmp_path, reads):
    states = []
    for chunk_tokens in (1, 3, 7, 1000):
        runtime, profile = runtime_with(
            tmp_path, biased_head(('stop', 'go'), 'go'), reads=reads, chunk_tokens=chunk_tokens)
        request = make_request(profile, scene='A dog lies here.')
        generate(runtime, request)
        states.append(request.evidence.hidden)
    assert all(np.array_equal(state, states[0]) for state in states)


def test_the_head_needs_at_most_a_chunk_of_its_own(tmp_path):
    counts = {}
    for method in ('words', 'head'):
        head = biased_head(('no', 'yes'), 'yes')
        changes = {'method': method} if method == 'head' else {'method': method, 'head': ''}
        runtime, profile = runtime_with(tmp_path, head, reads='scene', **changes)
        request = make_request(profile, scene='A dog.', max_tokens=1)
        generate(runtime, request)
        counts[method] = request.counts.num_decode_calls
    # Where much follows what it reads, so that the rest needs no logits of every token.
    assert counts['words'] <= counts['head'] <= counts['words'] + 1


def test_a_second_goal_in_the_same_scene_evaluates_the_goal_alone(tmp_path):
    runtime, profile = runtime_with(
        tmp_path, biased_head(('no', 'yes'), 'yes'), reads='scene')
    cached = []
    for goal in ('First goal.', 'Second goal.'):
        request = make_request(profile, goal, scene='A dog.')
        generate(runtime, request)
        cached.append(request.counts.num_cached_tokens)
    assert cached[1] >= cached[0] + len('A dog.')


def test_a_stranger_falls_back_and_the_detail_follows_the_fallback(tmp_path):
    runtime, profile = runtime_with(
        tmp_path, biased_head(('stop', 'go'), 'go', max_distance=0.0))
    answered = generate(runtime, make_request(profile, scene='x'))
    assert (answered.decision.word, answered.decision.source) == (
        'stop', DecisionSource.UNFAMILIAR)
    assert answered.detail == 'as scripted'
