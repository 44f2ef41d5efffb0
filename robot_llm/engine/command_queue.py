"""What the worker does to the runtime between two requests; each is answered exactly once."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition
from typing import Final

from robot_llm.engine.runtime import Runtime
from robot_llm.errors import RobotLlmError

CLOSED: Final = 'the node was cleaned up meanwhile'
"""Why a command of an engine that is closed did not run, or not to its end."""


@dataclass(frozen=True, slots=True)
class Command:
    """
    Something to do to the runtime between two requests.

    :param run: called on the worker's thread; returns what is wrong, None if it is done. What it
        raises makes the engine unusable
    :param answer: called once, on any thread, with what ``run`` returned, or with why it did not
        run to its end; must not block
    """

    run: Callable[[Runtime], RobotLlmError | None]
    answer: Callable[[RobotLlmError | None], None]


class CommandQueue:
    """
    At most one running command and the waiting ones, first in first out.

    :param lock: held by whoever looks at several things of the engine at once
    """

    def __init__(self, lock: Condition) -> None:
        self._lock = lock
        self._waiting: deque[Command] = deque()
        self._running: Command | None = None

    @property
    def is_waiting(self) -> bool:
        """A command waits."""
        return bool(self._waiting)

    @property
    def is_running(self) -> bool:
        """A command runs that has no answer yet."""
        return self._running is not None

    def add(self, command: Command) -> None:
        """Let a command wait for its turn."""
        with self._lock:
            self._waiting.append(command)
            self._lock.notify_all()

    def refuse(self, problem: RobotLlmError) -> None:
        """Answer the waiting commands, none of which will run."""
        with self._lock:
            while self._waiting:
                self._waiting.popleft().answer(problem)

    def start_next(self) -> Command | None:
        """Return the command that waits longest, to be run now; None if there is none."""
        with self._lock:
            self._running = self._waiting.popleft() if self._waiting else None
            return self._running

    def end(self, problem: RobotLlmError | None) -> None:
        """Answer the running command, unless it was given up before; any thread."""
        with self._lock:
            running, self._running = self._running, None
            if running is not None:
                running.answer(problem)
