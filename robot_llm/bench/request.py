"""One goal at a time, from another process: how soon, how steady, and where the time goes."""

from collections.abc import Iterator
from statistics import mean
from typing import Final

from robot_llm.bench.client import BenchClient
from robot_llm.bench.node import add_options, measured_node, profile_name
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.prompts import STORY
from robot_llm.bench.publishing import Pair, publishing
from robot_llm.bench.sample import Figure, tail, Target
from robot_llm.bench.suite import Context, Finding
from robot_llm.bench.threads import between, Work, work_by_thread
from robot_llm.bench.timeline import STAGES, Timeline

__all__ = ['add_options', 'run']

NUM_TOKENS: Final = 64
MAX_SPLIT_ERROR: Final = 0.05
NO_GUESSES: Final = {'speculation__policy': "'off'"}
"""
Each token has a decode of its own, so that the same prompt a second time costs the same: an answer
that was given before is guessed. Quoted, since YAML takes the word for a boolean.
"""


def run(context: Context) -> Iterator[Finding]:
    """Yield what a client sees of one goal at a time, and what publishing costs the engine."""
    with measured_node(
            context, NO_GUESSES, module='robot_llm.bench.quiet_node') as client:
        timelines, pairs = _measure(context, client)
    yield from _soon(timelines)
    yield from _split(timelines)
    yield from _steady(timelines)
    yield from publishing(pairs)


def _measure(context: Context, client: BenchClient) -> tuple[list[Timeline], list[Pair]]:
    """
    Return the goals, and behind each the same one again, published and held back; one warms up.

    The two are alike: the prompt is cached by then, and each goes first as often as the other.

    :returns: no pairs of a node that somebody runs
    """
    timelines: list[Timeline] = []
    pairs: list[Pair] = []
    num_goals = context.num_runs * 3
    for number in range(num_goals + 1):
        context.say(f'goal {number} of {num_goals}')
        # New from its first word on: nothing of it is cached.
        prompt = f'Story {number}. {STORY}'
        timeline, _ = _goal(context, client, prompt)
        ways = (True, False) if number % 2 else (False, True)
        again = {}
        for publishes in ways if client.node_pid else ():
            client.set_parameters(bench__publishes=publishes)
            again[publishes] = _goal(context, client, prompt)
        if again:
            client.set_parameters(bench__publishes=True)
        if number:
            timelines.append(timeline)
            if again:
                pairs.append(Pair(*again[True], *again[False]))
    return timelines, pairs


def _goal(
    context: Context, client: BenchClient, prompt: str,
) -> tuple[Timeline, dict[str, Work]]:
    """Return a goal, and what the node's threads did meanwhile."""
    before = work_by_thread(client.node_pid)
    goal = client.run(prompt, profile=profile_name(context), max_tokens=NUM_TOKENS)
    return goal.timeline(), between(before, work_by_thread(client.node_pid))


def _soon(timelines: list[Timeline]) -> Iterator[Finding]:
    yield Figure('time to decision', 's', tuple(t.time_to_decision_s for t in timelines),
                 note='goal sent to ~/decision received')
    yield Figure('TTFT', 's', tuple(t.ttft_s for t in timelines),
                 note='goal sent to first message of ~/tokens received')
    yield Figure('TTFT, by the node', 's', tuple(t.stats['ttft_s'] for t in timelines))
    yield Figure('E2E', 's', tuple(t.result_s - t.sent_s for t in timelines),
                 note=f'goal sent to result received, up to {NUM_TOKENS} tokens')
    yield Figure(
        'last token / (TTFT + (N-1) TPOT)', 'x',
        tuple(t.answer_s / t.predicted_answer_s for t in timelines),
        note="TTFT at the client, TPOT by the node: the client's end is what they foretell")


def _split(timelines: list[Timeline]) -> Iterator[Finding]:
    parts = {name: tuple(t.split_s[name] for t in timelines) for name in STAGES}
    for name, seconds in parts.items():
        yield Figure(f'TTFT, part: {name}', 's', seconds)
    yield Figure('TTFT, parts / whole, off 1 by', 'x',
                 tuple(abs(t.split_ratio - 1) for t in timelines), Target(MAX_SPLIT_ERROR),
                 note="each goal's parts added up, over what the client's own clock measured")
    # Means, since medians of parts need not add up to a median.
    means_s = {name: mean(seconds) for name, seconds in parts.items()}
    whole_s = mean(t.ttft_s for t in timelines)
    largest = max(means_s, key=lambda name: means_s[name])
    yield Plot(
        'request_ttft', f'{means_s[largest] / whole_s:.0%} of the time to the first token is '
        f'{largest.replace("_", " ")}', 'bars',
        (Series('mean', (*means_s.values(), whole_s), style='ours'),),
        x_label='time [s], means, one after the other',
        labels=(*(name.replace('_', ' ') for name in means_s), 'all of it'),
        caption='From sending the goal to its first token at the client, in another process.')


def _steady(timelines: list[Timeline]) -> Iterator[Finding]:
    gaps = tuple(gap for t in timelines for gap in t.gaps_s)
    pooled = Figure('inter-token gap', 's', gaps, note='of all goals together')
    mean_s = sum(gaps) / len(gaps)
    yield pooled
    yield Figure('inter-token gap, mean', 's', (mean_s,))
    yield from tail('inter-token gap', gaps)
    yield Plot(
        'request_gaps', f'A token every {pooled.median * 1e3:.1f} ms; 1 in 100 comes later than '
        f'{pooled.percentile(99) * 1e3:.1f} ms', 'histogram',
        (Series('through ROS', tuple(gap * 1e3 for gap in gaps), style='ours'),),
        x_label='time between two tokens at the client [ms]', y_label='tokens')
    ages = tuple(arrival.age_s for t in timelines for arrival in t.arrivals)
    yield Figure('token age', 's', ages, note='handed to the publisher to received; all tokens')
    yield from tail('token age', ages)
    decided = tuple(t.handed_s + t.arrivals[0].age_s for t in timelines)
    yield Figure('token age from its sampling', 's', decided,
                 note='sampled to received; the first token of each goal')
    yield from tail('token age from its sampling', decided)
