"""What a figure is worth nothing without: the machine, the versions, and who disturbed the run."""

import contextlib
from dataclasses import dataclass
from importlib import metadata
import os
from pathlib import Path
import platform
import re
import resource
import subprocess
import time
from typing import Any, Final

import llama_cpp
import numpy as np

SOURCE: Final = Path(__file__).parents[2]
"""The repository's root, where the package runs from its sources."""

MAX_OTHERS_SHARE: Final = 0.05
"""Of one core, what others may use of the machine in a run that counts as undisturbed."""
MAX_CALIBRATION_SPREAD: Final = 1.10
"""How much longer the slowest calibration may take than the fastest."""


def describe() -> dict[str, Any]:
    """Return processor, cores, memory, system, versions and commit."""
    return {
        'cpu': _first(r'^model name\s*:\s*(.+)$', Path('/proc/cpuinfo'))
        or _first(r'^([^\0]+)', Path('/proc/device-tree/model')) or platform.machine(),
        'cores': len(os.sched_getaffinity(0)),
        'memory_gib': round(_number(r'^MemTotal:\s+(\d+) kB', Path('/proc/meminfo')) / 2**20, 1),
        'system': platform.platform(), 'python': platform.python_version(),
        'llama_cpp_python': llama_cpp.__version__, 'numpy': np.__version__,
        'llguidance': metadata.version('llguidance'), 'commit': commit()}


def commit(folder: Path = SOURCE) -> str:
    """Return the commit of the sources, with ``+`` behind it if they were changed; '' unknown."""
    try:
        run = subprocess.run(
            ['git', '-C', str(folder), 'describe', '--always', '--dirty=+', '--exclude=*'],
            capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ''
    return run.stdout.strip()


def _first(pattern: str, path: Path) -> str:
    """Return the first match in a file of /proc; '' where there is no such file or line."""
    try:
        match = re.search(pattern, path.read_text(), re.MULTILINE)
    except OSError:
        return ''
    return match.group(1).strip() if match else ''


def _number(pattern: str, path: Path) -> int:
    return int(_first(pattern, path) or 0)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """
    What the machine did beside us while something was measured.

    ``others_share`` is the processor time of all other processes and of the hypervisor, in cores,
    and None where what is measured is one of them, a node that somebody runs;
    ``involuntary_switches`` how often this process lost a core; ``calibration_spread`` the slowest
    of equal pieces of work against the fastest, taken between the measurements.
    """

    elapsed_s: float
    load_before: float
    load_after: float
    others_share: float | None
    involuntary_switches: int
    calibration_spread: float

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the figures may not be trusted, for people; empty for a calm machine."""
        problems = []
        if self.others_share is not None and self.others_share > MAX_OTHERS_SHARE:
            problems.append(f'others used {self.others_share:.2f} cores')
        if self.calibration_spread > MAX_CALIBRATION_SPREAD:
            problems.append(
                f'equal work took up to {self.calibration_spread:.2f} times as long')
        return tuple(problems)


class Watch:
    """
    Watches the machine from its making to ``stop``; ``calibrate`` whenever nothing is measured.

    :param children: whether finished child processes are ours as well, not others
    :param knows_others: False where what is measured cannot be told from others
    """

    def __init__(self, *, children: bool = False, knows_others: bool = True) -> None:
        self._children, self._knows_others = children, knows_others
        self._load = os.getloadavg()[0]
        self._started_s = time.monotonic()
        self._busy_s, self._own_s = busy_s(), self._own_now_s()
        self._switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        self._calibrations: list[float] = []
        calibrate_s()
        self.calibrate()

    def calibrate(self) -> None:
        """Time a fixed piece of work once."""
        self._calibrations.append(calibrate_s())

    def _own_now_s(self) -> float:
        times = os.times()
        children_s = times.children_user + times.children_system
        return time.process_time() + (children_s if self._children else 0.0)

    def stop(self) -> Disturbance:
        """Return what happened since the watch began."""
        self.calibrate()
        elapsed_s = time.monotonic() - self._started_s
        others_s = busy_s() - self._busy_s - (self._own_now_s() - self._own_s)
        return Disturbance(
            elapsed_s=elapsed_s, load_before=self._load, load_after=os.getloadavg()[0],
            others_share=max(others_s, 0.0) / elapsed_s if self._knows_others else None,
            involuntary_switches=(
                resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - self._switches),
            calibration_spread=max(self._calibrations) / min(self._calibrations))


def busy_s(stat: Path = Path('/proc/stat')) -> float:
    """
    Return the processor time that was not idle since boot, all cores together [s].

    Time stolen by the hypervisor counts as busy: it was others'. 0 where nobody says.
    """
    fields = _first(r'^cpu\s+(.+)$', stat).split()
    if len(fields) < 8:
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
    ticks: int = os.sysconf('SC_CLK_TCK')
    return (user + nice + system + irq + softirq + steal) / ticks


def calibrate_s() -> float:
    """Return the time of a fixed piece of integer work on one core [s]."""
    started_s = time.perf_counter()
    total = 0
    for number in range(200_000):
        total += number & 7
    return time.perf_counter() - started_s


def rss_bytes() -> tuple[int, int]:
    """Return this process's resident memory, and its peak since ``reset_peak`` [bytes]."""
    status = Path('/proc/self/status')
    return (_number(r'^VmRSS:\s+(\d+) kB', status) * 1024,
            _number(r'^VmHWM:\s+(\d+) kB', status) * 1024)


def reset_peak() -> None:
    """Let the peak begin anew; without effect where the kernel does not allow it."""
    with contextlib.suppress(OSError):
        Path('/proc/self/clear_refs').write_text('5')
