"""What the engine adds to llama.cpp's own time per token."""

from collections.abc import Iterator
from statistics import median
from typing import Final

from robot_llm.bench.bare import BareLoop, GuestLoop
from robot_llm.bench.engine.rig import Rig
from robot_llm.bench.engine.scale import Scale
from robot_llm.bench.ours import given_ids
from robot_llm.bench.prompts import STORY, TALK
from robot_llm.bench.sample import Figure, interleave, Measure, ratio, Target
from robot_llm.core.request import Request
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.runtime import Runtime
from robot_llm.roofline import tpot_floor_s

PLAIN: Final = {'speculation.policy': 'off'}
"""One decode per token, like the loop beside it."""
ENGINE: Final = 'engine, one token a decode'
BARE: Final = 'bare loop'
OTHER: Final = 'bare loop, another context'
GUEST: Final = "bare loop in the engine's context"


def num_detail_decodes(request: Request) -> int:
    """Return how many decodes the detail took: all but the prompt's."""
    return request.counts.num_decode_calls - request.counts.num_prefill_chunks


def tpot_s(runtime: Runtime, request: Request) -> float:
    """
    Return the time per token that decodes of the answer gave [s].

    The statistics divide by all tokens but the first. The word and what separates it have no
    decode of their own, and whoever is compared with this one gets none for nothing.
    """
    num_tokens = request.counts.num_completion_tokens
    num_decoded = num_tokens - len(given_ids(runtime, request))
    return request.clock.tpot_s * (num_tokens - 1) / max(num_decoded, 1)


def decode(rig: Rig, scale: Scale) -> Iterator[Figure]:
    """Yield the time per token: ours, the bare loop's in equal batches, the binding's."""
    token_ids = rig.prompt_ids(STORY)
    values, note = _slices(rig, scale, token_ids)
    for name, seconds in values.items():
        yield Figure(f'tpot, {name}', 's', seconds)
    yield ratio('tpot, engine / bare loop', values[ENGINE], values[BARE], Target(1.03), note=note)
    yield ratio('tpot, engine / bare loop in its own context', values[ENGINE], values[GUEST],
                note='the same buffers at the same place in the memory')
    yield ratio('tpot, bare loop / bare loop in another context', values[OTHER], values[BARE],
                note='the same work twice: how far off 1 a ratio may be here')
    yield from _floors(rig, values, len(token_ids) + scale.slice_tokens / 2)
    yield from _as_set(rig, scale, token_ids)


def _slices(
    rig: Rig, scale: Scale, token_ids: list[int],
) -> tuple[dict[str, tuple[float, ...]], str]:
    """
    Measure short slices in turn, in contexts that are made anew several times.

    Where the buffers of a context lie in the memory decides how they meet in the processor's
    caches, for as long as it lives: one pair of contexts says something about its own luck.

    :returns: the time per token by name, shape (num_contexts * num_slices,); and what was decoded,
        with the ratio of each pair of contexts
    """
    values: dict[str, list[float]] = {}
    ratios: list[str] = []
    for index in range(scale.num_contexts):
        with rig.opened(PLAIN, TALK) as plain:
            loops = {name: BareLoop(rig.settings.model.path, **rig.same) for name in (BARE, OTHER)}
            try:
                measures, note = _measures(rig, scale, plain, loops, token_ids)
                # Whoever comes first in a round finds what the last of the round before left.
                order = measures if index % 2 == 0 else dict(reversed(measures.items()))
                found = interleave(order, num_runs=scale.num_slices)
            finally:
                for loop in loops.values():
                    loop.close()
        for name in measures:
            values.setdefault(name, []).extend(found[name])
        ratios.append(f'{median(map(_divide, found[ENGINE], found[BARE])):.3f}')
    return ({name: tuple(seconds) for name, seconds in values.items()},
            f'{note}; by pair of contexts: {", ".join(ratios)}')


def _divide(left: float, right: float) -> float:
    return left / right


def _measures(
    rig: Rig, scale: Scale, plain: Runtime, loops: dict[str, BareLoop], token_ids: list[int],
) -> tuple[dict[str, Measure], str]:
    """Return what gives the time per token of each, and a line on what they decode."""
    backend = plain.backend
    assert isinstance(backend, LlamaCppBackend), 'the rig makes no other'
    guest = GuestLoop(backend.context, n_batch=backend.n_batch)

    def answer() -> Request:
        return rig.run(rig.request(STORY, max_tokens=scale.slice_tokens), plain).request

    first = answer()
    num_tokens, num_decodes = first.counts.num_completion_tokens, num_detail_decodes(first)
    first_ids = given_ids(plain, first)

    def of_loop(loop: BareLoop) -> float:
        return loop.decode_s(token_ids, first_ids, num_decodes) / (num_tokens - len(first_ids))

    def as_guest() -> float:
        plain.cache.clear()
        try:
            return of_loop(guest)
        finally:
            plain.cache.clear()

    return {
        ENGINE: lambda: tpot_s(plain, answer()), BARE: lambda: of_loop(loops[BARE]),
        GUEST: as_guest, OTHER: lambda: of_loop(loops[OTHER]),
    }, f'{num_tokens} tokens in {num_decodes} decodes; the loop does the same'


def _floors(
    rig: Rig, values: dict[str, tuple[float, ...]], depth: float,
) -> Iterator[Figure]:
    info = rig.runtime.backend.info
    if rig.constants.bandwidth and info.shape is not None:
        floor_s = tpot_floor_s(info.shape.read_per_token, int(info.shape.kv_bytes_read(
            depth, info.kv_bytes_per_token)), rig.constants.bandwidth)
        for name in (ENGINE, BARE):
            yield Figure(f'tpot, floor / {name}', '%',
                         tuple(100 * floor_s / seconds for seconds in values[name]))


def _as_set(rig: Rig, scale: Scale, token_ids: list[int]) -> Iterator[Figure]:
    """Yield a longer answer of the engine as it is set, and of the binding."""
    names = 'engine as it is set', 'llama_cpp.Llama'
    values = interleave({
        names[0]: lambda: tpot_s(rig.runtime, rig.run(
            rig.request(STORY, max_tokens=scale.num_tokens)).request),
        BARE: lambda: rig.bare.tpot_s(token_ids, scale.num_tokens),
        names[1]: lambda: rig.binding.tpot_s(TALK.static_prompt, STORY, scale.num_tokens),
    }, num_runs=scale.num_runs)
    for name in names:
        yield Figure(f'tpot, {name}', 's', values[name])
        yield ratio(f'tpot, {name} / bare loop', values[name], values[BARE])
