"""A runtime is warm when it is made, and stays in step with its memory."""

from collections.abc import Callable
from threading import Event as Flag

from engine_requests import make_profile, make_request, SPEED_SCHEMA
from engine_running import generate, open_runtime, TODAY, WorkerHarness
import pytest
from robot_llm.core.chunking import WIDEST
from robot_llm.engine.backend import DecodeAborted
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.engine.scripted_fault import DecodeCall
from robot_llm.errors import ConfigError, EngineError, ModelLoadError, OutOfMemoryError
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
    assert runtime.chunks.largest == 48
    runtime.decode([7] * 100)
    assert (max(chunks), chunks[-3:]) == (48, [48, 48, 4])
    runtime.cache.check_integrity()


class Device:
    """A device whose decode of n tokens takes 4 ms and 0.2 ms a token, on its own clock."""

    now_s = 0.0

    def __init__(self) -> None:
        self.calls: list[float] = []

    def on_decode(self, call: DecodeCall) -> None:
        self.calls.append(0.004 + call.num_new_tokens * 0.0002)
        self.now_s += self.calls[-1]


@pytest.mark.parametrize('aborts_inside', [False, True])
def test_from_the_first_goal_no_chunk_takes_longer_than_a_stop_may_wait(
    scripted: Callable[..., ScriptedBackend], aborts_inside: bool,
) -> None:
    device = Device()
    backend = scripted(on_decode=device.on_decode, aborts_inside=aborts_inside)
    runtime = Runtime(backend, Settings(), {'text': TEXT}, today=TODAY,
                      clock=lambda: device.now_s)
    device.calls.clear()
    counts = generate(runtime, make_request(TEXT, 'x' * 2000, max_tokens=1)).request.counts
    chunks = device.calls[:counts.num_prefill_chunks]
    if aborts_inside:
        assert max(chunks) == pytest.approx(0.004 + WIDEST * 0.0002)
        assert len(chunks) <= 2000 / WIDEST + 3
    else:
        # (0.03 - 0.004) / 0.0002 = 130, in steps of 16; a few more on the way there.
        assert max(chunks) <= 0.03
        assert 2000 / 128 <= len(chunks) <= 2000 / 128 + 5


def test_another_bound_counts_from_the_next_chunk_on(
    scripted: Callable[..., ScriptedBackend],
) -> None:
    device = Device()
    backend = scripted(on_decode=device.on_decode, aborts_inside=False)
    runtime = Runtime(backend, Settings(), {'text': TEXT}, today=TODAY,
                      clock=lambda: device.now_s)
    with WorkerHarness(runtime) as harness:
        longest = []
        for max_stall_s in (0.03, 0.06):
            harness.worker.set_max_stall(max_stall_s)
            device.calls.clear()
            harness.answer(make_request(TEXT, f'{max_stall_s}' * 400, max_tokens=1))
            longest.append(max(device.calls))
    assert longest[0] <= 0.03 < longest[1] <= 0.06


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


@pytest.mark.parametrize('fault', [OutOfMemoryError('no room'), AssertionError('a bug')])
def test_whatever_a_reload_fails_at_the_old_profiles_are_served_on(
    scripted: Callable[..., ScriptedBackend], monkeypatch: pytest.MonkeyPatch, fault: Exception,
) -> None:
    backend = scripted()
    runtime = open_runtime(backend, Settings(), TEXT)
    open_context, faults = backend.open_context, [fault]

    def refuse_once(*args: int, **room: int) -> None:
        if faults:
            raise faults.pop()
        open_context(*args, **room)

    monkeypatch.setattr(backend, 'open_context', refuse_once)
    problem = runtime.reload({'text': TEXT, 'json': JSON})
    assert isinstance(problem, EngineError) and str(fault) in str(problem)
    assert list(runtime.profiles) == ['text']
    assert generate(runtime, make_request(TEXT)).decision.word == 'stop'


def test_closing_twice_is_safe(scripted: Callable[..., ScriptedBackend]) -> None:
    backend = scripted()
    runtime = open_runtime(backend, Settings(), TEXT)
    runtime.close()
    runtime.close()
    assert backend.is_closed
