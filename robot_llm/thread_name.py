"""The name of a thread as the system shows it, in ``top -H`` and in /proc."""

import contextlib
from pathlib import Path
from threading import current_thread, get_native_id
from typing import Final

MAX_BYTES: Final = 15
"""What Linux keeps of a name; Python gives its own ones to the system from 3.14 on only."""

PREFIX: Final = 'robot_llm_'


def show_thread_name() -> None:
    """
    Let the system call this thread by its Python name, without the package's name in front.

    Without effect where there is no /proc, or where it may not be written.
    """
    name = current_thread().name.removeprefix(PREFIX)
    with contextlib.suppress(OSError):
        Path(f'/proc/self/task/{get_native_id()}/comm').write_bytes(name.encode()[:MAX_BYTES])
