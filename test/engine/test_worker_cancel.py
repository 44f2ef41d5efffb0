"""A stop is obeyed in every stage of a real generation, and the next answer is right."""

from collections.abc import Callable, Iterator
from threading import Event as Flag
from typing import Any

from engine_requests import make_request, SPEED_SCHEMA
from engine_running import borrowed, generate, open_runtime, TIMEOUT_S, WorkerHarness
import pytest
from robot_llm.core.event import Decided, Delta, Event, Finished
from robot_llm.core.request import FinishReason, Request, RequestStatus
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.runtime import Runtime
from robot_llm.profile import ResponseProfile
from robot_llm.settings import Settings

Profiles = dict[str, ResponseProfile]

NUM_LONG = 3000
LONG = 'word ' * NUM_LONG


@pytest.fixture(scope='module')
def deaf_runtime(
    open_backend: Callable[..., LlamaCppBackend], make_settings: Callable[..., Settings],
    profiles: Profiles,
) -> Runtime:
    """Return a runtime whose decodes do not see the abort flag, as on a GPU; small chunks."""
    flat = {'engine.use_abort_callback': False, 'engine.chunk_tokens': 32}
    return open_runtime(open_backend(flat), make_settings(flat), *profiles.values())


@pytest.fixture(params=['abort callback', 'chunks only'])
def stopping(request: pytest.FixtureRequest) -> Runtime:
    """Return each of the two kinds of runtime, with an empty working sequence."""
    kind = 'shared_runtime' if request.param == 'abort callback' else 'deaf_runtime'
    runtime: Runtime = request.getfixturevalue(kind)
    runtime.backend.abort.clear()
    runtime.cache.clear()
    return runtime


@pytest.fixture(scope='module')
def right(shared_runtime: Runtime, profiles: Profiles) -> str:
    """Return the detail of a fresh memory."""
    shared_runtime.backend.abort.clear()
    shared_runtime.cache.clear()
    return generate(shared_runtime, make_request(profiles['json'], max_tokens=90)).detail


@pytest.fixture
def on_decode(
    stopping: Runtime, monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[Callable[[], Any], Callable[[], Any]], None]]:
    """Return what puts code before and behind every decode of the runtime."""
    decode = stopping.backend.decode

    def wrap(before: Callable[[], Any], behind: Callable[[], Any]) -> None:
        def wrapped(*args: Any, **kwargs: Any) -> None:
            before()
            decode(*args, **kwargs)
            behind()
        monkeypatch.setattr(stopping.backend, 'decode', wrapped)
    yield wrap


def assert_canceled(harness: WorkerHarness, request: Request) -> None:
    events = harness.events_of(request)
    assert [e for e in events if isinstance(e, Finished)] == events[-1:]
    assert (request.status, request.finish_reason) == (
        RequestStatus.FINISHED, FinishReason.CANCELED)
    assert request.error is None
    clock = request.stop_clock
    assert clock.requested_s is not None and clock.idle_s is not None


def assert_next_is_right(harness: WorkerHarness, profiles: Profiles, right: str) -> None:
    harness.runtime.cache.check_integrity()
    answered = harness.answer(make_request(profiles['json'], max_tokens=90))
    assert answered.request.finish_reason is FinishReason.STOP
    assert answered.detail == right
    harness.runtime.cache.check_integrity()


def test_a_prefill_of_3000_tokens_is_stopped_from_another_thread(
    stopping: Runtime, profiles: Profiles, right: str, on_decode: Callable[..., None],
) -> None:
    request = make_request(profiles['json'], LONG)
    in_second_chunk = Flag()
    seen: list[None] = []

    def before() -> None:
        seen.append(None)
        if len(seen) == 2:
            in_second_chunk.set()

    on_decode(before, lambda: None)
    with WorkerHarness(borrowed(stopping)) as harness:
        harness.worker.requests.submit(request)
        assert in_second_chunk.wait(TIMEOUT_S)
        num_before = request.counts.num_prefill_chunks
        assert harness.worker.requests.stop(request, FinishReason.CANCELED)
        assert not harness.worker.requests.stop(request, FinishReason.DEADLINE)
        assert_canceled(harness, request)
        counts = request.counts
        assert counts.num_prompt_tokens >= NUM_LONG
        # The chunk that ran may end, and one may have begun before the stop was seen.
        assert counts.num_prefill_chunks <= num_before + 2
        assert counts.num_prefilled_tokens < NUM_LONG / 4
        assert not [e for e in harness.events_of(request) if isinstance(e, Decided | Delta)]
        assert_next_is_right(harness, profiles, right)


def test_a_canceled_prefill_is_the_next_ones_cache(
    stopping: Runtime, profiles: Profiles, on_decode: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stopping.chunks, 'largest', 32)
    prompt = 'A dog and a child play beside the road, far away from here. ' * 4
    first, again = (make_request(profiles['word'], prompt) for _ in '12')
    with WorkerHarness(borrowed(stopping)) as harness:
        on_decode(lambda: None, lambda: harness.worker.requests.stop(first, FinishReason.CANCELED))
        harness.worker.requests.submit(first)
        assert_canceled(harness, first)
        assert first.counts.num_prefill_chunks == 1
        held = stopping.cache.num_tokens
        assert held == first.counts.num_cached_tokens + first.counts.num_prefilled_tokens
        warm = harness.answer(again)
    assert again.counts.num_cached_tokens == held > first.counts.num_cached_tokens
    stopping.cache.clear()
    cold = generate(stopping, make_request(profiles['word'], prompt))
    assert warm.decision.word == cold.decision.word
    assert warm.decision.probabilities == pytest.approx(cold.decision.probabilities, abs=0.1)


def test_a_stop_behind_the_last_chunk_comes_before_the_decision(
    stopping: Runtime, profiles: Profiles, right: str, on_decode: Callable[..., None],
) -> None:
    request = make_request(profiles['json'])
    with WorkerHarness(borrowed(stopping)) as harness:
        stop = harness.worker.requests.stop
        on_decode(lambda: None, lambda: stop(request, FinishReason.CANCELED))
        harness.worker.requests.submit(request)
        assert_canceled(harness, request)
        assert request.counts.num_prefill_chunks == 1
        assert request.counts.num_completion_tokens == 0
        assert not [e for e in harness.events_of(request) if isinstance(e, Decided)]
        assert request.latch.standing is None
        assert_next_is_right(harness, profiles, right)


@pytest.mark.parametrize('num_pieces', [1, 4])
def test_a_stop_in_the_detail_ends_it_there(
    stopping: Runtime, profiles: Profiles, right: str, num_pieces: int,
) -> None:
    request = make_request(profiles['json'], max_tokens=90)
    pieces: list[Delta] = []

    def stop_in_the_detail(event: Event) -> None:
        if isinstance(event, Delta) and event.request is request:
            pieces.append(event)
            if len(pieces) == num_pieces:
                harness.worker.requests.stop(request, FinishReason.CANCELED)

    with WorkerHarness(borrowed(stopping), on_event=stop_in_the_detail) as harness:
        harness.worker.requests.submit(request)
        assert_canceled(harness, request)
        assert len(pieces) == num_pieces
        assert ''.join(piece.text for piece in pieces).startswith('\n{"')
        assert request.detail_json == ''
        assert request.counts.num_wasted_tokens == 0
        assert request.latch.standing is not None
        assert_next_is_right(harness, profiles, right)


def test_a_stop_during_a_decode_of_the_detail_wastes_one_token_at_most(
    stopping: Runtime, profiles: Profiles, right: str, on_decode: Callable[..., None],
) -> None:
    request = make_request(profiles['json'], max_tokens=90)
    running: list[None] = []

    def stop_in_the_third() -> None:
        running.append(None)
        if len(running) == 3:
            harness.worker.requests.stop(request, FinishReason.CANCELED)

    with WorkerHarness(borrowed(stopping)) as harness:
        on_decode(stop_in_the_third, lambda: None)
        harness.worker.requests.submit(request)
        assert_canceled(harness, request)
        # A decode that sees the flag gives no row; one that does not gives one too many.
        assert request.counts.num_wasted_tokens <= 1
        # One decode was the prefill, one gave the first piece's successor, one was stopped.
        assert len(running) == 3
        assert request.counts.num_forced_tokens <= request.counts.num_completion_tokens
        assert_next_is_right(harness, profiles, right)


def test_a_newer_goal_preempts_a_real_prefill(
    runtime: Runtime, profiles: Profiles, right: str,
) -> None:
    older, newer = make_request(profiles['json'], LONG), make_request(
        profiles['json'], max_tokens=90)
    started = Flag()
    with WorkerHarness(borrowed(runtime), on_event=lambda e: started.set()) as harness:
        harness.worker.requests.submit(older)
        assert started.wait(TIMEOUT_S)
        answered = harness.answer(newer)
        assert answered.detail == right
        assert older.finish_reason is FinishReason.PREEMPTED
        assert older.counts.num_prefilled_tokens < NUM_LONG / 4
        assert harness.worker.requests.failure is None


def test_closing_in_a_real_prefill_ends_the_goal_and_joins_the_thread(
    stopping: Runtime, profiles: Profiles, on_decode: Callable[..., None],
) -> None:
    request, in_prefill = make_request(profiles['json'], LONG), Flag()
    on_decode(in_prefill.set, lambda: None)
    with WorkerHarness(borrowed(stopping)) as harness:
        harness.worker.requests.submit(request)
        assert in_prefill.wait(TIMEOUT_S)
        assert harness.worker.close()
        assert request.finish_reason is FinishReason.SHUTDOWN
        assert request.counts.num_prefilled_tokens < NUM_LONG / 4
        assert len([e for e in harness.events_of(request) if isinstance(e, Finished)]) == 1
    stopping.cache.check_integrity()


def test_a_fresh_runtime_gives_the_same_answer_as_one_after_a_canceled_prefill(
    open_backend: Callable[..., LlamaCppBackend], make_settings: Callable[..., Settings],
    profiles: Profiles, right: str,
) -> None:
    assert SPEED_SCHEMA == profiles['json'].detail.json_schema
    backend = open_backend()
    fresh = open_runtime(backend, make_settings(), profiles['json'])
    assert generate(fresh, make_request(profiles['json'], max_tokens=90)).detail == right
    fresh.close()
