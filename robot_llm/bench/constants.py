"""What the device can do at most: from the options, from ``device.*``, or unknown."""

import argparse
from typing import NamedTuple

from robot_llm.bench.suite import Context


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
                    '--flops and --bandwidth, or device.peak_flops and device.memory_bandwidth.')
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
    """Return the constants that the options give, or else the settings."""
    options, device = context.options, context.settings.device
    if options.flops or options.bandwidth:
        return Constants(options.flops, options.bandwidth, 'as given')
    return Constants(device.peak_flops, device.memory_bandwidth, 'as configured')
