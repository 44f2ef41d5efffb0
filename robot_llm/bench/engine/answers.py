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
    yield _unforced(rig, cold)


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


def _unforced(rig: Rig, given: list[Answered]) -> Figure:
    """
    Return how often the text is the same if the model is asked for what the grammar forces.

    No target: the same letters can be spelt with other tokens, and the model then goes on from
    other tokens. What is forced is spelt as the tokenizer spells it.
    """
    texts = [reference(rig, answer.request, is_forcing=False).text for answer in given]
    return Figure(
        'share of same texts, forced text sampled instead', 'x',
        (sum(answer.text == text for answer, text in zip(given, texts)) / len(given),),
        note='the model may spell forced text with other tokens than the tokenizer does')
