"""Watch an inference node: its stream, its decisions, its times, its health, on one screen."""

import argparse
from collections.abc import Mapping, Sequence
import importlib.util
import os
import signal
import sys
import time

from rclpy.utilities import remove_ros_args
from robot_llm.cli.monitor_link import MonitorLink
from robot_llm.cli.monitor_plain import run_plain


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; exits with 2 and the usage if they are wrong."""
    parser = argparse.ArgumentParser(prog='monitor', description=__doc__)
    parser.add_argument('--node', default='/robot_llm', help='name of the node (%(default)s)')
    parser.add_argument('--plain', action='store_true',
                        help='write lines instead of a screen; so it does without a terminal')
    options = parser.parse_args(remove_ros_args(
        ['monitor', *(sys.argv[1:] if args is None else args)])[1:])
    options.node = f'/{options.node.strip("/")}'
    return options


def why_plain(environ: Mapping[str, str], *, is_terminal: bool, has_textual: bool) -> str:
    """Return why there can be no screen; empty if there can."""
    if not is_terminal:
        return 'no terminal'
    if environ.get('TERM', 'dumb') in ('dumb', 'unknown', ''):
        return f'TERM={environ.get("TERM", "")} cannot move its cursor'
    return '' if has_textual else 'textual is not installed; pip install textual'


def main(args: Sequence[str] | None = None) -> int:
    """Watch a node; ``ros2 run robot_llm monitor``."""
    options = parse_args(args)
    reason = '--plain' if options.plain else why_plain(
        os.environ, is_terminal=sys.stdin.isatty() and sys.stdout.isatty(),
        has_textual=importlib.util.find_spec('textual') is not None)
    if reason not in ('', '--plain', 'no terminal'):
        print(f'lines instead of a screen: {reason}', file=sys.stderr)
    with MonitorLink(options.node) as link:
        if not reason:
            # Not before it is needed: the node's machine may have no Textual.
            from robot_llm.cli.monitor_screen import run_screen
            return run_screen(link, options.node)
        # Told to end, it ends as after Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            run_plain(link, options.node, clock=time.monotonic,
                      say=lambda line: print(line, flush=True))
        except BrokenPipeError:
            # `monitor | head` is no error; what is still buffered must not be one at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # It is ending: a second signal would only tear the farewell from the graph.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        return 0


if __name__ == '__main__':
    raise SystemExit(main())
