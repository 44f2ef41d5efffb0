"""What choosing a token costs beside its decode, with a small vocabulary and with a large one."""

from collections.abc import Iterator
from functools import partial
import time

import numpy as np
from numpy.typing import NDArray
from robot_llm.bench.engine.answers import GOAL, MAX_TOKENS, SCENES
from robot_llm.bench.engine.reference import reference
from robot_llm.bench.engine.rig import Rig
from robot_llm.bench.engine.scale import Scale
from robot_llm.bench.prompts import TALK
from robot_llm.bench.sample import Figure, interleave, Target
from robot_llm.core.request import Request
from robot_llm.engine.answer import Answer
from robot_llm.engine.runtime import Runtime
from robot_llm.profile import ResponseProfile

TARGET_S = 0.0002
UNLIKELY = -30.0
"""The logit of the tokens that only the large vocabulary has."""


def sampling(rig: Rig, scale: Scale, large: Runtime) -> Iterator[Figure]:
    """
    Yield the time per token of everything between two decodes.

    The rows of logits of a real answer are played to the code that samples, constrains, forces and
    detokenises; nothing is decoded. The large vocabulary begins with the small one, so that the
    same rows, made longer, lead through the same grammar.
    """
    request = rig.request(GOAL, profile=rig.drive, scene=SCENES[0], max_tokens=MAX_TOKENS)
    rig.run(request)
    rows = reference(rig, request).rows
    cases = [(profile, temperature) for profile in (rig.drive, TALK) for temperature in (0.0, 0.7)]
    for runtime in (rig.runtime, large):
        n_vocab = runtime.backend.info.n_vocab
        wide = np.full((len(rows), n_vocab), UNLIKELY, np.float32)
        for index, row in enumerate(rows):
            wide[index, :len(row)] = row
        values = interleave({
            _name(profile, temperature): partial(
                _per_token_s, rig, runtime, profile, temperature, wide)
            for profile, temperature in cases}, num_runs=scale.num_runs * 3)
        for name, seconds in values.items():
            yield Figure(f'sampling, {name}, {n_vocab // 1000}k vocabulary', 's', seconds,
                         Target(TARGET_S) if runtime is rig.runtime else None)


def _name(profile: ResponseProfile, temperature: float) -> str:
    return f'{profile.detail.kind}, {f"temperature {temperature}" if temperature else "greedy"}'


def _per_token_s(
    rig: Rig, runtime: Runtime, profile: ResponseProfile, temperature: float,
    rows: NDArray[np.float32],
) -> float:
    """Return the time per token of one answer without its decodes [s]."""
    compiled = runtime.profiles[profile.name]
    request: Request = rig.request(
        GOAL, profile=profile, max_tokens=len(rows), temperature=temperature)
    answer = Answer(runtime.backend, compiled, request, compiled.decision_set.words[0])
    try:
        started_s = time.perf_counter()
        answer.append(answer.begin())
        while not answer.is_over:
            row = rows[min(request.counts.num_completion_tokens, len(rows) - 1)]
            answer.append(answer.choose(row))
        return (time.perf_counter() - started_s) / max(request.counts.num_completion_tokens, 1)
    finally:
        answer.close()
