"""What the engine adds to llama.cpp's own time for a prompt, and what its cache saves."""

from collections.abc import Iterator

from robot_llm.bench.engine.rig import Rig
from robot_llm.bench.engine.scale import Scale
from robot_llm.bench.prompts import TALK
from robot_llm.bench.sample import Figure, interleave, ratio, Target
from robot_llm.engine.runtime import Runtime
from robot_llm.roofline import prefill_floor_s


def prefill(rig: Rig, scale: Scale) -> Iterator[Figure]:
    """Yield the prefill rate in chunks, with and without the abort callback, and in one batch."""
    with rig.opened({'engine.use_abort_callback': False}, TALK) as by_chunks:
        chunks: dict[str, int] = {}
        bound_s = by_chunks.chunks.bound_s

        def in_chunks(name: str, runtime: Runtime) -> float:
            request = rig.run(rig.request(rig.filler(scale.prefill_tokens), max_tokens=2),
                              runtime).request
            chunks[name] = request.counts.num_prefill_chunks
            return request.counts.num_prefilled_tokens / request.clock.durations()['prefill_s']

        def in_one_batch() -> float:
            token_ids = rig.prompt_ids(rig.filler(scale.prefill_tokens))
            # The engine finds the profile's part in its cache; so does this one.
            num_cached = len(rig.runtime.profiles[TALK.name].static_ids)
            return (len(token_ids) - num_cached) / rig.bare.prefill_s(
                token_ids, num_cached=num_cached)

        values = interleave({
            'engine': lambda: in_chunks('engine', rig.runtime),
            'engine without abort callback': lambda: in_chunks('chunks', by_chunks),
            'bare, one batch': in_one_batch,
        }, num_runs=scale.num_runs)
    for name, rate in values.items():
        yield Figure(f'prefill of {scale.prefill_tokens} tokens, {name}', 'tokens/s', rate)
    yield ratio('prefill rate, engine / one batch', values['engine'], values['bare, one batch'],
                Target(0.95, is_floor=True), note=f'{chunks["engine"]} chunks')
    yield ratio(
        'prefill rate, without abort callback / one batch',
        values['engine without abort callback'], values['bare, one batch'],
        note=f'{chunks["chunks"]} chunks of at most {bound_s * 1e3:.0f} ms: '
             'what a bounded stop costs where only chunks bound it')
    shape = rig.runtime.backend.info.shape
    if rig.constants.flops and shape is not None:
        # The output matrix is multiplied for the last token alone: too little to count here.
        fastest = 1 / prefill_floor_s(shape.active_layers.num_params, 1, rig.constants.flops)
        for name in ('engine', 'bare, one batch'):
            yield Figure(f'prefill, floor / {name}', '%',
                         tuple(100 * rate / fastest for rate in values[name]))


def reuse(rig: Rig, scale: Scale) -> Iterator[Figure]:
    """Yield the time to the decision cold and warm, nine tenths of the prompt shared."""
    # The header of the goal and the turn stand behind it, and count as not shared.
    num_shared = round(0.9 * scale.reuse_tokens)
    evaluated: dict[str, int] = {}

    def ttft_s(name: str) -> float:
        shared = rig.filler(num_shared)
        rest = ' again' * (scale.reuse_tokens - len(rig.prompt_ids(shared)))
        if name == 'warm':
            rig.run(rig.request(shared + ' first' + rest, max_tokens=2))
        request = rig.run(rig.request(shared + rest, max_tokens=2)).request
        counts = request.counts
        evaluated[name] = counts.num_prefilled_tokens
        evaluated['prompt'] = counts.num_prompt_tokens
        return request.clock.ttft_s

    values = interleave(
        {'cold': lambda: ttft_s('cold'), 'warm': lambda: ttft_s('warm')},
        num_runs=scale.num_runs)
    for name, seconds in values.items():
        yield Figure(f'ttft, {name}', 's', seconds,
                     note=f'{evaluated[name]} of {evaluated["prompt"]} tokens evaluated')
    yield ratio('ttft, warm / cold', values['warm'], values['cold'], Target(0.2), note=(
        f'tokens evaluated, warm / cold: {evaluated["warm"] / evaluated["cold"]:.3f}'))
