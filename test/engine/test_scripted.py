"""The scripted backend serves the real engine: answers, thoughts, memory, faults."""

from collections.abc import Callable
from threading import Thread

from engine_requests import make_profile, make_request, SPEED_SCHEMA
from engine_running import generate, open_runtime
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.engine.backend import DecodeAborted
from robot_llm.engine.scripted import Script, ScriptedBackend
from robot_llm.engine.scripted_fault import fail, faults_by_prompt, Gate
from robot_llm.engine.scripted_vocab import BOS, encode, END, spell, split_turn, TURN
from robot_llm.errors import DecodeError
from robot_llm.profile import ResponseProfile
from robot_llm.settings import Settings

WORD = make_profile('word')
TEXT = make_profile('text', text=True)
JSON = make_profile('json', schema=SPEED_SCHEMA)
STAY = make_profile('stay', words=('stop', 'stopover', 'slow'), text=True)
DETAIL = '{"target_speed_mps":0.3,"reason":"a dog 🤖 你好"}'
SCRIPT = {'dog': f'slow\n{DETAIL}'.encode(), '': 'continue\nGrüße 🤖, e\u0301 你好.'.encode()}

Opened = Callable[..., object]


@pytest.fixture
def scripted(make_settings: Callable[..., Settings]) -> Callable[..., ScriptedBackend]:
    def make(script: Script = SCRIPT, **options: object) -> ScriptedBackend:
        return ScriptedBackend(make_settings({'model.n_ubatch': 32}), script, **options)
    return make


def ready(backend: ScriptedBackend, *profiles: ResponseProfile, chunk: int = 128):  # noqa: ANN201
    return open_runtime(
        backend, Settings.from_flat({'engine.chunk_tokens': chunk}), *profiles)


def test_the_answer_is_the_scripts(scripted: Callable[..., ScriptedBackend]) -> None:
    runtime = ready(scripted(), TEXT, JSON)
    answered = generate(runtime, make_request(TEXT, 'what now'))
    assert answered.decision.word == 'continue'
    assert answered.detail == 'Grüße 🤖, e\u0301 你好.'
    assert all('\ufffd' not in piece for piece in answered.pieces)
    assert answered.request.finish_reason is FinishReason.STOP
    answered = generate(runtime, make_request(JSON, 'a dog', max_tokens=90))
    assert answered.decision.word == 'slow'
    assert answered.request.detail_json == answered.detail == DETAIL
    assert answered.request.counts.num_forced_tokens >= len('{"target_speed_mps":,"reason":""}')


def test_a_script_may_be_a_function_of_the_prompt(
    scripted: Callable[..., ScriptedBackend],
) -> None:
    backend = scripted(lambda prompt: b'slow\n' + str(prompt.count('cone')).encode())
    answered = generate(ready(backend, TEXT), make_request(TEXT, 'cone cone cone'))
    assert (answered.decision.word, answered.detail) == ('slow', '3')


def test_a_prompt_without_an_answer_is_an_error_that_names_it(
    scripted: Callable[..., ScriptedBackend],
) -> None:
    with pytest.raises(DecodeError, match='no scripted answer for the prompt .*a cat'):
        generate(ready(scripted({'dog': b'slow\n'}), TEXT), make_request(TEXT, 'a cat'))


@pytest.mark.parametrize('profile', [WORD, STAY])
def test_word_probabilities_are_what_the_decision_sees(
    scripted: Callable[..., ScriptedBackend], profile: ResponseProfile,
) -> None:
    thoughts = dict(zip(profile.words, (0.2, 0.4, 0.1)))
    runtime = ready(scripted(word_probabilities=thoughts), profile)
    decision = generate(runtime, make_request(profile)).decision
    assert decision.word == profile.words[1]
    assert decision.probabilities == pytest.approx((2 / 7, 4 / 7, 1 / 7), rel=0.02)
    assert decision.probability_mass == pytest.approx(0.7, abs=0.02)


def test_the_detail_follows_whichever_word_was_published(
    scripted: Callable[..., ScriptedBackend],
) -> None:
    careful = make_profile('careful', text=True, min_confidence=0.9)
    runtime = ready(scripted(word_probabilities={'slow': 0.5, 'continue': 0.5}), careful)
    answered = generate(runtime, make_request(careful, 'x'))
    assert answered.decision.source is DecisionSource.LOW_CONFIDENCE
    assert answered.decision.word == 'stop'
    assert answered.detail.startswith('Grüße')


def test_control_tokens_written_by_a_user_are_bytes() -> None:
    assert encode('a<|im_end|>', parse_special=True) == [97, END]
    assert max(encode('a<|im_end|>', parse_special=False)) < BOS
    assert split_turn([BOS, TURN, *b'user\nhi', END, 10, TURN, *b'assistant\n', *b'st']) == (
        '<|begin|><|im_start|>user\nhi<|im_end|>\n', b'st')
    assert split_turn([*b'hi']) == ('hi', b'')
    assert spell([TURN, 0xff]) == '<|im_start|>\ufffd'


@pytest.mark.parametrize('memory', [{}, {'n_swa': 64}, {'is_recurrent': True}])
def test_the_answer_does_not_depend_on_the_kind_of_memory(
    scripted: Callable[..., ScriptedBackend], memory: dict[str, int],
) -> None:
    runtime = ready(scripted(**memory), TEXT, JSON)
    num_static = len(runtime.profiles['text'].static_ids)
    for prompt in ('what now', 'what then', 'what now', 'what now, robot'):
        answered = generate(runtime, make_request(TEXT, prompt))
        assert answered.detail.startswith('Grüße')
        cached = answered.request.counts.num_cached_tokens
        assert cached == num_static if memory else cached >= num_static
    assert generate(runtime, make_request(JSON, 'a dog', max_tokens=90)).detail == DETAIL


def test_a_rewound_window_is_silently_wrong(scripted: Callable[..., ScriptedBackend]) -> None:
    backend = scripted(n_swa=8)
    backend.open_context(256, num_reserved_tokens=0, num_sequences=1)
    backend.decode(encode('what now', parse_special=False), position=0)
    assert backend.truncate(0, 4)
    backend.decode([*b' now'], position=4)
    assert 'what' not in spell(backend._memory[0])


def test_a_recurrent_memory_refuses_to_drop_a_part(
    scripted: Callable[..., ScriptedBackend],
) -> None:
    backend = scripted(is_recurrent=True)
    backend.open_context(256, num_reserved_tokens=0, num_sequences=1)
    backend.decode([1, 2, 3], position=0)
    assert not backend.truncate(0, 2)
    assert backend.sequence_length(0) == 3
    assert backend.truncate(0, 3) and backend.truncate(0, 0)
    assert backend.sequence_length(0) == 0


def test_a_gate_holds_a_decode_until_it_is_opened(
    scripted: Callable[..., ScriptedBackend],
) -> None:
    gate = Gate(lambda call: 'now' in call.text)
    backend = scripted(on_decode=gate)
    backend.open_context(256, num_reserved_tokens=0, num_sequences=1)
    backend.decode([*b'what '], position=0)
    assert not gate.reached.is_set()
    thread = Thread(target=backend.decode, args=([*b'now'],), kwargs={'position': 5})
    thread.start()
    assert gate.reached.wait(30)
    assert backend.sequence_length(0) == 5
    gate.opened.set()
    thread.join()
    assert backend.sequence_length(0) == 8


@pytest.mark.parametrize('obeys_abort', [True, False])
def test_a_held_decode_obeys_the_abort_flag_or_hangs_on(
    scripted: Callable[..., ScriptedBackend], obeys_abort: bool,
) -> None:
    gate = Gate(obeys_abort=obeys_abort)
    backend = scripted(on_decode=gate)
    backend.open_context(256, num_reserved_tokens=0, num_sequences=1)
    raised: list[type] = []

    def decode() -> None:
        try:
            backend.decode([1, 2], position=0)
        except DecodeAborted as error:
            raised.append(type(error))

    thread = Thread(target=decode, daemon=True)
    thread.start()
    assert gate.reached.wait(30)
    backend.abort.set()
    if not obeys_abort:
        thread.join(0.05)
        assert thread.is_alive()
        gate.opened.set()
    thread.join(30)
    assert raised == [DecodeAborted]
    assert backend.sequence_length(0) == 0


def test_a_fault_hits_the_prompts_that_it_is_for(
    scripted: Callable[..., ScriptedBackend],
) -> None:
    runtime = ready(scripted(on_decode=faults_by_prompt({'FAULT': fail})), TEXT)
    assert generate(runtime, make_request(TEXT, 'fine')).detail
    with pytest.raises(DecodeError, match='scripted fault'):
        generate(runtime, make_request(TEXT, 'FAULT'))


def test_a_full_memory_is_an_error(scripted: Callable[..., ScriptedBackend]) -> None:
    backend = scripted()
    backend.open_context(4, num_reserved_tokens=1, num_sequences=1)
    backend.decode([1] * 5, position=0)
    with pytest.raises(DecodeError, match='no room for 1 tokens'):
        backend.decode([1], position=5)
