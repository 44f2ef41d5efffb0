"""A terminal loop: a person labels what the robot recorded, the least certain scenes first."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
import hashlib
from pathlib import Path
from typing import Any

from robot_llm.core.text_tokens import MAX_CHARS
from robot_llm.evaluation.scenes import SceneGroup
import yaml

Ask = Callable[[str], str]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recorded scene that nobody has labelled."""

    text: str
    words: tuple[str, ...]
    probabilities: tuple[float, ...]
    word: str

    @property
    def confidence(self) -> float:
        """How sure the decision was; 0 if the model was not asked."""
        return max(self.probabilities, default=0.0)


def candidates(
    records: Iterable[dict[str, Any]], words: Sequence[str], known: Iterable[str],
) -> list[Candidate]:
    """
    Return what is worth a person's time, least certain first, every text once.

    Scenes that are too long for a scene file are left out.

    :param words: the profile's; records of another decision set are left out
    :param known: texts that have a label
    """
    seen = {text.casefold() for text in known}
    found = []
    for record in records:
        text = ' '.join(str(record.get('scene', '')).split())
        if not 0 < len(text) <= MAX_CHARS or text.casefold() in seen or (
                record.get('words') != list(words)):
            continue
        seen.add(text.casefold())
        found.append(Candidate(
            text, tuple(words), tuple(record.get('probabilities', ())), str(record.get('word'))))
    return sorted(found, key=lambda candidate: candidate.confidence)


def label_all(
    found: Sequence[Candidate], keep: Callable[[SceneGroup], None], ask: Ask, say: Say,
) -> int:
    """
    Go through the candidates until they or the person's patience end.

    Each label is kept at once. A paraphrase may be added, which makes the group worth more.

    :param keep: stores one group
    :param ask: prompts and returns a line; EOFError ends the loop
    :returns: how many got a label
    """
    num_labelled = 0
    for number, candidate in enumerate(found, 1):
        say(f'\n[{number}/{len(found)}] {candidate.text}')
        shares = ', '.join(
            f'{word} {p:.0%}' for word, p in zip(candidate.words, candidate.probabilities))
        say(f'    decided: {candidate.word} ({shares or "model not asked"})')
        try:
            if (label := _ask_label(candidate, ask, say)) is None:
                return num_labelled
            if not label:
                continue
            paraphrase = ' '.join(ask('    the same in other words: ').split())
        except EOFError:
            return num_labelled
        texts = [candidate.text]
        if paraphrase and paraphrase.casefold() != candidate.text.casefold():
            texts.append(paraphrase)
        keep(SceneGroup(group_name(candidate.text), label, tuple(texts), ('recorded',)))
        num_labelled += 1
    return num_labelled


def _ask_label(candidate: Candidate, ask: Ask, say: Say) -> str | None:
    """Return the word, '' to leave the scene out, None to end."""
    keys = ', '.join(f'{i}={word}' for i, word in enumerate(candidate.words, 1))
    while True:
        answer = ask(f'    right word ({keys}, Enter=skip, q=quit): ').strip()
        if answer in ('', 'q'):
            return None if answer else ''
        if answer.isdigit() and 1 <= int(answer) <= len(candidate.words):
            return candidate.words[int(answer) - 1]
        if answer in candidate.words:
            return answer
        say(f'    {answer!r} is neither a number nor a word')


def group_name(text: str) -> str:
    """Return a name for a recorded scene; by its text alone, so that its split stays."""
    words = ''.join(c if c.isalnum() and c.isascii() else ' ' for c in text.lower()).split()
    return '-'.join([*words[:4], hashlib.sha256(text.encode()).hexdigest()[:8]])


def append_group(path: Path, group: SceneGroup) -> None:
    """Append one group to a scene file whose last key is ``groups``."""
    item = [{'name': group.name, 'label': group.label, 'tags': list(group.tags),
             'texts': list(group.texts)}]
    text = yaml.safe_dump(item, allow_unicode=True, sort_keys=False, width=96)
    block = ''.join(f'  {line}\n' for line in text.splitlines())
    before = path.read_text(encoding='utf-8')
    with path.open('a', encoding='utf-8') as file:
        file.write(('' if before.endswith('\n') else '\n') + block)
