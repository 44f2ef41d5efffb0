"""What it costs to go on for clients that left: measured, beside the arithmetic."""

from collections import defaultdict
from collections.abc import Iterator
from statistics import median
import time
from typing import Final

from robot_llm.bench.client import BenchClient
from robot_llm.bench.node import measured_node, profile_name
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.prompts import STORY
from robot_llm.bench.sample import Figure, ratio
from robot_llm.bench.suite import Context, Finding
from robot_llm.bench.timeline import wasted_tokens
from robot_llm.core.request import FinishReason

NUM_CLIENTS: Final = 10
LEAVING: Final = 0.1
AFTER_TOKENS: Final = 200
ANSWER_TOKENS: Final = 800
MANY_CLIENTS: Final = 1000
QUICK_SCALE: Final = 20
"""A quick run's answers are this many times shorter; the shares stay the same."""


def price(context: Context) -> Iterator[Finding]:
    """Yield the time of a workload in which a client leaves, with and without a cancel."""
    scale = QUICK_SCALE if context.is_quick else 1
    after, length = AFTER_TOKENS // scale, ANSWER_TOKENS // scale
    num_rounds = 1 if context.is_quick else 3
    seconds: dict[bool, list[float]] = defaultdict(list)
    wasted: dict[bool, list[float]] = defaultdict(list)
    computed: dict[bool, list[float]] = defaultdict(list)
    gone: list[tuple[float, float, str]] = []
    with measured_node(context) as client:
        client.run(STORY, profile=profile_name(context), max_tokens=8)  # warms up
        for number in range(num_rounds):
            # A B, B A: what drifts with time falls on both.
            for is_cancelled in (True, False) if number % 2 == 0 else (False, True):
                context.say(f'one of {NUM_CLIENTS} clients leaves and '
                            f'{"cancels" if is_cancelled else "does not cancel"}, '
                            f'round {number + 1} of {num_rounds}')
                took_s, num_computed, num_wasted = _workload(
                    client, profile_name(context), after, length, is_cancelled=is_cancelled)
                seconds[is_cancelled].append(took_s)
                computed[is_cancelled].append(num_computed)
                wasted[is_cancelled].append(num_wasted)
            context.say('a client leaves the graph in mid-answer')
            gone.append(_leave(client, profile_name(context), after))
    many_wasted, many_read = wasted_tokens(
        MANY_CLIENTS, leaving=LEAVING, after_tokens=AFTER_TOKENS, answer_tokens=ANSWER_TOKENS)
    yield (f'{NUM_CLIENTS} goals of {length} tokens wait in a queue; one client in '
           f'{round(1 / LEAVING)} leaves after {after}. By arithmetic, of {MANY_CLIENTS:,} such '
           f'clients with {ANSWER_TOKENS} tokens each, going on costs {many_wasted:,} tokens for '
           f'nobody beside {many_read:,} that are read.'
           + (f' Answers are {scale} times shorter here, the shares are the same.'
              if scale > 1 else ''))
    for is_cancelled, name in ((True, 'cancelled'), (False, 'not cancelled')):
        yield Figure(f'tokens for nobody, {name}', 'tokens', tuple(wasted[is_cancelled]))
        yield Figure(f'time of the workload, {name}', 's', tuple(seconds[is_cancelled]))
    arithmetic = f'by arithmetic {1 + many_wasted / many_read:.3f}'
    yield ratio('tokens computed, not cancelled / cancelled', computed[False], computed[True],
                note=arithmetic)
    yield ratio('time, not cancelled / cancelled', seconds[False], seconds[True],
                note=arithmetic)
    ends, tokens, reasons = zip(*gone)
    yield Figure('client leaves the graph to end of its goal', 's', ends,
                 note=f'{", ".join(sorted(set(reasons)))}; client.grace_s bounds it')
    yield Figure('tokens for nobody, client left the graph', 'tokens', tokens)
    yield _plot(wasted, tokens, after, length)


def _workload(
    client: BenchClient, profile: str, after: int, length: int, *, is_cancelled: bool,
) -> tuple[float, int, int]:
    """Return how long the queue took [s], the tokens computed, and those that nobody read."""
    started_s = time.monotonic()
    goals = [client.start(f'Story {number}. {STORY}', profile=profile, max_tokens=length)
             for number in range(NUM_CLIENTS)]
    leaving = goals[NUM_CLIENTS // 2]
    client.wait_for_tokens(leaving, after)
    if is_cancelled:
        leaving.answer.cancel()
    for goal in goals:
        client.finish(goal)
    num_computed = sum(
        stats.num_completion_tokens + stats.num_wasted_tokens
        for stats in (goal.result.stats for goal in goals))
    num_unread = leaving.result.stats.num_completion_tokens - after
    return time.monotonic() - started_s, num_computed, max(num_unread, 0)


def _leave(client: BenchClient, profile: str, after: int) -> tuple[float, float, str]:
    """Return, of a client that leaves in mid-answer: time to the end, tokens since, its reason."""
    with BenchClient(client.server, name='robot_llm_bench_leaver') as leaver:
        leaver.has_ended = client.has_ended
        leaver.wait_until(lambda: leaver.wait_until_ready(0.1), 'the node is not there')
        goal = leaver.start(STORY, profile=profile, max_tokens=ANSWER_TOKENS)
        leaver.wait_for_tokens(goal, after)
    left_s = time.monotonic()
    heard = client.heard(goal.answer.goal_id)
    num_before = heard.num_tokens
    client.wait_until(lambda: heard.end_s > 0, 'the goal of a client that left did not end')
    return (max(heard.end_s - left_s, 0.0), float(heard.num_tokens - num_before),
            FinishReason(heard.finish_reason).name)


def _plot(
    wasted: dict[bool, list[float]], gone: tuple[float, ...], after: int, length: int,
) -> Plot:
    """Return what each way of leaving costs."""
    bars = {'cancelled': median(wasted[True]),
            f'left the graph behind {after}\nof {ANSWER_TOKENS}': median(gone),
            f'not cancelled behind {after}\nof {length}': median(wasted[False])}
    cancelled, left, stayed = bars.values()
    return Plot(
        'cancel_price', f'A client that cancels wastes {cancelled:.0f} tokens; one that leaves '
        f'the graph {left:.0f}, until client.grace_s ends it; one that nobody stops all that is '
        f'left of its answer, here {stayed:.0f}', 'bars',
        (Series('tokens', tuple(bars.values()), style='ours'),),
        x_label='tokens computed for a client that left, median', labels=tuple(bars))
