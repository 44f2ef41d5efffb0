"""llama.cpp's log, kept from stderr: the last lines for error messages, all of them for a sink."""

from collections import deque
from collections.abc import Callable
from typing import Any

import llama_cpp.llama_cpp as llama

INFO = 2
WARNING = 3
"""``GGML_LOG_LEVEL_WARN``; ggml: NONE 0, DEBUG 1, INFO 2, WARN 3, ERROR 4, CONT 5."""
ERROR = 4
CONTINUED = 5

LogSink = Callable[[int, str], None]
"""Takes ggml's level and one line without its newline."""


def _never() -> bool:
    return False


class LlamaLog:
    """
    The process-wide log callback of llama.cpp.

    One object for the process, referenced from the module: llama.cpp keeps the raw pointer, and a
    collected callback is a crash at the next line. Lines come in pieces; only whole ones leave.
    """

    def __init__(self) -> None:
        self.lines: deque[tuple[int, str]] = deque(maxlen=400)
        self.sink: LogSink | None = None
        self.is_muted: Callable[[], bool] = _never
        self._level = 0
        self._pending = ''
        self._callback = llama.llama_log_callback(self._receive)

    def install(
        self, sink: LogSink | None = None, *, is_muted: Callable[[], bool] = _never,
    ) -> None:
        """
        Take llama.cpp's log over, and forget what was logged before.

        :param sink: takes every whole line
        :param is_muted: asked per piece; llama.cpp calls every abort an error, in four lines,
            and writing them would delay the cancel that they report
        """
        self.sink, self.is_muted = sink, is_muted
        self.lines.clear()
        llama.llama_log_set(self._callback, None)

    def reason(self, default: str) -> str:
        """Return what llama.cpp said last at warning level or above, at most two lines."""
        said = [line for level, line in self.lines if WARNING <= level < CONTINUED]
        return '; '.join(said[-2:]) or default

    def _receive(self, level: int, text: bytes, _user_data: Any) -> None:
        if self.is_muted():
            return
        if level != CONTINUED:
            self._level = level
        self._pending += text.decode('utf-8', 'replace')
        *whole, self._pending = self._pending.split('\n')
        for line in filter(None, (piece.strip() for piece in whole)):
            if self._level >= INFO:
                self.lines.append((self._level, line))
            if self.sink is not None:
                self.sink(self._level, line)


LLAMA_LOG = LlamaLog()
