"""Our engine as a system to compare: a request to the worker's thread, its events back."""

from collections.abc import Mapping
import datetime
import os
from queue import Empty, SimpleQueue
import time
from typing import Final

from robot_llm.bench.system import Answer, Cancelled, Prompt
from robot_llm.core.event import Decided, Delta, Event, Finished
from robot_llm.core.request import FinishReason, Request, Scene
from robot_llm.core.timing import Stage
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.worker import Worker
from robot_llm.errors import EngineError
from robot_llm.profile import merge_sampling, ResponseProfile
from robot_llm.settings import Settings

ANSWER_TIMEOUT_S: Final = 300.0


def word_of(request: Request) -> str:
    """Return the word that stands behind the prompt of a request that was decided."""
    assert request.latch.standing is not None
    return request.latch.standing.word


def given_ids(runtime: Runtime, request: Request) -> list[int]:
    """
    Return the tokens of a decided request that no decode of its answer gave, in their order.

    They are the word and what separates it from the detail: one row of logits decides them all.
    """
    word = runtime.compiled(request.profile).decision_set[word_of(request)]
    return [*word.token_ids, *word.separator_ids]


class Ours:
    """
    The engine with its worker, as the node has it, without ROS.

    :param profiles: by name, what the prompts name
    :raises RobotLlmError: if model or profiles do not work
    """

    name = 'robot_llm'
    stops_prefill = True

    def __init__(self, settings: Settings, profiles: Mapping[str, ResponseProfile]) -> None:
        self._settings = settings
        self._profiles = profiles
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._worker = Worker(
            lambda should_stop: Runtime(
                LlamaCppBackend(settings, num_cores=len(os.sched_getaffinity(0)),
                                should_stop=should_stop),
                settings, profiles, today=datetime.datetime.now(), should_stop=should_stop),
            self._events.put, time.monotonic, policy='queue', max_queue=4)
        self.runtime = self._worker.open()

    def text_of(self, profile: str, scene: str, goal: str) -> str:
        """Return the rendered prompt, as the other systems get it."""
        segments = self.runtime.profiles[profile].segments(self.runtime.renderer, scene, goal)
        return ''.join(segment.text for segment in segments)

    def submit(self, prompt: Prompt) -> Request:
        """Hand a prompt to the worker, greedily; ``follow`` waits for it."""
        profile = self._profiles[prompt.profile]
        sampling = merge_sampling(self._settings.sampling, profile).model_copy(update={
            'temperature': 0.0, 'max_tokens': prompt.max_tokens, 'repetition_penalty': 1.0})
        request = Request(
            os.urandom(16), profile, prompt.goal, sampling, scene=Scene(1, prompt.scene))
        request.clock.mark(Stage.RECEIVED, time.monotonic())
        self._worker.requests.submit(request)
        return request

    def follow(self, request: Request, sent_s: float) -> Answer:
        """
        Return what comes of a request, when it is over.

        :param sent_s: when it was submitted, monotonic [s]
        :raises RobotLlmError: if the request or the engine failed
        """
        stamps_s, pieces = [], []
        while True:
            try:
                event = self._events.get(timeout=ANSWER_TIMEOUT_S)
            except Empty:
                raise EngineError(
                    f'no answer within {ANSWER_TIMEOUT_S:.0f} s; take a shorter prompt') from None
            if getattr(event, 'request', None) is not request:
                continue
            if isinstance(event, Finished):
                break
            if isinstance(event, Decided | Delta) and event.num_tokens:
                stamps_s.append(now_s := time.monotonic())
                # As the streamer stamps it, for whoever reads the request's own clock.
                request.clock.mark(Stage.PUBLISHED, now_s)
                request.clock.publish_tokens(event.num_tokens, now_s)
                pieces.append(event.text if isinstance(event, Delta) else event.decision.word)
        if request.error is not None:
            raise request.error
        return Answer(
            sent_s, tuple(stamps_s), request.counts.num_completion_tokens, ''.join(pieces),
            len(given_ids(self.runtime, request)))

    def complete(self, prompt: Prompt) -> Answer:
        """Answer a prompt, greedily."""
        sent_s = time.monotonic()
        return self.follow(self.submit(prompt), sent_s)

    def cancel(self, long: Prompt, after_s: float, following: Prompt) -> Cancelled:
        """Stop a request in its prefill; the next one is submitted behind the stop."""
        request = self.submit(long)
        time.sleep(after_s)
        given_up_s = time.monotonic()
        self._worker.requests.stop(request, FinishReason.CANCELED)
        answer = self.follow(self.submit(following), given_up_s)
        return Cancelled(answer.ttft_s, request.stop_clock.latency_s,
                         request.finish_reason is not FinishReason.CANCELED)

    def close(self) -> None:
        """Free the model, join the worker."""
        self._worker.close()
