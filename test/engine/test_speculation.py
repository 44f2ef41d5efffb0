"""Guessed tokens change how many decodes an answer takes, and nothing that it says."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from engine_requests import make_profile, make_request, SPEED_SCHEMA
from engine_running import Answered, borrowed, generate, open_runtime, WorkerHarness
import numpy as np
from numpy.typing import NDArray
import pytest
from robot_llm.core.request import FinishReason
from robot_llm.core.speculation import Speculator
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scripted import Script, ScriptedBackend
from robot_llm.engine.scripted_fault import DecodeCall
from robot_llm.engine.scripted_vocab import END, N_VOCAB, split_turn
from robot_llm.profile import ResponseProfile
from robot_llm.settings import Settings, SpeculationSettings

Profiles = dict[str, ResponseProfile]
MakeSettings = Callable[..., Settings]

SCENES = ('A person stands on the path.', 'A person stands on the path, 1 m ahead.')
TEXT = make_profile('text', text=True)
SAID = b'stop\n' + b'one two three four five six. ' * 6


def speculate(runtime: Runtime, policy: str) -> None:
    """Begin anew with this policy; what was learned is forgotten."""
    rules = SpeculationSettings.model_validate({'policy': policy, 'prompt_lookup_min': 1})
    runtime.speculators = {
        name: Speculator(rules, runtime.decode_cost, is_possible=runtime.cache.can_drop_part)
        for name in runtime.profiles}


def open_scripted(
    make_settings: MakeSettings, script: Script, *profiles: ResponseProfile, **options: object,
) -> Runtime:
    settings = make_settings({'speculation.policy': 'on', 'model.n_ubatch': 4})
    return open_runtime(
        ScriptedBackend(settings, script, **options), settings, *(profiles or (TEXT,)))


def answers(runtime: Runtime, profile: ResponseProfile, **sampling: object) -> list[Answered]:
    return [generate(runtime, make_request(
        profile, 'Say what you see, and say it again.', scene=scene, max_tokens=40, **sampling))
        for scene in SCENES]


@pytest.fixture
def restored(runtime: Runtime) -> Iterator[Runtime]:
    before = runtime.speculators
    yield runtime
    runtime.speculators = before


@pytest.mark.parametrize('name', ['json', 'text'])
@pytest.mark.parametrize('sampling', [
    {}, {'repetition_penalty': 1.1}, {'temperature': 0.8, 'seed': 4, 'repetition_penalty': 1.1}])
def test_the_text_is_the_same_with_and_without_guesses(
    restored: Runtime, profiles: Profiles, name: str, sampling: dict[str, float],
) -> None:
    speculate(restored, 'off')
    plain = answers(restored, profiles[name], **sampling)
    speculate(restored, 'on')
    guessed = answers(restored, profiles[name], **sampling)
    assert [a.detail for a in guessed] == [a.detail for a in plain]
    assert [a.request.counts.num_completion_tokens for a in guessed] == [
        a.request.counts.num_completion_tokens for a in plain]
    assert all(a.request.counts.num_draft_tokens == 0 for a in plain)
    for answered, before in zip(guessed, plain):
        counts = answered.request.counts
        assert counts.num_accepted_tokens <= counts.num_draft_tokens
        # A prompt is cached the second time, so only the decodes behind it are compared.
        saved = (before.request.counts.num_decode_calls - before.request.counts.num_prefill_chunks
                 - counts.num_decode_calls + counts.num_prefill_chunks)
        assert 0 <= saved <= counts.num_accepted_tokens
    assert sum(a.request.counts.num_draft_tokens for a in guessed) > 0


def test_an_answer_that_repeats_the_last_one_takes_few_decodes(
    restored: Runtime, profiles: Profiles,
) -> None:
    speculate(restored, 'on')
    first, second = (generate(restored, make_request(profiles['text'], 'Who are you?'))
                     for _ in range(2))
    assert second.detail == first.detail
    counts = second.request.counts
    assert counts.num_decode_calls < counts.num_completion_tokens / 3


class RandomBackend(ScriptedBackend):
    """Its next letter is drawn from a distribution that depends on the last one."""

    LETTERS = b'abc'
    CHANCES = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.45, 0.45, 0.1]])

    def _logits_behind(self, sequence: Sequence[int]) -> NDArray[np.float32]:
        _, said = split_turn(sequence)
        if b'\n' not in said:
            return super()._logits_behind(sequence)
        row = np.full(N_VOCAB, -np.inf, np.float32)
        last = self.LETTERS.find(said[-1:])
        row[list(self.LETTERS)] = np.log(self.CHANCES[max(last, 0)])
        return row


PLAIN_SAMPLING = {'temperature': 1.0, 'top_k': 0, 'top_p': 1.0, 'min_p': 0.0, 'max_tokens': 400}


def test_sampled_text_has_the_models_distribution_though_it_was_guessed(
    make_settings: MakeSettings,
) -> None:
    settings = make_settings({'speculation.policy': 'on', 'speculation.prompt_lookup_min': 1})
    runtime = open_runtime(RandomBackend(settings, {'': b'stop\n'}), settings, TEXT)
    pairs: Counter[str] = Counter()
    num_draft_tokens = num_accepted_tokens = 0
    for seed in range(1, 11):
        answered = generate(runtime, make_request(TEXT, seed=seed, **PLAIN_SAMPLING))
        text = answered.detail
        pairs.update(map(''.join, zip(text, text[1:])))
        num_draft_tokens += answered.request.counts.num_draft_tokens
        num_accepted_tokens += answered.request.counts.num_accepted_tokens
    # Many guesses came true and many did not: both ways to a token were taken.
    assert 200 < num_accepted_tokens < num_draft_tokens - 200
    statistic = 0.0
    for last, row in zip('abc', RandomBackend.CHANCES):
        seen = np.array([pairs[last + letter] for letter in 'abc'])
        statistic += float(((seen - seen.sum() * row) ** 2 / (seen.sum() * row)).sum())
    # The 99.9th percentile of chi squared with six degrees of freedom.
    assert statistic < 22.5


def test_the_same_seed_draws_the_same_text_whatever_was_guessed(
    make_settings: MakeSettings,
) -> None:
    texts = []
    for policy in ('off', 'on'):
        settings = make_settings({
            'speculation.policy': policy, 'speculation.prompt_lookup_min': 1})
        runtime = open_runtime(RandomBackend(settings, {'': b'stop\n'}), settings, TEXT)
        texts.append([generate(runtime, make_request(TEXT, seed=seed, **PLAIN_SAMPLING)).detail
                      for seed in range(1, 6)])
    assert texts[0] == texts[1]


@pytest.mark.parametrize('max_tokens', [5, 6, 7, 20, 21, 22, 23, 24])
def test_the_limit_is_met_to_the_token_and_no_guess_goes_beyond_it(
    make_settings: MakeSettings, max_tokens: int,
) -> None:
    runtime = open_scripted(make_settings, {'': SAID})
    for _ in range(2):
        request = make_request(TEXT, max_tokens=max_tokens)
        answered = generate(runtime, request)
        assert request.counts.num_completion_tokens == max_tokens
        assert answered.detail == SAID.decode()[5:max_tokens]
        assert request.finish_reason is FinishReason.LENGTH
        assert runtime.cache.num_tokens < request.counts.num_prompt_tokens + max_tokens


@pytest.mark.parametrize('stop', ['two', 'three f', 'x. one', '. one two'])
def test_a_stop_string_inside_a_guess_ends_the_text_before_it(
    make_settings: MakeSettings, stop: str,
) -> None:
    runtime = open_scripted(make_settings, {'': SAID})
    generate(runtime, make_request(TEXT, max_tokens=150))
    answered = generate(runtime, make_request(TEXT, max_tokens=150, stop_strings=(stop,)))
    assert answered.detail == SAID.decode()[5:].partition(stop)[0]
    assert answered.request.finish_reason is FinishReason.STOP
    assert answered.request.counts.num_accepted_tokens > 0


def test_the_end_of_the_turn_is_never_guessed_and_ends_the_answer(
    make_settings: MakeSettings,
) -> None:
    runtime = open_scripted(make_settings, {'': SAID})
    for _ in range(2):
        answered = generate(runtime, make_request(TEXT, max_tokens=400))
        assert answered.detail == SAID.decode()[5:]
        assert answered.request.finish_reason is FinishReason.STOP
    assert END not in runtime.cache._working[answered.request.counts.num_prompt_tokens:]


@pytest.mark.parametrize('memory', [{'n_swa': 64}, {'is_recurrent': True}])
def test_a_memory_that_cannot_drop_a_part_is_never_asked_to_guess(
    make_settings: MakeSettings, memory: dict[str, object],
) -> None:
    runtime = open_scripted(make_settings, {'': SAID}, **memory)
    for _ in range(2):
        answered = generate(runtime, make_request(TEXT, max_tokens=100))
        assert answered.detail == SAID.decode()[5:100]
        assert answered.request.counts.num_draft_tokens == 0


def test_a_guess_and_what_the_grammar_forces_share_a_decode(make_settings: MakeSettings) -> None:
    profile = make_profile('json', schema=SPEED_SCHEMA)
    whole = '{"target_speed_mps":0.5,"reason":"a dog runs"}'
    runtime = open_scripted(make_settings, {'': f'stop\n{whole}'.encode()}, profile)
    counts = []
    for _ in range(2):
        request = make_request(profile, max_tokens=90)
        generate(runtime, request)
        assert request.detail_json == whole
        counts.append(request.counts)
    # The second time, all that is sampled is guessed: the two values, and nothing between them.
    assert counts[1].num_forced_tokens == counts[0].num_forced_tokens > 0
    assert counts[1].num_accepted_tokens == counts[1].num_draft_tokens > 8
    assert counts[1].num_decode_calls - counts[1].num_prefill_chunks <= 6


def test_a_stop_in_a_decode_with_guesses_wastes_one_token_and_keeps_the_cache_true(
    make_settings: MakeSettings,
) -> None:
    harness: list[WorkerHarness] = []
    request = make_request(TEXT, max_tokens=150)
    widths: list[int] = []

    def stop_in_a_draft(call: DecodeCall) -> None:
        _, said = split_turn(call.sequence)
        if harness and len(said) > 60 and not widths and call.num_new_tokens > 1:
            widths.append(call.num_new_tokens)
            harness[0].worker.requests.stop(request, FinishReason.CANCELED)

    runtime = open_scripted(make_settings, {'': SAID}, on_decode=stop_in_a_draft)
    with WorkerHarness(borrowed(runtime)) as opened:
        harness.append(opened)
        answered = opened.answer(request)
        assert widths, 'no decode carried a guess'
        assert request.finish_reason is FinishReason.CANCELED
        assert request.counts.num_wasted_tokens <= 1
        assert SAID.decode()[5:].startswith(answered.detail)
        runtime.cache.check_integrity()
        again = opened.answer(make_request(TEXT, max_tokens=150))
        assert again.detail == SAID.decode()[5:150]
        assert again.request.counts.num_cached_tokens == request.counts.num_prompt_tokens - 1
