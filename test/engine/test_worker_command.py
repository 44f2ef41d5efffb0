"""A command between two requests is answered once, whatever becomes of it and of the engine."""

from collections.abc import Callable
from threading import Event as Flag

from engine_requests import make_profile, make_request
from engine_running import open_runtime, TIMEOUT_S, WorkerHarness
import pytest
from robot_llm.core.event import Alive, Finished
from robot_llm.core.request import FinishReason, Request
from robot_llm.engine import worker as worker_module
from robot_llm.engine.command_queue import Command
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.engine.scripted_fault import DecodeCall, fail, faults_by_prompt, Gate, OnDecode
from robot_llm.errors import (
    ConfigError, DecodeError, EngineError, EngineHungError, NotActiveError, OutOfMemoryError,
    RobotLlmError)
from robot_llm.settings import Settings

OLD = make_profile('text', text=True)
NEW = make_profile('text', text=True, words=('go', 'stop'))

MakeRuntime = Callable[..., Runtime]


class Answers(list[RobotLlmError | None]):
    """What a command was answered with; one answer is right."""

    def __init__(self) -> None:
        super().__init__()
        self.is_there = Flag()

    def take(self, problem: RobotLlmError | None) -> None:
        self.append(problem)
        self.is_there.set()

    @property
    def only(self) -> RobotLlmError | None:
        """The one answer, when it has come."""
        assert self.is_there.wait(TIMEOUT_S) and len(self) == 1, self
        return self[0]


@pytest.fixture
def make_runtime(make_settings: Callable[..., Settings]) -> MakeRuntime:
    def make(on_decode: OnDecode = lambda call: None) -> Runtime:
        settings = make_settings({'engine.chunk_tokens': 32})
        backend = ScriptedBackend(settings, {'': b'stop\nfine'})
        runtime = open_runtime(backend, settings, OLD)
        backend.on_decode = on_decode
        return runtime
    return make


def call(harness: WorkerHarness, run: Callable[[Runtime], RobotLlmError | None]) -> Answers:
    answers = Answers()
    harness.worker.requests.call(Command(run, answers.take))
    return answers


def reload(harness: WorkerHarness) -> Answers:
    return call(harness, lambda runtime: runtime.reload({'text': NEW}))


def ask(prompt: str = 'go') -> Request:
    return make_request(OLD, prompt)


def test_commands_run_in_order_and_before_the_requests_that_wait(
    make_runtime: MakeRuntime,
) -> None:
    gate = Gate()
    with WorkerHarness(make_runtime(faults_by_prompt({'HOLD': gate})), policy='queue') as harness:
        running, waiting = ask('HOLD'), ask()
        harness.worker.requests.submit(running)
        assert gate.reached.wait(TIMEOUT_S)
        harness.worker.requests.submit(waiting)
        order: list[object] = []
        both = [call(harness, lambda runtime, number=number: order.append(number))
                for number in (1, 2)]
        harness.on_event = order.append
        gate.opened.set()
        assert [answers.only for answers in both] == [None, None]
        harness.wait_for(Finished, waiting)
        ends = [item for item in order if item in (1, 2) or isinstance(item, Finished)]
        assert ends == [Finished(running), 1, 2, Finished(waiting)]


@pytest.mark.parametrize('by', ['failure', 'hang', 'close'])
def test_commands_behind_a_request_are_answered_when_the_engine_goes(
    make_runtime: MakeRuntime, monkeypatch: pytest.MonkeyPatch, by: str,
) -> None:
    monkeypatch.setattr(worker_module, 'CLOSE_TIMEOUT_S', 0.05)
    gate = Gate(obeys_abort=False)

    def hold_and_fail(decode: DecodeCall) -> None:
        gate(decode)
        fail(decode)

    harness = WorkerHarness(make_runtime(faults_by_prompt({'HOLD': hold_and_fail})))
    harness.worker.open()
    harness.worker.requests.submit(ask('HOLD'))
    assert gate.reached.wait(TIMEOUT_S)
    both = [reload(harness), reload(harness)]
    if by == 'hang':
        harness.worker.check_progress(-1.0)
    elif by == 'close':
        assert not harness.worker.close()
    if by != 'failure':
        assert all(answers.is_there.is_set() for answers in both), 'before the thread is back'
    gate.opened.set()
    kind = {'failure': DecodeError, 'hang': EngineHungError, 'close': NotActiveError}[by]
    assert all(isinstance(answers.only, kind) for answers in both)
    if by != 'close':
        with pytest.raises(kind):
            reload(harness)
    harness.worker._thread.join(TIMEOUT_S)
    harness.__exit__()
    assert [len(answers) for answers in both] == [1, 1]


@pytest.mark.parametrize('by', ['hang', 'close'])
def test_a_command_that_hangs_is_given_up_with_all_that_waits_for_it(
    make_runtime: MakeRuntime, monkeypatch: pytest.MonkeyPatch, by: str,
) -> None:
    monkeypatch.setattr(worker_module, 'CLOSE_TIMEOUT_S', 0.05)
    gate = Gate(obeys_abort=False)
    harness = WorkerHarness(make_runtime(gate), policy='queue')
    harness.worker.open()
    hung = reload(harness)
    assert gate.reached.wait(TIMEOUT_S)
    behind, requests = reload(harness), [ask(), ask()]
    for request in requests:
        harness.worker.requests.submit(request)
    harness.worker.check_progress(1e9)
    assert not hung and not behind
    if by == 'hang':
        harness.worker.check_progress(-1.0)
        assert harness.worker.requests.failure is hung.only
    assert not harness.worker.close()
    kind, reason = {'hang': (EngineHungError, FinishReason.ERROR),
                    'close': (NotActiveError, FinishReason.SHUTDOWN)}[by]
    assert isinstance(hung.only, kind) and isinstance(behind.only, kind)
    for request in requests:
        assert isinstance(harness.events_of(request)[-1], Finished)
        assert request.finish_reason is reason
    gate.opened.set()
    harness.worker._thread.join(TIMEOUT_S)
    harness.__exit__()
    assert len(hung) == len(behind) == 1


def test_an_idle_engine_whose_command_hangs_says_so(make_runtime: MakeRuntime) -> None:
    """No request ran whose end would tell the node that the engine is given up."""
    told: list[bool] = []
    gate = Gate(obeys_abort=False)
    harness = WorkerHarness(make_runtime(gate))
    harness.worker.open()
    reload(harness)
    assert gate.reached.wait(TIMEOUT_S)
    harness.on_event = lambda event: told.append(
        event == Alive() and harness.worker.requests.failure is not None)
    harness.worker.check_progress(-1.0)
    assert told == [True]
    gate.opened.set()
    harness.worker._thread.join(TIMEOUT_S)
    harness.__exit__()


def test_a_long_reload_that_goes_on_is_not_given_up(make_runtime: MakeRuntime) -> None:
    gate, times_s = Gate(obeys_abort=False), [0.0]
    with WorkerHarness(make_runtime(gate), clock=lambda: times_s[-1]) as harness:
        answers = reload(harness)
        assert gate.reached.wait(TIMEOUT_S)
        for _ in range(3):
            times_s.append(times_s[-1] + 0.15)  # more than half of the bound
            harness.runtime.backend.abort.num_nodes += 1
            harness.worker.check_progress(0.25)
        gate.opened.set()
        assert answers.only is None


@pytest.mark.parametrize('error', [ZeroDivisionError, SystemExit])
def test_a_command_that_breaks_is_answered_and_the_engine_says_so(
    make_runtime: MakeRuntime, error: type[BaseException],
) -> None:
    told = Flag()

    def note(event: object) -> None:
        if event == Alive() and harness.worker.requests.failure is not None:
            told.set()

    def break_down(runtime: Runtime) -> None:
        raise error('oops')

    with WorkerHarness(make_runtime()) as harness:
        harness.on_event = note
        answers = call(harness, break_down)
        assert isinstance(answers.only, EngineError)
        assert str(answers.only) == f'{error.__name__}: oops'
        assert told.wait(TIMEOUT_S)


def test_closing_gives_up_a_reload_without_a_failure(make_runtime: MakeRuntime) -> None:
    gate = Gate(obeys_abort=False)
    with WorkerHarness(make_runtime(gate)) as harness:
        harness.runtime._should_stop = lambda: harness.worker.requests.must_leave
        answers = reload(harness)
        assert gate.reached.wait(TIMEOUT_S)
        harness.worker.requests.close()
        gate.opened.set()
        assert isinstance(answers.only, NotActiveError)
        assert harness.worker.close() and harness.worker.requests.failure is None


def test_a_reload_that_is_refused_leaves_the_old_profiles(make_runtime: MakeRuntime) -> None:
    runtime = make_runtime()
    open_context, failures = runtime.backend.open_context, [OutOfMemoryError('no room')]

    def refuse(*args: int, **kwargs: int) -> None:
        if failures:
            raise failures.pop()
        open_context(*args, **kwargs)

    runtime.backend.open_context = refuse
    with WorkerHarness(runtime) as harness:
        assert isinstance(reload(harness).only, OutOfMemoryError)
        assert harness.answer(ask()).request.finish_reason is FinishReason.STOP
        runtime._compile = lambda profiles: (_ for _ in ()).throw(ConfigError('bad'))
        assert isinstance(reload(harness).only, ConfigError)
        assert harness.answer(ask()).request.finish_reason is FinishReason.STOP


def test_an_engine_without_any_context_takes_no_more(make_runtime: MakeRuntime) -> None:
    """The old context came back as little as the new one; the next goal met what was left."""
    runtime = make_runtime()

    def refuse(*args: int, **kwargs: int) -> None:
        raise OutOfMemoryError('no room')

    runtime.backend.open_context = refuse
    with WorkerHarness(runtime) as harness:
        assert isinstance(reload(harness).only, OutOfMemoryError)
        with pytest.raises(OutOfMemoryError):
            harness.worker.requests.check_capacity()
