"""What the threads of another process did: processor time, waiting for a core, lost cores."""

from collections import defaultdict
from collections.abc import Mapping
import contextlib
from pathlib import Path
import re
from typing import Final, NamedTuple


class Work(NamedTuple):
    """What threads of one name did together, since they began or between two looks."""

    run_s: float = 0.0
    """On a core."""
    wait_s: float = 0.0
    """Ready to run, and no core was free."""
    num_lost: float = 0.0
    """How often one had to leave its core before it was done."""

    def plus(self, other: 'Work') -> 'Work':
        """Return the sum."""
        return Work(*(a + b for a, b in zip(self, other)))

    def minus(self, other: 'Work') -> 'Work':
        """Return what came behind ``other``."""
        return Work(*(a - b for a, b in zip(self, other)))


GROUPS: Final = {
    'worker': 'engine', 'streamer': 'streamer', 'spin': 'executor', 'dds': 'DDS'}
"""By the beginning of a thread's name: what it works for."""


def work_by_thread(pid: int, proc: Path = Path('/proc')) -> dict[str, Work]:
    """
    Return what a process's threads have done, by the values of ``GROUPS`` and 'others'.

    :returns: nothing where the kernel does not count it (Linux with ``CONFIG_SCHED_INFO`` does)
    """
    works: dict[str, Work] = defaultdict(Work)
    for task in (proc / str(pid) / 'task').glob('*'):
        # A thread may end while it is looked at.
        with contextlib.suppress(OSError, ValueError):
            name = (task / 'comm').read_text().strip()
            run_ns, wait_ns, _ = map(int, (task / 'schedstat').read_text().split())
            lost = re.search(r'^nonvoluntary_ctxt_switches:\s+(\d+)',
                             (task / 'status').read_text(), re.MULTILINE)
            group = next((group for start, group in GROUPS.items() if name.startswith(start)),
                         'others')
            works[group] = works[group].plus(
                Work(run_ns * 1e-9, wait_ns * 1e-9, float(lost.group(1)) if lost else 0.0))
    return dict(works)


def between(before: Mapping[str, Work], after: Mapping[str, Work]) -> dict[str, Work]:
    """Return what was done between two looks."""
    return {group: work.minus(before.get(group, Work())) for group, work in after.items()}
