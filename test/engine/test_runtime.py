"""A runtime is warm when it is made, and stays in step with its memory."""

from collections.abc import Callable
from threading import Event as Flag

from engine_requests import make_profile, make_request, SPEED_SCHEMA
from engine_running import generate, open_runtime, TODAY
import pytest
from robot_llm.engine.backend import DecodeAborted
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.engine.scripted_fault import DecodeCall
from robot_llm.errors import ConfigError, ModelLoadError
from robot_llm.settings import Settings

TEXT = make_profile('text', text=True)
JSON = make_profile('json', schema=SPEED_SCHEMA)
STAY = make_profile('stay', words=('stop', 'stopover', 'stopping', 'slow'))


@pytest.fixture
def scripted(make_settings: Callable[..., Settings]) -> Callable[..., ScriptedBackend]:
    def make(flat: dict[str, object] | None = None, **options: object) -> ScriptedBackend:
        return ScriptedBackend(make_settings(flat), {'': b'stop\nfine'}, **options)
    return make


def test_every_static_prefix_is_evaluated_before_the_first_request(
    scripted: Callable[..., ScriptedBackend],
) -> None:
    backend = scripted()
    runtime = open_runtime(backend, Settings(), TEXT, JSON, STAY)
    runtime.cache.check_integrity()
    lengths = [len(compiled.static_ids) for compiled in runtime.profiles.values()]
    assert [backend.sequence_length(seq_id) for seq_id in (1, 2, 3)] == lengths
    assert runtime.first_branch == 4
    for profile in (TEXT, JSON, STAY):
        counts = generate(runtime, make_request(profile, max_tokens=1)).request.counts
        assert counts.num_cached_tokens >= len(runtime.profiles[profile.name].static_ids)


def test_the_memory_has_room_for_the_context_the_prefixes_and_the_branches(
    scripted: Callable[..., ScriptedBackend], monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend, asked = scripted(), {}
    open_context = backend.open_context
    monkeypatch.setattr(
        backend, 'open_context',
        lambda n_ctx, **room: asked.update(room) or open_context(n_ctx, **room))
    runtime = open_runtime(backend, Settings(), TEXT, STAY)
    num_static = sum(len(compiled.static_ids) for compiled in runtime.profiles.values())
    # Each of the four words with its newline, but for the last token.
    assert asked['num_reserved_tokens'] == num_static + len('stopstopoverstoppingslow')
    assert asked['num_sequences'] == 1 + 2 + 4


def test_a_chunk_is_never_larger_than_a_batch(scripted: Callable[..., ScriptedBackend]) -> None:
    chunks = []
    backend = scripted({'model.n_batch': 48, 'engine.chunk_tokens': 48},
                       on_decode=lambda call: chunks.append(call.num_new_tokens))
    runtime = open_runtime(backend, Settings.from_flat({'engine.chunk_tokens': 100}), TEXT)
    assert runtime.chunk_tokens == 48
    runtime.decode([7] * 100)
    assert (max(chunks), chunks[-3:]) == (48, [48, 48, 4])
    runtime.cache.check_integrity()


def test_an_aborted_decode_keeps_what_was_finished(
    scripted: Callable[..., ScriptedBackend],
) -> None:
    backend = scripted({'model.n_batch': 32, 'model.n_ubatch': 8, 'engine.chunk_tokens': 32})
    runtime = open_runtime(backend, Settings(), TEXT)
    runtime.cache.clear()
    backend.on_decode = lambda call: backend.abort.set() if len(call.sequence) > 50 else None
    with pytest.raises(DecodeAborted):
        runtime.decode([7] * 100)
    # A whole batch of 32, and two parts of 8.
    assert runtime.cache.num_tokens == 48
    runtime.cache.check_integrity()


def test_warming_up_can_be_given_up_between_chunks(
    scripted: Callable[..., ScriptedBackend],
) -> None:
    stop, calls = Flag(), []

    def stop_at_the_first(call: DecodeCall) -> None:
        calls.append(call)
        stop.set()

    with pytest.raises(ModelLoadError, match='warming up was given up'):
        Runtime(scripted(on_decode=stop_at_the_first),
                Settings.from_flat({'engine.chunk_tokens': 16}), {'text': TEXT}, today=TODAY,
                should_stop=stop.is_set)
    assert len(calls) == 1


def test_words_that_do_not_fit_one_batch_fail_at_configure(
    scripted: Callable[..., ScriptedBackend],
) -> None:
    backend = scripted({'model.n_batch': 8, 'engine.chunk_tokens': 8})
    with pytest.raises(ConfigError, match='need 24 tokens in one batch and model.n_batch=8'):
        open_runtime(backend, Settings(), STAY)


def test_closing_twice_is_safe(scripted: Callable[..., ScriptedBackend]) -> None:
    backend = scripted()
    runtime = open_runtime(backend, Settings(), TEXT)
    runtime.close()
    runtime.close()
    assert backend.is_closed
