"""How right the decisions are: ``evaluate``, ``fit``, ``threshold``, ``label``."""

import argparse
from collections.abc import Sequence
from pathlib import Path
import sys

from robot_llm.errors import RobotLlmError
from robot_llm.evaluation import commands
from robot_llm.evaluation.evaluate import evaluate
from robot_llm.evaluation.scenes import SPLITS
from robot_llm.evaluation.workplace import add_options


def parser() -> argparse.ArgumentParser:
    """Return the parser of all four commands."""
    root = argparse.ArgumentParser(prog='evaluate', description=__doc__)
    commands_of = root.add_subparsers(dest='command', required=True)

    measure = _add(commands_of, 'evaluate', 'a profile over labelled scenes', evaluate)
    measure.add_argument('--split', choices=SPLITS, default='test', help='which side to measure')
    measure.add_argument('--html', type=Path, metavar='FILE', help='write one page with plots')
    measure.add_argument('--png', type=Path, metavar='FOLDER', help='write the plots')
    measure.add_argument('--order-scenes', type=int, default=40, metavar='N',
                         help='scenes for the bias towards the order of words; 0 is none')
    measure.add_argument('--no-timing', dest='timing', action='store_false',
                         help='leave the time to decision out')

    fit = _add(commands_of, 'fit', 'a decision head to the fit split', commands.fit)
    fit.add_argument('--output', type=Path, metavar='FILE',
                     help='head file, replaced if it is there; default: where the profile looks '
                          'for its head, if there is none yet')
    fit.add_argument('--strangers', type=Path, metavar='FILE',
                     help="texts that are no scenes; default: the package's scenes/strangers.yaml")

    bars = _add(commands_of, 'threshold', 'bars with a guarantee', commands.threshold)
    bars.add_argument('--max-unsafe', type=_share, required=True, metavar='SHARE',
                      help='expected share of decisions that are worse than the fallback')
    bars.add_argument('--confidence', type=_share, default=0.0, metavar='SHARE',
                      help='how sure the level must be, such as 0.9; default: on average')
    bars.add_argument('--write', action='store_true', help='put the bars into the profile file')

    label = _add(commands_of, 'label', 'recorded scenes, least certain first', commands.label)
    label.add_argument('records', type=Path, help='what the node recorded (JSON lines)')
    label.add_argument('--output', type=Path, required=True, metavar='FILE',
                       help='scene file that gets the labels; made if it is not there')
    label.add_argument('--limit', type=int, default=50, metavar='N', help='at most so many')
    return root


def _add(
    commands_of: 'argparse._SubParsersAction[argparse.ArgumentParser]', name: str, text: str,
    run: object,
) -> argparse.ArgumentParser:
    command = commands_of.add_parser(name, help=text, description=text)
    add_options(command)
    command.add_argument('--json', action='store_true', help='print one JSON object instead')
    command.add_argument('--goal', action='append', metavar='TEXT',
                         help='goal to ask with, may be given again; default: several')
    command.set_defaults(run=run)
    return command


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f'{text} is not between 0 and 1')
    return value


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it did what was asked."""
    options = parser().parse_args(args)
    try:
        return int(options.run(options))
    except RobotLlmError as error:
        for problem in getattr(error, 'problems', (str(error),)):
            print(problem, file=sys.stderr)
        return 1


if __name__ == '__main__':
    raise SystemExit(main())
