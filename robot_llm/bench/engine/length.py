"""How the time to the first token grows with the prompt, against the same tokens in one batch."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from robot_llm.bench.engine.rig import Rig
from robot_llm.bench.engine.scale import Scale
from robot_llm.bench.fit import fit_lengths, LengthFit
from robot_llm.bench.machine import reset_peak, rss_bytes
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.sample import Figure, ratio, Target
from robot_llm.bench.suite import Finding


def length(rig: Rig, scale: Scale) -> Iterator[Finding]:
    """Yield the time to the decision by prompt length, both fits, the slopes, peak memory."""
    room = rig.settings.model.n_ctx - 2
    lengths = [tokens for tokens in scale.lengths if tokens <= room]
    seconds: dict[str, list[float]] = {'engine': [], 'bare': []}
    num_tokens: list[int] = []
    for tokens in lengths:
        ours, bare, memory = [], [], []
        for _ in range(scale.length_runs):
            prompt = rig.filler(tokens)
            reset_peak()
            request = rig.run(rig.request(prompt, max_tokens=2)).request
            memory.append(float(rss_bytes()[1]))
            num_tokens.append(request.counts.num_prefilled_tokens)
            ours.append(request.clock.ttft_s)
            # The same tokens behind the same cached ones.
            bare.append(rig.bare.prefill_s(
                rig.prompt_ids(prompt), num_cached=request.counts.num_cached_tokens))
        yield Figure(f'ttft, prompt of {tokens} tokens', 's', tuple(ours))
        yield ratio(f'ttft / one batch, prompt of {tokens} tokens', ours, bare)
        yield Figure(f'peak memory, prompt of {tokens} tokens', 'bytes', tuple(memory),
                     note='engine, bare loop and binding together')
        seconds['engine'] += ours
        seconds['bare'] += bare
    if len(lengths) < 3:
        return
    fits = {name: fit_lengths(num_tokens, values) for name, values in seconds.items()}
    for name, fit in fits.items():
        yield from _fit_figures(name, fit)
    yield _plot(lengths, {
        'robot_llm': _by_length(seconds['engine'], len(lengths)),
        'llama.cpp, one batch': _by_length(seconds['bare'], len(lengths))})
    yield Figure('ttft fit, slope, engine / bare', 'x',
                 (fits['engine'].b_s / fits['bare'].b_s,), Target(1 / 0.95))


def _fit_figures(name: str, fit: LengthFit) -> Iterator[Figure]:
    yield Figure(f'ttft fit a, {name}', 's', (fit.a_s,))
    yield Figure(f'ttft fit b, {name}', 's/token', (fit.b_s,))
    yield Figure(f'ttft fit c, {name}', 's/token^2', (fit.c_s,))
    yield Figure(f'ttft fit, explained variance, {name}', '', (fit.r_squared,),
                 Target(0.99, is_floor=True) if name == 'engine' else None)


def _by_length(values: Sequence[float], num_lengths: int) -> list[Sequence[float]]:
    step = len(values) // num_lengths
    return [values[start:start + step] for start in range(0, len(values), step)]


def _plot(lengths: Sequence[int], seconds: Mapping[str, Sequence[Sequence[float]]]) -> Plot:
    """Return the curves of both; ``seconds`` holds all runs of each length, by name."""
    return Plot(
        'engine_length', 'Time to the decision by prompt length, beside llama.cpp alone',
        'lines',
        tuple(Series(
            name, tuple(map(median, values)), tuple(map(float, lengths)),
            tuple(map(min, values)), tuple(map(max, values)),
            style='ours' if name == 'robot_llm' else 'other') for name, values in seconds.items()),
        x_label='tokens of the prompt', y_label='time to the decision [s]', is_log=(True, True))
