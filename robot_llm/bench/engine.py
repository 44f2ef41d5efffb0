"""The engine without ROS: its costs against bare llama.cpp, in the same run."""

import argparse
from collections.abc import Iterator
import datetime
import os
from pathlib import Path
from queue import SimpleQueue
import time
from typing import Final

from robot_llm.bench.bare import BareLoop, Binding
from robot_llm.bench.sample import Figure, interleave, ratio
from robot_llm.bench.suite import Context, Finding
from robot_llm.core.event import Decided, Delta, Event, Finished
from robot_llm.core.request import FinishReason, Request, RequestEvent, Scene
from robot_llm.core.timing import Stage
from robot_llm.engine.generation import Generation
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.prompt_tokens import tokenize_segments
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.worker import Worker
from robot_llm.profile import (
    DecisionRules, DecisionWord, DetailRules, merge_sampling, ResponseProfile)
from robot_llm.profile_file import load_profiles
from robot_llm.settings import resolve_n_threads, Settings

STORY: Final = 'Tell a long story about a robot that crosses a city, street by street. '
NUM_TOKENS: Final = 48
"""Of one measured answer: long enough for a mean, short enough for many runs."""

TALK: Final = ResponseProfile(
    name='bench', description='free text', system_prompt='You are a robot that tells stories.',
    decision=DecisionRules(
        words=(DecisionWord(word='Sure', meaning='I tell'),
               DecisionWord(word='Sorry', meaning='I do not')),
        fallback='Sorry', min_confidence=0.0),
    detail=DetailRules(kind='text'))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what only this suite takes."""
    parser.add_argument('--no-abort-callback', action='store_true',
                        help='let only the chunks bound a stop, as on a GPU')


def run(context: Context) -> Iterator[Finding]:
    """Yield every figure."""
    settings = context.settings
    engine = settings.engine.model_copy(
        update={'use_abort_callback': not context.options.no_abort_callback})
    bench = EngineBench(settings.model_copy(update={'engine': engine}), context.profiles)
    try:
        for name in ('decode', 'prefill', 'reuse', 'forced', 'cancel'):
            context.say(f'{name} …')
            yield from getattr(bench, name)(context.num_runs)
    finally:
        bench.close()


class EngineBench:
    """
    One loaded runtime beside the two it is compared with.

    :param settings: ``model.path`` and what else shall hold; all three use the same context,
        batch and threads
    :param profiles: the folder that holds ``drive``
    """

    def __init__(self, settings: Settings, profiles: Path) -> None:
        cores = len(os.sched_getaffinity(0))
        self.settings = settings
        self.n_threads = resolve_n_threads(settings.model.n_threads, cores)
        model = settings.model
        self.drive = load_profiles(profiles, require_heads=False)['drive']
        backend = LlamaCppBackend(settings, num_cores=cores)
        self.runtime = Runtime(
            backend, settings, {'bench': TALK, 'drive': self.drive},
            today=datetime.datetime(2025, 1, 1))
        same = {'n_ctx': model.n_ctx, 'n_batch': model.n_batch, 'n_threads': self.n_threads}
        self._bare = BareLoop(model.path, **same)
        self._binding = Binding(model.path, **same)

    def close(self) -> None:
        """Free all three."""
        self._bare.close()
        self._binding.close()
        self.runtime.close()

    def request(
        self, prompt: str, *, profile: ResponseProfile = TALK, scene: str = '',
        max_tokens: int = NUM_TOKENS,
    ) -> Request:
        """Return a waiting greedy request."""
        sampling = merge_sampling(self.settings.sampling, profile).model_copy(
            update={'temperature': 0.0, 'max_tokens': max_tokens, 'repetition_penalty': 1.0})
        request = Request(os.urandom(16), profile, prompt, sampling, scene=Scene(1, scene))
        request.clock.mark(Stage.RECEIVED, time.monotonic())
        return request

    def run(self, request: Request) -> Request:
        """Run a request to its end on this thread, stamping what a streamer would stamp."""
        request.apply(RequestEvent.SLOT_GRANTED)
        for event in Generation(self.runtime, request, time.monotonic).run():
            if isinstance(event, Decided):
                request.clock.mark(Stage.PUBLISHED, time.monotonic())
            if isinstance(event, Decided | Delta):
                request.clock.publish_tokens(event.num_tokens, time.monotonic())
        return request

    def prompt_ids(self, prompt: str) -> list[int]:
        """Return the tokens of the whole prompt that ``request(prompt)`` has."""
        segments = self.runtime.profiles['bench'].segments(self.runtime.renderer, '', prompt)
        return tokenize_segments(self.runtime.backend, segments)

    # What is measured.

    def decode(self, num_runs: int) -> Iterator[Figure]:
        """Yield the time per token: ours, the bare loop's, the binding's, and the ratios."""
        token_ids = self.prompt_ids(STORY)

        def ours() -> float:
            return self.run(self.request(STORY)).clock.tpot_s

        values = interleave({
            'engine': ours,
            'bare loop': lambda: self._bare.tpot_s(token_ids, NUM_TOKENS),
            'llama_cpp.Llama': lambda: self._binding.tpot_s(token_ids, NUM_TOKENS),
        }, num_runs=num_runs)
        for name, seconds in values.items():
            yield Figure(f'tpot, {name}', 's', seconds)
        yield ratio('tpot, engine / bare loop', values['engine'], values['bare loop'])
        yield ratio('tpot, llama_cpp.Llama / bare loop',
                    values['llama_cpp.Llama'], values['bare loop'])

    def prefill(self, num_runs: int) -> Iterator[Figure]:
        """Yield the prefill rate in chunks against one batch, about a thousand tokens each."""
        prompt = STORY * 64
        num_tokens = len(self.prompt_ids(prompt))

        def in_chunks() -> float:
            self.runtime.cache.clear()
            request = self.run(self.request(prompt, max_tokens=1))
            evaluated = request.counts.num_prefilled_tokens
            return evaluated / request.clock.durations()['prefill_s']

        token_ids = self.prompt_ids(prompt)
        values = interleave({
            'engine': in_chunks,
            'bare, one batch': lambda: num_tokens / self._bare.prefill_s(token_ids),
        }, num_runs=num_runs)
        for name, rate in values.items():
            yield Figure(f'prefill of {num_tokens} tokens, {name}', 'tokens/s', rate)
        yield ratio('prefill rate, engine / bare', values['engine'], values['bare, one batch'])

    def reuse(self, num_runs: int) -> Iterator[Figure]:
        """Yield the time to the decision cold and warm, nine tenths of the prompt shared."""
        shared = STORY * 16

        def ttft_s(*, is_cold: bool) -> float:
            if is_cold:
                self.runtime.cache.clear()
            else:
                self.run(self.request(shared + 'first ' * 24, max_tokens=1))
            return self.run(self.request(shared + 'second ' * 24, max_tokens=1)).clock.ttft_s

        values = interleave({
            'cold': lambda: ttft_s(is_cold=True), 'warm': lambda: ttft_s(is_cold=False),
        }, num_runs=num_runs)
        for name, seconds in values.items():
            yield Figure(f'ttft, {name}', 's', seconds)
        yield ratio('ttft, warm / cold', values['warm'], values['cold'])

    def forced(self, num_runs: int) -> Iterator[Figure]:
        """Yield the decode calls per token of a JSON answer."""
        scenes = ('A person stands ahead.', 'The corridor is clear.', 'The floor is wet.')
        ratios = []
        for run in range(num_runs):
            request = self.run(self.request(
                'Drive on.', profile=self.drive, scene=scenes[run % len(scenes)], max_tokens=96))
            counts = request.counts
            num_calls = counts.num_decode_calls - counts.num_prefill_chunks
            ratios.append(num_calls / counts.num_completion_tokens)
        yield Figure('decode calls / token, drive JSON', 'x', tuple(ratios))

    def cancel(self, num_runs: int) -> Iterator[Figure]:
        """Yield the time from a stop to the idle engine, in prefill and in decode."""
        events: SimpleQueue[Event] = SimpleQueue()
        worker = Worker(
            lambda should_stop: self.runtime, events.put, time.monotonic, policy='queue',
            max_queue=1)
        # The runtime is this thread's again afterwards; the worker only borrows it.
        close, self.runtime.close = self.runtime.close, lambda: None  # type: ignore[method-assign]
        worker.open()
        try:
            for stage in ('prefill', 'decode'):
                latencies = tuple(
                    self._cancel_once(worker, events, stage) for _ in range(num_runs))
                yield Figure(f'stop to idle, {stage}', 's', latencies)
        finally:
            worker.close()
            self.runtime.backend.abort.clear()
            self.runtime.close = close  # type: ignore[method-assign]

    def _cancel_once(self, worker: Worker, events: SimpleQueue[Event], stage: str) -> float:
        request = self.request(
            'word ' * 2000 + os.urandom(4).hex() if stage == 'prefill' else STORY,
            max_tokens=400)
        worker.requests.submit(request)
        wanted = Delta if stage == 'decode' else None
        if wanted is None:
            # In the middle of the prefill, wherever that is on this machine.
            while not request.counts.num_prefill_chunks:
                time.sleep(0.001)
        num_seen = 0
        while True:
            if wanted is None or num_seen >= 8:
                worker.requests.stop(request, FinishReason.CANCELED)
                wanted, num_seen = Delta, -1_000_000
            event = events.get()
            num_seen += isinstance(event, Delta)
            if isinstance(event, Finished):
                return request.stop_clock.latency_s
