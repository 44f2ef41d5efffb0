"""A request becomes an answer: counted exactly, repeatable, cached, and never silently cut."""

from collections.abc import Callable
import json

from engine_requests import make_profile, make_request, SPEED_SCHEMA
from engine_running import generate, open_runtime
import jsonschema
import pytest
from robot_llm.core.decision import Decision, DecisionSource
from robot_llm.core.event import Decided, Delta, Started
from robot_llm.core.request import FinishReason, RequestStatus
from robot_llm.core.timing import Stage
from robot_llm.detail import validate_detail
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.errors import ContextOverflowError, ErrorCode
from robot_llm.profile import ResponseProfile
from robot_llm.settings import Settings

Profiles = dict[str, ResponseProfile]

LONG = 'Tell me a long story about a robot and a dog.'
OBSTACLES = ('dog', 'child', 'cone', 'open door', 'forklift', 'puddle', 'parcel', 'cat', 'robot',
             'wall')
PROMPTS = [f'There is a {obstacle} {where}. What now?' for obstacle in OBSTACLES
           for where in ('on the path', 'far away')]


def test_the_events_come_in_order_and_every_stage_is_stamped(
    runtime: Runtime, profiles: Profiles,
) -> None:
    request = make_request(profiles['json'])
    request.clock.mark(Stage.RECEIVED, 0.0)
    answered = generate(runtime, request)
    kinds = [type(event) for event in answered.events]
    assert kinds[:2] == [Started, Decided]
    assert set(kinds[2:]) == {Delta}
    request.clock.mark(Stage.PUBLISHED, float('inf'))
    assert set(request.clock._marks) == set(Stage)
    assert request.status is RequestStatus.FINISHED
    assert answered.pieces[0].startswith('\n')


def test_a_profile_without_detail_is_answered_from_the_prefill_alone(
    runtime: Runtime, profiles: Profiles,
) -> None:
    answered = generate(runtime, make_request(profiles['word']))
    counts = answered.request.counts
    assert counts.num_decode_calls == counts.num_prefill_chunks == 1
    assert counts.num_completion_tokens == 1
    assert answered.request.finish_reason is FinishReason.STOP
    assert answered.pieces == []
    assert sum(answered.decision.probabilities) == pytest.approx(1.0)


@pytest.mark.parametrize('prompt', PROMPTS)
def test_a_json_detail_meets_the_schema_at_any_temperature(
    runtime: Runtime, profiles: Profiles, prompt: str,
) -> None:
    answered = generate(runtime, make_request(
        profiles['json'], prompt, temperature=1.0, seed=1 + PROMPTS.index(prompt), max_tokens=90,
        repetition_penalty=1.2 if PROMPTS.index(prompt) % 2 else 1.0))
    request, counts = answered.request, answered.request.counts
    assert request.finish_reason is FinishReason.STOP, request.error
    detail = json.loads(request.detail_json)
    jsonschema.validate(detail, {**SPEED_SCHEMA, 'properties': {
        **SPEED_SCHEMA['properties'], 'target_speed_mps': {'minimum': 0.0, 'maximum': 1.5}}})
    assert list(detail) == list(json.loads(answered.detail)) == list(SPEED_SCHEMA['properties'])
    assert counts.num_decode_calls < counts.num_completion_tokens
    assert counts.num_forced_tokens > 0


@pytest.mark.parametrize('word', ['stop', 'continue'])
def test_the_detail_obeys_the_schema_of_the_word_that_stands(
    runtime: Runtime, profiles: Profiles, word: str,
) -> None:
    profile = profiles['word_json']
    request = make_request(
        profile, 'The road is free. Drive at 1.2 metres per second.', max_tokens=90)
    # Another word than the model's: a deadline's, say.
    request.latch.offer(Decision(word, DecisionSource.DEADLINE, profile.words))
    generate(runtime, request)
    assert request.finish_reason is FinishReason.STOP
    speed = json.loads(request.detail_json)['target_speed_mps']
    assert (speed == 0.0) is (word == 'stop')
    assert validate_detail(profile, word, request.detail_json)


def test_a_limit_inside_the_json_refuses_the_detail(runtime: Runtime, profiles: Profiles) -> None:
    request = generate(runtime, make_request(profiles['json'], max_tokens=9)).request
    assert request.finish_reason is FinishReason.LENGTH
    assert request.error is not None
    assert request.error.code is ErrorCode.LIMIT_IN_DETAIL == 202
    assert 'max_tokens=9 was reached inside the detail; raise' in str(request.error)
    assert request.detail_json == ''
    assert request.counts.num_completion_tokens == 9


@pytest.mark.parametrize('max_tokens', [1, 2, 3, 4, 5, 8, 13])
def test_free_text_has_exactly_the_tokens_that_were_asked_for(
    runtime: Runtime, profiles: Profiles, max_tokens: int,
) -> None:
    answered = generate(runtime, make_request(
        profiles['text'], LONG,
        max_tokens=max_tokens))
    assert answered.request.counts.num_completion_tokens == max_tokens
    assert answered.request.finish_reason is FinishReason.LENGTH


def test_a_shorter_answer_begins_like_a_longer_one(runtime: Runtime, profiles: Profiles) -> None:
    long, short = (generate(runtime, make_request(
        profiles['text'], LONG, max_tokens=n)).detail for n in (24, 12))
    assert long.startswith(short) and len(long) > len(short) > 0


def test_a_stop_string_across_tokens_ends_the_text_before_it(
    runtime: Runtime, profiles: Profiles,
) -> None:
    prompt = LONG
    whole = generate(runtime, make_request(profiles['text'], prompt, max_tokens=30))
    # Across the border between two tokens in the middle of the text.
    cut = sum(map(len, whole.pieces[:12])) - 1
    stop = whole.detail[cut - 2:cut + 2]
    answered = generate(runtime, make_request(
        profiles['text'], prompt, max_tokens=30, stop_strings=(stop,)))
    assert answered.detail == whole.detail[:whole.detail.index(stop)]
    assert answered.request.finish_reason is FinishReason.STOP


def test_what_other_scripts_make_of_the_model_is_whole_characters(
    runtime: Runtime, profiles: Profiles,
) -> None:
    answered = generate(runtime, make_request(
        profiles['text'], 'Repeat: 你好 🤖 你好 🤖 你好 🤖', temperature=1.5, seed=4, max_tokens=30))
    for piece in answered.pieces:
        assert piece.encode().decode() == piece
    assert answered.num_tokens == answered.request.counts.num_completion_tokens


def test_temperature_zero_is_deterministic_and_ignores_the_seed(
    runtime: Runtime, profiles: Profiles,
) -> None:
    details = {generate(runtime, make_request(
        profiles['text'], seed=seed, max_tokens=16)).detail for seed in (1, 2, 3)}
    assert len(details) == 1


def test_the_same_seed_gives_the_same_text_and_other_seeds_others(
    runtime: Runtime, profiles: Profiles,
) -> None:
    def text_of(seed: int) -> str:
        return generate(runtime, make_request(
            profiles['text'], temperature=1.2, seed=seed, max_tokens=16)).detail

    first = text_of(5)
    assert text_of(5) == first
    assert len({first, text_of(6), text_of(7), text_of(8)}) > 1


def test_the_pinned_prefix_is_counted_and_then_the_whole_prompt_but_one(
    runtime: Runtime, profiles: Profiles,
) -> None:
    first = generate(runtime, make_request(profiles['text'], max_tokens=3)).request.counts
    again = generate(runtime, make_request(profiles['text'], max_tokens=3)).request.counts
    assert first.num_cached_tokens == len(runtime.profiles['text'].static_ids)
    assert again.num_cached_tokens == again.num_prompt_tokens - 1
    for counts in (first, again):
        assert (counts.num_cached_tokens + counts.num_prefilled_tokens
                == counts.num_prompt_tokens)


def test_the_scene_is_cached_between_two_goals_in_it(runtime: Runtime, profiles: Profiles) -> None:
    scene = 'A long corridor with a person, a dog and two doors. ' * 2
    first, second = (generate(runtime, make_request(
        profiles['word'], prompt, scene=scene)).request.counts for prompt in ('Go?', 'May I?'))
    num_scene = len(runtime.backend.tokenize(scene, parse_special=False))
    assert second.num_cached_tokens >= first.num_cached_tokens + num_scene - 2


def test_an_answer_is_the_same_cold_and_warm(runtime: Runtime, profiles: Profiles) -> None:
    cold = generate(runtime, make_request(profiles['json'], max_tokens=90))
    warm = generate(runtime, make_request(profiles['json'], max_tokens=90))
    assert warm.request.counts.num_cached_tokens > cold.request.counts.num_cached_tokens
    assert warm.detail == cold.detail
    assert warm.decision.word == cold.decision.word


def test_a_prompt_that_does_not_fit_names_the_three_numbers_and_evaluates_nothing(
    runtime: Runtime, profiles: Profiles,
) -> None:
    request = make_request(profiles['word'], 'word ' * 4090, max_tokens=50)
    with pytest.raises(ContextOverflowError) as raised:
        generate(runtime, request)
    counts = request.counts
    assert str(raised.value).startswith(
        f'prompt {counts.num_prompt_tokens} + answer 50 tokens exceed n_ctx=4096; shorten')
    assert raised.value.code is ErrorCode.CONTEXT_OVERFLOW
    assert (counts.num_prefill_chunks, counts.num_decode_calls) == (0, 0)


@pytest.mark.parametrize('chunk', [1, 7, 64, 4096])
def test_a_prompt_and_an_answer_fill_the_context_to_the_last_token(
    make_settings: Callable[..., Settings], chunk: int,
) -> None:
    profile = make_profile('text', text=True)
    settings = make_settings({'model.n_ctx': 256, 'model.n_batch': 64, 'sampling.max_tokens': 8,
                              'engine.chunk_tokens': min(chunk, 64)})
    runtime = open_runtime(
        ScriptedBackend(settings, {'': b'stop\n' + b'x' * 300}), settings, profile)
    num_static = len(runtime.profiles['text'].static_ids)
    empty = make_request(profile, 'x', max_tokens=1)
    generate(runtime, empty)
    num_other = empty.counts.num_prompt_tokens - 1
    fits = make_request(profile, 'y' * (256 - 20 - num_other), max_tokens=20)
    generate(runtime, fits)
    assert fits.counts.num_prompt_tokens + 20 == 256
    assert fits.counts.num_completion_tokens == 20
    num_left = fits.counts.num_prompt_tokens - fits.counts.num_cached_tokens
    assert fits.counts.num_prefill_chunks == -(-num_left // min(chunk, 64))
    assert fits.counts.num_cached_tokens >= num_static
    with pytest.raises(ContextOverflowError):
        generate(runtime, make_request(profile, 'y' * (256 - 19 - num_other), max_tokens=20))
