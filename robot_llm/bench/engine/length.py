"""How the time to the first token grows with the prompt, against the same tokens in one batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import numpy as np
from robot_llm.bench.engine.rig import Rig
from robot_llm.bench.engine.scale import Scale
from robot_llm.bench.fit import fit_lengths, LengthFit
from robot_llm.bench.machine import reset_peak, rss_bytes
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.sample import Figure, ratio, Target
from robot_llm.bench.suite import Finding

NUM_DRAWS: Final = 200
"""From the measured pairs: enough for a middle half of the slope."""
OURS: Final = 'engine'
BARE: Final = 'bare'


@dataclass(slots=True)
class Runs:
    """All runs of one length, in their order; ours and the bare one after the other."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {OURS: [], BARE: []})
    num_tokens: list[int] = field(default_factory=list)
    """That were evaluated."""
    memory: list[float] = field(default_factory=list)
    """Peak [bytes]."""


def length(rig: Rig, scale: Scale) -> Iterator[Finding]:
    """Yield the time to the decision by prompt length, both fits, the slopes, peak memory."""
    room = rig.settings.model.n_ctx - 2
    runs = {tokens: Runs() for tokens in scale.lengths if tokens <= room}
    _measure(rig, min(runs), Runs())  # warms up
    # Round by round, so that a slower minute is not one length's alone.
    for index in range(max(map(scale.runs_of, runs))):
        for tokens, found in runs.items():
            if index < scale.runs_of(tokens):
                _measure(rig, tokens, found)
    for tokens, found in runs.items():
        ours, bare = found.seconds[OURS], found.seconds[BARE]
        yield Figure(f'ttft, prompt of {tokens} tokens', 's', tuple(ours))
        yield ratio(f'ttft / one batch, prompt of {tokens} tokens', ours, bare)
        yield Figure(f'peak memory, prompt of {tokens} tokens', 'bytes', tuple(found.memory),
                     note='engine, bare loop and binding together')
    if len(runs) < 3:
        return
    for name in (OURS, BARE):
        yield from _fit_figures(name, _fit(runs.values(), name))
    yield _plot(list(runs), {
        'robot_llm': [found.seconds[OURS] for found in runs.values()],
        'llama.cpp, one batch': [found.seconds[BARE] for found in runs.values()]})
    yield Figure('ttft fit, slope, engine / bare', 'x', slope_ratios(list(runs.values())),
                 Target(1 / 0.95), note=f'{NUM_DRAWS} draws from the pairs of runs',
                 are_draws=True)


def _measure(rig: Rig, tokens: int, found: Runs) -> None:
    """Evaluate a prompt of this length once with the engine and once with the bare loop."""
    prompt = rig.filler(tokens)
    reset_peak()
    request = rig.run(rig.request(prompt, max_tokens=2)).request
    found.memory.append(float(rss_bytes()[1]))
    found.num_tokens.append(request.counts.num_prefilled_tokens)
    found.seconds[OURS].append(request.clock.ttft_s)
    # The same tokens behind the same cached ones.
    found.seconds[BARE].append(rig.bare.prefill_s(
        rig.prompt_ids(prompt), num_cached=request.counts.num_cached_tokens))


def _fit(runs: Iterable[Runs], name: str) -> LengthFit:
    pairs = [pair for found in runs for pair in zip(found.num_tokens, found.seconds[name])]
    return fit_lengths(*zip(*pairs))


def slope_ratios(runs: Sequence[Runs]) -> tuple[float, ...]:
    """
    Return how the slope of the engine's fit stands to the bare loop's, with its uncertainty.

    From a few runs of a few lengths the line and the square are told apart badly, and one slow run
    moves the slope by more than what is looked for. So the runs of each length are drawn again,
    with repetition and in pairs, and both fits made of every draw.

    :returns: shape (NUM_DRAWS,); the same for the same runs
    """
    random = np.random.default_rng(0)
    ratios = []
    for _ in range(NUM_DRAWS):
        drawn = []
        for found in runs:
            places = random.integers(len(found.num_tokens), size=len(found.num_tokens))
            drawn.append(Runs(
                {name: [values[place] for place in places]
                 for name, values in found.seconds.items()},
                [found.num_tokens[place] for place in places]))
        ratios.append(_fit(drawn, OURS).b_s / _fit(drawn, BARE).b_s)
    return tuple(ratios)


def _fit_figures(name: str, fit: LengthFit) -> Iterator[Figure]:
    yield Figure(f'ttft fit a, {name}', 's', (fit.a_s,))
    yield Figure(f'ttft fit b, {name}', 's/token', (fit.b_s,))
    yield Figure(f'ttft fit c, {name}', 's/token^2', (fit.c_s,))
    yield Figure(f'ttft fit, explained variance, {name}', '', (fit.r_squared,),
                 Target(0.99, is_floor=True) if name == OURS else None)


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
