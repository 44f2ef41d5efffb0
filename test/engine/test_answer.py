"""Tokens become text that is whole, to the byte, and never more than was asked for."""

from collections.abc import Callable

from engine_requests import make_profile, make_request
from engine_running import generate, open_runtime
import numpy as np
import pytest
from robot_llm.core.request import FinishReason, Request
from robot_llm.engine.answer import Answer
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.errors import ErrorCode
from robot_llm.profile import ResponseProfile
from robot_llm.settings import Settings

Begin = Callable[..., tuple[Answer, Request, list[int]]]


@pytest.fixture
def begin(runtime: Runtime, profiles: dict[str, ResponseProfile]) -> Begin:
    """Return what opens an answer behind the profile's first word."""
    def open_answer(name: str, **options: object) -> tuple[Answer, Request, list[int]]:
        request = make_request(profiles[name], **options)
        compiled = runtime.profiles[name]
        word = compiled.decision_set.words[0]
        request.counts.num_completion_tokens = len(word.token_ids)
        answer = Answer(runtime.backend, compiled, request, word)
        return answer, request, answer.begin()
    return open_answer


def logits_for(runtime: Runtime, token_id: int) -> np.ndarray:
    row = np.zeros(runtime.backend.info.n_vocab, np.float32)
    row[token_id] = 50.0
    return row


def write(runtime: Runtime, answer: Answer, text: str) -> list[str]:
    """Let the model say ``text``, a token at a time, as long as the answer wants more."""
    pieces = []
    for token_id in runtime.backend.tokenize(text, parse_special=False):
        if answer.is_over:
            break
        pieces.append(answer.append(answer.choose(logits_for(runtime, token_id))))
    return pieces


WHOLE = '{"target_speed_mps":0.5,"reason":"a dog runs across"}'


def write_json(runtime: Runtime, answer: Answer, new_ids: list[int], whole: str) -> str:
    """Let the model write ``whole`` where it may choose, until the answer is over."""
    text = answer.append(new_ids)
    said = b''.join(map(runtime.backend.token_bytes, new_ids)).decode()
    while not answer.is_over:
        assert whole.startswith(said)
        next_id = runtime.backend.tokenize(whole[len(said):], parse_special=False)[0]
        new_ids = answer.choose(logits_for(runtime, next_id))
        said += b''.join(map(runtime.backend.token_bytes, new_ids)).decode()
        text += answer.append(new_ids)
    return text + answer.finish()


@pytest.mark.parametrize('text', [
    '🤖 sees 你好, e\u0301, ✋🏽 and 日本語', '👩‍👩‍👧', 'Grüße', '한국어'])
def test_characters_of_several_tokens_leave_whole(
    runtime: Runtime, begin: Begin, text: str,
) -> None:
    num_tokens = len(runtime.backend.tokenize(text, parse_special=False))
    assert num_tokens > 1
    answer, request, new_ids = begin('text', max_tokens=200)
    pieces = [answer.append(new_ids), *write(runtime, answer, text), answer.finish()]
    assert pieces[0] == '\n'
    assert ''.join(pieces[1:]) == text
    assert all('\ufffd' not in piece for piece in pieces)
    assert request.counts.num_completion_tokens == 2 + num_tokens
    answer.close()


def test_a_character_that_the_limit_cuts_is_dropped(runtime: Runtime, begin: Begin) -> None:
    assert len(runtime.backend.tokenize('🤖', parse_special=False)) > 1
    answer, request, new_ids = begin('text', max_tokens=3)
    pieces = [answer.append(new_ids), *write(runtime, answer, '🤖'), answer.finish()]
    assert ''.join(pieces) == '\n'
    assert request.finish_reason is FinishReason.LENGTH
    assert request.counts.num_completion_tokens == 3


@pytest.mark.parametrize(('text', 'stops', 'expected'), [
    ('hello big world. And on', ('wor', 'o b'), 'hell'),
    ('The answer is yes, END of it', ('END',), 'The answer is yes, '),
    ('one\n\ntwo', ('\n\n',), 'one'),
    ('a < b <| c', ('<|end|>',), 'a < b <| c'),
    ('停止します', ('止し',), '停'),
])
def test_a_stop_string_over_several_tokens_never_leaks(
    runtime: Runtime, begin: Begin, text: str, stops: tuple[str, ...], expected: str,
) -> None:
    answer, request, new_ids = begin('text', stop_strings=stops, max_tokens=100)
    pieces = [answer.append(new_ids), *write(runtime, answer, text), answer.finish()]
    assert ''.join(pieces) == '\n' + expected
    is_stopped = expected != text
    assert answer.is_over is is_stopped
    assert request.finish_reason is (FinishReason.STOP if is_stopped else FinishReason.LENGTH)


def test_the_model_ends_its_turn(runtime: Runtime, begin: Begin) -> None:
    answer, request, new_ids = begin('text', max_tokens=50)
    answer.append(new_ids)
    write(runtime, answer, 'hi')
    end_id = runtime.backend.tokenize(runtime.backend.info.eos_text, parse_special=True)[0]
    before = request.counts.num_completion_tokens
    assert answer.choose(logits_for(runtime, end_id)) == []
    assert (answer.append([]), answer.is_over) == ('', True)
    answer.finish()
    assert request.finish_reason is FinishReason.STOP
    assert request.counts.num_completion_tokens == before


def test_a_json_detail_cannot_end_early(runtime: Runtime, begin: Begin) -> None:
    answer, _, new_ids = begin('json', max_tokens=90)
    answer.append(new_ids)
    end_id = runtime.backend.tokenize(runtime.backend.info.eos_text, parse_special=True)[0]
    assert answer.choose(logits_for(runtime, end_id)) != []
    assert not answer.is_over


@pytest.mark.parametrize('max_tokens', range(1, 30))
def test_a_json_detail_is_cut_exactly_at_the_limit_and_then_refused(
    runtime: Runtime, begin: Begin, max_tokens: int,
) -> None:
    answer, request, new_ids = begin('json', max_tokens=max_tokens)
    text = write_json(runtime, answer, new_ids, WHOLE)
    if request.finish_reason is FinishReason.STOP:
        assert text == '\n' + request.detail_json == '\n' + WHOLE
        assert request.counts.num_completion_tokens <= max_tokens
    else:
        assert request.finish_reason is FinishReason.LENGTH
        assert request.error is not None and request.error.code is ErrorCode.LIMIT_IN_DETAIL
        assert str(max_tokens) in str(request.error)
        assert request.detail_json == ''
        assert request.counts.num_completion_tokens == max_tokens


@pytest.mark.parametrize('max_tokens', range(1, 24))
def test_a_detail_whose_forced_end_is_cut_is_not_whole(
    make_settings: Callable[..., Settings], max_tokens: int,
) -> None:
    whole = '{"mode":"fast"}'
    profile = make_profile('mode', words=('go', 'no'), schema={
        'type': 'object', 'additionalProperties': False, 'required': ['mode'],
        'properties': {'mode': {'type': 'string', 'enum': ['fast', 'slow']}}})
    settings = make_settings()
    runtime = open_runtime(
        ScriptedBackend(settings, {'': f'go\n{whole}'.encode()}), settings, profile)
    answered = generate(runtime, make_request(profile, max_tokens=max_tokens))
    # A byte is a token, and the word and its newline are three.
    num_detail = max(max_tokens - 3, 0)
    assert answered.detail == whole[:num_detail]
    is_whole = num_detail >= len(whole)
    assert answered.request.detail_json == (whole if is_whole else '')
    assert answered.request.finish_reason is (
        FinishReason.STOP if is_whole else FinishReason.LENGTH)


def test_a_detail_that_fails_the_second_check_is_refused(runtime: Runtime, begin: Begin) -> None:
    answer, request, new_ids = begin('json', max_tokens=90, stop_strings=('dog',))
    write_json(runtime, answer, new_ids, WHOLE)
    assert request.finish_reason is FinishReason.ERROR
    assert request.error is not None and request.error.code is ErrorCode.SCHEMA_NOT_MET
    assert request.detail_json == ''


def test_the_word_is_never_cut_but_its_newline_is(begin: Begin) -> None:
    answer, request, new_ids = begin('text', max_tokens=1)
    assert (new_ids, answer.is_over) == ([], True)
    assert answer.append(new_ids) + answer.finish() == ''
    assert request.counts.num_completion_tokens == 1
    assert request.finish_reason is FinishReason.LENGTH
    answer, request, _ = begin('json', max_tokens=1)
    answer.finish()
    assert request.error is not None and request.error.code is ErrorCode.LIMIT_IN_DETAIL
    assert request.counts.num_forced_tokens == 0
