"""What is special about llama.cpp: its log, its memory over many lives, its abort flag."""

from collections.abc import Callable
import gc
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

from engine_requests import make_profile, make_request, SPEED_SCHEMA
from engine_running import generate, open_runtime
import numpy as np
import pytest
from robot_llm.engine.abort import LlamaAbortFlag
from robot_llm.engine.backend import DecodeAborted
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.llama_log import LLAMA_LOG, LlamaLog
from robot_llm.errors import DecodeError, ModelLoadError
from robot_llm.settings import Settings

SMALL = {'model.n_ctx': 256, 'model.n_batch': 128, 'sampling.max_tokens': 8}


def resident_bytes() -> int:
    return int(Path('/proc/self/statm').read_text().split()[1]) * 4096


def live_once(settings: Settings) -> None:
    """Load, make a context, decode, close."""
    backend = LlamaCppBackend(settings, num_cores=2)
    backend.open_context(256, num_reserved_tokens=0, num_sequences=2)
    backend.decode([5, 6], position=0)
    assert np.isfinite(backend.logits()).all()
    backend.close()


def answer_once(settings: Settings) -> None:
    """Live a whole life: pinned prefix, constraint, sampler, answer."""
    profile = make_profile('json', schema=SPEED_SCHEMA, system_prompt='Go.')
    runtime = open_runtime(LlamaCppBackend(settings, num_cores=2), settings, profile)
    generate(runtime, make_request(profile, max_tokens=3, temperature=0.5))
    runtime.close()


def growth_bytes(live: Callable[[Settings], None], settings: Settings, times: int) -> int:
    """Return how much memory the lives after the first third keep, each on its own thread."""
    sizes = []
    for _ in range(times):
        worker = Thread(target=live, args=(settings,))
        worker.start()
        worker.join()
        gc.collect()
        sizes.append(resident_bytes())
    return sizes[-1] - sizes[times // 3 - 1]


def test_thirty_lives_of_a_model_leave_nothing_behind(
    make_settings: Callable[..., Settings],
) -> None:
    # One life takes more than 100 MiB; an allocator's own growth stays far below one leak each.
    assert growth_bytes(live_once, make_settings(SMALL), 30) < 20 * 2**20


def test_lives_with_a_constraint_and_an_answer_free_its_tokeniser_too(
    make_settings: Callable[..., Settings],
) -> None:
    # llguidance's table of 49,152 tokens alone takes several MiB.
    assert growth_bytes(answer_once, make_settings(SMALL), 6) < 24 * 2**20


def test_closing_without_a_context_and_twice_is_safe(
    make_settings: Callable[..., Settings],
) -> None:
    backend = LlamaCppBackend(make_settings(SMALL), num_cores=2)
    backend.close()
    backend.close()


def test_a_full_memory_is_an_engine_error_that_names_the_remedy(
    open_backend: Callable[..., LlamaCppBackend],
) -> None:
    backend = open_backend(SMALL)
    backend.open_context(256, num_reserved_tokens=0, num_sequences=1)
    backend.decode([5] * 128, position=0)
    backend.decode([5] * 128, position=128)
    with pytest.raises(DecodeError, match='no room for 1 tokens .*raise model.n_ctx'):
        backend.decode([5], position=256)
    assert backend.sequence_length(0) == 256
    backend.close()


def test_the_abort_flag_may_be_set_twice_and_counts_from_0_again() -> None:
    flag = LlamaAbortFlag()
    assert not flag.is_set
    flag.set()
    flag.set()
    assert flag.is_set and flag.num_nodes == 0
    flag.clear()
    assert not flag.is_set and flag.num_nodes == 0


def test_the_abort_flag_holds_beside_a_thread_that_asks_it_all_the_time() -> None:
    flag, must_leave = LlamaAbortFlag(), Event()
    answers: list[int] = []

    def ask_on() -> None:
        while not must_leave.is_set():
            answers.append(flag._libc.sem_post(flag._semaphore))

    thread = Thread(target=ask_on)
    thread.start()
    try:
        for _ in range(300):
            flag.set()
            start = len(answers) + 1  # one may be on its way
            while len(answers) < start + 10:
                pass
            assert set(answers[start:start + 10]) == {-1}
            num_nodes = flag.num_nodes
            flag.clear()
            while flag.num_nodes < 10:
                pass
            assert num_nodes < flag._largest
    finally:
        must_leave.set()
        thread.join()


def test_the_abort_flag_counts_the_nodes_of_a_running_decode_until_it_is_set(
    open_backend: Callable[..., LlamaCppBackend],
) -> None:
    backend = open_backend({'model.n_ctx': 512})
    backend.open_context(512, num_reserved_tokens=0, num_sequences=1)
    flag = backend.abort
    backend.decode([5], position=0)
    whole = flag.num_nodes
    assert whole > 30 * 10, 'llama.cpp has thirty layers to evaluate'
    flag.clear()
    outcome: list[bool] = []

    def decode() -> None:
        try:
            backend.decode([5] * 500, position=1)
        except DecodeAborted:
            outcome.append(True)

    thread = Thread(target=decode)
    thread.start()
    counts = {0}
    while len(counts) < 20 and thread.is_alive():
        counts.add(flag.num_nodes)
    flag.set()
    counted = flag.num_nodes
    thread.join()
    assert outcome == [True] and len(counts) == 20
    assert max(counts) <= counted == flag.num_nodes < whole
    backend.close()


@pytest.mark.parametrize('answer', [0, -1])
def test_a_c_library_whose_semaphores_are_another_kind_is_refused(
    open_backend: Callable[..., LlamaCppBackend], monkeypatch: pytest.MonkeyPatch, answer: int,
) -> None:
    backend = open_backend(SMALL)
    libc = SimpleNamespace(
        sem_post=lambda semaphore: answer, sem_init=backend.abort._libc.sem_init,
        sem_getvalue=backend.abort._libc.sem_getvalue)
    monkeypatch.setattr(backend.abort, '_libc', libc)
    with pytest.raises(ModelLoadError, match='set engine.use_abort_callback to false'):
        backend.open_context(256, num_reserved_tokens=0, num_sequences=1)
    backend.close()


def test_without_the_callback_the_flag_does_not_reach_a_running_decode(
    open_backend: Callable[..., LlamaCppBackend],
) -> None:
    for uses_callback in (True, False):
        backend = open_backend(SMALL | {'engine.use_abort_callback': uses_callback})
        backend.open_context(256, num_reserved_tokens=0, num_sequences=1)
        backend.abort.set()
        if uses_callback:
            with pytest.raises(DecodeAborted):
                backend.decode([5], position=0)
        else:
            backend.decode([5], position=0)
            assert backend.sequence_length(0) == 1
        backend.close()


def test_an_abort_is_not_logged_as_an_error(
    make_settings: Callable[..., Settings],
) -> None:
    said: list[tuple[int, str]] = []
    backend = LlamaCppBackend(
        make_settings(SMALL), num_cores=2, log_sink=lambda *line: said.append(line))
    assert said and all(line and '\n' not in line for _, line in said)
    backend.open_context(256, num_reserved_tokens=0, num_sequences=1)
    backend.abort.set()
    said.clear()
    with pytest.raises(DecodeAborted):
        backend.decode([5], position=0)
    assert said == []
    backend.close()
    LLAMA_LOG.install()


def test_pieces_of_the_log_become_lines_with_the_level_of_their_first_piece() -> None:
    log, said = LlamaLog(), []
    log.sink = lambda *line: said.append(line)
    for level, text in ((2, b'load'), (5, b'ing '), (5, b'done\nnext'), (5, b'\n\n'),
                        (3, b'odd \xff\n'), (4, b'bad\nworse\n')):
        log._receive(level, text, None)
    assert said == [(2, 'loading done'), (2, 'next'), (3, 'odd \ufffd'), (4, 'bad'), (4, 'worse')]
    assert log.reason('none') == 'bad; worse'
    log.lines.clear()
    assert log.reason('none') == 'none'


def test_a_muted_log_says_nothing() -> None:
    log = LlamaLog()
    log.is_muted = lambda: True
    log._receive(4, b'aborted\n', None)
    assert not log.lines
