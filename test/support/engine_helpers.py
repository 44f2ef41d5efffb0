"""Profiles, requests and one whole generation, for the tests of the core and of the engine."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
import time
from typing import Any

from robot_llm.core.decision import Decision
from robot_llm.core.event import Decided, Delta, Event
from robot_llm.core.request import Request, RequestEvent, Scene
from robot_llm.engine.generation import Generation
from robot_llm.engine.runtime import Runtime
from robot_llm.profile import (
    DecisionRules, DecisionWord, DetailRules, merge_sampling, ResponseProfile)
from robot_llm.settings import SamplingParams

WORDS = ('stop', 'slow', 'continue')

SPEED_SCHEMA: dict[str, Any] = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['target_speed_mps', 'reason'],
    'properties': {
        'target_speed_mps': {
            'type': 'number', 'minimum': 0.0, 'maximum': 1.5, 'multipleOf': 0.1},
        'reason': {'type': 'string', 'minLength': 1, 'maxLength': 40},
    },
}

_request_ids = count(1)


def make_profile(
    name: str, *, words: Sequence[str] = WORDS, fallback: str = '', min_confidence: float = 0.0,
    schema: dict[str, Any] | None = None, text: bool = False, system_prompt: str = '',
    **rules: Any,
) -> ResponseProfile:
    """Return a profile; without ``schema`` and ``text`` the answer is the word alone."""
    kind = 'json' if schema else 'text' if text else 'none'
    return ResponseProfile(
        name=name, description='for tests',
        system_prompt=system_prompt or 'You drive a robot. Answer with one word.',
        decision=DecisionRules(
            words=tuple(DecisionWord(word=word, meaning=f'to {word}') for word in words),
            fallback=fallback or words[0], min_confidence=min_confidence, **rules),
        detail=DetailRules(kind=kind, json_schema=schema))


def make_request(
    profile: ResponseProfile, prompt: str = 'A person stands in the way.', *,
    stop_strings: tuple[str, ...] = (), scene: str = '', **sampling: Any,
) -> Request:
    """Return a waiting request; 40 tokens at most, greedy, unless ``sampling`` says otherwise."""
    params = SamplingParams(**({'max_tokens': 40, 'seed': 1} | sampling))
    return Request(
        request_id=next(_request_ids).to_bytes(16, 'big'), profile=profile, prompt=prompt,
        sampling=merge_sampling(params, profile), scene=Scene(0, scene),
        stop_strings=stop_strings)


@dataclass
class Answered:
    """A generation that has ended, and everything it said."""

    request: Request
    events: list[Event] = field(default_factory=list)

    @property
    def decision(self) -> Decision:
        """What the model decided."""
        return next(e.decision for e in self.events if isinstance(e, Decided))

    @property
    def pieces(self) -> list[str]:
        """The texts of the detail as they were published."""
        return [e.text for e in self.events if isinstance(e, Delta)]

    @property
    def detail(self) -> str:
        """The detail without the newline behind the word."""
        return ''.join(self.pieces).removeprefix('\n')

    @property
    def num_tokens(self) -> int:
        """How many tokens the events carry."""
        return sum(e.num_tokens for e in self.events if isinstance(e, Decided | Delta))


def generate(runtime: Runtime, request: Request) -> Answered:
    """
    Run one request to its end, as the worker does.

    :raises RobotLlmError: if the request or the engine fails
    """
    answered = Answered(request)
    request.apply(RequestEvent.SLOT_GRANTED)
    for event in Generation(runtime, request, time.monotonic).run():
        answered.events.append(event)
    request.apply(RequestEvent.FINISH)
    runtime.cache.check_integrity()
    assert answered.num_tokens == request.counts.num_completion_tokens
    return answered
