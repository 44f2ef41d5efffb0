"""A deadline for the decision: how often the model meets it, how late the fallback is."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Final

from robot_llm.bench.client import BenchClient
from robot_llm.bench.node import (
    add_options, measured_node, node_name, profile_name, shipped_profiles)
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.sample import Figure, highest, PERCENT, tail
from robot_llm.bench.suite import Context, Finding
from robot_llm.bench.timed_goal import TimedGoal
from robot_llm.bench.timeline import share
from robot_llm.core.decision import DecisionSource

__all__ = ['add_options', 'run']

DEADLINES_MS: Final = (20, 50, 100, 200, 500)
MAX_TOKENS: Final = 64
SCENES: Final = (
    'A person stands two metres ahead in the corridor.', 'The corridor ahead is empty.',
    'A spill has made the floor ahead slippery.', 'A cart blocks the left half of the path.')


def run(context: Context) -> Iterator[Finding]:
    """Yield the share of goals that the model decides in time, by deadline, in turn."""
    goals: dict[int, list[TimedGoal]] = defaultdict(list)
    num_rounds = 10 if context.is_quick else context.num_runs * 5
    profile = profile_name(context)
    with measured_node(context, shipped_profiles(context)) as client:
        ask = partial(_ask, client, count(1), profile, is_ours=not node_name(context))
        client.finish(ask(f'Warm-up. {SCENES[0]}'))
        # New from its first word on, here and below: nothing of it is cached.
        free = [client.finish(ask(f'{number}. {scene}')) for number, scene in enumerate(SCENES)]
        for number in range(num_rounds):
            context.say(f'deadlines, round {number + 1} of {num_rounds}')
            for deadline_ms in DEADLINES_MS:
                scene = f'{number}.{deadline_ms}. {SCENES[number % len(SCENES)]}'
                goal = ask(scene, deadline_s=deadline_ms * 1e-3)
                client.wait_until(lambda: goal.heard.decision_s > 0, 'no decision came')
                goal.answer.cancel()  # the detail is not what is measured
                client.finish(goal)
                goals[deadline_ms].append(goal)
    yield Figure('decision without a deadline', 's', tuple(goal.late_s for goal in free),
                 note='goal received to ~/decision received')
    yield from _in_time(goals)
    yield from _late(goals)
    if node_name(context):
        yield 'The goals are scenes for driving, whatever the profile of this node asks.'


def _ask(
    client: BenchClient, epochs: Iterator[int], profile: str, scene: str, *, is_ours: bool,
    deadline_s: float = 0.0,
) -> TimedGoal:
    """Ask about a scene; a node that somebody runs gets it in the goal, or it would believe it."""
    if not is_ours:
        return client.start(f'{scene} Drive on?', profile=profile, max_tokens=MAX_TOKENS,
                            deadline_s=deadline_s)
    epoch = next(epochs)
    client.publish_scene(epoch, scene)
    return client.start('Drive on?', profile=profile, max_tokens=MAX_TOKENS,
                        deadline_s=deadline_s, scene_epoch=epoch)


def _is_in_time(goal: TimedGoal) -> bool:
    return goal.decision_source is not DecisionSource.DEADLINE


def _in_time(goals: dict[int, list[TimedGoal]]) -> Iterator[Finding]:
    shares = {ms: share(map(_is_in_time, found)) for ms, found in goals.items()}
    for deadline_ms, value in shares.items():
        yield Figure(f'decided by the model within {deadline_ms} ms', '%', (100 * value,),
                     note=f'of {len(goals[deadline_ms])} goals')
    met = [ms for ms, value in shares.items() if value == 1.0]
    yield Plot(
        'decide_deadlines',
        f'Every decision is made within {met[0]} ms' if met else
        f'No deadline up to {DEADLINES_MS[-1]} ms was always met', 'lines',
        (Series('decided by the model', tuple(shares.values()),
                tuple(float(ms) for ms in shares), style='ours'),),
        x_label='deadline of the decision [ms]', y_label='share of the goals',
        is_log=(True, False))


def _late(goals: dict[int, list[TimedGoal]]) -> Iterator[Finding]:
    """Yield how far behind its deadline a fallback is at its subscriber."""
    late_s = {
        ms: tuple(goal.late_s - ms * 1e-3 for goal in found if not _is_in_time(goal))
        for ms, found in goals.items()}
    values = tuple(value for found in late_s.values() for value in found)
    if not values:
        yield 'Every goal was decided in time, so no fallback was late.'
        return
    pooled = Figure('fallback behind its deadline', 's', values,
                    note='at the subscriber; all deadlines together')
    yield pooled
    yield from tail(pooled.name, values)
    share_within = '99 in 100' if highest(len(values)) == 'p99' else 'all of them'
    last_s = pooled.percentile(PERCENT[highest(len(values))])
    yield Plot(
        'decide_fallback', f'Where the model is late, the fallback is there '
        f'{pooled.median * 1e3:.1f} ms behind the deadline, {share_within} within '
        f'{last_s * 1e3:.1f} ms', 'histogram',
        (Series('fallbacks', tuple(value * 1e3 for value in values), style='ours'),),
        x_label='how far behind its deadline a fallback was received [ms]', y_label='goals')
