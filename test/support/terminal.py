"""A terminal without a screen: start a program on it, read what it writes, press its keys."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from threading import Condition, Thread

from ros_node import TIMEOUT_S

HIDE_CURSOR, SHOW_CURSOR = b'\x1b[?25l', b'\x1b[?25h'
LEAVE_SCREEN = b'\x1b[?1049l'


class Terminal:
    """
    A program on a terminal of 80×24, and everything it wrote there.

    :param environment: over this process's own
    """

    def __init__(self, *command: str, **environment: str) -> None:
        self._written = b''
        self._changed = Condition()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
        self.modes = termios.tcgetattr(slave)
        self._slave = slave
        self.popen = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True,
            env={**os.environ, 'TERM': 'xterm-256color', **environment})
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while data := self._read_some():
            with self._changed:
                self._written += data
                self._changed.notify_all()

    def _read_some(self) -> bytes:
        try:
            return os.read(self._master, 65536)
        except OSError:
            return b''

    @property
    def written(self) -> bytes:
        """Everything so far."""
        with self._changed:
            return self._written

    def wait_for(self, text: bytes) -> None:
        """Wait until the program has written ``text``."""
        with self._changed:
            assert self._changed.wait_for(lambda: text in self._written, TIMEOUT_S), self._written

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def wait(self) -> int:
        """Return the exit code, when the terminal has been left."""
        code = self.popen.wait(TIMEOUT_S)
        self.wait_for(LEAVE_SCREEN)
        return code

    def is_restored(self) -> bool:
        """Tell whether the terminal is as it was."""
        return termios.tcgetattr(self._slave) == self.modes and (
            self.written.rfind(SHOW_CURSOR) > self.written.rfind(HIDE_CURSOR))

    def close(self) -> None:
        """Give the terminal back."""
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        os.close(self._slave)
        os.close(self._master)
