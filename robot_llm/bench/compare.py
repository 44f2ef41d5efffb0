"""Ours beside what a robot would run instead: same file, prompts, threads, context, in turn."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
import os
from statistics import median
from typing import Final

from robot_llm.bench.ours import Ours
from robot_llm.bench.peers import InProcess, llama_server, python_server
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.prompts import GOAL, grammar, long_prompt, PROFILES, scene, STORY
from robot_llm.bench.sample import Figure, ratio, Target
from robot_llm.bench.suite import Context, Finding, some_of
from robot_llm.bench.system import Answer, best, Cancelled, Prompt, System
from robot_llm.bench.table import quantity
from robot_llm.errors import RobotLlmError
from robot_llm.settings import resolve_n_threads

Values = Mapping[str, tuple[float, ...]]

PARTS: Final = ('ttft', 'answer', 'cancel')
NUM_TOKENS: Final = 48
COLD_SENTENCES: Final = 10
LONG_PROMPT_TOKENS: Final = 2500
CANCEL_AFTER_S: Final = 0.5
MOST_HALVINGS: Final = 7
"""Of that time where the prompt takes less: down to 4 ms."""
SPREAD: Final = 'Median; the line at the end of a bar spans all runs. Shorter is better.'


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what only this suite takes."""
    parser.add_argument('--parts', type=some_of(PARTS), default=PARTS, metavar='NAME,…',
                        help=f'of {",".join(PARTS)}; default: all')
    parser.add_argument('--llama-server', default='llama-server', metavar='PROGRAM',
                        help="llama.cpp's server; left out where it is not on the PATH")


def run(context: Context) -> Iterator[Finding]:
    """Yield every figure, and the pictures."""
    n_threads = resolve_n_threads(
        context.settings.model.n_threads, len(os.sched_getaffinity(0)))
    openers: dict[str, Callable[[], System]] = {
        'llama_cpp.Llama': lambda: InProcess(context.settings, n_threads),
        'llama_cpp.server': lambda: python_server(context.settings, n_threads),
        'llama-server': lambda: llama_server(
            context.settings, n_threads, context.options.llama_server)}
    with ExitStack() as stack:
        context.say('loading robot_llm')
        ours = Ours(context.settings, PROFILES)
        stack.callback(ours.close)
        systems: list[System] = [ours]
        for name, opener in openers.items():
            context.say(f'loading {name}')
            try:
                systems.append(system := opener())
            except RobotLlmError as error:
                yield f'{name} is left out: {error}'
            else:
                stack.callback(system.close)
        yield from Comparison(context, ours, systems).run()


class Comparison:
    """
    The scenarios, each asked of every system in turn.

    :param systems: ours first
    """

    def __init__(self, context: Context, ours: Ours, systems: Sequence[System]) -> None:
        self._context = context
        self._ours = ours
        self._systems = systems
        self._nonce = os.urandom(4).hex()
        self._grammar = grammar()

    def run(self) -> Iterator[Finding]:
        """Yield figures, plots and notes."""
        if len(self._systems) == 1:
            yield 'nothing to compare with'
            return
        parts: Mapping[str, Callable[[], Iterator[Finding]]] = {
            'ttft': self._ttfts, 'answer': self._whole_answers, 'cancel': self._cancels}
        for part in self._context.options.parts:
            yield from parts[part]()
        yield ('Ours is asked through the worker of the engine, without ROS; what ROS adds is '
               'measured by bench request.')

    def _ttfts(self) -> Iterator[Finding]:
        cold, warm = self._cold_and_warm()
        scenes = self._values('a new scene', self._new_scene, lambda a: a.ttft_s)
        yield from self._figures('ttft, cold', cold)
        yield from self._figures('ttft, the same prompt again', warm)
        yield from self._figures('ttft, a new scene', scenes, Target(1.1))
        yield self._bars(
            'compare_ttft', 'Time to the first token: what is cached decides',
            {'nothing cached': cold, 'the same\nprompt again': warm,
             'a new scene behind the\nsame system prompt': scenes})

    def _whole_answers(self) -> Iterator[Finding]:
        tokens = self._values('free text', self._free_text, lambda a: a.tpot_s)
        yield from self._figures('tpot, free text', tokens, Target(1.03))
        answers = self._answers('a JSON answer', self._structured)
        yield from self._figures(
            'e2e, JSON answer', {n: tuple(a.e2e_s for a in all_) for n, all_ in answers.items()},
            Target(0.7))
        yield 'the JSON answers, median: ' + ', '.join(
            f'{name} {median(len(a.text) for a in all_):.0f} characters in '
            f'{median(a.num_tokens for a in all_):.0f} tokens' for name, all_ in answers.items())
        yield self._bars(
            'compare_answer', 'A whole answer: forced tokens are not sampled one by one',
            {f'{NUM_TOKENS} tokens of free\ntext, behind the first': {
                name: tuple((NUM_TOKENS - 1) * tpot for tpot in values)
                for name, values in tokens.items()},
             'decision and JSON,\nall of it': {
                 n: tuple(a.e2e_s for a in all_) for n, all_ in answers.items()}})

    def _prompt(self, profile: str, scene: str, goal: str, max_tokens: int) -> Prompt:
        return Prompt(profile, scene, goal, max_tokens, self._ours.text_of(profile, scene, goal),
                      self._grammar if profile == 'drive' else '')

    # One prompt per round; the same for every system.

    def _new_scene(self, run: int) -> Prompt:
        return self._prompt('decide', scene(run, self._nonce), GOAL, 1)

    def _free_text(self, run: int) -> Prompt:
        return self._prompt('talk', '', f'{STORY} Begin with {self._nonce}{run}.', NUM_TOKENS)

    def _structured(self, run: int) -> Prompt:
        return self._prompt('drive', scene(run), GOAL, 96)

    def _answers(
        self, what: str, prompt: Callable[[int], Prompt],
    ) -> dict[str, list[Answer]]:
        """Ask everybody in turn; the first round warms up and does not count."""
        answers: dict[str, list[Answer]] = {system.name: [] for system in self._systems}
        for run in range(self._context.num_runs + 1):
            self._context.say(f'{what}: run {run} of {self._context.num_runs}')
            asked = prompt(run)
            for system in self._systems:
                answer = system.complete(asked)
                if run:
                    answers[system.name].append(answer)
        return answers

    def _values(
        self, what: str, prompt: Callable[[int], Prompt], value: Callable[[Answer], float],
    ) -> Values:
        return {name: tuple(map(value, answers))
                for name, answers in self._answers(what, prompt).items()}

    def _cold_and_warm(self) -> tuple[Values, Values]:
        cold: dict[str, list[float]] = {system.name: [] for system in self._systems}
        warm: dict[str, list[float]] = {system.name: [] for system in self._systems}
        for run in range(self._context.num_runs + 1):
            self._context.say(f'cold and warm: run {run} of {self._context.num_runs}')
            # Different from the first word on, so that nobody's cache holds any of it.
            length = COLD_SENTENCES if run else 1
            goal = ' '.join([f'{run}{self._nonce}.', *[STORY] * length])
            asked = self._prompt('talk', '', goal, 1)
            for system in self._systems:
                for kept in (cold, warm):
                    ttft_s = system.complete(asked).ttft_s
                    if run:
                        kept[system.name].append(ttft_s)
        return tuple({name: tuple(values) for name, values in kept.items()}  # type: ignore
                     for kept in (cold, warm))

    def _cancels(self) -> Iterator[Finding]:
        """Give a long prompt up in its prefill, and see when the next request is served."""
        num_tokens = min(LONG_PROMPT_TOKENS, self._context.settings.model.n_ctx - 64)
        num_runs = min(self._context.num_runs, 2 if self._context.is_quick else 5)
        after_s = self._cancel_after_s(num_tokens)
        seen: dict[str, list[Cancelled]] = {system.name: [] for system in self._systems}
        usual: dict[str, list[float]] = {system.name: [] for system in self._systems}
        for run in range(num_runs):
            # To evaluate all of it takes as long every time: a quick run waits for that once.
            waits = run == 0 or not self._context.is_quick
            long = long_prompt(
                self._ours, num_tokens, f'{run}{self._nonce}!', tail='', max_tokens=4)
            short = self._prompt('talk', '', f'Hello {run}{self._nonce}.', 1)
            usually = self._prompt('talk', '', f'Hello {self._nonce}{run}.', 1)
            for system in (s for s in self._systems if waits or s.stops_prefill):
                self._context.say(f'cancel: {system.name}, run {run + 1} of {num_runs}')
                seen[system.name].append(system.cancel(long, after_s, short))
                usual[system.name].append(system.complete(usually).ttft_s)
        if any(cancelled.is_late for cancelled in seen[self._ours.name]):
            yield (f'A prompt of {num_tokens} tokens is evaluated before it can be given up here, '
                   'so no cancel was measured; give a larger --n-ctx or model.')
            return
        served = {name: tuple(c.next_s for c in all_) for name, all_ in seen.items()}
        free = {name: tuple(
            c.idle_s if c.idle_s is not None else max(c.next_s - median(usual[name]), 1e-3)
            for c in all_) for name, all_ in seen.items()}
        yield from (Figure(f'cancel → next request served, {name}', 's', values)
                    for name, values in served.items())
        for name, values in free.items():
            yield Figure(
                f'cancel → engine free, {name}', 's', values,
                note='' if name == self._ours.name else
                'seen from outside: less the usual time of the next request')
        for name in list(free)[1:]:
            yield ratio(f'cancel → engine free, {name} / ours', free[name], free[self._ours.name],
                        Target(100, is_floor=True) if name == 'llama-server' else None)
        yield self._bars(
            'compare_cancel', f'A {num_tokens}-token prompt is cancelled: the engine is free in '
            + ', '.join(f'{quantity(median(all_), "s")} ({name})' for name, all_ in free.items()),
            {'engine free': free, 'next request\nserved': served}, is_log=True)

    def _cancel_after_s(self, num_tokens: int) -> float:
        """Return how long a prompt may be evaluated so that giving it up meets its prefill [s]."""
        after_s = CANCEL_AFTER_S
        for attempt in range(MOST_HALVINGS):
            long, short = (
                long_prompt(self._ours, length, f'{attempt}{self._nonce}?', tail='', max_tokens=4)
                for length in (num_tokens, 0))
            if not self._ours.cancel(long, after_s, short).is_late:
                break
            after_s /= 2
        # What was met just so may be missed the next time.
        return after_s if after_s == CANCEL_AFTER_S else after_s / 2

    def _figures(
        self, what: str, values: Values, target: Target | None = None,
    ) -> Iterator[Figure]:
        """Yield everybody's figure, and ours over the best of the others."""
        for name, numbers in values.items():
            yield Figure(f'{what}, {name}', 's', numbers)
        name = best([(name, median(numbers)) for name, numbers in values.items()
                     if name != self._ours.name])
        yield ratio(f'{what}, ours / {name}', values[self._ours.name], values[name], target,
                    note='the best of the others')

    def _bars(
        self, name: str, title: str, groups: Mapping[str, Values], *, is_log: bool = False,
    ) -> Plot:
        series = tuple(
            Series(system.name,
                   tuple(median(values[system.name]) for values in groups.values()),
                   low=tuple(min(values[system.name]) for values in groups.values()),
                   high=tuple(max(values[system.name]) for values in groups.values()),
                   style='ours' if index == 0 else 'other')
            for index, system in enumerate(self._systems))
        return Plot(name, title, 'bars', series, x_label='time [s]', labels=tuple(groups),
                    is_log=(is_log, False), caption=SPREAD)
