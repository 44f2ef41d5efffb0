"""One thread serves one request at a time; whatever happens, each has exactly one end."""

from collections.abc import Callable

from engine_requests import make_profile, make_request
from engine_running import open_runtime, TIMEOUT_S, WorkerHarness
import pytest
from robot_llm.core.event import Decided, Delta, Finished, Started
from robot_llm.core.request import FinishReason, Request, RequestStatus
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.engine.scripted_fault import faults_by_prompt, Gate, OnDecode
from robot_llm.errors import ContextOverflowError, EngineError, QueueFullError
from robot_llm.settings import Settings

TEXT = make_profile('text', text=True)
SCRIPT = {'': b'slow\nfine'}

MakeRuntime = Callable[..., Runtime]


@pytest.fixture
def make_runtime(make_settings: Callable[..., Settings]) -> MakeRuntime:
    def make(on_decode: OnDecode = lambda call: None) -> Runtime:
        settings = make_settings({'engine.chunk_tokens': 32})
        return open_runtime(ScriptedBackend(settings, SCRIPT, on_decode=on_decode), settings, TEXT)
    return make


def ask(prompt: str = 'go', **options: object) -> Request:
    return make_request(TEXT, prompt, **options)


def holding(gate: Gate) -> OnDecode:
    """Hold the requests whose prompt says HOLD."""
    return faults_by_prompt({'HOLD': gate})


def assert_ended(harness: WorkerHarness, request: Request, reason: FinishReason) -> None:
    events = harness.events_of(request)
    assert [e for e in events if isinstance(e, Finished)] == events[-1:]
    assert (request.status, request.finish_reason) == (RequestStatus.FINISHED, reason)


def test_a_request_is_answered_with_its_events_in_order(make_runtime: MakeRuntime) -> None:
    with WorkerHarness(make_runtime()) as harness:
        answered = harness.answer(ask())
    kinds = [type(event) for event in answered.events]
    assert (kinds[:2], kinds[-1]) == ([Started, Decided], Finished)
    assert set(kinds[2:-1]) == {Delta}
    assert answered.detail == 'fine'
    assert answered.request.finish_reason is FinishReason.STOP
    assert answered.request.stop_clock.idle_s is not None
    assert harness.runtime.backend.is_closed


def test_the_newest_request_preempts_the_running_and_the_waiting(
    make_runtime: MakeRuntime,
) -> None:
    gate = Gate()
    with WorkerHarness(make_runtime(holding(gate))) as harness:
        first, second, third = ask('HOLD'), ask('HOLD too'), ask('go')
        harness.worker.requests.submit(first)
        assert gate.reached.wait(TIMEOUT_S)
        with harness.worker.requests.changed:  # the worker cannot take the second before the third
            harness.worker.requests.submit(second)
            harness.worker.requests.submit(third)
        for request in (first, second):
            assert_ended(harness, request, FinishReason.PREEMPTED)
        assert_ended(harness, third, FinishReason.STOP)
        assert harness.events_of(second) == [harness.wait_for(Finished, second)]
    assert first.stop_clock.latency_s > 0.0
    assert not gate.opened.is_set()


def test_a_queue_is_served_in_order_and_refuses_when_full(make_runtime: MakeRuntime) -> None:
    gate = Gate()
    runtime = make_runtime(holding(gate))
    with WorkerHarness(runtime, policy='queue', max_queue=2) as harness:
        requests = [ask('HOLD'), ask('one'), ask('two')]
        harness.worker.requests.submit(requests[0])
        assert gate.reached.wait(TIMEOUT_S)
        for request in requests[1:]:
            harness.worker.requests.submit(request)
        refused = ask('three')
        with pytest.raises(QueueFullError, match='2 goals wait'):
            harness.worker.requests.submit(refused)
        with pytest.raises(QueueFullError):
            harness.worker.requests.check_capacity()
        assert harness.worker.requests.num_waiting == 2 and harness.worker.requests.is_running
        gate.opened.set()
        for request in requests:
            assert_ended(harness, request, FinishReason.STOP)
        assert refused.status is RequestStatus.WAITING and not refused.is_stopping
        assert [e.request for e in harness.seen if isinstance(e, Finished)] == requests
        assert not harness.worker.requests.is_running


def test_a_busy_worker_rejects_and_an_idle_one_accepts(make_runtime: MakeRuntime) -> None:
    gate = Gate()
    with WorkerHarness(make_runtime(holding(gate)), policy='reject') as harness:
        first = ask('HOLD')
        harness.worker.requests.submit(first)
        assert gate.reached.wait(TIMEOUT_S)
        with pytest.raises(QueueFullError, match='busy'):
            harness.worker.requests.submit(ask())
        gate.opened.set()
        assert_ended(harness, first, FinishReason.STOP)
        assert harness.answer(ask()).request.finish_reason is FinishReason.STOP


def test_a_waiting_request_is_over_at_once(make_runtime: MakeRuntime) -> None:
    gate = Gate()
    with WorkerHarness(make_runtime(holding(gate)), policy='queue') as harness:
        first, waiting, last = ask('HOLD'), ask('x'), ask('y')
        harness.worker.requests.submit(first)
        assert gate.reached.wait(TIMEOUT_S)
        harness.worker.requests.submit(waiting)
        harness.worker.requests.submit(last)
        assert harness.worker.requests.stop(waiting, FinishReason.CANCELED)
        assert not harness.worker.requests.stop(waiting, FinishReason.DEADLINE)
        # The engine is still held: nobody but the caller can have ended it.
        assert_ended(harness, waiting, FinishReason.CANCELED)
        gate.opened.set()
        assert_ended(harness, last, FinishReason.STOP)
    assert len(harness.events_of(waiting)) == 1


def test_a_request_that_ended_before_it_was_submitted_is_left_alone(
    make_runtime: MakeRuntime,
) -> None:
    with WorkerHarness(make_runtime(), policy='queue') as harness:
        late = ask()
        assert harness.worker.requests.stop(late, FinishReason.DEADLINE)
        harness.worker.requests.submit(late)
        assert harness.answer(ask()).detail == 'fine'
        assert len(harness.events_of(late)) == 1
    assert harness.worker.requests.failure is None


def test_a_request_that_is_refused_leaves_the_engine_running(make_runtime: MakeRuntime) -> None:
    with WorkerHarness(make_runtime()) as harness:
        request = harness.answer(ask('x' * 5000)).request
        assert_ended(harness, request, FinishReason.ERROR)
        assert isinstance(request.error, ContextOverflowError)
        assert harness.answer(ask()).detail == 'fine'


def test_closing_ends_the_running_and_the_waiting_with_shutdown(
    make_runtime: MakeRuntime,
) -> None:
    gate = Gate()
    runtime = make_runtime(holding(gate))
    with WorkerHarness(runtime, policy='queue') as harness:
        running, waiting = ask('HOLD'), ask()
        harness.worker.requests.submit(running)
        assert gate.reached.wait(TIMEOUT_S)
        harness.worker.requests.submit(waiting)
        assert harness.worker.close()
        assert harness.worker.close()
        for request in (running, waiting):
            assert_ended(harness, request, FinishReason.SHUTDOWN)
        with pytest.raises(EngineError, match='the engine is not running'):
            harness.worker.requests.submit(ask())
    assert runtime.backend.is_closed
