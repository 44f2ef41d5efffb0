"""The first goal pays for nothing that configure could have done: counted, not timed."""

from collections.abc import Callable, Iterator

from engine_requests import make_profile, make_request, SPEED_SCHEMA
from engine_running import generate, open_runtime
import pytest
from robot_llm.engine import constraint, llama_vocab, prompt_tokens
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.llama_log import LLAMA_LOG
from robot_llm.engine.runtime import Runtime
from robot_llm.settings import Settings

JSON = make_profile('json', schema=SPEED_SCHEMA)


@pytest.fixture(scope='module')
def warm(open_backend: Callable[..., LlamaCppBackend]) -> Iterator[Runtime]:
    """Return a runtime that has just been configured, its log heard from here on."""
    backend = open_backend()
    runtime = open_runtime(backend, Settings(), JSON)
    yield runtime
    backend.close()


def test_the_first_goal_makes_no_table_compiles_no_schema_and_reserves_no_graph(
    warm: Runtime, monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    for place, name in ((llama_vocab, 'lltokenizer_from_vocab'),
                        (prompt_tokens, 'compile_grammars'), (constraint, '_compile_grammar')):
        monkeypatch.setattr(place, name, lambda *_, name=name: calls.append(name))
    LLAMA_LOG.lines.clear()
    answered = generate(warm, make_request(JSON))
    assert answered.detail.startswith('{"target_speed_mps"')
    assert calls == []
    # A graph that does not fit what was reserved is reserved anew, and llama.cpp says so.
    said = [line for _, line in LLAMA_LOG.lines]
    assert not [line for line in said if 'reserve' in line or 'buffer size' in line], said


def test_the_first_goal_evaluates_what_the_second_one_does(warm: Runtime) -> None:
    warm.cache.clear()
    seen = []
    for _ in '12':
        counts = generate(warm, make_request(JSON, 'Is the way free?')).request.counts
        seen.append((counts.num_cached_tokens, counts.num_prefilled_tokens,
                     counts.num_prefill_chunks, counts.num_calls_to_decision))
        warm.cache.clear()
    num_static = len(warm.profiles['json'].static_ids)
    assert seen == [(num_static, seen[0][1], 1, 1)] * 2
