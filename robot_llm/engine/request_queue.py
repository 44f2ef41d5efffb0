"""The requests of one engine under one lock: who waits, who runs, who is stopped or restarted."""

from collections.abc import Callable
from threading import Condition

from robot_llm.core.event import Event, Finished, Restarted, Stopping
from robot_llm.core.request import FinishReason, Request, RequestEvent, Scene
from robot_llm.core.scheduler import PreemptPolicy, Scheduler
from robot_llm.engine.backend import AbortFlag
from robot_llm.engine.command_queue import CLOSED, Command, CommandQueue
from robot_llm.errors import DecodeError, EngineError, NotActiveError, RobotLlmError


class RequestQueue:
    """
    Where the worker and everybody else meet.

    Any thread may submit, stop and restart; only the worker takes, restarts and ends. Nothing
    here waits for the engine, except ``take``, on the worker's own thread.

    :param emit: takes the events, on whatever thread they happen; must not block
    :param clock: monotonic seconds
    """

    def __init__(
        self, emit: Callable[[Event], None], clock: Callable[[], float],
        *, policy: PreemptPolicy, max_queue: int,
    ) -> None:
        self._emit = emit
        self._clock = clock
        self._scheduler = Scheduler(policy, max_queue)
        self._abort: AbortFlag | None = None
        self.changed = Condition()
        self.commands = CommandQueue(self.changed)
        """What ``call`` left for the worker, which takes and ends it."""
        self.is_closing = False
        self.is_abandoned = False
        self.failure: RobotLlmError | None = None
        """Why the engine is no longer usable; None while it is."""

    def open(self, abort: AbortFlag) -> None:
        """Let requests in; ``abort`` stops the decode of the running one."""
        with self.changed:
            self._abort = abort
            self.changed.notify_all()

    @property
    def is_open(self) -> bool:
        """The engine has been loaded."""
        return self._abort is not None

    @property
    def num_waiting(self) -> int:
        """How many requests wait for the engine."""
        return self._scheduler.num_waiting

    @property
    def is_running(self) -> bool:
        """A request or a command has the engine."""
        return self._scheduler.running is not None or self.commands.is_running

    def set_policy(self, policy: PreemptPolicy, max_queue: int) -> None:
        """Let what follows go by another policy; what waits now goes on waiting."""
        with self.changed:
            self._scheduler.policy, self._scheduler.max_queue = policy, max_queue

    def check_capacity(self, num_held: int = 0) -> None:
        """
        Refuse a request that ``submit`` would refuse now.

        :param num_held: requests that wait elsewhere, to be submitted later
        :raises RobotLlmError: what ``submit`` would raise
        """
        with self.changed:
            self._check_usable()
            self._scheduler.check_capacity(num_held)

    def _check_usable(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.is_closing or not self.is_open:
            raise NotActiveError('the engine is not running; configure and activate the node')

    def submit(self, request: Request) -> None:
        """
        Let a request wait for the engine; a newer one may stop it.

        One that has ended before (its deadline or its cancel was faster) is left alone.

        :raises QueueFullError: if the policy leaves no place; the request is unchanged
        :raises EngineError: if the engine is no longer usable
        """
        with self.changed:
            self._check_usable()
            if request.is_stopping:
                return
            for preempted in self._scheduler.submit(request):
                self._stop(preempted, FinishReason.PREEMPTED, None)
            self.changed.notify_all()

    def call(self, command: Command) -> None:
        """Let the worker run a command between two requests; raises as ``submit`` does."""
        with self.changed:
            self._check_usable()
            self.commands.add(command)

    def stop(
        self, request: Request, reason: FinishReason, *, error: RobotLlmError | None = None,
    ) -> bool:
        """
        End a request, wherever it stands; returns at once.

        :returns: whether this was what ended it; False if it had ended before
        """
        with self.changed:
            return self._stop(request, reason, error)

    def _stop(self, request: Request, reason: FinishReason, error: RobotLlmError | None) -> bool:
        """Latch the reason; a running request's decode is aborted, a waiting one is over."""
        if not request.stop(reason, self._clock(), error=error):
            return False
        if request is self._scheduler.running:
            self._interrupt(request, reason)
        else:
            self._scheduler.withdraw(request)
            request.stop_clock.idle_s = self._clock()
            request.apply(RequestEvent.FINISH)
            self._emit(Finished(request))
        return True

    def _interrupt(self, request: Request, reason: FinishReason | None) -> None:
        assert self._abort is not None, 'nothing runs before the engine is open'
        self._abort.set()
        self._emit(Stopping(request, reason))

    def restart(self, request: Request, scene: Scene, max_restarts: int) -> bool:
        """
        Start a request again for a newer scene, wherever it stands; returns at once.

        :param max_restarts: how often it may start again
        :returns: False if it has ended, or has been restarted too often
        """
        with self.changed:
            if not request.ask_restart(scene, max_restarts, self._clock()):
                return False
            if request is self._scheduler.running:
                self._interrupt(request, None)
            elif request.take_restart(self._clock()):
                self._emit(Restarted.of(request))
            return True

    def fail(self, error: BaseException) -> RobotLlmError:
        """
        Note that the engine is unusable, and end what waits for it.

        :returns: the failure; the first one stands
        """
        failure = error if isinstance(error, RobotLlmError) else EngineError(
            f'{type(error).__name__}: {error}')
        failure.__cause__ = error if failure is not error else error.__cause__
        with self.changed:
            if self.failure is None:
                self.failure = failure
                for request in self._scheduler.requests:
                    if request is not self._scheduler.running:
                        self._stop(request, FinishReason.ERROR, failure)
                self.commands.refuse(failure)
                self.changed.notify_all()
            return self.failure

    def abandon(self) -> None:
        """End what a worker that hangs is at; what it reports later is dropped."""
        with self.changed:
            if self.is_abandoned:
                return
            self.is_abandoned = True
            self.commands.end(self.failure or NotActiveError(CLOSED))
            if (request := self._scheduler.running) is not None:
                self._finish(request)

    def close(self) -> None:
        """End every request, and tell the worker to leave."""
        with self.changed:
            self.is_closing = True
            for request in self._scheduler.requests:
                self._stop(request, FinishReason.SHUTDOWN, None)
            self.commands.refuse(NotActiveError(CLOSED))
            self.changed.notify_all()

    # Only the worker's thread calls these.

    def take(self, timeout_s: float) -> Request | None:
        """
        Wait for the next request and give it the engine.

        :param timeout_s: None is returned after this time, so that the worker shows its pulse
        """
        with self.changed:
            if (request := self._start_next()) is None and not (
                    self.must_leave or self.commands.is_waiting):
                self.changed.wait(timeout_s)
                request = self._start_next()
            return request

    def _start_next(self) -> Request | None:
        if self.must_leave or self.commands.is_waiting:
            return None
        return self._scheduler.start_next()

    def _clear_abort(self) -> None:
        assert self._abort is not None, 'nothing runs before the engine is open'
        self._abort.clear()

    @property
    def must_leave(self) -> bool:
        """The worker has nothing more to do: closed, or the engine failed."""
        return self.is_closing or self.failure is not None

    def report(self, event: Event) -> None:
        """Emit what happens to the running request; nothing once the worker was given up."""
        with self.changed:
            if not self.is_abandoned:
                self._emit(event)

    def take_restart(self, request: Request) -> bool:
        """Start the running request again, if that was asked for."""
        with self.changed:
            request.stop_clock.idle_s = now_s = self._clock()
            if self.is_abandoned or self.must_leave or not request.take_restart(now_s):
                return False
            self._clear_abort()
            self._emit(Restarted.of(request))
            request.apply(RequestEvent.SLOT_GRANTED)
            return True

    def end(self, request: Request) -> None:
        """Put the running request down; the engine is idle from here on."""
        request.stop_clock.idle_s = self._clock()
        with self.changed:
            self._scheduler.release(request)
            self._clear_abort()  # whatever is evaluated next, nobody has asked to stop it
            if not self.is_abandoned:
                self._finish(request)

    def _finish(self, request: Request) -> None:
        request.next_scene = None
        request.finish(FinishReason.ERROR, error=self.failure or DecodeError(
            'the generation ended without a reason'))
        request.apply(RequestEvent.FINISH)
        self._emit(Finished(request))
