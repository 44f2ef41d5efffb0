"""The engine's suite: its costs beside bare llama.cpp's, in the same run and on the same file."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from robot_llm.bench.constants import add_constant_options, constants_of
from robot_llm.bench.engine.answers import answers
from robot_llm.bench.engine.decoding import decode
from robot_llm.bench.engine.length import length
from robot_llm.bench.engine.rig import Rig
from robot_llm.bench.engine.sampling import sampling
from robot_llm.bench.engine.scale import FULL, QUICK, Scale
from robot_llm.bench.engine.speed import prefill, reuse
from robot_llm.bench.engine.stopping import stopping
from robot_llm.bench.engine.words import words
from robot_llm.bench.prompts import TALK
from robot_llm.bench.random_path import random_path
from robot_llm.bench.sample import Figure
from robot_llm.bench.suite import Context, Finding, some_of
from robot_llm.bench.sweep import parse_lengths
from robot_llm.engine.gguf_header import read_header
from robot_llm.settings import Settings

Part = Callable[[Rig, Scale], Iterator[Finding]]

PARTS: Final[Mapping[str, Part | None]] = {
    'decode': decode, 'prefill': prefill, 'reuse': reuse, 'stopping': stopping,
    'answers': answers, 'sampling': None, 'words': words, 'length': length}
"""In their order; ``sampling`` needs a second model."""

ROOM_TOKENS: Final = 256
"""Beside the longest prompt: a system prompt, an answer."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what only this suite takes."""
    parser.add_argument(
        '--parts', type=some_of(tuple(PARTS)), default=tuple(PARTS), metavar='NAMES',
        help=f'only these, such as decode,prefill; there are {", ".join(PARTS)}')
    parser.add_argument(
        '--lengths', type=parse_lengths, metavar='N,N,…',
        help='prompt lengths of the part length [tokens]; at least three; default: '
             f'{", ".join(map(str, FULL.lengths))}, with --quick the first three')
    add_constant_options(parser)


def run(context: Context) -> Iterator[Finding]:
    """Yield what the engine was loaded with, then every figure."""
    base = QUICK if context.is_quick else FULL
    scale = base.with_runs(context.num_runs).with_lengths(context.options.lengths)
    settings = _settings(context.settings, scale)
    constants = constants_of(context)
    rig = Rig(settings, context.profiles, constants)
    info = rig.runtime.backend.info
    try:
        yield (f'{info.name}, {info.quantization}, {info.weight_bytes / 2**20:.0f} MiB, '
               f'{rig.n_threads} thread(s), n_ctx {settings.model.n_ctx}')
        yield constants.note
        for name in context.options.parts:
            context.say(f'{name} …')
            part = PARTS[name]
            yield from _sampling(context, rig, scale) if part is None else part(rig, scale)
    finally:
        rig.close()


def _settings(settings: Settings, scale: Scale) -> Settings:
    """Return the settings with room for the longest prompt, as far as the model goes."""
    header = read_header(Path(settings.model.path)).metadata
    trained = int(header[f'{header["general.architecture"]}.context_length'])
    wanted = max(settings.model.n_ctx, max(scale.lengths) + ROOM_TOKENS)
    return settings.with_changes({'model.n_ctx': min(wanted, trained)})


def _sampling(context: Context, rig: Rig, scale: Scale) -> Iterator[Figure]:
    path = random_path(context.settings, 'vocab150k-Q8_0', context.say)
    with rig.opened({'model.path': str(path), 'model.n_ctx': 1024}, TALK, rig.drive) as large:
        yield from sampling(rig, scale, large)
