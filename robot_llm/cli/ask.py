"""A planner's client for a terminal: one goal, its decision, its stream, its result."""

import argparse
from collections.abc import Iterator, Sequence
import json
import math
import sys

from builtin_interfaces.msg import Duration
from rclpy.exceptions import InvalidTopicNameException
from rclpy.utilities import remove_ros_args
from rclpy.validate_full_topic_name import validate_full_topic_name
from robot_llm.cli.monitor_text import printable
from robot_llm.cli.own_stdout import own_stdout
from robot_llm.cli.report import answer_report, result_lines
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from robot_llm.errors import ErrorCode
from robot_llm.ros.answer import Answer, END_TIMEOUT_S
from robot_llm.ros.client import Client
from robot_llm.ros.message_age import clock_problem
from robot_llm_msgs.action import Generate
from robot_llm_msgs.msg import Token

EXIT_OK = 0
EXIT_NO_NODE = 3
EXIT_REJECTED = 4
EXIT_LOST = 5
EXIT_INTERRUPTED = 130
"""What a shell reports of a program that Ctrl-C ended."""
EXIT_FINISH_REASON = 10
"""Plus the finish reason, for every end that is no whole answer."""

PRESENCE_PERIOD_S = 1.0
"""How often it is asked whether the node is still there."""

CANCEL_TIMEOUT_S = 5.0
"""How long Ctrl-C waits for the goal's end; the engine obeys within a decode step."""


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; exits with 2 and the usage if they are wrong."""
    parser = argparse.ArgumentParser(
        prog='ask', description='Ask the inference node one question, as a planner would.',
        epilog=f'Exit codes: 0 whole answer, 2 usage, {EXIT_NO_NODE} no node, {EXIT_REJECTED} '
               f'rejected, {EXIT_LOST} no result, {EXIT_FINISH_REASON} + finish reason otherwise.')
    parser.add_argument('prompt', help='what to ask; "-" reads it from standard input')
    parser.add_argument('--node', default='/robot_llm', help='name of the node (%(default)s)')
    parser.add_argument('--profile', default='', help="response profile; default: the node's")
    parser.add_argument('--scene-epoch', type=int, default=0, help='0 = the current scene')
    parser.add_argument('--decision-deadline', type=float, default=0.0, metavar='S',
                        help="seconds; 0 = the profile's")
    parser.add_argument('--total-deadline', type=float, default=0.0, metavar='S',
                        help="seconds; 0 = the profile's")
    parser.add_argument('--max-tokens', type=int, default=0, help="0 = the profile's")
    parser.add_argument('--temperature', type=float, default=-1.0,
                        help="negative = the profile's, 0 = greedy")
    parser.add_argument('--seed', type=int, default=0, help="0 = the profile's")
    parser.add_argument('--stop', action='append', default=[], metavar='TEXT',
                        help='stop string; may be given several times')
    parser.add_argument('--timeout', type=float, default=10.0, metavar='S',
                        help='how long to wait for the node (%(default)s)')
    parser.add_argument('--json', action='store_true', help='print one JSON object instead')
    given = sys.argv[1:] if args is None else args
    for text in filter(_is_not_utf8, given):
        parser.error(f'{text[:40]!r} is not UTF-8')
    options = parser.parse_args(remove_ros_args(['ask', *given])[1:])
    if options.prompt == '-':
        options.prompt = sys.stdin.buffer.read().decode('utf-8', 'surrogateescape')
    for problem in _problems(options):
        parser.error(problem)
    return options


def _problems(options: argparse.Namespace) -> Iterator[str]:
    """Yield what cannot be sent in a goal; what can be is for the node to judge."""
    for name, limit in (('scene_epoch', 2**64), ('max_tokens', 2**32), ('seed', 2**32)):
        if not 0 <= getattr(options, name) < limit:
            yield f'--{name.replace("_", "-")}={getattr(options, name)} is not in 0..{limit - 1}'
    for name in ('decision_deadline', 'total_deadline', 'timeout'):
        if not 0 <= getattr(options, name) < 2**31:  # also refuses NaN
            yield f'--{name.replace("_", "-")}={getattr(options, name)} is not in 0..{2**31 - 1} s'
    if _is_not_utf8(options.prompt):  # read from standard input
        yield 'the prompt is not UTF-8'
    try:
        validate_full_topic_name(f'/{options.node.lstrip("/")}/generate')
    except InvalidTopicNameException:
        yield f'--node={options.node!r} is no name of a node; give one such as /robot_llm'


def _is_not_utf8(text: str) -> bool:
    """Whether Python had to keep foreign bytes as halves of surrogate pairs."""
    return any('\ud800' <= character <= '\udfff' for character in text)


def make_goal(options: argparse.Namespace) -> Generate.Goal:
    """Return the goal that the options describe."""
    return Generate.Goal(
        prompt=options.prompt, profile=options.profile, scene_epoch=options.scene_epoch,
        decision_deadline=_duration(options.decision_deadline),
        total_deadline=_duration(options.total_deadline), max_tokens=options.max_tokens,
        stop=options.stop, temperature=options.temperature, seed=options.seed)


def _duration(seconds: float) -> Duration:
    nanoseconds = round(seconds * 1e9)
    return Duration(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)


def print_token(token: Token) -> None:
    """Write a piece of the stream as it comes."""
    if token.kind == TokenKind.DECISION:
        print(f'{printable(token.text)}  [{token.elapsed_s * 1e3:.0f} ms]', end='', flush=True)
    elif token.kind == TokenKind.END:
        print(flush=True)
    else:
        print(printable(token.text), end='', flush=True)


def follow(client: Client, answer: Answer) -> None:
    """Wait for the end of a goal; Ctrl-C cancels it and waits for that end."""
    try:
        while not answer.wait_for_result(PRESENCE_PERIOD_S):
            if not client.is_node_present:
                answer.fail('the node went away before the result')
    except KeyboardInterrupt:
        print('\ncancelling', file=sys.stderr)
        answer.cancel()
        answer.wait_for_result(CANCEL_TIMEOUT_S)


def exit_code(answer: Answer) -> int:
    """Return what the shell gets."""
    if answer.is_rejected:
        return EXIT_REJECTED
    if answer.result is None:
        return EXIT_LOST
    reason, code = answer.result.finish_reason, answer.result.error_code
    if reason in (FinishReason.STOP, FinishReason.LENGTH) and code == ErrorCode.NONE:
        return EXIT_OK
    return EXIT_FINISH_REASON + int(reason)


def main(args: Sequence[str] | None = None) -> int:
    """Ask one question; ``ros2 run robot_llm ask "…"``."""
    options = parse_args(args)
    own_stdout()
    try:
        return ask(options)
    except KeyboardInterrupt:  # before the goal was sent, or for the second time
        return EXIT_INTERRUPTED


def ask(options: argparse.Namespace) -> int:
    """Send the goal that the options describe, print what comes back, return the exit code."""
    with Client(options.node, name='robot_llm_ask') as client:
        if not client.wait_until_ready(options.timeout, or_failed=True):
            print_problem(
                f'{options.node} has failed: {client.failure}' if client.failure else
                f'{options.node} does not answer; is it running and active? '
                f'(ros2 lifecycle get {options.node})', is_json=options.json)
            return EXIT_NO_NODE
        answer = client.send(
            make_goal(options), on_token=None if options.json else print_token)
        follow(client, answer)
    for warning in warnings(answer):
        print(warning, file=sys.stderr)
    if answer.is_rejected:
        print_problem(f'the goal was refused: {client.refusal or "the node log says why"}',
                      is_json=options.json)
    elif answer.result is None:
        print_problem(answer.failure or 'no result came', is_json=options.json)
    elif options.json:
        print(json.dumps(answer_report(answer), ensure_ascii=False))
    else:
        if not answer.has_end:
            print()
        print('\n'.join(result_lines(answer)))
    return exit_code(answer)


def warnings(answer: Answer) -> Iterator[str]:
    """Yield what a goal with a result shows of the way between the node and here."""
    if answer.result is None:
        return
    if not answer.has_end:
        yield (f'the END did not come within {END_TIMEOUT_S:.0f} s of the result; is ~/tokens '
               'connected, under that name?')
    if math.isfinite(answer.age_s) and (problem := clock_problem(answer.age_s)):
        yield problem


def print_problem(problem: str, *, is_json: bool) -> None:
    """Say why there is no result; a program that reads JSON finds it where a result would be."""
    print(printable(problem), file=sys.stderr)
    if is_json:
        print(json.dumps({'problem': problem}, ensure_ascii=False))


if __name__ == '__main__':
    raise SystemExit(main())
