"""The node's own engine without the node: a scene and a goal in, evidence and decision out."""

from collections.abc import Mapping
from dataclasses import dataclass
import datetime
import os
from pathlib import Path
import time
from types import TracebackType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.decision import Decision, Evidence
from robot_llm.core.event import Decided
from robot_llm.core.request import FinishReason, Request, RequestEvent, Scene
from robot_llm.core.timing import Stage
from robot_llm.engine.backend import Backend, ModelInfo
from robot_llm.engine.generation import Generation
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.prompt_tokens import tokenize_segments
from robot_llm.engine.runtime import Runtime
from robot_llm.profile import merge_sampling, ResponseProfile
from robot_llm.settings import Settings
from typing_extensions import Self

_REQUEST_ID: Final = b'evaluation'.ljust(16)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one prompt gave, and how long the decision took from the goal's arrival [s]."""

    decision: Decision
    evidence: Evidence
    decision_s: float


class EvaluationEngine:
    """
    Prompts, prefix cache, chunks and decision of the node; stops behind the decision.

    :param backend: loaded; owned from here on
    :param profiles: by name, each with what its method needs
    :raises ConfigError: if a profile does not work with this model
    """

    def __init__(
        self, backend: Backend, settings: Settings, profiles: Mapping[str, ResponseProfile],
    ) -> None:
        self._settings = settings
        try:
            self._runtime = Runtime(
                backend, settings, profiles, today=datetime.datetime.now())
        except BaseException:
            backend.close()
            raise

    @classmethod
    def open(cls, model: Path, profiles: Mapping[str, ResponseProfile]) -> Self:
        """Load a model with the node's default settings."""
        settings = Settings.from_flat({'model.path': str(model)})
        backend: Any = LlamaCppBackend(settings, num_cores=len(os.sched_getaffinity(0)))
        return cls(backend, settings, profiles)

    @property
    def info(self) -> ModelInfo:
        """The loaded model's facts."""
        return self._runtime.backend.info

    def decide(
        self, profile_name: str, scene: str, goal: str, *, gathers_all: bool = False,
    ) -> Outcome:
        """
        Run one prompt up to its decision.

        :param gathers_all: give the evidence of every method, not of the profile's alone
        :raises RobotLlmError: if the request or the engine fails
        """
        profile = self._runtime.profiles[profile_name].profile
        request = Request(
            request_id=_REQUEST_ID, profile=profile, prompt=goal,
            sampling=merge_sampling(self._settings.sampling, profile), scene=Scene(1, scene))
        request.apply(RequestEvent.SLOT_GRANTED)
        request.clock.mark(Stage.RECEIVED, time.monotonic())
        generation = Generation(
            self._runtime, request, time.monotonic, gathers_all=gathers_all)
        for event in generation.run():
            if isinstance(event, Decided):
                request.clock.mark(Stage.PUBLISHED, time.monotonic())
                request.stop(FinishReason.CANCELED, time.monotonic())
                assert request.evidence is not None
                return Outcome(event.decision, request.evidence, request.clock.ttft_s)
        raise AssertionError('a generation that ends without an error has decided')

    def read_scene(self, profile_name: str, scene: str) -> NDArray[np.float32]:
        """
        Return what a head that reads behind the scene will see, shape (num_features,).

        Evaluates nothing behind it: half of the work of ``decide``.

        :raises RobotLlmError: if the engine fails
        """
        runtime = self._runtime
        compiled = runtime.profiles[profile_name]
        token_ids = tokenize_segments(
            runtime.backend, compiled.segments(runtime.renderer, scene, ''))
        end = compiled.probe(runtime.backend, token_ids, scene) + 1
        position = runtime.cache.reuse(profile_name, token_ids, limit=end - 1)
        while position < end:
            chunk_end = runtime.next_chunk(position, end)
            runtime.prefill(token_ids[position:chunk_end], probe=-1, num_rows=0)
            position = chunk_end
        return runtime.backend.hidden_state()

    def __enter__(self) -> Self:
        """Return itself; leaving frees the model."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Free the model."""
        self._runtime.close()
