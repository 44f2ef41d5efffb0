"""A file of labelled scenes → groups of paraphrases, each on one side of a fixed split."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
import hashlib
from pathlib import Path
from typing import Any, Final, Literal

from robot_llm.core.text_tokens import MAX_CHARS
from robot_llm.errors import ConfigError
from robot_llm.parameter_spec import near_match
import yaml

Split = Literal['fit', 'threshold', 'test']
SPLITS: Final[tuple[Split, ...]] = ('fit', 'threshold', 'test')

MIN_TEXTS, MAX_TEXTS = 1, 4

_TOP_KEYS: Final = ('profile', 'guideline', 'groups')
_GROUP_KEYS: Final = ('name', 'label', 'tags', 'texts')


@dataclass(frozen=True, slots=True)
class SceneGroup:
    """Paraphrases of one situation, and the word that is right for it."""

    name: str
    label: str
    texts: tuple[str, ...]
    tags: tuple[str, ...] = ()

    @property
    def split(self) -> Split:
        """On which side the whole group is; by its name alone, so that additions move nobody."""
        percentile = int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % 100
        return 'fit' if percentile < 60 else 'threshold' if percentile < 80 else 'test'


@dataclass(frozen=True, slots=True)
class LabelledScene:
    """One text of a group."""

    text: str
    label: str
    group: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SceneSet:
    """What a scene file holds."""

    profile: str
    guideline: str
    groups: tuple[SceneGroup, ...]

    def scenes(self, split: Split | None = None) -> tuple[LabelledScene, ...]:
        """Return the scenes of one side, or of all; a group's stand together."""
        return tuple(
            LabelledScene(text, group.label, group.name, group.tags)
            for group in self.groups if split in (None, group.split) for text in group.texts)

    @property
    def content_hash(self) -> str:
        """Return a hash of names, labels and texts; comments and order of tags do not count."""
        digest = hashlib.sha256()
        for group in sorted(self.groups, key=lambda group: group.name):
            digest.update(repr((group.name, group.label, group.texts)).encode())
        return digest.hexdigest()


def load_scenes(path: Path, words: Sequence[str]) -> SceneSet:
    """
    Read and check a scene file.

    :param words: the profile's decision words, the only labels there are
    :raises ConfigError: with all problems at once, each with its line
    """
    try:
        root = yaml.compose(path.read_text(encoding='utf-8'), Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f'{path}: {error.strerror}; give a readable scene file') from error
    except UnicodeDecodeError as error:
        raise ConfigError(f'{path}: byte {error.start} is not UTF-8; save it as UTF-8') from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else '?'
        raise ConfigError(f'{path}:{line}: not valid YAML: {error.problem}') from error
    problems = _Problems(path)
    top = problems.mapping(root, 'a scene file', _TOP_KEYS)
    groups = tuple(_groups(problems, top.get('groups'), words))
    for key in ('profile', 'guideline'):
        if not problems.text(top.get(key), key):
            problems.add(top.get(key) or root, f'{key} is missing or empty; add it')
    if problems.lines:
        raise ConfigError(*problems.lines)
    return SceneSet(top['profile'].value, top['guideline'].value, groups)


def merge_scenes(sets: Sequence[SceneSet]) -> SceneSet:
    """
    Return all groups of one profile's scene files.

    :raises ConfigError: with each name and each text that stands in two groups; a text in two may
        be on both sides of the split
    """
    groups = tuple(group for scenes in sets for group in scenes.groups)
    names: set[str] = set()
    name_of: dict[str, str] = {}
    problems = []
    for group in groups:
        if group.name in names:
            problems.append(f'group {group.name} stands in two scene files; rename one')
        names.add(group.name)
        for text in group.texts:
            key = ' '.join(text.casefold().split())
            if (first := name_of.setdefault(key, group.name)) != group.name:
                problems.append(f'{text!r} stands in the groups {first} and {group.name}; a text '
                                'may stand once, on one side of the split')
    if problems:
        raise ConfigError(*problems)
    return SceneSet(sets[0].profile, sets[0].guideline, groups)


class _Problems:
    """Reads nodes, and notes what is wrong with the line it stands on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lines: list[str] = []

    def add(self, node: Any, problem: str) -> None:
        line = node.start_mark.line + 1 if node is not None else 1
        self.lines.append(f'{self._path}:{line}: {problem}')

    def mapping(self, node: Any, what: str, keys: Sequence[str]) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            self.add(node, f'{what} is not a mapping; write {": ".join(keys[:2])}: and so on')
            return {}
        found: dict[str, Any] = {}
        for key, value in node.value:
            if key.value in found:
                self.add(key, f'key {key.value!r} stands twice; keep one')
            elif key.value not in keys:
                hint = near_match(str(key.value), keys) or '; remove it'
                self.add(key, f'{key.value!r} is not a key of {what}{hint}')
            found[key.value] = value
        return found

    def text(self, node: Any, what: str) -> str:
        if node is None:
            return ''
        if not isinstance(node, yaml.ScalarNode):
            self.add(node, f'{what} is not a text; write one line')
            return ''
        # An unquoted yes, 3 or null would be something else to every other reader.
        if node.tag != 'tag:yaml.org,2002:str':
            self.add(node, f'{what}={node.value} is no text to YAML; put it in quotes')
        return str(node.value).strip()

    def texts(self, node: Any, what: str) -> tuple[str, ...]:
        if node is None:
            return ()
        if not isinstance(node, yaml.SequenceNode):
            self.add(node, f'{what} is not a list; write [one, two]')
            return ()
        return tuple(filter(None, (self.text(item, what) for item in node.value)))


def _groups(problems: _Problems, node: Any, words: Sequence[str]) -> Iterator[SceneGroup]:
    if not isinstance(node, yaml.SequenceNode) or not node.value:
        problems.add(node, 'groups is missing or no list; write one item per situation')
        return
    names: dict[str, int] = {}
    texts: dict[str, int] = {}
    for item in node.value:
        fields = problems.mapping(item, 'a group', _GROUP_KEYS)
        name = problems.text(fields.get('name'), 'name')
        label = problems.text(fields.get('label'), 'label')
        group = SceneGroup(name, label, problems.texts(fields.get('texts'), 'texts'),
                           problems.texts(fields.get('tags'), 'tags'))
        line = item.start_mark.line + 1
        if not name:
            problems.add(item, 'name is missing; the split goes by it')
        elif (first := names.setdefault(name, line)) != line:
            problems.add(item, f'group {name!r} stands at line {first} too; rename one')
        if label not in words:
            problems.add(fields.get('label') or item,
                         f'label={label!r} is not one of {", ".join(words)}; correct it')
        if not MIN_TEXTS <= len(group.texts) <= MAX_TEXTS:
            problems.add(fields.get('texts') or item,
                         f'group {name!r} has {len(group.texts)} texts, not {MIN_TEXTS} to '
                         f'{MAX_TEXTS}; add or remove some')
        for text in group.texts:
            if (first := texts.setdefault(text.casefold(), line)) != line or (
                    group.texts.count(text) > 1):
                problems.add(item, f'{text!r} stands in the group of line {first} already; a '
                             'text may stand once, on one side of the split')
            if len(text) > MAX_CHARS:
                problems.add(item, f'a text has {len(text)} characters, a head reads {MAX_CHARS}; '
                             'shorten it')
        yield group
