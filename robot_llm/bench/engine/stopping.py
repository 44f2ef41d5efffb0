"""How soon the engine is idle when it is told to stop, wherever it is."""

from collections.abc import Callable, Iterator, Mapping
from queue import SimpleQueue
import time
from typing import Any, Final

from robot_llm.bench.engine.answers import GOAL, MAX_TOKENS, SCENES
from robot_llm.bench.engine.rig import Rig
from robot_llm.bench.engine.scale import Scale
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.prompts import STORY, TALK
from robot_llm.bench.sample import Figure, highest, Target
from robot_llm.bench.suite import Finding
from robot_llm.core.event import Decided, Delta, Event, Finished, Started
from robot_llm.core.request import FinishReason, Request
from robot_llm.core.timing import Stage
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.worker import Worker
from robot_llm.errors import EngineError

ABORT: Final = 'abort callback'
TEXT: Final = 'free text'
JSON: Final = 'JSON'
EVENT_TIMEOUT_S = 120.0
"""A worker that says nothing for so long has died; the longest chunk takes seconds."""
PREFILL_SLACK_S = 0.005
DECODE_SLACK_S = 0.002
LATEST_STOP_S = 0.25
"""A stop comes at some time up to this after the start, so that it meets every part of a chunk."""
PROMPT_TOKENS = 2048
MOST_TRIES = 20
"""A short answer may be over before its stop, on a machine that others use now and then."""
GOLDEN = 0.6180339887
"""Its multiples, without their whole part, are spread evenly however many there are."""


class Stops:
    """
    A worker with a runtime of its own, whose requests are stopped.

    :param changes: parameters by their flat names
    """

    def __init__(self, rig: Rig, changes: Mapping[str, object]) -> None:
        self._rig = rig
        self.calls_s: list[float] = []
        """What every decode of the model took, in the prefill and behind it."""
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._worker = Worker(
            lambda should_stop: self._timed(rig.make(changes, TALK, rig.drive)),
            self._events.put, time.monotonic, policy='queue', max_queue=1)
        self.runtime = self._worker.open()
        self._num_stops, self._offset = 0, 0.0
        self.rate = self._measure_rate()
        """Of the prefill [tokens/s]."""
        # Until then a stop surely meets the prefill.
        self._window_s = min(LATEST_STOP_S, PROMPT_TOKENS / 2 / self.rate)

    def _timed(self, runtime: Runtime) -> Runtime:
        decode = runtime.backend.decode

        def timed(*arguments: Any, **options: Any) -> None:
            started_s = time.monotonic()
            decode(*arguments, **options)
            self.calls_s.append(time.monotonic() - started_s)

        runtime.backend.decode = timed  # type: ignore[method-assign]
        return runtime

    def close(self) -> None:
        """Free the model."""
        self._worker.close()

    def _measure_rate(self) -> float:
        request = self._rig.request(self._rig.filler(PROMPT_TOKENS // 16), max_tokens=2)
        self._worker.requests.submit(request)
        self._wait(Decided)
        # As the streamer would: without it no stage has a length.
        request.clock.mark(Stage.PUBLISHED, time.monotonic())
        self._wait(Finished)
        return request.counts.num_prefilled_tokens / request.clock.durations()['prefill_s']

    def _wait(self, kind: type[Event]) -> None:
        while not isinstance(event := self._events.get(timeout=EVENT_TIMEOUT_S), kind):
            if isinstance(event, Finished):
                raise EngineError(f'a request ended too early: {event.request.error}')

    def in_prefill(self) -> Request:
        """Stop one request somewhere in its prefill, and wait until the engine is idle."""
        def start() -> Request:
            request = self._rig.request(self._rig.filler(PROMPT_TOKENS), max_tokens=2)
            self._worker.requests.submit(request)
            self._wait(Started)
            # Behind the template and the tokens of this text, which take a few milliseconds.
            time.sleep(0.005 + self._offset * self._window_s)
            return request

        return self._stopped(start)

    def in_decode(self, what: str) -> Request:
        """Stop one request behind its fourth piece of text, in JSON behind what is forced."""
        def start() -> Request:
            scene = SCENES[self._num_stops % len(SCENES)]
            request = self._rig.request(STORY, max_tokens=400) if what == TEXT else (
                self._rig.request(GOAL, profile=self._rig.drive, scene=scene,
                                  max_tokens=MAX_TOKENS))
            self._worker.requests.submit(request)
            for _ in range(4 if what == TEXT else 1):
                self._wait(Delta)
            time.sleep(self._offset * 2 * self.token_s)
            return request

        return self._stopped(start)

    token_s = 0.0
    """The time of one token, set by who knows it [s]."""

    def _stopped(self, start: Callable[[], Request]) -> Request:
        """Start requests until one is stopped before its end, and return that."""
        for _ in range(MOST_TRIES):
            self._num_stops += 1
            self._offset = self._num_stops * GOLDEN % 1
            request = start()
            self._worker.requests.stop(request, FinishReason.CANCELED)
            self._wait(Finished)
            if request.finish_reason is FinishReason.CANCELED:
                return request
        raise EngineError(f'{MOST_TRIES} requests in turn ended before their stop')


def stopping(rig: Rig, scale: Scale) -> Iterator[Finding]:
    """Yield stop to idle in prefill and decode, by chunk, with and without abort callback."""
    figures = []
    for figure in _figures(rig, scale):
        figures.append(figure)
        yield figure
    yield _plot(figures, rig.settings.engine.max_stall_s)


def _figures(rig: Rig, scale: Scale) -> Iterator[Figure]:
    for with_abort in (True, False):
        way = ABORT if with_abort else 'no abort callback'
        for chunk in (0, *scale.chunks):
            changes: dict[str, object] = {'engine.use_abort_callback': with_abort}
            stops = Stops(rig, changes | (fixed_chunk(chunk) if chunk else {}))
            try:
                yield from _prefill_figures(rig, scale, stops, way, chunk)
                if not chunk:
                    yield from _decode_figures(rig, scale, stops, way)
            finally:
                stops.close()


def fixed_chunk(num_tokens: int) -> dict[str, object]:
    """Return the parameters that make every prefill chunk this long."""
    return {'engine.chunk_tokens': num_tokens, 'engine.max_stall_s': 10.0}


def _prefill_figures(
    rig: Rig, scale: Scale, stops: Stops, way: str, chunk: int,
) -> Iterator[Figure]:
    # What was fixed by hand promises nothing there, and takes long.
    is_promised = way == ABORT or not chunk
    num_stops = scale.num_stops if is_promised else max(scale.num_stops // 5, 1)
    requests = [stops.in_prefill() for _ in range(num_stops)]
    name = f'stop to idle, prefill, {way}, chunk {chunk or "default"}'
    limit_s = rig.settings.engine.max_stall_s
    note = ''
    if way != ABORT:
        limit_s = stops.runtime.chunks.bound_s
        size = stops.runtime.chunks.size
        note = (f'chunks of {size} tokens, {size / stops.rate * 1e3:.0f} ms each at the '
                'measured rate')
    yield from _latencies(
        name, requests, Target(limit_s + PREFILL_SLACK_S) if is_promised else None, note)


def _decode_figures(rig: Rig, scale: Scale, stops: Stops, way: str) -> Iterator[Figure]:
    stops.token_s = rig.run(rig.request(STORY, max_tokens=scale.num_tokens)).request.clock.tpot_s
    token_ms = f'{stops.token_s * 1e3:.0f} ms'
    # What cannot be aborted may be several tokens, as many as a stop may wait for.
    bound_s = stops.token_s if way == ABORT else stops.runtime.chunks.bound_s
    wasted: list[float] = []
    for what in (TEXT, JSON):
        stops.calls_s.clear()
        requests = [stops.in_decode(what) for _ in range(scale.num_stops)]
        yield from _latencies(
            f'stop to idle, decode, {what}, {way}', requests, Target(bound_s + DECODE_SLACK_S),
            f'a token takes {token_ms}')
        wasted += [float(request.counts.num_wasted_tokens) for request in requests]
        if way != ABORT:
            yield Figure(
                f'one call, {what}, {way}', 's', tuple(stops.calls_s),
                Target(bound_s + DECODE_SLACK_S), highest(len(stops.calls_s)),
                f'prefill and decode; {stops.runtime.chunks.size} tokens at most')
    yield Figure(f'wasted tokens, {way}', '', tuple(wasted), Target(1.0), statistic='max')


def _latencies(
    name: str, requests: list[Request], target: Target | None, note: str = '',
) -> Iterator[Figure]:
    """Yield the median, and the 99th percentile or what stands for it."""
    seconds = tuple(request.stop_clock.latency_s for request in requests)
    yield Figure(f'{name}, p50', 's', seconds)
    last = highest(len(seconds))
    yield Figure(f'{name}, {last}', 's', seconds, target, last, note)


def _plot(figures: list[Figure], max_stall_s: float) -> Plot:
    """Return the bars of all ways to stop."""
    pairs = [(figure, last) for figure, last in zip(figures, figures[1:])
             if figure.name.endswith(', p50')]
    return Plot(
        'engine_stopping', 'How soon the engine is idle after a stop', 'bars',
        (Series('median', tuple(figure.quoted for figure, _ in pairs), style='ours'),
         Series(pairs[0][1].name.rpartition(', ')[2], tuple(last.quoted for _, last in pairs))),
        x_label='seconds from the stop to the idle engine', is_log=(True, False),
        labels=tuple(figure.name.removeprefix('stop to idle, ').removesuffix(', p50')
                     for figure, _ in pairs),
        limit=max_stall_s, caption='The line is engine.max_stall_s.')
