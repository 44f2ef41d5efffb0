"""A newer scene starts the same request again: another decision, another clock, one end."""

from collections.abc import Callable

from engine_requests import make_profile, make_request
from engine_running import open_runtime, TIMEOUT_S, WorkerHarness
import pytest
from robot_llm.core.event import Decided, Finished, Restarted, Started, Stopping
from robot_llm.core.request import FinishReason, Request, Scene
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.engine.scripted_fault import fail, faults_by_prompt, Gate, OnDecode
from robot_llm.settings import Settings

TEXT = make_profile('text', text=True)
SCRIPT = {'NEW': b'stop\nnew', '': b'slow\nold'}
NEW = Scene(2, 'NEW')

MakeRuntime = Callable[..., Runtime]


@pytest.fixture
def make_runtime(make_settings: Callable[..., Settings]) -> MakeRuntime:
    def make(on_decode: OnDecode = lambda call: None) -> Runtime:
        settings = make_settings({'engine.chunk_tokens': 32})
        return open_runtime(ScriptedBackend(settings, SCRIPT, on_decode=on_decode), settings, TEXT)
    return make


def ask(prompt: str = 'go') -> Request:
    return make_request(TEXT, prompt, scene='OLD')


def kinds_of(harness: WorkerHarness, request: Request) -> list[type]:
    return [type(event) for event in harness.events_of(request)]


def test_a_running_request_starts_again_with_the_newer_scene(make_runtime: MakeRuntime) -> None:
    gate = Gate()
    with WorkerHarness(make_runtime(faults_by_prompt({'OLD': gate}))) as harness:
        request = ask()
        old_latch = request.latch
        harness.worker.requests.submit(request)
        assert gate.reached.wait(TIMEOUT_S)
        assert harness.worker.requests.restart(request, NEW, 3)
        kinds = kinds_of(harness, request)
        harness.runtime.cache.check_integrity()
    assert kinds[:5] == [Started, Stopping, Restarted, Started, Decided]
    assert kinds.count(Finished) == 1 and kinds[-1] is Finished
    assert (request.finish_reason, request.scene, request.num_restarts) == (
        FinishReason.STOP, NEW, 1)
    assert old_latch.standing is None
    assert request.latch.standing is not None and request.latch.standing.word == 'stop'


def test_what_was_generated_for_the_older_scene_counts_as_wasted(
    make_runtime: MakeRuntime,
) -> None:
    with WorkerHarness(make_runtime()) as harness:
        request = ask()

        def restart_once_decided(event: object) -> None:
            if isinstance(event, Decided) and request.scene is not NEW:
                assert harness.worker.requests.restart(request, NEW, 3)

        harness.on_event = restart_once_decided
        answered = harness.answer(request)
    restarted = next(i for i, e in enumerate(answered.events) if isinstance(e, Restarted))
    void = [e for e in answered.events[:restarted] if isinstance(e, Decided)]
    assert request.counts.num_wasted_tokens >= sum(e.num_tokens for e in void) > 0
    kept = answered.events[restarted:]
    assert request.counts.num_completion_tokens == sum(
        getattr(event, 'num_tokens', 0) for event in kept)


def test_the_newest_of_several_scenes_counts_and_costs_one_restart(
    make_runtime: MakeRuntime,
) -> None:
    gate = Gate()
    with WorkerHarness(make_runtime(faults_by_prompt({'OLD': gate}))) as harness:
        request = ask()
        harness.worker.requests.submit(request)
        assert gate.reached.wait(TIMEOUT_S)
        with harness.worker.requests.changed:  # both before the worker can restart
            assert harness.worker.requests.restart(request, Scene(2, 'between'), 1)
            assert harness.worker.requests.restart(request, Scene(3, 'NEW'), 1)
        kinds = kinds_of(harness, request)
    assert kinds.count(Restarted) == 1
    assert (request.scene.epoch, request.num_restarts) == (3, 1)


def test_a_request_that_was_restarted_too_often_is_not_restarted(
    make_runtime: MakeRuntime,
) -> None:
    gate = Gate()
    with WorkerHarness(make_runtime(faults_by_prompt({'OLD': gate}))) as harness:
        request = ask()
        harness.worker.requests.submit(request)
        assert gate.reached.wait(TIMEOUT_S)
        assert not harness.worker.requests.restart(request, NEW, 0)
        gate.opened.set()
        kinds = kinds_of(harness, request)
    assert Restarted not in kinds


def test_a_waiting_request_takes_the_newer_scene_without_starting(
    make_runtime: MakeRuntime,
) -> None:
    gate = Gate()
    runtime = make_runtime(faults_by_prompt({'HOLD': gate}))
    with WorkerHarness(runtime, policy='queue') as harness:
        first, waiting = ask('HOLD'), ask()
        harness.worker.requests.submit(first)
        assert gate.reached.wait(TIMEOUT_S)
        harness.worker.requests.submit(waiting)
        assert harness.worker.requests.restart(waiting, NEW, 3)
        gate.opened.set()
        kinds = kinds_of(harness, waiting)
    assert kinds[:3] == [Restarted, Started, Decided]
    assert waiting.counts.num_wasted_tokens == 0


def test_a_stop_beats_a_restart(make_runtime: MakeRuntime) -> None:
    gate = Gate()
    with WorkerHarness(make_runtime(faults_by_prompt({'OLD': gate}))) as harness:
        request = ask()
        harness.worker.requests.submit(request)
        assert gate.reached.wait(TIMEOUT_S)
        with harness.worker.requests.changed:
            assert harness.worker.requests.restart(request, NEW, 3)
            assert harness.worker.requests.stop(request, FinishReason.CANCELED)
        kinds = kinds_of(harness, request)
    assert Restarted not in kinds
    assert request.finish_reason is FinishReason.CANCELED


def test_an_engine_that_fails_restarts_nothing(make_runtime: MakeRuntime) -> None:
    gate = Gate()

    def hold_then_fail(call: object) -> None:
        faults_by_prompt({'OLD': gate})(call)
        faults_by_prompt({'OLD': fail})(call)

    with WorkerHarness(make_runtime(hold_then_fail)) as harness:
        request = ask()
        harness.worker.requests.submit(request)
        assert gate.reached.wait(TIMEOUT_S)
        request.next_scene = NEW  # asked for, and the abort came too late
        gate.opened.set()
        kinds = kinds_of(harness, request)
    assert Restarted not in kinds and kinds[-1] is Finished
    assert request.finish_reason is FinishReason.ERROR
