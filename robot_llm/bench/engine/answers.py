"""How few decodes a JSON answer takes, and that it stays the same answer."""

from collections.abc import Iterator, Mapping
from typing import Final

from robot_llm.bench.engine.decoding import num_detail_decodes
from robot_llm.bench.engine.reference import reference
from robot_llm.bench.engine.rig import Answered, Rig
from robot_llm.bench.engine.scale import Scale
from robot_llm.bench.sample import Figure, Target, yes_or_no
from robot_llm.engine.runtime import Runtime

SCENES: Final = (
    'A person stands two metres ahead.', 'The corridor is clear.', 'The floor is wet.',
    'A dog runs across the path.', 'Boxes are stacked near the wall on the left.',
    'It is dark and the camera sees little.')
GOAL: Final = 'Drive on.'
MAX_TOKENS: Final = 96

WAYS: Final[Mapping[str, Mapping[str, object]]] = {
    'without speculation': {'speculation.policy': 'off'},
    'with speculation': {'speculation.policy': 'on'},
    'without abort callback': {'engine.use_abort_callback': False},
    'in chunks of 16': {'engine.chunk_tokens': 16},
}
"""Other ways to the same answer; the text of each is held against the default's."""


def answers(rig: Rig, scale: Scale) -> Iterator[Figure]:
    """Yield decodes per token on the profile ``drive``, and whether the texts are the same."""
    scenes = SCENES[:scale.num_scenes]
    cold = [_answer(rig, rig.runtime, scene, is_cold=True) for scene in scenes]
    yield _decodes('as it is set', cold)
    warm = [_answer(rig, rig.runtime, scene, is_cold=False) for scene in scenes]
    yield _identity('cold and warm cache', cold, [answer.text for answer in warm])
    for name, changes in WAYS.items():
        with rig.opened(changes, rig.drive) as runtime:
            others = [_answer(rig, runtime, scene, is_cold=True) for scene in scenes]
        if 'speculation' in name:
            yield _decodes(name, others, at_most_share=0.6 if 'without' in name else 0.0)
        yield _identity(name, cold, [answer.text for answer in others])
    yield _identity('token by token', cold, [
        reference(rig, answer.request).text for answer in cold])
    yield _share('forced text sampled instead', cold, [
        reference(rig, answer.request, is_forcing=False).text for answer in cold],
        'the model may spell forced text with other tokens than the tokenizer does')
    yield _share('prompt of the bare loop in one batch', cold, [
        reference(rig, answer.request, is_cut=False).text for answer in cold],
        'where a prompt is cut changes the logits of llama.cpp a little')


def _answer(rig: Rig, runtime: Runtime, scene: str, *, is_cold: bool) -> Answered:
    if is_cold:
        runtime.cache.clear()
    return rig.run(rig.request(
        GOAL, profile=rig.drive, scene=scene, max_tokens=MAX_TOKENS), runtime)


def _decodes(name: str, given: list[Answered], *, at_most_share: float = 0.0) -> Figure:
    counts = [answer.request.counts for answer in given]
    shares = tuple(num_detail_decodes(answer.request) / count.num_completion_tokens
                   for answer, count in zip(given, counts))
    forced, drafted, accepted, completed = (
        sum(getattr(count, f'num_{what}_tokens') for count in counts)
        for what in ('forced', 'draft', 'accepted', 'completion'))
    target = Target(at_most_share) if at_most_share else None
    return Figure(
        f'decodes / token, drive JSON, {name}', 'x', shares, target,
        note=f'{forced} of {completed} tokens forced, {accepted} of {drafted} guesses right')


def _identity(name: str, given: list[Answered], others: list[str]) -> Figure:
    """Yield whether every text is the same; the note holds the first two that differ."""
    pairs = [(answer.text, other) for answer, other in zip(given, others)]
    different = [f'{one!r} and {other!r}' for one, other in pairs if one != other]
    return yes_or_no(f'same text, {name}', [one == other for one, other in pairs],
                     note=f'{len(different)} of {len(pairs)} differ: {different[0]}'
                     if different else '')


def _share(name: str, given: list[Answered], others: list[str], note: str) -> Figure:
    """Return how often a text is the same where nobody promises that it is."""
    pairs = zip(given, others)
    return Figure(f'share of same texts, {name}', 'x',
                  (sum(answer.text == other for answer, other in pairs) / len(given),), note=note)
