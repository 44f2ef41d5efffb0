"""What it costs to publish tokens while the next one is decoded: the same goal, said and held."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.sample import Figure, ratio, Target
from robot_llm.bench.suite import Finding
from robot_llm.bench.threads import Work
from robot_llm.bench.timeline import Timeline

MAX_TPOT_RATIO: Final = 1.05
THREADS: Final = ('engine', 'streamer', 'executor', 'DDS', 'others')
"""Of the node, as ``work_by_thread`` groups them."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One prompt twice on one node: its tokens published, then held back until the end."""

    said: Timeline
    work_said: Mapping[str, Work]
    held: Timeline
    work_held: Mapping[str, Work]

    def per_token(self, thread: str, name: str, *, is_said: bool) -> float:
        """Return one of ``Work``'s fields for a group of threads, per token."""
        timeline, work = (self.said, self.work_said) if is_said else (self.held, self.work_held)
        return float(getattr(work.get(thread, Work()), name)) / max(timeline.num_tokens, 1)


def publishing(pairs: Sequence[Pair]) -> Iterator[Finding]:
    """
    Yield the time per token through ROS beside the engine's alone, and where it comes from.

    Both are of one process, one context and one memory: two processes that decode alike differ by
    more than publishing costs.
    """
    if not pairs:
        yield ('What publishing costs is measured on a node of our own only: one that somebody '
               'runs cannot be asked to hold its tokens back.')
        return
    tpots = {'through ROS': tuple(p.said.tpot_s for p in pairs),
             'by the node': tuple(p.said.stats['tpot_s'] for p in pairs),
             'engine alone': tuple(p.held.stats['tpot_s'] for p in pairs)}
    for name, seconds in tpots.items():
        yield Figure(f'TPOT, {name}', 's', seconds)
    cost = ratio('TPOT, through ROS / engine alone', tpots['through ROS'], tpots['engine alone'],
                 Target(MAX_TPOT_RATIO),
                 note='the same prompt in the same process, its tokens held back until the end')
    yield cost
    yield Figure('decodes, published - held back', '', tuple(
        p.said.stats['num_decode_calls'] - p.held.stats['num_decode_calls']
        - p.said.stats['num_prefill_chunks'] + p.held.stats['num_prefill_chunks']
        for p in pairs), note='0: the engine did the same work for both')
    yield from _work(pairs)
    yield Plot(
        'request_tpot', f'A published token takes {cost.median:.2f} times as long as one that '
        f'nobody publishes; half of the pairs lie between {cost.percentile(25):.2f} and '
        f'{cost.percentile(75):.2f}', 'bars',
        (Series('TPOT', tuple(map(median, tpots.values())), low=tuple(map(min, tpots.values())),
                high=tuple(map(max, tpots.values())), style='ours'),),
        x_label='time per token [s], medians of all goals', labels=tuple(tpots),
        caption='The line at the end of a bar spans all goals.')


def _work(pairs: Sequence[Pair]) -> Iterator[Finding]:
    """Yield the processor time per token by thread, and how long the engine waited for a core."""
    if not any(pair.work_said for pair in pairs):
        yield 'This kernel does not count what a thread does, so it is not shown.'
        return
    ways = {'published': True, 'held back': False}
    run_s = {(thread, way): tuple(p.per_token(thread, 'run_s', is_said=is_said) for p in pairs)
             for thread in THREADS for way, is_said in ways.items()}
    for (thread, way), seconds in run_s.items():
        yield Figure(f'processor time per token, {thread}, {way}', 's', seconds)
    for way, is_said in ways.items():
        yield Figure(f'engine ready and without a core, per token, {way}', 's', tuple(
            p.per_token('engine', 'wait_s', is_said=is_said) for p in pairs))
        yield Figure(f'engine loses its core, per token, {way}', '', tuple(
            p.per_token('engine', 'num_lost', is_said=is_said) for p in pairs))
    yield Figure(
        'waiting for a core that publishing adds / TPOT, engine alone', '%', tuple(
            100 * (p.per_token('engine', 'wait_s', is_said=True)
                   - p.per_token('engine', 'wait_s', is_said=False)) / p.held.stats['tpot_s']
            for p in pairs), note='of the same pairs, counted by the kernel')
    shown = tuple(t for t in THREADS if any(median(run_s[t, way]) for way in ways))
    added_s = sum(median(run_s[t, 'published']) - median(run_s[t, 'held back'])
                  for t in THREADS if t != 'engine')
    yield Plot(
        'request_work', f'Publishing a token takes {added_s * 1e3:.2f} ms of processor time '
        'beside the engine', 'bars',
        tuple(Series(way, tuple(median(run_s[thread, way]) for thread in shown),
                     style='ours' if way == 'published' else 'other') for way in ways),
        x_label='processor time of the node per token [s], medians', labels=shown,
        caption='The engine decodes on one core while the others publish on another.')
