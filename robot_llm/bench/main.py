"""How fast, how steady, how close to the hardware: a sub-command per suite, ``all``, ``diff``."""

import argparse
from collections.abc import Sequence
import os
from pathlib import Path
import signal
import sys
from typing import Final

from robot_llm.bench.diff import diff_lines, differences
from robot_llm.bench.random_path import with_random_model
from robot_llm.bench.report import Report
from robot_llm.bench.runner import keep_values, measure, prepare_outputs, write_outputs
from robot_llm.bench.suite import Context, some_of, Suite
from robot_llm.bench.terminal import Terminal
from robot_llm.errors import ConfigError, RobotLlmError
from robot_llm.evaluation.workplace import config_folder
from robot_llm.settings import Settings

SUITES: Final = (
    Suite('engine', 'the engine without ROS beside bare llama.cpp', 'robot_llm.bench.engine'),
    Suite('sweep', 'prompt lengths, cold and warm, beside what the hardware allows',
          'robot_llm.bench.sweep'),
    Suite('device', 'memory, floors, the deadline that model and device can promise',
          'robot_llm.bench.device'),
    Suite('compare', 'beside llama_cpp.Llama, its server and llama-server',
          'robot_llm.bench.compare'),
    Suite('request', 'one goal at a time, seen by a client in another process',
          'robot_llm.bench.request'),
    Suite('load', 'many goals at once, under queue and newest_wins', 'robot_llm.bench.load'),
    Suite('cancel', 'how soon the engine is free, and what it costs not to cancel',
          'robot_llm.bench.cancel'),
    Suite('jitter', 'how steady tokens come while the rest of the robot works',
          'robot_llm.bench.jitter'),
    Suite('decide', 'how often the model meets a deadline, how late the fallback is',
          'robot_llm.bench.decide'),
)
"""In the order of ``bench all``; a suite is added here, and nowhere else."""


def parser(args: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser; of the suites only the one that ``args`` names is imported."""
    root = argparse.ArgumentParser(prog='bench', description=__doc__)
    commands = root.add_subparsers(dest='command', required=True, metavar='COMMAND')
    asked = next((arg for arg in args if not arg.startswith('-')), '')
    for suite in SUITES:
        command = commands.add_parser(suite.name, help=suite.help, description=suite.help)
        add_options(command)
        if suite.name == asked:
            suite.add_options(command)
    everything = commands.add_parser('all', help='every suite, and the page that links them')
    add_options(everything)
    everything.add_argument('--only', type=some_of([suite.name for suite in SUITES]), default=(),
                            metavar='NAMES',
                            help='only these suites, such as sweep,compare')
    compared = commands.add_parser('diff', help='two --json files: ratios, and what they mean')
    compared.add_argument('before', type=Path, metavar='BEFORE')
    compared.add_argument('after', type=Path, metavar='AFTER')
    compared.add_argument('--force', action='store_true',
                          help='compare different machines or models all the same')
    redraw = commands.add_parser('report', help='page and pictures anew from --json files')
    redraw.add_argument('files', type=Path, nargs='+', metavar='JSON',
                        help='reports of one machine; their suites stand in one page')
    add_outputs(redraw)
    return root


def add_options(command: argparse.ArgumentParser) -> None:
    """Add what every suite takes."""
    command.add_argument('--model', default=os.environ.get('ROBOT_LLM_MODEL', ''),
                         help='GGUF file; default: $ROBOT_LLM_MODEL')
    command.add_argument('--random-model', default='', metavar='NAME',
                         help='random weights instead, such as 0.5B-Q4_0 or 1B-Q8_0, with the '
                              'tokenizer of --model: for times only, its words are noise')
    command.add_argument('--profiles', type=Path, default=config_folder() / 'profiles',
                         help='profile folder')
    command.add_argument('--runs', type=_positive,
                         help='runs that count; default: 7, with --quick 3')
    command.add_argument('--quick', action='store_true', help='an answer soon, a wider spread')
    command.add_argument('--check', action='store_true',
                         help='exit code 1 if a figure misses its target')
    command.add_argument('--n-ctx', type=_positive, help='context [tokens]; default: model.n_ctx')
    command.add_argument('--threads', type=_positive, help='default: model.n_threads')
    command.add_argument('--n-gpu-layers', type=int,
                         help='layers on the GPU, -1 for all; default: model.n_gpu_layers')
    command.add_argument('--chunk-tokens', type=_positive,
                         help='prefill chunk [tokens]; default: engine.chunk_tokens')
    add_outputs(command)


def add_outputs(command: argparse.ArgumentParser) -> None:
    """Add where the report goes."""
    command.add_argument('--json', type=Path, metavar='FILE', help='every value, for bench diff')
    command.add_argument('--html', type=Path, metavar='FILE', help='one page with its pictures')
    command.add_argument('--png', type=Path, metavar='FOLDER', help='the pictures as files')
    command.add_argument('--quiet', action='store_true', help='no progress')


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f'{text} is below 1')
    return value


def settings_of(options: argparse.Namespace) -> Settings:
    """
    Return the settings that the options ask for.

    :raises ConfigError: if they do not fit each other
    """
    flat: dict[str, object] = {'model.path': options.model}
    for name, key in (('n_ctx', 'model.n_ctx'), ('threads', 'model.n_threads'),
                      ('n_gpu_layers', 'model.n_gpu_layers'),
                      ('chunk_tokens', 'engine.chunk_tokens')):
        if (value := getattr(options, name)) is not None:
            flat[key] = value
    return Settings.from_flat(flat)


def run_suites(options: argparse.Namespace, suites: Sequence[Suite], terminal: Terminal) -> int:
    """Measure and write; 0 if every suite came to its end."""
    prepare_outputs(options)
    context = Context(
        options=options, settings=with_random_model(
            settings_of(options), options.random_model, terminal.say), profiles=options.profiles,
        num_runs=options.runs or (3 if options.quick else 7), is_quick=options.quick,
        say=terminal.say)
    # As Ctrl-C: what was measured is written, and no server that was started stays behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report = measure(suites, context, terminal,
                     keep=lambda found: keep_values(found, options, terminal))
    write_outputs(report, options, terminal)
    is_short = options.check and any(
        figure.is_met is False for suite in report.suites for figure in suite.figures)
    return int(is_short or any(suite.error for suite in report.suites))


def show_diff(options: argparse.Namespace) -> int:
    """
    Print how the second report differs from the first; 0 whatever the difference.

    :raises ConfigError: if they are of different machines or models
    """
    before, after = Report.read(options.before), Report.read(options.after)
    if (found := differences(before, after)) and not options.force:
        raise ConfigError(
            f'{options.before} and {options.after} were not measured alike: {"; ".join(found)}; '
            'their ratios would tell of the machine, not of the change; --force compares them')
    for line in diff_lines(before, after):
        print(line)
    return 0


def merged(files: Sequence[Path]) -> Report:
    """Return the suites of several files under the first one's environment."""
    reports = [Report.read(path) for path in files]
    return Report(reports[0].environment, [s for report in reports for s in report.suites])


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it did what was asked."""
    args = sys.argv[1:] if args is None else args
    root = parser(args)
    options = root.parse_args(args)
    try:
        if options.command == 'diff':
            return show_diff(options)
        terminal = Terminal(is_quiet=options.quiet)
        if options.command == 'report':
            prepare_outputs(options)
            write_outputs(merged(options.files), options, terminal)
            return 0
        if not options.model:
            root.error('no model: give --model FILE, or set ROBOT_LLM_MODEL')
        chosen = [suite for suite in SUITES if suite.name == options.command]
        if options.command == 'all':
            chosen = [s for s in SUITES if not options.only or s.name in options.only]
            options.html = options.html or Path('robot_llm_bench.html')
        return run_suites(options, chosen, terminal)
    except RobotLlmError as error:
        for problem in getattr(error, 'problems', (str(error),)):
            print(problem, file=sys.stderr)
        return 1


if __name__ == '__main__':
    raise SystemExit(main())
