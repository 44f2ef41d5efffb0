"""The thread; commands in, events out."""

from collections.abc import Callable
from threading import Thread
from typing import Final

from robot_llm.core.event import Alive, Event
from robot_llm.core.request import Request
from robot_llm.core.scheduler import PreemptPolicy
from robot_llm.engine.command_queue import CLOSED, Command
from robot_llm.engine.generation import Clock, Generation, run_to_end
from robot_llm.engine.pulse import Pulse
from robot_llm.engine.request_queue import RequestQueue
from robot_llm.engine.runtime import Runtime
from robot_llm.errors import EngineHungError, ModelLoadError, NotActiveError, RobotLlmError
from robot_llm.thread_name import show_thread_name

CLOSE_TIMEOUT_S: Final = 5.0
"""
How long ``close`` waits for the thread.

A decode that obeys the abort flag ends within 10 ms, one on a GPU within a chunk. Longer than this
means it hangs; the caller then gives up on the thread instead of hanging with it.
"""

IDLE_HEARTBEAT_S: Final = 1.0
"""How often a worker without work shows that it lives, unless it is asked for more."""


class Worker:
    """
    One daemon thread that owns the runtime; every other thread only uses ``requests``.

    :param open_runtime: called once, on the thread; gets ``should_stop`` to ask while it loads
    :param emit: takes the events, on whatever thread they happen; must not block
    :param clock: monotonic seconds
    :param heartbeat_s: the shortest time between two ``Alive`` events [s]
    :param idle_heartbeat_s: the longest time between two looks for work, each a sign of life [s]
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
        idle_heartbeat_s: float = IDLE_HEARTBEAT_S,
    ) -> None:
        self._open_runtime = open_runtime
        self._clock = clock
        self._pulse = Pulse(clock, lambda: emit(Alive()), heartbeat_s)
        self._idle_heartbeat_s = idle_heartbeat_s
        self._runtime: Runtime | None = None
        self._num_nodes = 0
        self.requests = RequestQueue(emit, clock, policy=policy, max_queue=max_queue)
        """The way in: submit, stop, restart; any thread."""
        # A daemon, so that a decode that hangs for ever cannot keep the process alive.
        self._thread = Thread(target=self._run, name='robot_llm_worker', daemon=True)

    def open(self, timeout_s: float = 0.0) -> Runtime:
        """
        Start the thread and wait until the model is loaded; ``close`` from elsewhere ends it.

        :param timeout_s: how long that may take [s]; 0 waits for ever
        :returns: the runtime, to read facts from; its methods belong to the thread
        :raises RobotLlmError: what the thread raised while loading
        :raises ModelLoadError: if time ran out; ``close`` tells whether the thread then left
        """
        self._thread.start()
        requests = self.requests
        with requests.changed:
            if not requests.changed.wait_for(
                    lambda: requests.is_open or requests.failure is not None, timeout_s or None):
                requests.fail(ModelLoadError(
                    f'the model is not loaded after engine.load_timeout_s={timeout_s}; look at '
                    'the disk and the device, or raise the limit'))
            if requests.failure is not None:
                raise requests.failure
            assert self._runtime is not None
            return self._runtime

    def check_progress(self, hang_s: float) -> None:
        """
        Show that what runs goes on, or give the engine up; any other thread.

        A command counts as a request does: it evaluates the pinned prefixes of a reload.
        Where the runtime counts what it evaluates, a long decode shows its pulse in its middle;
        else only the end of each shows one.

        :param hang_s: the longest time without progress [s]
        """
        if not self.requests.is_running:
            return
        assert self._runtime is not None, 'nothing runs before the engine is open'
        if (num_nodes := self._runtime.backend.abort.num_nodes) != self._num_nodes:
            self._num_nodes = num_nodes
            self._pulse.beat()
        # In this order: the pulse beats before a request is given the engine, and while it waits.
        if not self.requests.is_running or (silence_s := self._pulse.silence_s) <= hang_s:
            return
        self._fail(EngineHungError(
            f'no progress for {silence_s:.1f} s and engine.hang_s={hang_s}; the engine is given '
            'up, restart the process'))
        self.requests.abandon()

    def _fail(self, error: BaseException) -> RobotLlmError:
        """Give the engine up, and say so: no request may run whose end would tell."""
        failure = self.requests.fail(error)
        self.requests.report(Alive())
        return failure

    def set_max_stall(self, max_stall_s: float) -> None:
        """Let the next calls of the model obey ``engine.max_stall_s``; any thread."""
        if self._runtime is not None:
            self._runtime.chunks.set_max_stall(max_stall_s)

    @property
    def num_kv_tokens(self) -> int:
        """How many tokens the working sequence holds now; any thread."""
        return self._runtime.cache.num_tokens if self._runtime is not None else 0

    @property
    def is_alive(self) -> bool:
        """Whether the thread, and with it the model, is still there."""
        return self._thread.is_alive()

    def close(self) -> bool:
        """
        End every request, free the model, join the thread; safe to call twice.

        :returns: False if the thread did not end in time; it then keeps the model
        """
        self.requests.close()
        if self._thread.ident is not None and not self.requests.is_abandoned:
            self._thread.join(CLOSE_TIMEOUT_S)
        if self.is_alive:
            self.requests.abandon()
            return False
        return True

    # Everything below runs on the worker thread.

    def _run(self) -> None:
        show_thread_name()
        runtime: Runtime | None = None
        try:
            runtime = self._runtime = self._open_runtime(self._should_stop)
            runtime.on_progress = self._pulse.beat
            self.requests.open(runtime.backend.abort)
            while not self.requests.must_leave:
                self._pulse.beat()
                if (command := self.requests.commands.start_next()) is not None:
                    self._run_command(runtime, command)
                elif (request := self.requests.take(self._idle_heartbeat_s)) is not None:
                    self._serve(runtime, request)
        except BaseException as error:  # noqa: B902  whoever waits for the thread must see it
            self._fail(error)
        finally:
            if runtime is not None:
                runtime.close()

    def _should_stop(self) -> bool:
        """Answer whoever loads, and show that loading goes on."""
        self._pulse.beat()
        return self.requests.must_leave

    def _run_command(self, runtime: Runtime, command: Command) -> None:
        """Run one command; whatever happens, it is answered once."""
        requests = self.requests
        try:
            problem = command.run(runtime)
        except BaseException as error:  # noqa: B902  the engine is not usable any more
            # A reload of a node that is being cleaned up gives up in its middle: no failure.
            problem = NotActiveError(CLOSED) if requests.is_closing else self._fail(error)
        requests.commands.end(problem)

    def _serve(self, runtime: Runtime, request: Request) -> None:
        """Run one request to its end, restarts included; whatever happens, one ``Finished``."""
        requests = self.requests
        try:
            is_wanted = True
            while is_wanted:
                failure = run_to_end(
                    Generation(runtime, request, self._clock), request, requests.report)
                if failure is not None:
                    requests.fail(failure)
                is_wanted = requests.take_restart(request)
        finally:
            requests.end(request)
