"""Measures what this CPU can do at best, with ggml's own kernels and the model's own bytes."""

from collections.abc import Callable
import ctypes
import hashlib
import json
import math
import mmap
from pathlib import Path
import platform
from threading import Thread
import time
from typing import Final

import llama_cpp
import llama_cpp.llama_cpp as llama
import numpy as np

from robot_llm.cache_folder import CacheFolder
from robot_llm.core.model_shape import ModelShape
from robot_llm.core.peaks import Peaks
from robot_llm.engine.backend import Backend
from robot_llm.settings import DeviceSettings

MOST_BYTES: Final = 256 * 2**20
"""Read in one pass; far beyond the last cache of a CPU, unless the model itself is smaller."""

BUDGET_S: Final = 0.05
"""For each kind of measurement; the fastest run counts, and there are two at least."""

SIDE: Final = 1024
ROWS: Final = 64
"""Of the matrix and of the batch: large enough to be bound by arithmetic."""

POOL_BYTES: Final = 32 * 2**20
"""For the matrices and some hundred runs of a product."""

KERNELS: Final = (llama.GGML_TYPE_Q8_0, llama.GGML_TYPE_Q4_0, llama.GGML_TYPE_Q4_K,
                  llama.GGML_TYPE_F16)
"""Types whose fastest one is the peak: which it is depends on the instructions of the CPU."""


def open_peaks(backend: Backend, settings: DeviceSettings, folder: CacheFolder) -> Peaks:
    """
    Return the constants that were given, else those of the cache, else measured ones.

    :param backend: loaded; what it measures is kept for the next start
    """
    peaks = Peaks(settings.peak_flops, settings.memory_bandwidth,
                  settings.peak_flops > 0, settings.memory_bandwidth > 0)
    key = backend.peaks_key()
    if not key or (peaks.is_flops_given and peaks.is_bandwidth_given):
        return peaks
    try:
        flops, bandwidth = map(float, json.loads(folder.read(_name(key)) or b''))
    except (ValueError, TypeError):
        flops, bandwidth = backend.measure_peaks()
        keep_peaks(key, Peaks(flops, bandwidth), folder)
    peaks.flops, peaks.bandwidth = peaks.flops or flops, peaks.bandwidth or bandwidth
    return peaks


def keep_peaks(key: str, peaks: Peaks, folder: CacheFolder) -> None:
    """
    Keep what was measured, or has been raised since; what a person gave is not kept.

    :param key: ``peaks_key`` of the backend
    """
    if key and not (peaks.is_flops_given or peaks.is_bandwidth_given):
        folder.write(_name(key), json.dumps([peaks.flops, peaks.bandwidth]).encode())


def _name(key: str) -> str:
    return f'device-{hashlib.sha256(key.encode()).hexdigest()[:32]}'


def peaks_key(shape: ModelShape, n_threads: int) -> str:
    """Name what a measurement holds for: this machine, this many threads, as many bytes."""
    return json.dumps([
        llama_cpp.__version__, platform.node(), _cpu_name(), n_threads,
        llama.llama_print_system_info().decode('utf-8', 'replace'), _num_bytes(shape)])


def _cpu_name() -> str:
    try:
        lines = Path('/proc/cpuinfo').read_text(errors='replace').splitlines()
    except OSError:
        return platform.processor()
    # x86 has a model name, ARM an implementer and a part per core.
    return '; '.join(sorted({line for line in lines if line.startswith(
        ('model name', 'CPU implementer', 'CPU part'))}))


def _num_bytes(shape: ModelShape) -> int:
    return min(shape.read_per_token, MOST_BYTES)


def measure_peaks(path: Path, shape: ModelShape, n_threads: int) -> tuple[float, float]:
    """
    Measure FLOP/s and bytes/s of this CPU; takes about a third of a second.

    :param path: the model file, whose bytes are read as a decode reads them
    """
    return measure_flops(n_threads), measure_bandwidth(path, _num_bytes(shape), n_threads)


def fastest_s(run: Callable[[], object], *, most_runs: float = math.inf) -> float:
    """
    Return the shortest of a few runs [s]: what is slower was disturbed, or the first one.

    :param most_runs: at least 2
    """
    times: list[float] = []
    while len(times) < 2 or (sum(times) < BUDGET_S and len(times) < most_runs):
        started_s = time.perf_counter()
        run()
        times.append(max(time.perf_counter() - started_s, 1e-9))
    return min(times)


def measure_bandwidth(path: Path, num_bytes: int, n_threads: int) -> float:
    """
    Return how fast the model's own bytes are read from memory [bytes/s].

    As many as a token reads, up to a limit, so that a cache that would hold the weights counts.
    libc's ``memcmp`` of a range with itself reads each byte from memory once, at the speed of the
    widest loads, and needs no GIL.
    """
    memcmp = ctypes.CDLL(None).memcmp
    memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    with path.open('rb') as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        view = np.frombuffer(data, np.uint8)
        # From the end: the vocabulary is in front.
        address, length = view.ctypes.data + len(view) - min(num_bytes, len(view)), len(view)
        step = min(num_bytes, length) // n_threads

        def read_all() -> None:
            threads = [Thread(target=memcmp, args=(start, start, step)) for start in (
                address + index * step for index in range(n_threads))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        bandwidth = step * n_threads / fastest_s(read_all)
        del view  # it keeps the map open
    return bandwidth


class _InitParams(ctypes.Structure):

    _fields_ = (('mem_size', ctypes.c_size_t), ('mem_buffer', ctypes.c_void_p),
                ('no_alloc', ctypes.c_bool))


def measure_flops(n_threads: int) -> float:
    """
    Return what the fastest kernel of ggml reaches in a product of matrices [FLOP/s].

    :returns: 0 if this build of ggml does not export what it takes
    """
    try:
        return max(_matmul_flops(kind, n_threads) for kind in KERNELS)
    except AttributeError:
        return 0.0


def _matmul_flops(kind: int, n_threads: int) -> float:
    ggml = llama._lib  # noqa: SLF001  the binding exports no handle
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    for name, result, arguments in (
            ('ggml_init', pointer, [_InitParams]), ('ggml_free', None, [pointer]),
            ('ggml_new_tensor_2d', pointer, [pointer, ctypes.c_int, number, number]),
            ('ggml_get_data', pointer, [pointer]), ('ggml_nbytes', ctypes.c_size_t, [pointer]),
            ('ggml_mul_mat', pointer, [pointer] * 3), ('ggml_new_graph', pointer, [pointer]),
            ('ggml_build_forward_expand', None, [pointer] * 2),
            ('ggml_graph_compute_with_ctx', ctypes.c_int, [pointer, pointer, ctypes.c_int]),
            ('ggml_used_mem', ctypes.c_size_t, [pointer])):
        function = getattr(ggml, name)
        function.restype, function.argtypes = result, arguments
    context = ggml.ggml_init(_InitParams(POOL_BYTES, None, False))
    if not context:
        return 0.0
    try:
        matrix = ggml.ggml_new_tensor_2d(context, kind, SIDE, SIDE)
        batch = ggml.ggml_new_tensor_2d(context, llama.GGML_TYPE_F32, SIDE, ROWS)
        for tensor in (matrix, batch):
            ctypes.memset(ggml.ggml_get_data(tensor), 0, ggml.ggml_nbytes(tensor))
        graph = ggml.ggml_new_graph(context)
        ggml.ggml_build_forward_expand(graph, ggml.ggml_mul_mat(context, matrix, batch))

        def compute() -> None:
            ggml.ggml_graph_compute_with_ctx(context, graph, n_threads)

        used = ggml.ggml_used_mem(context)
        compute()
        # Each one takes its work space from the pool, and ggml crashes where that is used up.
        behind = ggml.ggml_used_mem(context)
        most_runs = (POOL_BYTES - behind) // max(behind - used, 1) - 1
        return 2.0 * SIDE * SIDE * ROWS / fastest_s(compute, most_runs=most_runs)
    finally:
        ggml.ggml_free(context)
