"""What breaks in the engine, or hangs, ends every request once and says why."""

from collections.abc import Callable
from threading import Event as Flag
from threading import Thread
import time

from engine_requests import make_profile, make_request
from engine_running import open_runtime, TIMEOUT_S, WorkerHarness
import pytest
from robot_llm.core.event import Alive, Decided, Event, Finished
from robot_llm.core.request import FinishReason, Request, RequestStatus
from robot_llm.engine import worker as worker_module
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scripted import Script, ScriptedBackend
from robot_llm.engine.scripted_fault import DecodeCall, fail, faults_by_prompt, Gate, OnDecode
from robot_llm.engine.worker import Worker
from robot_llm.errors import DecodeError, EngineError, ErrorCode, ModelLoadError
from robot_llm.settings import Settings

TEXT = make_profile('text', text=True)
SCRIPT = {'': b'slow\nfine'}

MakeRuntime = Callable[..., Runtime]


@pytest.fixture
def make_runtime(make_settings: Callable[..., Settings]) -> MakeRuntime:
    def make(on_decode: OnDecode = lambda call: None, script: Script = SCRIPT) -> Runtime:
        settings = make_settings({'engine.chunk_tokens': 32})
        return open_runtime(ScriptedBackend(settings, script, on_decode=on_decode), settings, TEXT)
    return make


def ask(prompt: str = 'go') -> Request:
    return make_request(TEXT, prompt)


def holding(gate: Gate) -> OnDecode:
    """Hold the requests whose prompt says HOLD."""
    return faults_by_prompt({'HOLD': gate})


def assert_ended(harness: WorkerHarness, request: Request, reason: FinishReason) -> None:
    events = harness.events_of(request)
    assert [e for e in events if isinstance(e, Finished)] == events[-1:]
    assert (request.status, request.finish_reason) == (RequestStatus.FINISHED, reason)


@pytest.mark.parametrize('place', ['prefill', 'detail'])
def test_a_failing_decode_ends_the_request_and_all_that_wait(
    make_runtime: MakeRuntime, place: str,
) -> None:
    reached, go_on = Flag(), Flag()

    def wait_and_fail(call: DecodeCall) -> None:
        if place == 'prefill' or 'assistant\nslow' in call.text:
            reached.set()
            go_on.wait(TIMEOUT_S)
            fail(call)

    runtime = make_runtime(faults_by_prompt({'FAULT': wait_and_fail}))
    with WorkerHarness(runtime, policy='queue') as harness:
        broken, waiting = ask('FAULT'), ask()
        harness.worker.requests.submit(broken)
        assert reached.wait(TIMEOUT_S)
        harness.worker.requests.submit(waiting)
        go_on.set()
        for request in (broken, waiting):
            assert_ended(harness, request, FinishReason.ERROR)
            assert request.error is not None
            assert request.error.code is ErrorCode.DECODE_FAILED == 302
        assert isinstance(harness.worker.requests.failure, DecodeError)
        worker = harness.worker.requests
        for refuse in (worker.check_capacity, lambda: worker.submit(ask())):
            with pytest.raises(DecodeError, match='scripted fault'):
                refuse()
    assert runtime.backend.is_closed


def test_a_bug_of_ours_ends_the_goal_with_a_code_and_not_the_process(
    make_runtime: MakeRuntime,
) -> None:
    def break_down(call: DecodeCall) -> None:
        raise ZeroDivisionError('oops')

    with WorkerHarness(make_runtime(faults_by_prompt({'FAULT': break_down}))) as harness:
        request = harness.answer(ask('FAULT')).request
        assert_ended(harness, request, FinishReason.ERROR)
        assert request.error is not None and request.error.code is ErrorCode.DECODE_FAILED
        assert 'internal error, please report it: ZeroDivisionError: oops' in str(request.error)
        harness.worker._thread.join(TIMEOUT_S)
        assert isinstance(harness.worker.requests.failure, EngineError)


@pytest.mark.parametrize('by', ['close', 'check_progress'])
@pytest.mark.parametrize('place', ['prefill', 'detail'])
def test_a_decode_that_hangs_is_given_up_and_its_request_ends_once(
    make_runtime: MakeRuntime, monkeypatch: pytest.MonkeyPatch, by: str, place: str,
) -> None:
    monkeypatch.setattr(worker_module, 'CLOSE_TIMEOUT_S', 0.05)
    gate = Gate(lambda call: place == 'prefill' or 'assistant\nslow' in call.text,
                obeys_abort=False)
    harness = WorkerHarness(make_runtime(holding(gate)))
    harness.worker.open()
    request = ask('HOLD')
    harness.worker.requests.submit(request)
    assert gate.reached.wait(TIMEOUT_S)
    if by == 'check_progress':
        harness.worker.check_progress(1e9)
        assert not request.is_stopping
        harness.worker.check_progress(-1.0)
        assert harness.worker.requests.failure is not None
    assert not harness.worker.close()
    reason = FinishReason.SHUTDOWN if by == 'close' else FinishReason.ERROR
    assert_ended(harness, request, reason)
    gate.opened.set()
    harness.worker._thread.join(TIMEOUT_S)
    assert harness.worker.close()
    harness.__exit__()
    assert [type(e) for e in harness.events_of(request)].count(Finished) == 1
    assert_ended(harness, request, reason)


def test_a_long_decode_that_goes_on_shows_its_pulse_and_one_that_stands_is_given_up(
    make_runtime: MakeRuntime,
) -> None:
    alive: list[Event] = []
    step_s = 0.25  # longer than the period of the heartbeat, and than the bound
    gate, times_s = Gate(obeys_abort=False), [0.0]
    harness = WorkerHarness(
        make_runtime(holding(gate)), clock=lambda: times_s[-1],
        on_event=lambda event: alive.append(event) if isinstance(event, Alive) else None)
    harness.worker.open()
    request = ask('HOLD')
    harness.worker.requests.submit(request)
    assert gate.reached.wait(TIMEOUT_S)
    for _ in range(2):
        num_alive = len(alive)
        times_s.append(times_s[-1] + step_s)
        harness.runtime.backend.abort.num_nodes += 1
        harness.worker.check_progress(0.2)
        assert not request.is_stopping and len(alive) == num_alive + 1
    times_s.append(times_s[-1] + step_s)
    harness.worker.check_progress(0.2)
    assert_ended(harness, request, FinishReason.ERROR)
    assert request.error is not None and request.error.code is ErrorCode.ENGINE_HUNG
    gate.opened.set()
    harness.worker._thread.join(TIMEOUT_S)
    harness.__exit__()


def test_an_engine_that_hangs_outside_a_decode_says_nothing_behind_the_end(
    make_runtime: MakeRuntime,
) -> None:
    decided, hangs, go_on = Flag(), Flag(), Flag()

    def hang_behind_the_decision(prompt: str) -> bytes:
        if decided.is_set():
            hangs.set()
            go_on.wait(TIMEOUT_S)
        return SCRIPT['']

    harness = WorkerHarness(
        make_runtime(script=hang_behind_the_decision),
        on_event=lambda event: decided.set() if isinstance(event, Decided) else None)
    harness.worker.open()
    request = ask()
    harness.worker.requests.submit(request)
    assert hangs.wait(TIMEOUT_S)
    harness.worker.check_progress(-1.0)
    assert_ended(harness, request, FinishReason.ERROR)
    go_on.set()
    harness.worker._thread.join(TIMEOUT_S)
    harness.__exit__()
    assert isinstance(harness.events_of(request)[-1], Finished)


def worker_with(open_it: Callable[[Callable[[], bool]], Runtime]) -> Worker:
    return Worker(open_it, lambda event: None, time.monotonic, policy='queue', max_queue=1)


def test_what_fails_while_loading_reaches_whoever_opened() -> None:
    def refuse(should_stop: Callable[[], bool]) -> Runtime:
        raise ModelLoadError('no such file')

    worker = worker_with(refuse)
    with pytest.raises(ModelLoadError, match='no such file'):
        worker.open()
    with pytest.raises(ModelLoadError):
        worker.requests.check_capacity()
    assert worker.close()


def test_a_bug_while_loading_reaches_whoever_opened_too() -> None:
    worker = worker_with(lambda should_stop: 1 // 0)
    with pytest.raises(EngineError, match='ZeroDivisionError'):
        worker.open()
    assert worker.close()


def test_closing_gives_up_a_load_that_asks(make_runtime: MakeRuntime) -> None:
    loading = Flag()

    def load(should_stop: Callable[[], bool]) -> Runtime:
        loading.set()
        while not should_stop():
            pass
        raise ModelLoadError('given up')

    worker, raised = worker_with(load), []

    def open_it() -> None:
        try:
            worker.open()
        except ModelLoadError as error:
            raised.append(str(error))

    thread = Thread(target=open_it)
    thread.start()
    assert loading.wait(TIMEOUT_S)
    assert worker.close()
    thread.join(TIMEOUT_S)
    assert raised == ['given up']


def test_a_worker_that_was_never_opened_can_be_closed() -> None:
    worker = worker_with(lambda should_stop: 1 // 0)
    assert worker.close()
    with pytest.raises(EngineError, match='the engine is not running'):
        worker.requests.check_capacity()
