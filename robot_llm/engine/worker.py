"""The thread; commands in, events out."""

from collections.abc import Callable
from threading import Condition, Thread
from typing import Final

from robot_llm.core.event import Alive, Event, Finished, Restarted
from robot_llm.core.request import FinishReason, Request, RequestEvent, Scene
from robot_llm.core.scheduler import PreemptPolicy, Scheduler
from robot_llm.engine.generation import Clock, Generation, run_to_end
from robot_llm.engine.pulse import Pulse
from robot_llm.engine.runtime import Runtime
from robot_llm.errors import DecodeError, EngineError, EngineHungError, RobotLlmError

CLOSE_TIMEOUT_S: Final = 5.0
"""
How long ``close`` waits for the thread.

A decode that obeys the abort flag ends within 10 ms, one on a GPU within a chunk. Longer than this
means it hangs; the caller then gives up on the thread instead of hanging with it.
"""

IDLE_HEARTBEAT_S: Final = 1.0
"""How often a worker without work shows that it lives."""


class Worker:
    """
    One daemon thread that owns the runtime; every other thread only leaves requests here.

    :param open_runtime: called once, on the thread; gets ``should_stop`` to ask while it loads
    :param emit: takes the events, on whatever thread they happen; must not block
    :param clock: monotonic seconds
    :param heartbeat_s: the shortest time between two ``Alive`` events [s]
    """

    def __init__(
        self,
        open_runtime: Callable[[Callable[[], bool]], Runtime],
        emit: Callable[[Event], None],
        clock: Clock,
        *,
        policy: PreemptPolicy,
        max_queue: int,
        heartbeat_s: float = 0.2,
    ) -> None:
        self._open_runtime = open_runtime
        self._emit = emit
        self._clock = clock
        self._scheduler = Scheduler(policy, max_queue)
        self._runtime: Runtime | None = None
        self._changed = Condition()
        self._is_closing = False
        self._is_open = False
        self._is_abandoned = False
        self._pulse = Pulse(clock, lambda: emit(Alive()), heartbeat_s)
        self.failure: RobotLlmError | None = None
        """Why the engine is no longer usable; None while it is."""
        # A daemon, so that a decode that hangs for ever cannot keep the process alive.
        self._thread = Thread(target=self._run, name='robot_llm_worker', daemon=True)

    def open(self) -> Runtime:
        """
        Start the thread and wait until the model is loaded; ``close`` from elsewhere ends it.

        :returns: the runtime, to read facts from; its methods belong to the thread
        :raises RobotLlmError: what the thread raised while loading
        """
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._is_open or self.failure is not None)
            if self.failure is not None:
                raise self.failure
            assert self._runtime is not None
            return self._runtime

    def check_progress(self, hang_s: float) -> None:
        """
        Give the engine up if its request made no progress for too long; any other thread.

        :param hang_s: the longest time a decode may take [s]
        """
        with self._changed:
            silence_s = self._pulse.silence_s
            if self._scheduler.running is None or silence_s <= hang_s:
                return
        self._fail(EngineHungError(
            f'no progress for {silence_s:.1f} s and engine.hang_s={hang_s}; the engine is given '
            'up, restart the process'))
        self._abandon()

    @property
    def num_waiting(self) -> int:
        """How many requests wait for the engine."""
        return self._scheduler.num_waiting

    @property
    def is_idle(self) -> bool:
        """Nothing runs and nothing waits."""
        return self._scheduler.is_idle

    def set_policy(self, policy: PreemptPolicy, max_queue: int) -> None:
        """Let what follows go by another policy; what waits now goes on waiting."""
        with self._changed:
            self._scheduler.policy, self._scheduler.max_queue = policy, max_queue

    def check_capacity(self) -> None:
        """
        Refuse a request that ``submit`` would refuse now.

        :raises QueueFullError: if the policy leaves no place
        :raises EngineError: if the engine is no longer usable
        """
        with self._changed:
            self._check_usable()
            self._scheduler.check_capacity()

    def _check_usable(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self._is_closing or not self._is_open:
            raise EngineError('the engine is not running; configure and activate the node')

    def submit(self, request: Request) -> None:
        """
        Let a request wait for the engine; a newer one may stop it.

        One that has ended before (its deadline or its cancel was faster) is left alone.

        :raises QueueFullError: if the policy leaves no place; the request is unchanged
        :raises EngineError: if the engine is no longer usable
        """
        with self._changed:
            self._check_usable()
            if request.is_stopping:
                return
            for preempted in self._scheduler.submit(request):
                self._stop(preempted, FinishReason.PREEMPTED)
            self._changed.notify_all()

    def stop(
        self, request: Request, reason: FinishReason, *, error: RobotLlmError | None = None,
    ) -> bool:
        """
        End a request, wherever it stands; returns at once.

        :returns: whether this was what ended it; False if it had ended before
        """
        with self._changed:
            return self._stop(request, reason, error)

    def restart(self, request: Request, scene: Scene, max_restarts: int) -> bool:
        """
        Start a request again for a newer scene, wherever it stands; returns at once.

        :param max_restarts: how often it may start again
        :returns: False if it has ended, or has been restarted too often
        """
        with self._changed:
            if not request.ask_restart(scene, max_restarts, self._clock()):
                return False
            if request is self._scheduler.running:
                assert self._runtime is not None
                self._runtime.backend.abort.set()
            elif request.take_restart(self._clock()):
                self._emit(Restarted(request, scene, request.latch, request.clock))
            return True

    def _stop(
        self, request: Request, reason: FinishReason, error: RobotLlmError | None = None,
    ) -> bool:
        """Latch the reason; a running request's decode is aborted, a waiting one is over."""
        if not request.stop(reason, self._clock(), error=error):
            return False
        if request is self._scheduler.running:
            if self._runtime is not None:
                self._runtime.backend.abort.set()
        else:
            self._scheduler.withdraw(request)
            request.stop_clock.idle_s = self._clock()
            request.apply(RequestEvent.FINISH)
            self._emit(Finished(request))
        return True

    def close(self) -> bool:
        """
        End every request, free the model, join the thread; safe to call twice.

        :returns: False if the thread did not end in time; it then keeps the model
        """
        with self._changed:
            self._is_closing = True
            for request in self._scheduler.requests:
                self._stop(request, FinishReason.SHUTDOWN)
            self._changed.notify_all()
        if self._thread.ident is not None and not self._is_abandoned:
            self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            self._abandon()
            return False
        return True

    def _abandon(self) -> None:
        """End the request of a thread that hangs; what the thread emits later is dropped."""
        with self._changed:
            if self._is_abandoned:
                return
            self._is_abandoned = True
            if (request := self._scheduler.running) is not None:
                request.next_scene = None
                request.finish(FinishReason.ERROR, error=self.failure)
                request.apply(RequestEvent.FINISH)
                self._emit(Finished(request))

    # Everything below runs on the worker thread.

    def _run(self) -> None:
        runtime: Runtime | None = None
        try:
            runtime = self._open_runtime(self._should_stop)
            runtime.on_progress = self._pulse.beat
            with self._changed:
                self._runtime, self._is_open = runtime, True
                self._changed.notify_all()
            while (request := self._take()) is not None:
                self._serve(runtime, request)
        except Exception as error:  # noqa: B902  whoever waits for the thread must see it
            self._fail(error)
        finally:
            if runtime is not None:
                runtime.close()

    def _should_stop(self) -> bool:
        """Answer whoever loads, and show that loading goes on."""
        self._pulse.beat()
        return self._is_closing

    def _take(self) -> Request | None:
        """Wait for the next request; None when the worker is being closed."""
        with self._changed:
            while True:
                if self._is_closing or self.failure is not None:
                    return None
                if (request := self._scheduler.start_next()) is not None:
                    assert self._runtime is not None
                    self._runtime.backend.abort.clear()
                    self._pulse.beat()
                    return request
                self._pulse.beat()
                self._changed.wait(IDLE_HEARTBEAT_S)

    def _serve(self, runtime: Runtime, request: Request) -> None:
        """Run one request to its end; whatever happens, one ``Finished``."""
        try:
            while True:
                generation = Generation(runtime, request, self._clock)
                if (failure := run_to_end(generation, request, self._report)) is not None:
                    self._fail(failure)
                    break
                if not self._restarted(request):
                    break
        finally:
            self._end(request)

    def _report(self, event: Event) -> None:
        """Emit what happens to the running request; nothing once the thread was given up."""
        with self._changed:
            if not self._is_abandoned:
                self._emit(event)

    def _restarted(self, request: Request) -> bool:
        """Start the running request again, if that was asked for."""
        with self._changed:
            request.stop_clock.idle_s = now_s = self._clock()
            if self._is_abandoned or not request.take_restart(now_s):
                return False
            assert self._runtime is not None
            self._runtime.backend.abort.clear()
            self._emit(Restarted(request, request.scene, request.latch, request.clock))
            request.apply(RequestEvent.SLOT_GRANTED)
            return True

    def _end(self, request: Request) -> None:
        """Put a request down; the engine is idle from here on."""
        request.next_scene = None
        request.finish(FinishReason.ERROR, error=self.failure or DecodeError(
            'the generation ended without a reason'))
        request.stop_clock.idle_s = self._clock()
        with self._changed:
            self._scheduler.release(request)
            if self._is_abandoned:
                return
            request.apply(RequestEvent.FINISH)
            self._emit(Finished(request))

    def _fail(self, error: Exception) -> None:
        """Note that the engine is unusable, and end what waits for it."""
        failure = error if isinstance(error, RobotLlmError) else EngineError(
            f'{type(error).__name__}: {error}')
        failure.__cause__ = error if failure is not error else error.__cause__
        with self._changed:
            self.failure = failure
            for request in self._scheduler.requests:
                if request is not self._scheduler.running:
                    self._stop(request, FinishReason.ERROR, failure)
            self._changed.notify_all()
