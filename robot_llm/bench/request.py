"""One goal at a time, from another process: how soon, how steady, and where the time goes."""

from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median
from typing import Final

from robot_llm.bench.client import BenchClient
from robot_llm.bench.node import add_options, measured_node, profile_name, STORY
from robot_llm.bench.peer import engine_process, Peer
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.sample import Figure, ratio, Target
from robot_llm.bench.suite import Context, Finding
from robot_llm.bench.timeline import STAGES, Timeline
from robot_llm.ros.parameters import shipped_folder
from robot_llm.settings import all_specs

__all__ = ['add_options', 'run']

NUM_TOKENS: Final = 64
MAX_SPLIT_ERROR: Final = 0.05
MAX_TPOT_RATIO: Final = 1.05
PEERS: Final = ('engine', 'bare')
"""What the node's time per token is held against, in a process without ROS."""


def run(context: Context) -> Iterator[Finding]:
    """Yield what a client sees of one goal at a time, and what the engine takes without ROS."""
    with measured_node(context) as client:
        flat = client.parameters(spec.name for spec in all_specs())
        profile = profile_name(context) or flat['profiles.default']
        folder = Path(flat['profiles.folder'] or shipped_folder('profiles'))
        context.say('the same engine without ROS loads the model')
        with engine_process(flat, folder.expanduser()) as peer:
            timelines, tpots = _measure(context, client, peer, profile)
    yield from _soon(timelines)
    yield from _split(timelines)
    yield from _steady(timelines)
    yield from _cost_of_ros(timelines, tpots)


def _measure(
    context: Context, client: BenchClient, peer: Peer, profile: str,
) -> tuple[list[Timeline], dict[str, list[float]]]:
    """Return the goals, and the peers' times per token beside each, in turn; one warms up."""
    timelines: list[Timeline] = []
    tpots: dict[str, list[float]] = {name: [] for name in PEERS}
    num_goals = context.num_runs * 3
    for number in range(num_goals + 1):
        context.say(f'goal {number} of {num_goals}')
        prompt = f'Story {number}. {STORY}'  # new from its first word on: nothing of it is cached
        goal = client.run(prompt, profile=profile, max_tokens=NUM_TOKENS)
        peers = {name: peer.tpot_s(name, prompt, profile, NUM_TOKENS) for name in PEERS}
        if number:
            timelines.append(goal.timeline())
            for name, tpot_s in peers.items():
                tpots[name].append(tpot_s)
    return timelines, tpots


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
        f'{largest.replace("_", " ")}', 'stack',
        tuple(Series(name.replace('_', ' '), (seconds * 1e3,))
              for name, seconds in means_s.items()),
        x_label='time since the goal was sent [ms], means', labels=('TTFT',))


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


def tail(name: str, values: tuple[float, ...]) -> Iterator[Figure]:
    """Yield the percentiles of pooled seconds, a figure each, so that ``diff`` compares them."""
    pooled = Figure(name, 's', values)
    for percent in (95, 99):
        yield Figure(f'{name}, p{percent}', 's', (pooled.percentile(percent),))


def _cost_of_ros(
    timelines: list[Timeline], tpots: dict[str, list[float]],
) -> Iterator[Finding]:
    ours = {'through ROS': tuple(t.tpot_s for t in timelines),
            'by the node': tuple(t.stats['tpot_s'] for t in timelines),
            'engine alone': tuple(tpots['engine']), 'bare llama.cpp': tuple(tpots['bare'])}
    for name, seconds in ours.items():
        yield Figure(f'TPOT, {name}', 's', seconds)
    cost = ratio('TPOT, through ROS / engine alone', ours['through ROS'], ours['engine alone'],
                 Target(MAX_TPOT_RATIO))
    yield cost
    yield ratio('TPOT, through ROS / bare llama.cpp', ours['through ROS'],
                ours['bare llama.cpp'])
    yield Plot(
        'request_tpot', f'A token through ROS takes {cost.median:.2f} times as long as without',
        'bars',
        (Series('TPOT', tuple(median(seconds) * 1e3 for seconds in ours.values()), style='ours'),),
        x_label='time per token [ms], medians', labels=tuple(ours))
