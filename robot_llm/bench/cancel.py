"""A goal that nobody wants any more: how soon the engine is free, and what it costs not to ask."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from statistics import median
import time
from typing import Final

from robot_llm.bench.client import BenchClient
from robot_llm.bench.node import add_options, measured_node, node_name, profile_name
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.price import price
from robot_llm.bench.prompts import STORY
from robot_llm.bench.sample import Figure
from robot_llm.bench.suite import Context, Finding
from robot_llm.bench.table import quantity
from robot_llm.bench.timed_goal import TimedGoal
from robot_llm.core.request import FinishReason
from robot_llm_msgs.msg import Status

__all__ = ['add_options', 'run']

MAX_STALL_S: Final = 10.0
"""Longer than any chunk: nothing but the chunk's size counts."""

VARIANTS: Final[dict[str, dict[str, object]]] = {
    'abort callback': {},
    'chunks of 30 ms': {'engine__use_abort_callback': False},
    'chunks of 128': {'engine__use_abort_callback': False, 'engine__chunk_tokens': 128,
                      'engine__max_stall_s': MAX_STALL_S},
    'chunks of 512': {'engine__use_abort_callback': False, 'engine__chunk_tokens': 512,
                      'engine__max_stall_s': MAX_STALL_S},
}
"""On a GPU nobody asks the abort callback: there the chunks alone bound a stop."""

FIXED_CHUNKS: Final = ('chunks of 128', 'chunks of 512')
"""Cancelled in the prefill only: a waiting goal and a decode know of no chunks."""

STAGES: Final = ('queued', 'prefill', 'decode')
LONG_PROMPT_WORDS: Final = 1500
"""About as many tokens: longer to evaluate than any wait in here."""
MANY_TOKENS: Final = 400
NUM_BEFORE_STOP: Final = 8

Latencies = dict[tuple[str, str], list[tuple[float, float]]]
"""By variant and stage: to the idle engine, to the client's result [s]."""


def run(context: Context) -> Iterator[Finding]:
    """Yield the latencies of a cancel by stage and chunk size, then the price of none."""
    variants = {'as it runs': {}} if node_name(context) else VARIANTS
    stages: tuple[str, ...] = STAGES
    latencies: Latencies = defaultdict(list)
    # A chunk size needs another configure: rounds, so that a slower minute is everybody's.
    num_rounds, num_runs = (1, context.num_runs) if context.is_quick else (3, context.num_runs)
    for number in range(num_rounds):
        for variant, parameters in variants.items():
            with measured_node(context, parameters) as client:
                context.say(f'cancel with {variant}, round {number + 1} of {num_rounds}')
                if client.parameters(['preempt.policy'])['preempt.policy'] != 'queue':
                    stages = STAGES[1:]
                for stage in stages if variant not in FIXED_CHUNKS else ('prefill',):
                    latencies[variant, stage] += _latencies(context, client, stage, num_runs)
    for variant, stage in [way for way, found in latencies.items() if not found]:
        del latencies[variant, stage]
        yield (f'{stage}, {variant}: every goal ended before it was cancelled, so nothing was '
               'measured; the prompt is too short for this machine.')
    for (variant, stage), found in latencies.items():
        idle_s, result_s = zip(*found)
        if stage != 'queued':  # the engine works for somebody else all the while
            yield Figure(f'{stage}, {variant}: cancel to idle engine', 's', idle_s,
                         note='from the node having the request, by the node')
        yield Figure(f'{stage}, {variant}: cancel to result', 's', result_s,
                     note='from the client asking, at the client')
    yield _plot(latencies)
    if stages == STAGES:
        yield from price(context)
    else:
        yield ('On this node no goal waits behind another (preempt.policy is not queue): neither '
               'cancelled goals that wait nor the price of not cancelling were measured.')


def _latencies(
    context: Context, client: BenchClient, stage: str, num_runs: int,
) -> list[tuple[float, float]]:
    """
    Return the latencies of so many cancels in a stage; the first one warms up.

    A goal that ended before its cancel does not count.
    """
    cancel: Callable[[BenchClient, str, str], TimedGoal] = {
        'queued': _queued, 'prefill': _prefill, 'decode': _decode}[stage]
    found = []
    for number in range(num_runs + 1):
        # Not at the same place of a chunk every time.
        goal = cancel(client, f'{number}.{time.monotonic_ns()}.', profile_name(context))
        asked_s = time.monotonic()
        goal.answer.cancel()
        client.wait_for_end(goal)
        if number and goal.finish_reason is FinishReason.CANCELED:
            found.append((float(goal.result.stats.cancel_latency_s), goal.result_s - asked_s))
        client.settle()
    return found


def _queued(client: BenchClient, name: str, profile: str) -> TimedGoal:
    """Return a goal that waits behind another, which is cancelled behind it."""
    first = client.start(f'{name} {STORY}', profile=profile, max_tokens=MANY_TOKENS)
    client.wait_for_tokens(first, 1)
    waiting = client.start(f'{name} {STORY}', profile=profile, max_tokens=MANY_TOKENS)
    client.wait_until(lambda: waiting.answer.is_accepted, 'the goal was not accepted')
    return waiting


def _prefill(client: BenchClient, name: str, profile: str) -> TimedGoal:
    """Return a goal in the middle of its prompt."""
    goal = client.start(
        name + ' word' * LONG_PROMPT_WORDS, profile=profile, max_tokens=MANY_TOKENS)

    def is_evaluating() -> bool:
        status = client.status
        return (status is not None and status.state == Status.STATE_PREFILL
                and bytes(status.goal_id.uuid) == goal.answer.goal_id
                and status.num_prompt_tokens > 0)

    client.wait_until(is_evaluating, 'the goal did not start')
    # Somewhere in a chunk, and in another place each time.
    time.sleep(0.05 + time.monotonic_ns() // 1000 % 100 * 1e-3)
    return goal


def _decode(client: BenchClient, name: str, profile: str) -> TimedGoal:
    """Return a goal in the middle of its answer."""
    goal = client.start(f'{name} {STORY}', profile=profile, max_tokens=MANY_TOKENS)
    client.wait_for_tokens(goal, NUM_BEFORE_STOP)
    return goal


def _plot(latencies: Latencies) -> Plot:
    """Return how soon the engine is free, by stage and by what bounds a stop."""
    variants = tuple(dict.fromkeys(variant for variant, _ in latencies))
    middles_s = {
        stage: tuple(median(idle_s for idle_s, _ in latencies.get((variant, stage), [(0.0, 0)]))
                     for variant in variants)
        for stage in ('prefill', 'decode')}
    in_prefill = ', '.join(
        f'{quantity(value, "s")} ({variant})'
        for value, variant in zip(middles_s['prefill'], variants) if value)
    return Plot(
        'cancel_idle', f'A cancel in mid-prefill frees the engine in {in_prefill}', 'bars',
        tuple(Series(stage, values, style='ours' if stage == 'prefill' else 'other')
              for stage, values in middles_s.items()),
        x_label='cancel to idle engine [s], median', labels=variants, is_log=(True, False))
