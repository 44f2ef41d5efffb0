"""What every backend promises, held against llama.cpp and against the scripted one."""

from collections.abc import Callable
from threading import Thread

import numpy as np
import pytest
from robot_llm.core.decision import log_softmax_at
from robot_llm.engine.backend import Backend, DecodeAborted
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.settings import Settings

SMALL = {'model.n_ctx': 512, 'model.n_batch': 128, 'model.n_ubatch': 32}
N_CTX = 512
TEXT = 'The robot drives through the corridor, and a person with a dog comes out of a door. ' * 3


@pytest.fixture(scope='module', params=['scripted', 'llama'])
def opened(
    request: pytest.FixtureRequest, open_backend: Callable[..., LlamaCppBackend],
    make_settings: Callable[..., Settings],
) -> Backend:
    backend: Backend
    if request.param == 'scripted':
        backend = ScriptedBackend(make_settings(SMALL), {'': b'stop\n'})
    else:
        backend = open_backend(SMALL)
    backend.open_context(N_CTX, num_reserved_tokens=64, num_sequences=4)
    return backend


@pytest.fixture
def backend(opened: Backend) -> Backend:
    for seq_id in range(4):
        assert opened.truncate(seq_id, 0)
    opened.abort.clear()
    return opened


def prompt_ids(backend: Backend, length: int) -> list[int]:
    return backend.tokenize(TEXT, parse_special=False)[:length]


@pytest.mark.parametrize('text', [
    '', ' ', '\n', ' two  spaces ', 'grüße 你好 🤖', 'e\u0301', 'a\0b', '<|im_end|>', '</s>', '\r\n'])
def test_text_survives_the_way_through_the_tokens(backend: Backend, text: str) -> None:
    token_ids = backend.tokenize(text, parse_special=False)
    assert b''.join(map(backend.token_bytes, token_ids)) == text.encode()
    assert all(0 <= token_id < backend.info.n_vocab for token_id in token_ids)


def test_a_control_token_is_parsed_only_where_it_is_asked_for(backend: Backend) -> None:
    text = backend.info.eos_text
    parsed = backend.tokenize(text, parse_special=True)
    assert len(parsed) == 1
    assert backend.is_end(parsed[0]) and backend.token_bytes(parsed[0]) == b''
    plain = backend.tokenize(text, parse_special=False)
    assert len(plain) > 1 and not any(map(backend.is_end, plain))


def test_tokenising_never_adds_bos(backend: Backend) -> None:
    assert backend.info.bos_token >= 0
    for parse_special in (False, True):
        assert backend.info.bos_token not in backend.tokenize('hello', parse_special=parse_special)


def test_a_lone_surrogate_does_not_break_the_tokeniser(backend: Backend) -> None:
    assert backend.tokenize('a\ud800b', parse_special=False)


def test_a_decode_gives_one_row_of_finite_logits(backend: Backend) -> None:
    backend.decode(prompt_ids(backend, 20), position=0)
    row = backend.logits()
    assert row.shape == (backend.info.n_vocab,)
    assert row.dtype == np.float32
    assert np.isfinite(row).all()


def test_the_probe_gives_one_tokens_state_whatever_stands_behind_it(backend: Backend) -> None:
    token_ids = backend.tokenize('The dog lies in the door.', parse_special=False)
    backend.decode(token_ids, position=0, probe=2)
    inside = backend.hidden_state()
    assert inside.shape == (backend.info.num_features,)
    backend.truncate(0, 0)
    backend.decode(token_ids[:3], position=0, probe=-1)
    # The shape of a batch changes the numbers a little, another token changes them a lot.
    assert np.corrcoef(inside, backend.hidden_state())[0, 1] > 0.999
    backend.decode(token_ids[3:4], position=3, probe=0)
    assert np.corrcoef(inside, backend.hidden_state())[0, 1] < 0.999


def test_the_memory_counts_what_was_decoded_truncated_and_copied(backend: Backend) -> None:
    token_ids = prompt_ids(backend, 24)
    assert backend.sequence_length(0) == 0
    backend.decode(token_ids[:20], position=0)
    backend.decode(token_ids[20:], position=20)
    assert backend.sequence_length(0) == 24
    assert backend.truncate(0, 10)
    assert backend.sequence_length(0) == 10
    backend.copy_sequence(0, 1)
    assert [backend.sequence_length(seq_id) for seq_id in range(3)] == [10, 10, 0]
    backend.decode(token_ids[10:14], position=10, seq_id=1)
    assert [backend.sequence_length(seq_id) for seq_id in range(3)] == [10, 14, 0]
    assert backend.truncate(0, 0)
    assert [backend.sequence_length(seq_id) for seq_id in range(2)] == [0, 14]


def test_a_copy_goes_on_like_the_original(backend: Backend) -> None:
    token_ids = prompt_ids(backend, 24)
    backend.decode(token_ids, position=0)
    expected = backend.logits().copy()
    backend.truncate(0, 0)
    backend.decode(token_ids[:20], position=0)
    backend.copy_sequence(0, 2)
    backend.truncate(0, 0)
    backend.decode(token_ids[20:], position=20, seq_id=2)
    assert backend.logits().argmax() == expected.argmax()


def test_a_decode_under_the_abort_flag_ends_aborted_and_adds_nothing(backend: Backend) -> None:
    token_ids = prompt_ids(backend, 40)
    backend.decode(token_ids[:8], position=0)
    backend.abort.set()
    with pytest.raises(DecodeAborted):
        backend.decode(token_ids[8:], position=8)
    assert backend.sequence_length(0) == 8
    backend.abort.clear()
    backend.decode(token_ids[8:], position=8)
    assert backend.sequence_length(0) == 40


def test_the_flag_from_another_thread_keeps_whole_parts_which_serve_on(backend: Backend) -> None:
    token_ids = (prompt_ids(backend, 50) * 2)[:96]
    backend.decode(token_ids, position=0)
    expected = int(backend.logits().argmax())
    backend.truncate(0, 0)
    if isinstance(backend, ScriptedBackend):
        backend.on_decode = lambda call: backend.abort.set() if len(call.sequence) > 40 else None
        abort = Thread(target=lambda: None)
    else:
        abort = Thread(target=backend.abort.set)
    abort.start()
    with pytest.raises(DecodeAborted):
        backend.decode(token_ids, position=0)
    abort.join()
    if isinstance(backend, ScriptedBackend):
        backend.on_decode = lambda call: None
    length = backend.sequence_length(0)
    assert length % 32 == 0 and length < len(token_ids)
    backend.abort.clear()
    backend.decode(token_ids[length:], position=length)
    assert backend.logits().argmax() == expected


def test_branches_are_what_the_same_tokens_are_alone(backend: Backend) -> None:
    prompt = prompt_ids(backend, 20)
    branches = [backend.tokenize(text, parse_special=False)[:4]
                for text in ('stopover', 'go_left', 'slow')]
    backend.decode(prompt, position=0)
    for seq_id in (1, 2, 3):
        backend.copy_sequence(0, seq_id)
    rows = backend.decode_branches(branches, position=20, seq_ids=(1, 2, 3))
    assert [backend.sequence_length(s) for s in (1, 2, 3)] == [20 + len(b) for b in branches]
    for branch, branch_rows in zip(branches, rows, strict=True):
        assert branch_rows.shape == (len(branch), backend.info.n_vocab)
        for index, token_id in enumerate(branch):
            backend.decode([token_id], position=20 + index)
            alone, together = backend.logits(), branch_rows[index]
            top = int(alone.argmax())
            assert together.argmax() == top
            assert log_softmax_at(together, [top]) == pytest.approx(
                log_softmax_at(alone, [top]), abs=0.3)
        backend.truncate(0, 20)


def test_the_rows_of_one_decode_are_those_of_its_tokens_one_by_one(backend: Backend) -> None:
    prompt, behind = prompt_ids(backend, 20), prompt_ids(backend, 26)[20:]
    backend.decode(prompt, position=0)
    alone = []
    for index, token_id in enumerate(behind):
        backend.decode([token_id], position=20 + index)
        alone.append(backend.logits().copy())
    backend.truncate(0, 20)
    backend.decode(behind, position=20, num_rows=4)
    for row in range(-4, 0):
        top = int(alone[row].argmax())
        together = backend.logits(row)
        assert together.shape == (backend.info.n_vocab,)
        assert together.argmax() == top
        assert log_softmax_at(together, [top]) == pytest.approx(
            log_softmax_at(alone[row], [top]), abs=0.3)


def test_a_decode_without_rows_leaves_the_same_memory_and_may_be_probed(
    backend: Backend,
) -> None:
    prompt = prompt_ids(backend, 24)
    states, rows = [], []
    for num_rows in (1, 0):
        backend.truncate(0, 0)
        backend.decode(prompt[:12], position=0, num_rows=num_rows)
        backend.decode(prompt[12:20], position=12, probe=4, num_rows=num_rows)
        states.append(backend.hidden_state().copy())
        assert backend.sequence_length(0) == 20
        backend.decode(prompt[20:], position=20)
        rows.append(backend.logits().copy())
    assert np.allclose(states[0], states[1], atol=0.05)
    top = int(rows[0].argmax())
    assert rows[1].argmax() == top
    assert log_softmax_at(rows[1], [top]) == pytest.approx(
        log_softmax_at(rows[0], [top]), abs=0.3)


def test_branches_obey_the_abort_flag(backend: Backend) -> None:
    backend.decode(prompt_ids(backend, 20), position=0)
    backend.copy_sequence(0, 1)
    backend.abort.set()
    with pytest.raises(DecodeAborted):
        backend.decode_branches([prompt_ids(backend, 3)], position=20, seq_ids=(1,))
    assert backend.sequence_length(0) == 20


def test_the_rows_of_branches_outlive_the_next_decode(backend: Backend) -> None:
    prompt = prompt_ids(backend, 12)
    backend.decode(prompt[:8], position=0)
    backend.copy_sequence(0, 1)
    (rows,) = backend.decode_branches([prompt[8:10]], position=8, seq_ids=(1,))
    before = rows.copy()
    backend.decode(prompt[8:], position=8)
    assert np.array_equal(rows, before)


def test_closing_twice_is_safe(
    opened: Backend, open_backend: Callable[..., LlamaCppBackend],
    make_settings: Callable[..., Settings],
) -> None:
    backend = (ScriptedBackend(make_settings(SMALL), {}) if isinstance(opened, ScriptedBackend)
               else open_backend(SMALL))
    backend.close()
    backend.close()
