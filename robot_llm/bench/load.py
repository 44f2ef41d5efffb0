"""Many goals at once, under ``queue`` and ``newest_wins``: who waits, and who is served."""

from collections import Counter
from collections.abc import Iterator
import time
from typing import Final

from robot_llm.bench.client import BenchClient
from robot_llm.bench.node import add_options, measured_node, node_name, profile_name
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.prompts import STORY
from robot_llm.bench.sample import Figure
from robot_llm.bench.suite import Context, Finding
from robot_llm.bench.table import quantity
from robot_llm.bench.timed_goal import TimedGoal
from robot_llm.core.request import FinishReason
from robot_llm.ros.token_stream import DECISION_DEPTH

__all__ = ['add_options', 'run']

NUM_CLIENTS: Final = (1, 8, 32)
NUM_TOKENS: Final = 16
POLICIES: Final = ('queue', 'newest_wins')
WHOLE: Final = (FinishReason.STOP, FinishReason.LENGTH)

Burst = tuple[float, list[TimedGoal], int]
"""How long it took [s], the goals that got a result, how many were refused."""


def run(context: Context) -> Iterator[Finding]:
    """Yield what bursts of goals come to, by policy and size, in turn."""
    num_rounds = 1 if context.is_quick else context.num_runs
    with measured_node(context) as client:
        policies: tuple[str, ...] = POLICIES
        if node_name(context):
            # Somebody's robot relies on its policy: measure under that one.
            policies = (str(client.parameters(['preempt.policy'])['preempt.policy']),)
        bursts: dict[tuple[str, int], list[Burst]] = {}
        client.run(STORY, profile=profile_name(context), max_tokens=NUM_TOKENS)  # warms up
        for number in range(num_rounds):
            for policy in policies:
                if not node_name(context):
                    client.set_parameters(preempt__policy=policy)
                for num_clients in NUM_CLIENTS:
                    context.say(f'{policy}: {num_clients} goals at once, round {number + 1} of '
                                f'{num_rounds}')
                    bursts.setdefault((policy, num_clients), []).append(
                        _burst(client, profile_name(context), num_clients, number))
    yield (f'The clients are up to {max(NUM_CLIENTS)} goals in flight from one process and one '
           f'ROS node, all sent at once, {NUM_TOKENS} tokens each: what is measured is the node, '
           'and not the discovery of so many participants on one machine.')
    for (policy, num_clients), found in bursts.items():
        yield from _figures(f'{policy}, {num_clients} clients', found)
    for policy in policies:
        yield _waiting(policy, {n: bursts[policy, n] for n in NUM_CLIENTS})
    yield _outcomes(bursts)


def _burst(client: BenchClient, profile: str, num_clients: int, number: int) -> Burst:
    """Send that many goals at once and wait for the last."""
    started_s = time.monotonic()
    goals = [
        client.start(f'Story {number}.{index} of {num_clients}. {STORY}', profile=profile,
                     max_tokens=NUM_TOKENS)
        for index in range(num_clients)]
    served = []
    for goal in goals:
        client.wait_for_end(goal)
        if not goal.answer.is_rejected:
            is_whole = goal.finish_reason in WHOLE
            served.append(client.finish(goal, needs_decision=is_whole))
    return time.monotonic() - started_s, served, len(goals) - len(served)


def _figures(name: str, bursts: list[Burst]) -> Iterator[Figure]:
    """Yield what the planner gets, and how its waiting divides."""
    whole = [[goal for goal in goals if goal.finish_reason in WHOLE] for _, goals, _ in bursts]
    lines = [goal.timeline() for goals in whole for goal in goals]
    counts = Counter(goal.finish_reason.name for _, goals, _ in bursts for goal in goals)
    counts['REFUSED'] = sum(refused for _, _, refused in bursts)
    told = ', '.join(f'{count} {reason}' for reason, count in sorted(counts.items()) if count)
    yield Figure(f'{name}: answered', 'goals', tuple(float(len(goals)) for goals in whole),
                 note=f'all rounds: {told}')
    num_unheard = sum(not goal.answer.decisions for _, goals, _ in bursts for goal in goals)
    yield Figure(f'{name}: decisions not received', 'goals', (float(num_unheard),),
                 note=f'of goals that ended at once: ~/decision keeps the newest {DECISION_DEPTH}')
    if not lines:
        return
    yield Figure(f'{name}: TTFT', 's', tuple(line.ttft_s for line in lines))
    yield Figure(f'{name}: TTFT, queue', 's', tuple(line.stats['queue_s'] for line in lines))
    yield Figure(f'{name}: TTFT, prefill', 's', tuple(line.stats['prefill_s'] for line in lines))
    yield Figure(
        f'{name}: throughput', 'tokens/s',
        tuple(sum(goal.heard.num_tokens for goal in goals) / seconds
              for goals, (seconds, _, _) in zip(whole, bursts)),
        note='tokens of answers that were completed, over the time of the burst')


def _waiting(policy: str, bursts: dict[int, list[Burst]]) -> Plot:
    """Return how the mean time to first token of answered goals divides."""
    parts: dict[str, list[float]] = {'queue': [], 'prefill': [], 'everything else': []}
    for found in bursts.values():
        lines = [goal.timeline() for _, goals, _ in found for goal in goals
                 if goal.finish_reason in WHOLE]
        queue_s, prefill_s, ttft_s = (
            sum(values) / max(len(lines), 1) for values in (
                [line.stats['queue_s'] for line in lines],
                [line.stats['prefill_s'] for line in lines], [line.ttft_s for line in lines]))
        parts['queue'].append(queue_s)
        parts['prefill'].append(prefill_s)
        parts['everything else'].append(ttft_s - queue_s - prefill_s)
    title = (f'{policy}: of {max(bursts)} goals at once, those that are answered wait '
             f'{quantity(parts["queue"][-1], "s")} for the engine and '
             f'{quantity(parts["prefill"][-1], "s")} for their prefill')
    return Plot(
        f'load_{policy}', title, 'stack',
        tuple(Series(name, tuple(values)) for name, values in parts.items()),
        x_label='time to first token of answered goals [s], mean',
        labels=tuple(f'{n} at once' for n in bursts))


def _outcomes(bursts: dict[tuple[str, int], list[Burst]]) -> Plot:
    """Return what became of the goals."""
    shares: dict[str, list[float]] = {'answered': [], 'preempted or ended': [], 'refused': []}
    for found in bursts.values():
        goals = [goal for _, served, _ in found for goal in served]
        num_refused = sum(refused for _, _, refused in found)
        num_whole = sum(goal.finish_reason in WHOLE for goal in goals)
        total = len(goals) + num_refused
        shares['answered'].append(100 * num_whole / total)
        shares['preempted or ended'].append(100 * (len(goals) - num_whole) / total)
        shares['refused'].append(100 * num_refused / total)
    return Plot(
        'load_outcomes', f'Of {max(NUM_CLIENTS)} goals at once, ' + ', '.join(
            f'{policy} answers {answered / 100 * NUM_CLIENTS[-1]:.0f}'
            for (policy, n), answered in zip(bursts, shares['answered'])
            if n == NUM_CLIENTS[-1]),
        'stack', tuple(Series(name, tuple(values)) for name, values in shares.items()),
        x_label='share of the goals [%]',
        labels=tuple(f'{policy}, {n} at once' for policy, n in bursts))
