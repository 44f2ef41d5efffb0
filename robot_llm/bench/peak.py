"""
What this CPU reaches in plain arithmetic and plain reading: ``python -m robot_llm.bench.peak``.

A process of its own, because the number of BLAS threads is read once, at NumPy's import. Source of
the method: a matrix product that fits the caches, and a dot product that does not fit any.
"""

import json
import os
import subprocess
import sys
import time
from typing import Final

import numpy as np

MATRIX: Final = 1024
VECTOR: Final = 32 * 2**20
"""Values of 4 bytes; two of them are 256 MiB, more than the last cache of any robot."""
NUM_RUNS: Final = 7


def peak(n_threads: int) -> tuple[float, float]:
    """
    Return (FLOP/s of a float32 matrix product, bytes/s read from memory) on so many threads.

    Both are the best of several runs: what disturbs can only slow down. Zeros where the process
    fails. llama.cpp may be above the first: it multiplies 8-bit integers.
    """
    names = ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'MKL_NUM_THREADS')
    try:
        answer = subprocess.run(
            [sys.executable, '-m', 'robot_llm.bench.peak'], check=True, capture_output=True,
            text=True, timeout=120, env={**os.environ, **dict.fromkeys(names, str(n_threads))})
        flops, bandwidth = map(float, json.loads(answer.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0.0, 0.0
    return flops, bandwidth


def measure() -> tuple[float, float]:
    """Return the same for the threads that this process was started with."""
    left = np.ones((MATRIX, MATRIX), np.float32)
    flops = max(2 * MATRIX ** 3 / _seconds(left, left) for _ in range(NUM_RUNS))
    long = np.ones(VECTOR, np.float32), np.ones(VECTOR, np.float32)
    bandwidth = max(8 * VECTOR / _seconds(*long) for _ in range(NUM_RUNS))
    return flops, bandwidth


def _seconds(left: 'np.ndarray[tuple[int, ...], np.dtype[np.float32]]',
             right: 'np.ndarray[tuple[int, ...], np.dtype[np.float32]]') -> float:
    started_s = time.perf_counter()
    np.dot(left, right)
    return time.perf_counter() - started_s


if __name__ == '__main__':
    print(json.dumps(measure()))
