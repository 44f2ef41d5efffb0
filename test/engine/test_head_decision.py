"""A head decides inside a generation: pinned prefixes, chunks, shared tokens, many words."""

import time

from engine_requests import make_profile, make_request
from engine_running import generate, open_runtime
import numpy as np
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.event import Decided
from robot_llm.core.head import DecisionHead, Familiarity
from robot_llm.core.request import FinishReason, RequestEvent, RequestStatus
from robot_llm.engine.generation import Generation, run_to_end
from robot_llm.engine.head_file import HeadOrigin, prompt_hash, save_head
from robot_llm.engine.scripted import N_EMBD, ScriptedBackend
from robot_llm.errors import DecodeError
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
        mix=(1.0, 0.0, *(0.0,) * num_words), familiarity=familiarity, max_chars=2000)


def runtime_with(tmp_path, fitted, *, chunk_tokens=128, detail='text', **profile_changes):
    settings = Settings.from_flat({'engine.chunk_tokens': chunk_tokens})
    backend = ScriptedBackend(settings, SCRIPT, word_probabilities={fitted.words[0]: 0.9})
    path = tmp_path / 'head.npz'
    profile = make_profile('drive', words=fitted.words, text=detail == 'text',
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


class Rows:
    """Counts the rows of logits that a backend is asked for."""

    def __init__(self, backend):
        self.count, self._decode = 0, backend.decode
        backend.decode = self.decode

    def decode(self, token_ids, *, probe=None, num_rows=1, **where):
        last = range(len(token_ids) - num_rows, len(token_ids))
        self.count += num_rows + (probe is not None and probe % len(token_ids) not in last)
        self._decode(token_ids, probe=probe, num_rows=num_rows, **where)


def test_a_decision_costs_one_row_of_logits_whoever_makes_it(tmp_path):
    for reads in ('prompt', 'scene'):
        for method in ('words', 'head'):
            changes = {'method': method} | ({} if method == 'head' else {'head': ''})
            runtime, profile = runtime_with(
                tmp_path, biased_head(('no', 'yes'), 'yes'), reads=reads, chunk_tokens=8,
                **changes)
            request, rows = make_request(profile, scene='A dog.'), Rows(runtime.backend)
            _, events = decided(runtime, request)
            assert rows.count == 1, (reads, method)
            events.close()


def decided(runtime, request):
    """Run a request up to its decision, and return that and the events behind it."""
    request.apply(RequestEvent.SLOT_GRANTED)
    events = Generation(runtime, request, time.monotonic).run()
    decision = next(event.decision for event in events if isinstance(event, Decided))
    return decision, events


def test_behind_the_scene_the_decision_does_not_wait_for_the_goal(tmp_path):
    runtime, profile = runtime_with(tmp_path, biased_head(('no', 'yes'), 'yes'), reads='scene')
    request = make_request(profile, 'A goal. ' * 40, scene='A dog.')
    decision, events = decided(runtime, request)
    counts = request.counts
    assert (decision.word, decision.source) == ('yes', DecisionSource.MODEL)
    assert counts.num_prefilled_tokens == counts.num_tokens_to_decision <= len('A dog.')
    assert request.status is RequestStatus.PREFILL
    # The model was not asked, which is what a mass of 0 says.
    assert decision.probability_mass == 0.0 and len(decision.probabilities) == 2
    assert list(events)
    assert request.finish_reason is FinishReason.STOP
    assert counts.num_late_tokens >= len('A goal. ' * 40)
    assert counts.num_cached_tokens + counts.num_prefilled_tokens == counts.num_prompt_tokens


def test_in_a_scene_that_is_known_nothing_is_evaluated_for_the_decision(tmp_path):
    runtime, profile = runtime_with(tmp_path, biased_head(('no', 'yes'), 'yes'), reads='scene')
    first = generate(runtime, make_request(profile, 'First goal.', scene='A dog.'))
    runtime.cache.clear()  # whatever came between took the cache; what was read is kept
    request = make_request(profile, 'Second goal.', scene='A dog.')
    again = generate(runtime, request)
    assert request.counts.num_tokens_to_decision == request.counts.num_calls_to_decision == 0
    assert again.decision == first.decision
    assert again.detail == first.detail == 'as scripted'
    fresh = make_request(profile, 'Third goal.', scene='A cat.')
    generate(runtime, fresh)
    assert fresh.counts.num_tokens_to_decision > 0


def test_a_stop_behind_the_decision_leaves_the_goal_unread(tmp_path):
    runtime, profile = runtime_with(
        tmp_path, biased_head(('no', 'yes'), 'yes'), reads='scene', chunk_tokens=4)
    request = make_request(profile, 'A goal. ' * 40, scene='A dog.')
    _, events = decided(runtime, request)
    request.stop(FinishReason.PREEMPTED, 0.0)
    assert list(events) == []
    assert request.counts.num_late_tokens == 0
    runtime.cache.check_integrity()


def test_a_word_without_detail_needs_nothing_behind_the_scene(tmp_path):
    runtime, profile = runtime_with(
        tmp_path, biased_head(('no', 'yes'), 'yes'), reads='scene', detail='none')
    request = make_request(profile, 'A goal. ' * 40, scene='A dog.')
    assert generate(runtime, request).decision.word == 'yes'
    assert request.counts.num_prefilled_tokens <= len('A dog.')
    assert request.finish_reason is FinishReason.STOP


@pytest.mark.parametrize('changes', [{'min_probability_mass': 0.001}, {'method': 'both'}])
def test_who_asks_the_model_as_well_waits_for_the_goal(tmp_path, changes):
    runtime, profile = runtime_with(
        tmp_path, biased_head(('no', 'yes'), 'yes'), reads='scene', **changes)
    request = make_request(profile, 'A goal. ' * 40, scene='A dog.')
    decision, _ = decided(runtime, request)
    assert request.counts.num_prefilled_tokens >= len('A goal. ' * 40)
    assert decision.probability_mass > 0.5


def test_evidence_of_every_method_can_be_asked_for(tmp_path):
    runtime, profile = runtime_with(
        tmp_path, biased_head(('no', 'yes'), 'yes'), reads='scene', method='words', head='')
    request = make_request(profile, 'A goal.', scene='A dog.')
    request.apply(RequestEvent.SLOT_GRANTED)
    for _ in Generation(runtime, request, time.monotonic, gathers_all=True).run():
        pass
    early, fitted = runtime_with(tmp_path, biased_head(('no', 'yes'), 'yes'), reads='scene')
    read = make_request(fitted, 'Another goal.', scene='A dog.')
    generate(early, read)
    assert np.array_equal(request.evidence.hidden, read.evidence.hidden)
    assert np.isfinite(request.evidence.log_probs).all()
    assert np.isnan(read.evidence.log_probs).all()


def test_a_second_goal_in_the_same_scene_evaluates_the_goal_alone(tmp_path):
    runtime, profile = runtime_with(
        tmp_path, biased_head(('no', 'yes'), 'yes'), reads='scene')
    cached = []
    for goal in ('First goal.', 'Second goal.'):
        request = make_request(profile, goal, scene='A dog.')
        generate(runtime, request)
        cached.append(request.counts.num_cached_tokens)
    assert cached[1] >= cached[0] + len('A dog.')


@pytest.mark.parametrize('broken', [np.nan, np.inf])
def test_a_hidden_state_without_numbers_decides_nothing(tmp_path, monkeypatch, broken):
    runtime, profile = runtime_with(tmp_path, biased_head(('stop', 'go'), 'go'))
    state = runtime.backend.hidden_state()
    monkeypatch.setattr(
        runtime.backend, 'hidden_state', lambda: np.append(state[1:], np.float32(broken)))
    request, events = make_request(profile, scene='x'), []
    request.apply(RequestEvent.SLOT_GRANTED)
    failure = run_to_end(Generation(runtime, request, time.monotonic), request, events.append)
    assert isinstance(failure, DecodeError) and request.error is failure
    assert request.finish_reason is FinishReason.ERROR
    assert not [event for event in events if isinstance(event, Decided)]
    assert request.latch.standing is None
    assert runtime.probed[0] == ()


def test_a_stranger_falls_back_and_the_detail_follows_the_fallback(tmp_path):
    runtime, profile = runtime_with(
        tmp_path, biased_head(('stop', 'go'), 'go', max_distance=0.0))
    answered = generate(runtime, make_request(profile, scene='x'))
    assert (answered.decision.word, answered.decision.source) == (
        'stop', DecisionSource.UNFAMILIAR)
    assert answered.detail == 'as scripted'
