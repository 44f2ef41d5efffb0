"""One loaded engine beside what it is compared with, and the prompts that all of them get."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
import datetime
from itertools import count, cycle, islice
import os
from pathlib import Path
import time
from typing import Final

from robot_llm.bench.bare import BareLoop, Binding
from robot_llm.bench.constants import Constants
from robot_llm.bench.prompts import TALK
from robot_llm.core.event import Decided, Delta
from robot_llm.core.request import Request, RequestEvent, Scene
from robot_llm.core.timing import Stage
from robot_llm.engine.generation import Generation
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.prompt_tokens import tokenize_segments
from robot_llm.engine.runtime import Runtime
from robot_llm.profile import merge_sampling, ResponseProfile
from robot_llm.profile_file import load_profiles
from robot_llm.settings import resolve_n_threads, Settings

_WORDS: Final = (
    'the robot drives along a corridor past a door and stops near some boxes before it turns left '
    'where people wait for the lift while music plays').split()


@dataclass(frozen=True, slots=True)
class Answered:
    """A request that has ended, and the text of its detail."""

    request: Request
    text: str


class Rig:
    """
    One runtime with the given settings, a bare loop and the binding, on the same file.

    :param settings: ``model.path`` and what else shall hold; all three use the same context, batch
        and threads
    :param profiles: the folder that holds ``drive``
    :param constants: what the device can do at most
    """

    def __init__(self, settings: Settings, profiles: Path, constants: Constants) -> None:
        self.settings, self.constants = settings, constants
        model = settings.model
        self.n_threads = resolve_n_threads(model.n_threads, len(os.sched_getaffinity(0)))
        self.drive = load_profiles(profiles, require_heads=False)['drive']
        self._numbers = count()
        self.runtime = self.make()
        self.same = {'n_ctx': model.n_ctx, 'n_batch': model.n_batch, 'n_threads': self.n_threads,
                     'n_gpu_layers': model.n_gpu_layers}
        """What every context here is made with."""
        self.bare = BareLoop(model.path, **self.same)
        self.binding = Binding(model.path, **self.same)

    def close(self) -> None:
        """Free all three."""
        self.bare.close()
        self.binding.close()
        self.runtime.close()

    def make(
        self, changes: Mapping[str, object] | None = None, *profiles: ResponseProfile,
    ) -> Runtime:
        """
        Return another runtime with a model and a context of its own; the caller closes it.

        :param changes: parameters by their flat names
        :param profiles: instead of the free text and ``drive``
        """
        settings = self.settings.with_changes(changes or {})
        cores = len(os.sched_getaffinity(0))
        return Runtime(
            LlamaCppBackend(settings, num_cores=cores), settings,
            {profile.name: profile for profile in profiles or (TALK, self.drive)},
            today=datetime.datetime(2025, 1, 1))

    @contextmanager
    def opened(
        self, changes: Mapping[str, object] | None = None, *profiles: ResponseProfile,
    ) -> Iterator[Runtime]:
        """Return ``make``'s runtime for the length of a ``with``."""
        runtime = self.make(changes, *profiles)
        try:
            yield runtime
        finally:
            runtime.close()

    def request(
        self, prompt: str, *, profile: ResponseProfile = TALK, scene: str = '',
        max_tokens: int = 64, temperature: float = 0.0,
    ) -> Request:
        """Return a waiting request, greedy by default."""
        sampling = merge_sampling(self.settings.sampling, profile).model_copy(update={
            'temperature': temperature, 'max_tokens': max_tokens, 'repetition_penalty': 1.0,
            'seed': 1})
        request = Request(os.urandom(16), profile, prompt, sampling, scene=Scene(1, scene))
        request.clock.mark(Stage.RECEIVED, time.monotonic())
        return request

    def run(self, request: Request, runtime: Runtime | None = None) -> Answered:
        """Run a request to its end on this thread, stamping what a streamer would stamp."""
        request.apply(RequestEvent.SLOT_GRANTED)
        pieces = []
        for event in Generation(runtime or self.runtime, request, time.monotonic).run():
            if isinstance(event, Decided):
                request.clock.mark(Stage.PUBLISHED, time.monotonic())
            if isinstance(event, Delta):
                pieces.append(event.text)
            if isinstance(event, Decided | Delta):
                request.clock.publish_tokens(event.num_tokens, time.monotonic())
        return Answered(request, ''.join(pieces))

    def prompt_ids(
        self, prompt: str, *, profile: ResponseProfile = TALK, scene: str = '',
    ) -> list[int]:
        """Return the tokens of the whole prompt that such a request has."""
        segments = self.runtime.profiles[profile.name].segments(
            self.runtime.renderer, scene, prompt)
        return tokenize_segments(self.runtime.backend, segments)

    def filler(self, num_tokens: int) -> str:
        """
        Return a text that makes a whole prompt of about ``num_tokens``, not a token more.

        It begins with a number that no other has: two of them share the profile's part alone.
        """
        start = f'{next(self._numbers)}:'

        def text(num_words: int) -> str:
            return ' '.join([start, *islice(cycle(_WORDS), num_words)])

        low, high = 0, num_tokens
        while low < high:
            middle = (low + high + 1) // 2
            if len(self.prompt_ids(text(middle))) <= num_tokens:
                low = middle
            else:
                high = middle - 1
        return text(low)
