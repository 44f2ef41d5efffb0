"""Profiles and requests for the tests of the core and of the engine."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from robot_llm.core.request import Request, Scene
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
        'reason': {'type': 'string', 'minLength': 1, 'maxLength': 24},
    },
}

STANDSTILL_SCHEMA: dict[str, Any] = SPEED_SCHEMA | {
    'properties': SPEED_SCHEMA['properties'] | {
        'target_speed_mps': {'type': 'number', 'const': 0.0}}}

_request_ids = count(1)


def make_profile(
    name: str, *, words: Sequence[str] = WORDS, fallback: str = '', min_confidence: float = 0.0,
    schema: dict[str, Any] | None = None, schema_of: dict[str, dict[str, Any]] | None = None,
    text: bool = False, system_prompt: str = '', **rules: Any,
) -> ResponseProfile:
    """Return a profile; without ``schema`` and ``text`` the answer is the word alone."""
    kind = 'json' if schema else 'text' if text else 'none'
    return ResponseProfile(
        name=name, description='for tests',
        system_prompt=system_prompt or 'You drive a robot. Answer with one word.',
        decision=DecisionRules(
            words=tuple(DecisionWord(word=word, meaning=f'to {word}') for word in words),
            fallback=fallback or words[0], min_confidence=min_confidence, **rules),
        detail=DetailRules(kind=kind, json_schema=schema, json_schema_of=schema_of or {}))


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
