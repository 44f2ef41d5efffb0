"""A JSON answer made the slow way: one token, one decode, and a mask where the grammar refuses."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from robot_llm.bench.engine.rig import Rig
from robot_llm.bench.ours import given_ids, word_of
from robot_llm.core.request import Request
from robot_llm.engine.constraint import DetailConstraint, SEPARATOR
from robot_llm.engine.prompt_tokens import tokenize_segments


@dataclass(slots=True)
class Reference:
    """The text of one answer, and the rows of logits that led to it."""

    text: str = ''
    rows: list[NDArray[np.float32]] = field(default_factory=list)
    """Of each token behind the word and its separator, shape (n_vocab,)."""


def reference(
    rig: Rig, request: Request, *, is_forcing: bool = True, is_cut: bool = True,
) -> Reference:
    """
    Answer a request that was answered, behind the word that it got, without the engine's loop.

    No chunk, no cache, no speculation, no batch of forced tokens: the bare loop's decodes and
    argmax. What is compared with this is everything that the engine does to be faster.

    :param is_forcing: whether text that the grammar forces gets the tokens that the tokenizer
        would give it; else the model is asked for every one, and may spell the same letters with
        other tokens, behind which it may go on differently
    :param is_cut: whether the prompt is evaluated in two batches, the profile's part first, as the
        cache has it; where a prompt is cut changes llama.cpp's own logits a little
    """
    runtime = rig.runtime
    compiled, backend = runtime.compiled(request.profile), runtime.backend
    constraint = compiled.constraints[word_of(request)].begin()
    first_ids = given_ids(runtime, request)
    prompt_ids = tokenize_segments(backend, compiled.segments(
        runtime.renderer, request.scene.description, request.prompt))
    rig.bare.clear()
    if is_cut:
        rig.bare.evaluate(compiled.static_ids)
        prompt_ids = prompt_ids[len(compiled.static_ids):]
    rig.bare.evaluate(prompt_ids)
    row = rig.bare.evaluate(first_ids)
    found, data, forced = Reference(), b'', list[int]()
    for _ in range(request.sampling.max_tokens - len(first_ids)):
        found.rows.append(row.copy())
        if is_forcing and not forced:
            forced = constraint.forced()
            constraint.accept(forced)
        if forced:
            token_id = forced.pop(0)
        else:
            token_id = _choose(constraint, row)
            if backend.is_end(token_id):
                break
            constraint.accept([token_id])
        data += backend.token_bytes(token_id)
        if constraint.is_complete and not forced:
            break
        row = rig.bare.evaluate([token_id])
    found.text = SEPARATOR + data.decode('utf-8', 'replace')
    return found


def _choose(constraint: DetailConstraint, row: NDArray[np.float32]) -> int:
    """Return the likeliest token that the grammar allows."""
    token_id = int(row.argmax())
    if constraint.allows(token_id):
        return token_id
    return int(np.where(constraint.allowed(), row, -np.inf).argmax())
