"""Recurrent, hybrid and sliding-window models of llama.cpp: detected, and never wrong."""

from collections.abc import Callable, Iterator
from pathlib import Path

from engine_requests import make_profile, make_request
from engine_running import generate, open_runtime
import numpy as np
import pytest
from robot_llm.bench.bare import BareLoop
from robot_llm.core.request import Request
from robot_llm.engine.backend import DecodeAborted
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.prompt_tokens import tokenize_segments
from robot_llm.engine.runtime import Runtime
from robot_llm.settings import Settings

pytest.importorskip('gguf')

from engine_memories import LAYERS, WINDOW, write_memory_model  # noqa: E402,I100  needs gguf

N_CTX = 1024
TEXT = make_profile('text', words=('stop', 'go'), text=True)
LONG = 'A person walks along the corridor, past a door, and stops near some boxes. ' * 3
PROMPTS = (LONG, f'{LONG}Then a dog comes.', 'The corridor is clear.', f'{LONG}Then a cat comes.',
           LONG)
"""One goes on where another ends, the others differ within what the memory holds."""


@pytest.fixture(scope='module', params=LAYERS)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope='module')
def settings(
    architecture: str, model_path: Path, tmp_path_factory: pytest.TempPathFactory,
) -> Settings:
    path = write_memory_model(architecture, model_path, tmp_path_factory.mktemp(architecture))
    return Settings.from_flat({
        'model.path': str(path), 'model.n_ctx': N_CTX, 'engine.chunk_tokens': 32})


@pytest.fixture(scope='module')
def runtime(settings: Settings) -> Iterator[Runtime]:
    runtime = open_runtime(LlamaCppBackend(settings, num_cores=1), settings, TEXT)
    yield runtime
    runtime.close()


@pytest.fixture(scope='module')
def reference(settings: Settings) -> Iterator[Callable[[list[int]], np.ndarray]]:
    """Return what evaluates a prompt from nothing, in one batch, and gives its last row."""
    loop = BareLoop(settings.model.path, n_ctx=N_CTX, n_batch=N_CTX, n_threads=1)

    def evaluate(token_ids: list[int]) -> np.ndarray:
        loop.clear()
        return loop.evaluate(token_ids).copy()
    yield evaluate
    loop.close()


def prompt_ids(runtime: Runtime, prompt: str) -> list[int]:
    segments = runtime.profiles[TEXT.name].segments(runtime.renderer, '', prompt)
    return tokenize_segments(runtime.backend, segments)


def answer(runtime: Runtime, prompt: str) -> Request:
    return generate(runtime, make_request(TEXT, prompt, max_tokens=6)).request


def test_the_kind_of_memory_is_detected(architecture: str, runtime: Runtime) -> None:
    info = runtime.backend.info
    assert info.is_recurrent == (architecture != 'gemma2')
    assert info.n_swa == (WINDOW if architecture == 'gemma2' else 0)
    assert not runtime.cache.can_drop_part


def test_whatever_came_before_the_row_behind_a_prompt_is_that_of_a_fresh_context(
    runtime: Runtime, reference: Callable[[list[int]], np.ndarray],
) -> None:
    num_pinned = len(runtime.profiles[TEXT.name].static_ids)
    for prompt in PROMPTS:
        token_ids = prompt_ids(runtime, prompt)
        cached = runtime.cache.reuse(TEXT.name, token_ids)
        assert cached == num_pinned > WINDOW
        runtime.decode(token_ids[cached:])
        assert runtime.backend.logits() == pytest.approx(reference(token_ids), abs=0.1)
        # An answer behind it, which the next prompt must not see.
        runtime.decode([1000, 2000, 3000])
        runtime.cache.check_integrity()


@pytest.mark.parametrize('num_aborted', [20, None], ids=['in the middle', 'in the last chunk'])
def test_after_an_abort_the_next_prompt_is_right(
    runtime: Runtime, reference: Callable[[list[int]], np.ndarray], num_aborted: int | None,
) -> None:
    """Tokens of a middle chunk counted as cached although they were never evaluated."""
    token_ids = prompt_ids(runtime, LONG)
    cached = runtime.cache.reuse(TEXT.name, token_ids)
    num_evaluated = cached + 20
    runtime.decode(token_ids[cached:num_evaluated])
    runtime.backend.abort.set()
    with pytest.raises(DecodeAborted):
        runtime.decode(token_ids[num_evaluated:][:num_aborted])
    runtime.backend.abort.clear()
    assert runtime.cache.num_tokens <= num_evaluated < len(token_ids) - 20
    cached = runtime.cache.reuse(TEXT.name, token_ids)
    assert cached <= num_evaluated
    runtime.decode(token_ids[cached:])
    assert runtime.backend.logits() == pytest.approx(reference(token_ids), abs=0.1)


def test_goals_report_the_pinned_prefix_and_nothing_else_as_cached(runtime: Runtime) -> None:
    num_pinned = len(runtime.profiles[TEXT.name].static_ids)
    for counts in (answer(runtime, prompt).counts for prompt in PROMPTS):
        assert counts.num_cached_tokens == num_pinned
        assert counts.num_prefilled_tokens == counts.num_prompt_tokens - num_pinned
        assert counts.num_draft_tokens == 0
