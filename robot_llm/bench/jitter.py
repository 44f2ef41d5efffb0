"""How steady tokens come while the rest of the robot works."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event, Thread
from typing import Final

from robot_llm.bench.beside import beside, busy_cores
from robot_llm.bench.client import BenchClient
from robot_llm.bench.node import add_options, measured_node, node_name, profile_name
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.prompts import STORY
from robot_llm.bench.sample import Figure, tail
from robot_llm.bench.suite import Context, Finding

__all__ = ['add_options', 'run']

NUM_TOKENS: Final = 64
SCENE_HZ: Final = 50.0
SCENE: Final = 'A corridor, five metres wide, with two open doors on the left.'

Beside = Callable[[], AbstractContextManager[None]]


def run(context: Context) -> Iterator[Finding]:
    """Yield the gaps between tokens beside each disturbance, in turn."""
    gaps: dict[str, list[float]] = defaultdict(list)
    num_rounds = 2 if context.is_quick else context.num_runs
    with measured_node(context) as client:
        conditions: dict[str, Beside] = {
            'alone': nullcontext,
            'busy cores': lambda: beside(busy_cores()),
            '30 Hz images': lambda: beside(('publish', 'subscribe')),
        }
        if node_name(context):
            yield 'No scenes are sent to a node that somebody runs: it would believe them.'
        else:
            conditions['50 Hz scenes'] = lambda: _scenes(client)
        client.run(STORY, profile=profile_name(context), max_tokens=NUM_TOKENS)  # warms up
        for number in range(num_rounds):
            for name, start in conditions.items():
                context.say(f'{name}, round {number + 1} of {num_rounds}')
                with start():
                    for index in range(2):
                        goal = client.run(
                            f'Story {number}.{index}. {STORY}', profile=profile_name(context),
                            max_tokens=NUM_TOKENS)
                        gaps[name] += goal.timeline().gaps_s
    pooled = {name: Figure(f'{name}: inter-token gap', 's', tuple(values))
              for name, values in gaps.items()}
    for name, figure in pooled.items():
        yield figure
        yield from tail(figure.name, figure.values)
        if name != 'alone':
            yield Figure(f'{name}: p99 gap / alone', 'x',
                         (figure.percentile(99) / pooled['alone'].percentile(99),))
    yield (f'Busy cores: one endless loop per core. Images: {beside.__module__.split(".")[-1]} '
           'processes publish and receive 640 x 480 x 3 bytes. Scenes: messages whose epoch does '
           'not rise, so that the goal lives.')
    yield Plot(
        'jitter_gaps', 'The latest token in 100: ' + ', '.join(
            f'{figure.percentile(99) * 1e3:.0f} ms {name}' for name, figure in pooled.items()),
        'bars',
        tuple(Series(f'{percent} in 100 come sooner',
                     tuple(figure.percentile(percent) * 1e3 for figure in pooled.values()),
                     style='ours' if percent == 50 else 'other')
              for percent in (50, 95, 99)),
        x_label='time between two tokens at the client [ms]', labels=tuple(pooled))


@contextmanager
def _scenes(client: BenchClient) -> Iterator[None]:
    """Tell the node what it sees, again and again."""
    must_stop = Event()

    def publish() -> None:
        while not must_stop.wait(1 / SCENE_HZ):
            client.publish_scene(1, SCENE)

    client.publish_scene(1, SCENE)
    publisher = Thread(target=publish, name='bench_scenes')
    publisher.start()
    try:
        yield
    finally:
        must_stop.set()
        publisher.join()
