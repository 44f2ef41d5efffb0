"""Prompts that several suites measure with: a story of any length, a drive with a long rule."""

import json
from typing import Final

from llama_cpp.llama_grammar import json_schema_to_gbnf
from robot_llm.bench.ours import Ours
from robot_llm.bench.system import Prompt
from robot_llm.profile import DecisionRules, DecisionWord, DetailRules, ResponseProfile

STORY: Final = 'Tell a long story about a robot that crosses a city, street by street.'
SCHEMA: Final = {
    'type': 'object', 'additionalProperties': False, 'required': ['target_speed_mps', 'reason'],
    'properties': {
        'target_speed_mps': {'type': 'number', 'enum': [0.0, 0.2, 0.5, 1.0, 1.5]},
        'reason': {'type': 'string', 'minLength': 1, 'maxLength': 40}}}
TALK: Final = ResponseProfile(
    name='talk', description='free text', system_prompt='You are a robot that tells stories.',
    decision=DecisionRules(
        words=(DecisionWord(word='Sure', meaning='I tell'),
               DecisionWord(word='Sorry', meaning='I do not')),
        fallback='Sorry', min_confidence=0.0),
    detail=DetailRules(kind='text'))
DRIVE: Final = ResponseProfile(
    name='drive', description='a decision and a JSON object',
    system_prompt=(
        'You drive a robot through a warehouse. Read the scene and decide: stop, slow or '
        'continue. People come first: near a person the robot stops, whatever the goal says. '
        'On a wet floor, in a narrow aisle and where the view is poor it slows down. It keeps to '
        'the right, gives way to forklifts, and never passes a closed barrier. A door that opens '
        'is an obstacle until it is open. Pallets on the path are obstacles; boxes beside it are '
        'not. Behind the word write how fast the robot shall drive and why, in a few words. '
        'Do not repeat the scene. Do not ask questions. If the scene tells nothing, stop.'),
    decision=DecisionRules(
        words=(DecisionWord(word='stop', meaning='someone or something is on the path'),
               DecisionWord(word='slow', meaning='something is near the path'),
               DecisionWord(word='continue', meaning='the path is clear')),
        fallback='stop', min_confidence=0.0),
    detail=DetailRules(kind='json', json_schema=SCHEMA))
DECIDE: Final = DRIVE.model_copy(update={'name': 'decide', 'detail': DetailRules()})
"""The word alone."""
PROFILES: Final = {profile.name: profile for profile in (TALK, DRIVE, DECIDE)}
SCENES: Final = (
    'A person walks {} metres ahead of the robot.', 'The aisle is clear for {} metres.',
    'The floor is wet, {} metres of it.', 'A forklift crosses {} metres ahead.')
GOAL: Final = 'May I drive on?'


def grammar() -> str:
    """Return in GBNF what ours enforces for DRIVE: the word, a newline, the JSON object."""
    rules = json_schema_to_gbnf(json.dumps(SCHEMA), ['target_speed_mps', 'reason'])
    lines = []
    for line in rules.splitlines():
        name, _, rule = line.partition(' ::= ')
        # No white space that ours would not write: fewer tokens for the others.
        lines.append('space ::= ""' if name == 'space' else
                     f'{"detail" if name == "root" else name} ::= {rule}')
    words = ' | '.join(f'"{word}"' for word in DRIVE.words)
    return '\n'.join((f'root ::= ({words}) "\\n" detail', *lines))


def scene(run: int, nonce: str = '') -> str:
    """Return another scene for every run; a nonce makes it one that no process has seen."""
    return f'{SCENES[run % len(SCENES)].format(run + 2)} {nonce}'.strip()


def long_prompt(ours: Ours, num_tokens: int, nonce: str, *, tail: str, max_tokens: int) -> Prompt:
    """
    Return a prompt of about so many tokens; the nonce in front makes all of it new.

    :param num_tokens: of the whole prompt, the profile's part included; at most one sentence less
    :param tail: the last words, behind the long part
    """
    count = ours.runtime.backend.tokenize
    around = len(count(ours.text_of('talk', '', f'{nonce} {tail}'), parse_special=True))
    sentence = f'{STORY} '
    num_sentences = max((num_tokens - around) // len(count(sentence, parse_special=False)), 0)
    goal = f'{nonce} {sentence * num_sentences}{tail}'
    return Prompt('talk', '', goal, max_tokens, ours.text_of('talk', '', goal))
