"""Run requests through the engine: directly, or through a worker thread."""

from collections.abc import Callable
import copy
from dataclasses import dataclass, field
import datetime
from queue import SimpleQueue
import time
from typing import Any

from robot_llm.core.decision import Decision
from robot_llm.core.event import Decided, Delta, Event, Finished
from robot_llm.core.request import Request, RequestEvent
from robot_llm.core.scheduler import PreemptPolicy
from robot_llm.engine.backend import Backend
from robot_llm.engine.generation import Generation
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.worker import Worker
from robot_llm.profile import ResponseProfile
from robot_llm.settings import Settings

TIMEOUT_S = 120.0
"""Long enough for a loaded machine; only a test that fails waits for it."""

TODAY = datetime.datetime(2025, 1, 1)


def open_runtime(backend: Backend, settings: Settings, *profiles: ResponseProfile) -> Runtime:
    """Make ``backend`` ready for these profiles."""
    return Runtime(backend, settings, {p.name: p for p in profiles}, today=TODAY)


@dataclass
class Answered:
    """A generation that has ended, and everything it said."""

    request: Request
    events: list[Event] = field(default_factory=list)

    @property
    def decision(self) -> Decision:
        """What the model decided."""
        return next(e.decision for e in self.events if isinstance(e, Decided))

    @property
    def pieces(self) -> list[str]:
        """The texts of the detail as they were published."""
        return [e.text for e in self.events if isinstance(e, Delta)]

    @property
    def detail(self) -> str:
        """The detail without the newline behind the word."""
        return ''.join(self.pieces).removeprefix('\n')

    @property
    def num_tokens(self) -> int:
        """How many tokens the events carry."""
        return sum(e.num_tokens for e in self.events if isinstance(e, Decided | Delta))


def generate(runtime: Runtime, request: Request) -> Answered:
    """
    Run one request to its end, as the worker does.

    :raises RobotLlmError: if the request or the engine fails
    """
    answered = Answered(request)
    request.apply(RequestEvent.SLOT_GRANTED)
    for event in Generation(runtime, request, time.monotonic).run():
        answered.events.append(event)
    request.apply(RequestEvent.FINISH)
    runtime.cache.check_integrity()
    assert answered.num_tokens == request.counts.num_completion_tokens
    return answered


def borrowed(runtime: Runtime) -> Runtime:
    """Return the same runtime for a worker that must not close it."""
    twin = copy.copy(runtime)
    twin.close = lambda: None  # type: ignore[method-assign]
    return twin


class WorkerHarness:
    """
    A worker whose events can be waited for.

    :param runtime: what the worker serves with
    :param on_event: called on the worker's thread with each event, before it is collected
    :param clock: the worker's, monotonic seconds
    """

    def __init__(
        self, runtime: Runtime, *, policy: PreemptPolicy = 'newest_wins', max_queue: int = 4,
        on_event: Callable[[Event], Any] = lambda event: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.on_event = on_event
        self.seen: list[Event] = []
        self._events: SimpleQueue[Event] = SimpleQueue()
        self.runtime = runtime
        self.worker = Worker(
            lambda should_stop: runtime, self._emit, clock, policy=policy,
            max_queue=max_queue)

    def __enter__(self) -> 'WorkerHarness':
        self.worker.open()
        return self

    def __exit__(self, *error: object) -> None:
        assert self.worker.close()
        while not self._events.empty():
            self.seen.append(self._events.get())

    def _emit(self, event: Event) -> None:
        self.on_event(event)
        self._events.put(event)

    def wait_for(self, kind: type[Event], request: Request) -> Event:
        """Return the request's first event of this kind, when it has come."""
        for event in self.seen:
            if isinstance(event, kind) and event.request is request:
                return event
        while True:
            event = self._events.get(timeout=TIMEOUT_S)
            self.seen.append(event)
            if isinstance(event, kind) and event.request is request:
                return event

    def events_of(self, request: Request) -> list[Event]:
        """Return what has come for a request so far, after waiting for its end."""
        self.wait_for(Finished, request)
        return [e for e in self.seen if getattr(e, 'request', None) is request]

    def answer(self, request: Request) -> Answered:
        """Submit a request and wait for its end."""
        self.worker.requests.submit(request)
        return Answered(request, self.events_of(request))
