"""How much memory there is, on the host and on the GPU, and how much of it is taken."""

from collections.abc import Iterator
import ctypes
from pathlib import Path
import re
from typing import Final, NamedTuple

import llama_cpp.llama_cpp as llama

from robot_llm.core.memory_plan import Available, MemoryPlan, plan_memory
from robot_llm.core.model_shape import ModelShape
from robot_llm.engine.gguf_header import read_shape
from robot_llm.engine.llama_log import LLAMA_LOG
from robot_llm.errors import OutOfMemoryError
from robot_llm.settings import model_file, ModelSettings, Settings

CPU: Final = 0
GPU: Final = 1
INTEGRATED_GPU: Final = 2
"""``ggml_backend_dev_type``: draws from the host's memory."""


REPORTED: Final = {
    'weights': re.compile(r' model buffer size = +([\d.]+) MiB'),
    'KV cache': re.compile(r' (?:KV|RS) buffer size = +([\d.]+) MiB'),
    'compute buffers': re.compile(r' (?:compute|output) +buffer size = +([\d.]+) MiB'),
}
"""What llama.cpp logs of each row of the plan, a line per device and kind of buffer."""


NEW_CONTEXT: Final = 'constructing llama_context'


class Device(NamedTuple):
    """A device that ggml can compute on."""

    name: str
    description: str
    kind: int
    free_bytes: int
    total_bytes: int


def devices() -> tuple[Device, ...]:
    """Return every device of this build of llama.cpp, the CPU included; loads no model."""
    llama.llama_backend_init()
    # The functions are in ggml's libraries, which llama.cpp's own brings along.
    ggml = llama._lib  # noqa: SLF001  the binding exports no handle
    get, memory = ggml.ggml_backend_dev_get, ggml.ggml_backend_dev_memory
    ggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    memory.restype = None
    memory.argtypes = [ctypes.c_void_p, *[ctypes.POINTER(ctypes.c_size_t)] * 2]
    texts = ggml.ggml_backend_dev_name, ggml.ggml_backend_dev_description
    for function in texts:
        function.restype, function.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    ggml.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    found = []
    for index in range(ggml.ggml_backend_dev_count()):
        device = get(index)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        memory(device, ctypes.byref(free), ctypes.byref(total))
        name, description = (function(device).decode('utf-8', 'replace') for function in texts)
        found.append(Device(name, description, ggml.ggml_backend_dev_type(device),
                            free.value, total.value))
    return tuple(found)


def available_memory() -> Available:
    """Return what can be taken now: the host's memory, and that of all GPUs together."""
    gpus = [device for device in devices() if device.kind in (GPU, INTEGRATED_GPU)]
    return Available(
        host=available_bytes(), gpu=sum(device.free_bytes for device in gpus),
        is_unified=bool(gpus) and all(device.kind == INTEGRATED_GPU for device in gpus))


def available_bytes(meminfo: Path = Path('/proc/meminfo'), root: Path = Path('/')) -> int:
    """
    Return how much host memory can be taken without swapping [bytes]; 0 where nobody says.

    ``MemAvailable`` counts the page cache, which ``free`` memory leaves out; on a Jetson the GPU
    draws from the same. The limit of the control group (a container, a systemd service) counts
    where it is lower.
    """
    limits = [*_host_limit(meminfo), *_group_limits(root)]
    return max(min(limits), 0) if limits else 0


def _host_limit(meminfo: Path) -> Iterator[int]:
    match = re.search(r'^MemAvailable:\s+(\d+) kB', _text(meminfo), re.MULTILINE)
    if match:
        yield int(match.group(1)) * 1024


def _group_limits(root: Path) -> Iterator[int]:
    """Yield what each control group around this process still allows, cgroup v2 and v1."""
    for line in _text(root / 'proc/self/cgroup').splitlines():
        _, controllers, place = line.split(':', 2)
        if controllers not in ('', 'memory'):
            continue
        mount = root / 'sys/fs/cgroup' / controllers
        names = (('memory.max', 'memory.current') if not controllers
                 else ('memory.limit_in_bytes', 'memory.usage_in_bytes'))
        # Inside a container the path may be the host's; the group's own files are then on top.
        group = mount / place.lstrip('/')
        for folder in (group, *group.parents):
            limit, used = (_text(folder / name).strip() for name in names)
            if limit.isdigit() and used.isdigit():
                cached = re.search(r'^(?:total_)?inactive_file (\d+)',
                                   _text(folder / 'memory.stat'), re.MULTILINE)
                yield int(limit) - int(used) + (int(cached.group(1)) if cached else 0)
            if folder == mount:
                break


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ''


def taken_bytes() -> int:
    """Return how much of the host's memory this process holds (RSS) [bytes]; 0 if unknown."""
    match = re.search(r'^VmRSS:\s+(\d+) kB', _text(Path('/proc/self/status')), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def return_memory() -> None:
    """
    Give what was freed back to the system, where the allocator is asked for it.

    glibc keeps the freed blocks of every thread that ever allocated, and a configure has a new
    worker thread: after a few rounds the process held more than a second model would take.
    """
    trim = getattr(ctypes.CDLL(None), 'malloc_trim', None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def memory_plan(settings: Settings, *, num_reserved_tokens: int = 0) -> MemoryPlan:
    """
    Plan what a node with these settings takes; reads the file's header, loads nothing.

    ``plan.table()`` is for people, ``plan.rows`` for programs, ``plan.shortage`` says why it would
    be refused. The facts of the model are ``gguf_header.read_shape``'s, those of the machine
    ``devices``'s and ``available_memory``'s.

    :param num_reserved_tokens: room beside ``model.n_ctx`` for pinned prefixes, if known
    :raises ConfigError: if ``model.path`` names no file
    :raises ModelLoadError: if its header cannot be read
    """
    return plan_memory(
        read_shape(model_file(settings)), settings.model, available=available_memory(),
        num_reserved_tokens=num_reserved_tokens)


def check_memory(shape: ModelShape, settings: ModelSettings) -> MemoryPlan:
    """
    Plan a model's memory before anything of it is loaded.

    :raises OutOfMemoryError: if it does not fit, with the table of what is needed
    """
    plan = plan_memory(shape, settings, available=available_memory())
    if shortage := plan.shortage:
        raise OutOfMemoryError(f'model.path={settings.path!r} {shortage}')
    return plan


def memory_report(plan: MemoryPlan) -> str:
    """
    Return the plan beside what llama.cpp logged since the model was loaded, as lines of text.

    Weights that are mapped and also repacked for this CPU count twice, as they do in memory until
    the kernel takes the mapped pages back.
    """
    lines = [f'{"MiB":16}{"planned":>10}{"taken":>10}']
    said = [line for _, line in LLAMA_LOG.lines]
    begin = max((i for i, line in enumerate(said) if NEW_CONTEXT in line), default=0)
    for row in plan.rows:
        # Lines before the last context tell of one that is gone, except for the model's own.
        since = 0 if row.what == 'weights' else begin
        taken = [float(match.group(1)) for line in said[since:]
                 if (match := REPORTED[row.what].search(line))]
        lines.append(f'{row.what:16}{(row.host + row.gpu) / 2**20:10.0f}{sum(taken):10.0f}')
    return '\n'.join((*lines, f'{"process (RSS)":26}{taken_bytes() / 2**20:10.0f}'))
