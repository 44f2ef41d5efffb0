"""``python -m robot_llm.bench engine``: what the engine costs beside bare llama.cpp."""

import argparse
from collections.abc import Callable, Iterator, Sequence
import json
import os
from pathlib import Path

from robot_llm.bench.engine import EngineBench
from robot_llm.bench.machine import describe
from robot_llm.bench.sample import Figure
from robot_llm.bench.table import line_of
from robot_llm.settings import Settings

PROFILES = Path(__file__).parents[2] / 'config' / 'profiles'


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; exits with 2 and the usage if they are wrong."""
    parser = argparse.ArgumentParser(prog='bench', description=__doc__)
    parser.add_argument('suite', choices=['engine'], help='what to measure')
    parser.add_argument('--model', default=os.environ.get('ROBOT_LLM_MODEL', ''),
                        help='GGUF file; default: $ROBOT_LLM_MODEL')
    parser.add_argument('--profiles', type=Path, default=PROFILES, help='profile folder')
    parser.add_argument('--runs', type=int, default=7, help='runs that count (%(default)s)')
    parser.add_argument('--chunk-tokens', type=int, default=0,
                        help='prefill chunk; default: engine.chunk_tokens')
    parser.add_argument('--no-abort-callback', action='store_true',
                        help='let only the chunks bound a stop, as on a GPU')
    parser.add_argument('--json', type=Path, metavar='FILE', help='write the report there')
    options = parser.parse_args(args)
    if not options.model:
        parser.error('no model: give --model FILE, or set ROBOT_LLM_MODEL')
    if options.runs < 1:
        parser.error(f'--runs={options.runs} is below 1')
    return options


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the settings that the options ask for."""
    flat: dict[str, object] = {
        'model.path': options.model, 'engine.use_abort_callback': not options.no_abort_callback}
    if options.chunk_tokens:
        flat['engine.chunk_tokens'] = options.chunk_tokens
    return Settings.from_flat(flat)


def measure(bench: EngineBench, num_runs: int, say: Callable[[str], None]) -> Iterator[Figure]:
    """Yield every figure, with a line of progress before each suite."""
    for name in ('decode', 'prefill', 'reuse', 'forced', 'cancel'):
        say(f'{name} …')
        yield from getattr(bench, name)(num_runs)


def main(args: Sequence[str] | None = None) -> int:
    """Measure, print a table, write the report."""
    options = parse_args(args)
    about = describe()
    print(', '.join(f'{key} {value}' for key, value in about.items()))
    bench = EngineBench(settings_of(options), options.profiles)
    info = bench.runtime.backend.info
    print(f'{info.name} {info.quantization}, {bench.n_threads} thread(s), '
          f'chunk {bench.runtime.chunk_tokens}, median of {options.runs} runs')
    figures = []
    try:
        for figure in measure(bench, options.runs, lambda text: print(text, flush=True)):
            figures.append(figure)
            print(line_of(figure), flush=True)
    finally:
        bench.close()
    if options.json:
        options.json.write_text(json.dumps({
            'machine': about, 'model': info.name, 'quantization': info.quantization,
            'n_threads': bench.n_threads, 'runs': options.runs,
            'chunk_tokens': bench.runtime.chunk_tokens,
            'figures': [figure.as_dict() for figure in figures]}, indent=2) + '\n')
    return 0


if __name__ == '__main__':
    raise SystemExit(main())
