"""Prompt lengths, cold and warm, beside what the hardware allows at least."""

import argparse
from collections.abc import Iterator
from contextlib import closing
import os
from statistics import median
from typing import Final, NamedTuple

from robot_llm.bench.constants import add_constant_options, Constants, constants_of
from robot_llm.bench.fit import fit_lengths, LengthFit
from robot_llm.bench.ours import Ours
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.prompts import long_prompt, PROFILES
from robot_llm.bench.sample import Figure
from robot_llm.bench.suite import Context, Finding
from robot_llm.core.model_shape import ModelShape
from robot_llm.engine.gguf_header import read_shape
from robot_llm.errors import ConfigError
from robot_llm.roofline import prefill_floor_s, tpot_floor_s

LENGTHS: Final = (100, 1000, 4000, 16_000)
QUICK_LENGTHS: Final = (100, 300, 600, 1200)
NUM_TOKENS: Final = 16
"""Decoded behind each prompt, for the time per token at that depth."""


class Point(NamedTuple):
    """One prompt, asked twice with another end: all of it evaluated, then the end alone."""

    num_cold: int
    """Tokens that were evaluated the first time."""
    cold_s: float
    num_warm: int
    warm_s: float
    prefill_s: float
    """Of the first time, without queue, template and publishing [s]."""
    tpot_s: float
    """Of the tokens that a decode gave [s]."""
    depth: int
    """Tokens that a decoded one attends to."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what only this suite takes."""
    parser.add_argument('--lengths', type=parse_lengths, metavar='N,N,…',
                        help='prompt lengths [tokens]; at least three; default: '
                        f'{",".join(map(str, LENGTHS))}, as far as --n-ctx allows')
    add_constant_options(parser)


def parse_lengths(text: str) -> tuple[int, ...]:
    """
    Read prompt lengths from a command line, in their order.

    :raises ArgumentTypeError: if there are fewer than three, or one too short
    """
    lengths = tuple(sorted({int(part) for part in text.split(',')}))
    if len(lengths) < 3 or lengths[0] < 64:
        raise argparse.ArgumentTypeError(f'{text}: give three lengths or more, from 64 tokens on')
    return lengths


def lengths_of(context: Context) -> tuple[int, ...]:
    """
    Return the prompt lengths: what was asked for, or the usual ones, and what the context holds.

    :raises ConfigError: if fewer than three are left
    """
    wanted = context.options.lengths or (QUICK_LENGTHS if context.is_quick else LENGTHS)
    most = context.settings.model.n_ctx - NUM_TOKENS
    lengths = tuple(length for length in wanted if length <= most)
    if len(lengths) < 3 and lengths != wanted:
        lengths = (*lengths, most)
    if len(lengths) < 3:
        raise ConfigError(
            f'--lengths {",".join(map(str, wanted))} leaves {len(lengths)} within n_ctx='
            f'{context.settings.model.n_ctx}; a fit needs three: give others, or a larger --n-ctx')
    return lengths


def run(context: Context) -> Iterator[Finding]:
    """Yield every figure, and the pictures."""
    lengths = lengths_of(context)
    num_runs = min(context.num_runs, 2) if context.is_quick else context.num_runs
    shape = read_shape(context.model)
    known = constants_of(context)
    yield known.note
    points: dict[int, list[Point]] = {length: [] for length in lengths}
    with closing(Ours(context.settings, PROFILES)) as ours:
        nonce = os.urandom(4).hex()
        _measure(ours, lengths[0], f'w{nonce}')
        for run_index in range(num_runs):
            for length in lengths:
                context.say(f'{length} tokens: run {run_index + 1} of {num_runs}')
                # With the length in front: else a shorter prompt would be a part of a longer one.
                points[length].append(_measure(ours, length, f'{length}.{run_index}{nonce}'))
        kv_bytes = ours.runtime.backend.info.kv_bytes_per_token
    yield from _figures(points, shape, kv_bytes, known)
    cold = [(p.num_cold, p.cold_s) for all_ in points.values() for p in all_]
    fit = fit_lengths([x for x, _ in cold], [y for _, y in cold])
    yield from _fit_figures(fit)
    yield _ttft_plot(points, fit, shape, known)
    yield _decode_plot(points, shape, kv_bytes, known)


def _measure(ours: Ours, length: int, nonce: str) -> Point:
    cold = ours.submit(
        long_prompt(ours, length, nonce, tail='Begin in the east.', max_tokens=1))
    ours.follow(cold, 0.0)
    warm = ours.submit(
        long_prompt(ours, length, nonce, tail='Begin in the west.', max_tokens=NUM_TOKENS))
    answer = ours.follow(warm, 0.0)
    return Point(
        cold.counts.num_prefilled_tokens, cold.clock.ttft_s, warm.counts.num_prefilled_tokens,
        warm.clock.ttft_s, cold.clock.durations()['prefill_s'], answer.tpot_s,
        warm.counts.num_prompt_tokens + NUM_TOKENS // 2)


def _column(points: list[Point], name: str) -> tuple[float, ...]:
    return tuple(float(getattr(point, name)) for point in points)


def _prefill_floor_s(shape: ModelShape, num_tokens: float, known: Constants) -> float:
    # The output matrix is multiplied for the last token alone.
    return (prefill_floor_s(shape.active_layers.num_params, int(num_tokens), known.flops)
            + prefill_floor_s(shape.output.num_params, 1, known.flops))


def _figures(
    points: dict[int, list[Point]], shape: ModelShape, kv_bytes: float, known: Constants,
) -> Iterator[Figure]:
    for all_ in points.values():
        num_cold = round(median(_column(all_, 'num_cold')))
        num_warm = round(median(_column(all_, 'num_warm')))
        depth = round(median(_column(all_, 'depth')))
        yield Figure(f'ttft cold, {num_cold} tokens evaluated', 's', _column(all_, 'cold_s'))
        yield Figure(f'ttft warm, {num_warm} of {depth - NUM_TOKENS // 2} evaluated', 's',
                     _column(all_, 'warm_s'))
        yield Figure(f'prefill rate, {num_cold} tokens', 'tokens/s',
                     tuple(p.num_cold / p.prefill_s for p in all_))
        if known.flops:
            yield Figure(f'prefill, {num_cold} tokens: floor / measured', '%', tuple(
                100 * _prefill_floor_s(shape, p.num_cold, known) / p.prefill_s for p in all_))
        yield Figure(f'tpot behind {depth} tokens', 's', _column(all_, 'tpot_s'))
        if known.bandwidth:
            floor_s = tpot_floor_s(
                shape.read_per_token, int(shape.kv_bytes_read(depth, kv_bytes)), known.bandwidth)
            yield Figure(f'tpot behind {depth} tokens: floor / measured', '%',
                         tuple(100 * floor_s / p.tpot_s for p in all_))


def _fit_figures(fit: LengthFit) -> Iterator[Figure]:
    yield Figure('ttft = a + b·T + c·T²: a', 's', (fit.a_s,), note='whatever the length')
    yield Figure('ttft = a + b·T + c·T²: b', 's', (fit.b_s,), note='per token: the weights')
    yield Figure('ttft = a + b·T + c·T²: 1000·c', 's', (1000 * fit.c_s,),
                 note='per token, for every thousand tokens before it: attention')
    yield Figure('ttft = a + b·T + c·T²: variance explained', '%', (100 * fit.r_squared,))


def _line(
    points: dict[int, list[Point]], name: str, x_name: str, y_name: str,
) -> Series:
    columns = [_column(all_, y_name) for all_ in points.values()]
    return Series(
        name, tuple(map(median, columns)),
        tuple(median(_column(all_, x_name)) for all_ in points.values()),
        tuple(map(min, columns)), tuple(map(max, columns)), style='ours')


def _ttft_plot(
    points: dict[int, list[Point]], fit: LengthFit, shape: ModelShape, known: Constants,
) -> Plot:
    cold = _line(points, 'nothing cached', 'depth', 'cold_s')
    warm = _line(points, 'all but the end cached', 'depth', 'warm_s')
    floors = () if not known.flops else (Series(
        'least time for the arithmetic', tuple(
            # Of what was evaluated: the profile's part was cached.
            _prefill_floor_s(shape, median(_column(all_, 'num_cold')), known)
            for all_ in points.values()), cold.x, style='floor'),)
    return Plot(
        'sweep_ttft', 'Time to the first token: what must be evaluated counts, not the length',
        'lines', (cold, warm, *floors), x_label='prompt [tokens]', y_label='time [s]',
        is_log=(True, True),
        caption=f'ttft = {fit.a_s * 1e3:.3g} ms + {fit.b_s * 1e3:.3g} ms·T + '
                f'{fit.c_s * 1e6:.3g} µs·T² over T evaluated tokens. {known.note}')


def _decode_plot(
    points: dict[int, list[Point]], shape: ModelShape, kv_bytes: float, known: Constants,
) -> Plot:
    line = _line(points, 'measured', 'depth', 'tpot_s')
    floors = () if not known.bandwidth else (Series(
        'least time to read weights and KV cache', tuple(
            tpot_floor_s(shape.read_per_token, int(shape.kv_bytes_read(x, kv_bytes)),
                         known.bandwidth)
            for x in line.x), line.x, style='floor'),)
    return Plot(
        'sweep_decode', 'Time per token: the deeper the context, the more is read',
        'lines', (line, *floors), x_label='context [tokens]', y_label='time per token [s]',
        caption=known.note)
