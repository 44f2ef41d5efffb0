"""How the time to the decision grows with the number of words to decide among."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from robot_llm.bench.engine.rig import Rig
from robot_llm.bench.engine.scale import Scale
from robot_llm.bench.sample import Figure, interleave, ratio, Target
from robot_llm.core.request import Request
from robot_llm.engine.backend import Backend
from robot_llm.engine.runtime import Runtime
from robot_llm.profile import DecisionRules, DecisionWord, DetailRules, ResponseProfile

CANDIDATES: Final = (
    'stop slow continue left right back up down wait turn open close lift drop push pull hold '
    'release follow avoid dock charge scan look speak listen sleep wake help call report map '
    'find bring clean sort count pass yield park reverse climb jump kneel point wave nod').split()
SCENE: Final = 'A person stands two metres ahead of the robot, next to an open door.'
GOAL: Final = 'Decide what to do now.'


def words(rig: Rig, scale: Scale) -> Iterator[Figure]:
    """Yield the time to the decision for 2 to 32 words, and for words that begin alike."""
    apart = distinct_words(rig.runtime.backend, max(scale.word_counts))
    counts = [count for count in scale.word_counts if count <= len(apart)]
    profiles = {count: make_profile(f'apart{count}', apart[:count], apart) for count in counts}
    alike = [f'go_{word}' for word in apart[:4]]
    together = make_profile('alike', alike, apart)
    with rig.opened(None, *profiles.values(), together) as runtime:
        def decide(profile: ResponseProfile) -> Request:
            # The profile's part is pinned, the rest is the same text for all of them.
            runtime.cache.clear()
            return rig.run(rig.request(GOAL, profile=profile, scene=SCENE), runtime).request

        requests: dict[str, list[Request]] = {}

        def measure(name: str, profile: ResponseProfile) -> float:
            requests.setdefault(name, []).append(request := decide(profile))
            return request.clock.ttft_s

        named = {f'{count} words': profile for count, profile in profiles.items()}
        named['4 words that begin alike'] = together
        values = interleave({name: partial(measure, name, profile)
                             for name, profile in named.items()}, num_runs=scale.num_runs)
        for name, seconds in values.items():
            yield Figure(f'time to decision, {name}', 's', seconds,
                         note=_note(runtime, named[name], requests[name]))
        first, last = f'{counts[0]} words', f'{counts[-1]} words'
        yield ratio(f'time to decision, {last} / {first}', values[last], values[first],
                    Target(1.10))
        scoring = {name: tuple(r.clock.durations()['sample_s'] for r in requests[name][1:])
                   for name in (first, last)}
        for name, seconds in scoring.items():
            yield Figure(f'scoring alone, {name}', 's', seconds)


def _note(runtime: Runtime, profile: ResponseProfile, given: Sequence[Request]) -> str:
    counts = given[-1].counts
    return (f'{counts.num_prefilled_tokens} tokens behind {counts.num_cached_tokens} pinned, '
            f'{counts.num_decode_calls} decodes')


def distinct_words(backend: Backend, num_words: int) -> list[str]:
    """Return up to so many words whose first tokens differ in this vocabulary."""
    by_first: dict[int, str] = {}
    for word in CANDIDATES:
        by_first.setdefault(backend.tokenize(word, parse_special=False)[0], word)
    return list(by_first.values())[:num_words]


def make_profile(
    name: str, decision_words: Sequence[str], all_words: Sequence[str],
) -> ResponseProfile:
    """
    Return a profile that decides among words, with a prompt as long as if it were all of them.

    A longer prompt costs attention whatever is decided: here only the number of words differs.
    """
    rest = [word for word in all_words if word not in decision_words]
    return ResponseProfile(
        name=name, description='decisions',
        system_prompt='\n'.join(['You decide.', *(f'{word}: {word}' for word in rest)]),
        decision=DecisionRules(
            words=tuple(DecisionWord(word=word, meaning=word) for word in decision_words),
            fallback=decision_words[0], min_confidence=0.0),
        detail=DetailRules(kind='none'))
