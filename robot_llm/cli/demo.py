"""The main job, shown: a goal answered, a scene change in mid-answer, a goal that preempts."""

import argparse
from collections.abc import Callable, Sequence
import json
import os
from pathlib import Path
import sys
import tempfile
from typing import Any, Final

from robot_llm.cli.ask import print_token
from robot_llm.cli.own_stdout import own_stdout
from robot_llm.cli.report import answer_report, result_lines, stage_sum_s
from robot_llm.core.session import TokenKind
from robot_llm.ros.answer import Answer
from robot_llm.ros.client import Client
from robot_llm.ros.process import start_node, stop_node
from robot_llm_msgs.action import Generate

LOAD_TIMEOUT_S: Final = 120.0
GOAL_TIMEOUT_S: Final = 120.0
NUM_TOKENS_BEFORE_CHANGE: Final = 12
"""Enough for a mean time per token, far from the end of the answer."""

STORY: Final = 'Write a short story about a robot that works in a hospital.'
SEED: Final = 1
"""With some seeds the story is over before anything can cut it short."""


class DemoError(Exception):
    """Something that is shown is not as it should be."""


class Demo:
    """
    The planner's part of the demonstration.

    :param say: prints a line for people; silent with ``--json``
    """

    def __init__(self, client: Client, say: Callable[[str], None], *, is_silent: bool) -> None:
        self._client = client
        self._say = say
        self._on_token = None if is_silent else print_token
        self.goals: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def run(self) -> None:
        """Send the four goals and check what comes back."""
        self._say('\n1. A person ahead. The planner asks; the decision comes first.')
        self._client.publish_scene(1, 'A person stands one metre ahead in the corridor.')
        first = self._send('drive', 'Drive on to the charging dock.', epoch=1)
        self._finish('answered', first, reason='STOP')
        if first.result is not None and not first.result.detail_json:
            self.problems.append('answered: no valid detail')

        self._say('\n2. The scene changes in mid-answer: that world is gone.')
        second = self._send('talk', STORY, epoch=1)
        self._wait_for_tokens(second)
        self._client.publish_scene(2, 'The corridor is clear.')
        self._finish('scene_changed', second, reason='SCENE_CHANGED')
        stats = self.goals[-1]['stats']
        if stats['num_wasted_tokens'] > 1:
            self.problems.append(f'scene_changed: {stats["num_wasted_tokens"]} tokens wasted')
        if not 0 < stats['cancel_latency_s'] < 3 * stats['tpot_s']:
            self.problems.append(
                f'scene_changed: cancel took {stats["cancel_latency_s"]} s, tpot is '
                f'{stats["tpot_s"]} s')

        self._say('\n3. A newer goal takes the place of one that still runs.')
        third = self._send('talk', STORY, epoch=2)
        self._wait_for_tokens(third)
        fourth = self._send('drive', 'Drive on to the charging dock.', epoch=2, is_silent=True)
        self._finish('preempted', third, reason='PREEMPTED')
        self._say('')
        self._finish('preempting', fourth, reason='STOP')

    def _send(
        self, profile: str, prompt: str, *, epoch: int, is_silent: bool = False,
    ) -> Answer:
        return self._client.send(
            Generate.Goal(prompt=prompt, profile=profile, scene_epoch=epoch, seed=SEED),
            on_token=None if is_silent else self._on_token)

    @staticmethod
    def _wait_for_tokens(answer: Answer) -> None:
        """Wait until the goal is in mid-answer."""
        answer.wait_for(
            lambda: answer.is_over or len(answer.tokens) >= NUM_TOKENS_BEFORE_CHANGE,
            GOAL_TIMEOUT_S)

    def _finish(self, name: str, answer: Answer, *, reason: str) -> None:
        """Wait for a goal's end, check it, keep its report."""
        if not answer.wait_for_result(GOAL_TIMEOUT_S) or answer.result is None:
            raise DemoError(f'{name}: no result within {GOAL_TIMEOUT_S:.0f} s')
        # The decision has a topic of its own and may come a moment behind the result.
        answer.wait_for(lambda: bool(answer.decisions), 2.0)
        report = {'name': name, **answer_report(answer)}
        for line in result_lines(answer):
            self._say(f'   {line}')
        if report['finish_reason'] != reason:
            self.problems.append(f'{name}: {report["finish_reason"]}, not {reason}')
        if not report['stream_equals_result']:
            self.problems.append(f'{name}: the stream is not the result')
        if abs(report['stats']['ttft_s'] - stage_sum_s(report['stats'])) > 1e-3:
            self.problems.append(f'{name}: ttft is not the sum of its stages')
        if [token.seq for token in answer.tokens] != list(range(len(answer.tokens))):
            self.problems.append(f'{name}: the stream has a gap')
        if [token.kind for token in answer.tokens].count(TokenKind.END) != 1:
            self.problems.append(f'{name}: not exactly one END')
        if not answer.decisions:
            self.problems.append(f'{name}: no decision on the topic')
        self.goals.append(report)


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog='demo', description=__doc__)
    parser.add_argument('--json', action='store_true', help='print one JSON object instead')
    parser.add_argument('--model', type=Path, default=os.environ.get('ROBOT_LLM_MODEL'),
                        help='GGUF file; default: $ROBOT_LLM_MODEL, which scripts/demo sets')
    options = parser.parse_args(args)
    if not options.model:
        parser.error('no model: give --model FILE, or run scripts/demo')
    return options


def main(args: Sequence[str] | None = None) -> int:
    """Show the main job; 0 if everything was as it should be."""
    options = parse_args(args)
    own_stdout()

    def say(line: str) -> None:
        if not options.json:
            print(line, flush=True)

    # A namespace of its own: a robot that listens on the same domain gets none of this.
    namespace = f'/demo_{os.getpid()}'
    with tempfile.TemporaryFile() as log:
        say(f'starting the node with {options.model.name} …')
        node = start_node(options.model, namespace, log)
        problems: list[str] = []
        goals: list[dict[str, Any]] = []
        model = device = ''
        try:
            with Client(f'{namespace}/robot_llm', name='demo_planner') as client:
                if not client.wait_until_ready(LOAD_TIMEOUT_S, or_failed=True):
                    raise DemoError(client.failure or 'the node did not become active')
                assert client.status is not None
                model, device = client.status.model, client.status.device
                say(f'{model} on {device} is active.')
                demo = Demo(client, say, is_silent=options.json)
                goals, problems = demo.goals, demo.problems
                demo.run()
        except DemoError as error:
            problems.append(str(error))
        finally:
            code = stop_node(node)
        if code:
            problems.append(f'the node ended with exit code {code}')
        if problems:
            log.seek(0)
            sys.stderr.write(log.read().decode('utf-8', 'replace'))
    if options.json:
        print(json.dumps({'model': model, 'device': device, 'goals': goals,
                          'problems': problems, 'ok': not problems}, ensure_ascii=False))
    for problem in problems:
        print(f'NOT AS IT SHOULD BE: {problem}', file=sys.stderr)
    say('' if problems else '\nEverything was as it should be.')
    return 1 if problems else 0


if __name__ == '__main__':
    raise SystemExit(main())
