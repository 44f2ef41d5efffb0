"""The engine without ROS in a process of its own, asked over a pipe while the node is idle."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
import datetime
import json
import os
from pathlib import Path
import subprocess
import sys
import time
from typing import Any

from robot_llm.bench.bare import BareLoop
from robot_llm.core.event import Decided, Delta
from robot_llm.core.request import Request, RequestEvent, Scene
from robot_llm.core.timing import Stage
from robot_llm.engine.generation import Generation
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.prompt_tokens import tokenize_segments
from robot_llm.engine.runtime import Runtime
from robot_llm.profile import merge_sampling
from robot_llm.profile_file import load_profiles
from robot_llm.settings import resolve_n_threads, Settings


class EngineProcess:
    """The node's engine with the node's settings, and a bare llama.cpp loop, both without ROS."""

    def __init__(self, settings: Settings, profiles: Path) -> None:
        cores = len(os.sched_getaffinity(0))
        self._settings = settings
        self._runtime = Runtime(
            LlamaCppBackend(settings, num_cores=cores), settings, load_profiles(profiles),
            today=datetime.datetime.now())
        self._bare = BareLoop(
            settings.model.path, n_ctx=settings.model.n_ctx, n_batch=settings.model.n_batch,
            n_threads=resolve_n_threads(settings.model.n_threads, cores))

    def engine_tpot_s(self, prompt: str, profile: str, max_tokens: int) -> float:
        """Return the time per token that the engine reports for a goal [s]."""
        compiled = self._runtime.profiles[profile].profile
        sampling = merge_sampling(self._settings.sampling, compiled).model_copy(
            update={'temperature': 0.0, 'max_tokens': max_tokens})
        request = Request(os.urandom(16), compiled, prompt, sampling, scene=Scene())
        request.clock.mark(Stage.RECEIVED, time.monotonic())
        request.apply(RequestEvent.SLOT_GRANTED)
        for event in Generation(self._runtime, request, time.monotonic).run():
            if isinstance(event, Decided):
                request.clock.mark(Stage.PUBLISHED, time.monotonic())
            if isinstance(event, Decided | Delta):
                request.clock.publish_tokens(event.num_tokens, time.monotonic())
        return request.clock.tpot_s

    def bare_tpot_s(self, prompt: str, profile: str, max_tokens: int) -> float:
        """Return the time per token of the bare loop behind the same prompt [s]."""
        segments = self._runtime.profiles[profile].segments(self._runtime.renderer, '', prompt)
        return self._bare.tpot_s(
            tokenize_segments(self._runtime.backend, segments), max_tokens - 1)

    def serve(self) -> None:
        """Answer questions, a JSON object a line, until standard input ends."""
        print(json.dumps('ready'), flush=True)
        for line in sys.stdin:
            question = json.loads(line)
            measure = getattr(self, f'{question.pop("what")}_tpot_s')
            print(json.dumps(measure(**question)), flush=True)


class Peer:
    """The other end of an ``EngineProcess``."""

    def __init__(self, process: 'subprocess.Popen[str]') -> None:
        self._process = process
        self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError('the engine beside the node ended; what it wrote stands above')
        return json.loads(line)

    def tpot_s(self, what: str, prompt: str, profile: str, max_tokens: int) -> float:
        """
        Return a time per token [s].

        :param what: ``engine`` or ``bare``
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(
            {'what': what, 'prompt': prompt, 'profile': profile, 'max_tokens': max_tokens}) + '\n')
        self._process.stdin.flush()
        return float(self._read())


@contextmanager
def engine_process(flat: Mapping[str, object], profiles: Path) -> Iterator[Peer]:
    """
    Load the engine in a process of its own, and yield who asks it.

    :param flat: the node's parameters by full name
    """
    process = subprocess.Popen(
        [sys.executable, '-m', 'robot_llm.bench.peer', json.dumps(dict(flat)), str(profiles)],
        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        try:
            yield Peer(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


if __name__ == '__main__':
    EngineProcess(Settings.from_flat(json.loads(sys.argv[1])), Path(sys.argv[2])).serve()
