"""What the device can do at most: given by the options, or measured here on a CPU."""

import argparse
from functools import cache
import os
from pathlib import Path
from typing import Final, NamedTuple

from robot_llm.bench.suite import Context
from robot_llm.engine.device_peaks import measure_peaks
from robot_llm.engine.gguf_header import read_shape
from robot_llm.settings import resolve_n_threads

NUM_MEASUREMENTS: Final = 5


class Constants(NamedTuple):
    """Peak arithmetic [FLOP/s] and memory traffic [bytes/s]; 0 is unknown."""

    flops: float
    bandwidth: float
    source: str

    @property
    def note(self) -> str:
        """Say what the floors are computed from."""
        if not (self.flops or self.bandwidth):
            return ('The constants of the device are unknown, so there are no floors: give '
                    '--flops and --bandwidth.')
        return (f'Floors: {self.flops / 1e9:.4g} GFLOP/s, {self.bandwidth / 1e9:.4g} GB/s, '
                f'{self.source}.')


def add_constant_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that a robot which is not here needs."""
    parser.add_argument('--flops', type=_positive, default=0.0, metavar='FLOP/S',
                        help='peak arithmetic, dense, at the precision in use, such as 20e12')
    parser.add_argument('--bandwidth', type=_positive, default=0.0, metavar='BYTES/S',
                        help='peak memory traffic, such as 102.4e9')


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float('inf'):
        raise argparse.ArgumentTypeError(f'{text} is no positive number')
    return value


def constants_of(context: Context) -> Constants:
    """Return the constants that the options give, or else measure the CPU; a GPU has none then."""
    options = context.options
    if options.flops or options.bandwidth:
        return Constants(options.flops, options.bandwidth, 'as given')
    if context.settings.model.n_gpu_layers:
        return Constants(0.0, 0.0, 'unknown')
    n_threads = resolve_n_threads(
        context.settings.model.n_threads, len(os.sched_getaffinity(0)))
    context.say('measuring the processor')
    flops, bandwidth = _measured(context.model, n_threads)
    return Constants(flops, bandwidth, (
        f"measured here on {n_threads} thread(s) with ggml's fastest kernel and the model's own "
        'bytes'))


@cache
def _measured(model: Path, n_threads: int) -> tuple[float, float]:
    """Return both constants; suites of one run hold their figures against the same ones."""
    shape = read_shape(model)
    # What disturbs can only slow down, so the best of several is closest to the truth.
    flops, bandwidth = map(max, zip(*(
        measure_peaks(model, shape, n_threads) for _ in range(NUM_MEASUREMENTS))))
    return flops, bandwidth
