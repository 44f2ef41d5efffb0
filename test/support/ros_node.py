"""An inference node in a process of its own: start it, read its log, end it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import tempfile
from threading import Condition, Thread
from typing import Any

TIMEOUT_S = 60.0
"""Long enough for a loaded machine; only a test that fails waits for it."""

REAL = ('-m', 'robot_llm.ros.main')
SCRIPTED = (str(Path(__file__).with_name('ros_scripted_node.py')),)

# Nodes of one run share what they keep; nothing of it outlives the run.
_cache = tempfile.TemporaryDirectory(prefix='robot_llm_cache_')

# The scripted node has profiles of its own: the shipped ones are written for a model.
DEFAULTS: dict[tuple[str, ...], dict[str, Any]] = {
    REAL: {'cache.folder': _cache.name},
    SCRIPTED: {'profiles.folder': Path(__file__).with_name('ros_profiles'),
               'cache.folder': _cache.name}}

_names = count(1)


class Process:
    """A subprocess whose output is read as it comes."""

    def __init__(self, *command: str, env: Mapping[str, str] | None = None) -> None:
        self._lines: list[str] = []
        self._changed = Condition()
        self._is_closed = False
        self.popen = subprocess.Popen(
            command, text=True, errors='replace', bufsize=1, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, 'PYTHONUNBUFFERED': '1', 'PYTHONFAULTHANDLER': '1', **(env or {})})
        self._reader = Thread(target=self._read, name='log_reader', daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    @property
    def log(self) -> str:
        """Everything the process has written so far."""
        with self._changed:
            return ''.join(self._lines)

    def wait_for_log(self, pattern: str, *, times: int = 1) -> None:
        """Wait until the regular expression ``pattern`` stands ``times`` times in the log."""
        def is_there() -> bool:
            return len(re.findall(pattern, ''.join(self._lines))) >= times or self._is_closed

        with self._changed:
            self._changed.wait_for(is_there, TIMEOUT_S)
            log = ''.join(self._lines)
        assert len(re.findall(pattern, log)) >= times, f'{pattern!r} is not in the log:\n{log}'

    def write(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(f'{line}\n')
        self.popen.stdin.flush()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.popen.send_signal(number)

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        """Return the exit code, when all of the output has been read."""
        try:
            code = self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'the process does not end; its log:\n{self.log}') from None
        self._reader.join(timeout_s)
        return code

    def kill(self) -> None:
        """End the process as a power cut would."""
        self.popen.kill()
        self.popen.wait()

    @property
    def rss_bytes(self) -> int:
        """What the process holds of the machine's memory now [bytes]."""
        status = Path(f'/proc/{self.popen.pid}/status').read_text()
        match = re.search(r'^VmRSS:\s+(\d+) kB', status, re.MULTILINE)
        assert match is not None
        return int(match.group(1)) * 1024


class NodeProcess(Process):
    """
    An inference node, in a namespace of its own.

    :param program: what Python runs: ``REAL`` or ``SCRIPTED``
    :param parameters: over ``DEFAULTS``, as YAML writes them
    """

    def __init__(
        self, program: tuple[str, ...], parameters: Mapping[str, Any],
        *, env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = f'/node_{next(_names)}/robot_llm'
        arguments = ['--ros-args', '-r', f'__ns:={self.name.rpartition("/")[0]}']
        for key, value in ({**DEFAULTS[program], **parameters}).items():
            text = str(value).lower() if isinstance(value, bool) else value
            arguments += ['-p', f'{key}:={text}']
        super().__init__(sys.executable, *program, *arguments, env=env)

    def open_gate(self, name: str) -> None:
        """Let the scripted engine go on behind ``hold-…:name``."""
        self.write(f'open {name}')

    def wait_for_gate(self, name: str, *, times: int = 1) -> None:
        """Wait until the scripted engine is held at ``hold-…:name``, for the n-th time."""
        self.wait_for_log(f'gate {name} reached\n', times=times)

    def stop(self, number: signal.Signals = signal.SIGINT, timeout_s: float = TIMEOUT_S) -> int:
        """End the node as an operator would, and return its exit code."""
        self.send_signal(number)
        return self.wait(timeout_s)


@contextmanager
def one_cpu(is_wanted: bool) -> Iterator[None]:
    """Let processes that are started meanwhile live on a single CPU, as ``taskset -c`` does."""
    before = os.sched_getaffinity(0)
    if is_wanted:
        os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def running_node(
    program: tuple[str, ...], parameters: Mapping[str, Any],
    *, env: Mapping[str, str] | None = None,
) -> Iterator[NodeProcess]:
    """Start a node; at the end it has to leave as every node has to, unless the test ended it."""
    node = NodeProcess(program, parameters, env=env)
    try:
        yield node
        if node.popen.poll() is None:
            code = node.stop()
            assert code == 0, f'exit code {code}; the log:\n{node.log}'
            assert 'Traceback' not in node.log, node.log
    finally:
        if node.popen.poll() is None:
            node.kill()
