"""The thread that publishes what the worker sampled while it decodes on, and keeps deadlines."""

from collections.abc import Callable
import heapq
from itertools import count
import math
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final, Protocol

from robot_llm.core.event import (
    Alive, Decided, Delta, Event, Finished, Restarted, Started, Stopping)
from robot_llm.core.request import FinishReason, Request
from robot_llm.core.session import Output, Session
from robot_llm.thread_name import show_thread_name

Callback = Callable[[], object]

JOIN_TIMEOUT_S: Final = 2.0
"""How long ``close`` waits; the thread only publishes, so a millisecond is the usual."""


class Sink(Protocol):
    """Where the streamer's output goes; every method is called on the streamer's thread."""

    def beat(self) -> None:
        """Tell that the worker is well."""

    def start(self, session: Session) -> None:
        """Tell that the engine took the request up."""

    def publish(self, session: Session, output: Output, elapsed_s: float) -> None:
        """Hand one output to the publishers."""

    def finish(self, session: Session) -> None:
        """Everything is published; send the result."""

    def report(self, error: Exception) -> None:
        """Tell that an output could not be handed over."""


StopRequest = Callable[[Request, FinishReason], object]


class Streamer:
    """
    One thread between the worker and the publishers.

    The worker leaves its events here and goes on; sessions and timers are touched by this thread
    alone. Every deadline is kept here, so that none waits for the engine.

    :param stop_request: ends a request in the engine; returns at once
    :param clock: monotonic seconds
    """

    def __init__(
        self, sink: Sink, stop_request: StopRequest, clock: Callable[[], float],
    ) -> None:
        self._sink = sink
        self._stop_request = stop_request
        self._clock = clock
        self._inbox: SimpleQueue[Event | Callback | None] = SimpleQueue()
        self._sessions: dict[Request, Session] = {}
        self._timers: list[tuple[float, int, Callback, Session | None]] = []
        self._timer_ids = count()
        self._thread = Thread(target=self._run, name='robot_llm_streamer', daemon=True)

    def open(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, event: Event) -> None:
        """Leave an event; any thread, never blocks."""
        self._inbox.put(event)

    def register(self, request: Request) -> None:
        """Open a request's session and its deadlines; before the first event of it."""
        # Now and not on the thread: by then a restart may have given the request a newer scene,
        # and a decision of the older one would be published as the newer one's.
        session = Session(request)
        self._inbox.put(lambda: self._register(session))

    def bind_scene(self, request: Request, epoch: int) -> None:
        """Let an open request that was bound to no scene speak of this one; any thread."""
        self._inbox.put(lambda: self._bind_scene(request, epoch))

    def call_every(self, period_s: float, callback: Callback) -> None:
        """Run ``callback`` on this thread again and again, until the streamer is closed."""
        def run() -> None:
            self._add_timer(self._clock() + period_s, run)
            callback()

        self.call_at(self._clock() + period_s, run)

    def call_at(self, when_s: float, callback: Callback) -> None:
        """Run ``callback`` on this thread at ``when_s`` (monotonic); it must not block."""
        self._inbox.put(lambda: self._add_timer(when_s, callback))

    def close(self) -> bool:
        """
        Publish what is in the inbox, then join; False if the thread did not end in time.

        Call it after the worker has stopped, so that nothing comes behind.
        """
        self._inbox.put(None)
        if self._thread.ident is not None:
            self._thread.join(JOIN_TIMEOUT_S)
        return not self._thread.is_alive()

    # Everything below runs on the streamer's thread.

    def _run(self) -> None:
        show_thread_name()
        while True:
            self._run_timers()
            try:
                item = self._inbox.get(timeout=self._timeout_s())
            except Empty:
                continue
            if item is None:
                return
            try:
                self._handle(item)
            except Exception as error:  # noqa: B902  the next goal must still be published
                self._sink.report(error)

    def _timeout_s(self) -> float | None:
        return max(self._timers[0][0] - self._clock(), 0.0) if self._timers else None

    def _add_timer(
        self, when_s: float, callback: Callback, session: Session | None = None,
    ) -> None:
        """Set a timer; one of a session goes with it."""
        if when_s < math.inf:
            heapq.heappush(self._timers, (when_s, next(self._timer_ids), callback, session))

    def _drop_timers(self, session: Session) -> None:
        """Forget the deadlines of a goal that has ended; each would hold its texts until then."""
        self._timers = [timer for timer in self._timers if timer[3] is not session]
        heapq.heapify(self._timers)

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self._clock():
            _, _, callback, _ = heapq.heappop(self._timers)
            try:
                callback()
            except Exception as error:  # noqa: B902  one goal's deadline, not the others'
                self._sink.report(error)

    def _register(self, session: Session) -> None:
        request = session.request
        self._sessions[request] = session
        self._add_timer(
            session.decision_deadline_s, lambda: self._miss_decision(session), session)
        self._add_timer(
            request.total_deadline_s,
            lambda: self._stop_request(request, FinishReason.DEADLINE), session)

    def _bind_scene(self, request: Request, epoch: int) -> None:
        session = self._sessions.get(request)
        # A fallback that went out while the scene was waited for speaks of none.
        if session is not None and session.first_decision is None:
            session.scene_epoch = epoch

    def _miss_decision(self, session: Session) -> None:
        self._publish(session, session.miss_decision_deadline(self._clock()))

    def _handle(self, item: Event | Callback) -> None:
        match item:
            case Alive():
                self._sink.beat()
            case Started() | Decided() | Delta() | Stopping() | Restarted() | Finished():
                # A thread that was given up may still talk of a request that has ended.
                if session := self._sessions.get(item.request):
                    self._handle_event(session, item)
            case _:
                item()

    def _handle_event(self, session: Session, event: Event) -> None:
        match event:
            case Started():
                self._sink.start(session)
            case Decided(request):
                self._publish(session, session.decide(event, self._clock()))
                if session.must_stop:
                    self._stop_request(request, FinishReason.DEADLINE)
            case Delta():
                self._publish(session, session.append(event))
            case Stopping():
                self._publish(session, session.stop(event))
            case Restarted():
                self._publish(session, session.restart(event))
                self._add_timer(
                    session.decision_deadline_s, lambda: self._miss_decision(session), session)
            case Finished(request):
                del self._sessions[request]
                self._drop_timers(session)
                try:
                    self._publish(session, session.finish())
                finally:
                    self._sink.finish(session)

    def _publish(self, session: Session, output: Output) -> None:
        if output.decision is None and not output.tokens:
            return
        try:
            self._sink.publish(session, output, session.elapsed_s(self._clock()))
        finally:
            session.stamp(output, self._clock())
