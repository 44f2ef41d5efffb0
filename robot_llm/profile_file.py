"""Profile files → profiles; all that is wrong in all files is said at once."""

from collections.abc import Iterator, Mapping
import json
from pathlib import Path
import re
from typing import Any

from pydantic import BaseModel, ValidationError
from robot_llm.detail_model import model_schema
from robot_llm.errors import ConfigError
from robot_llm.parameter_spec import near_match, wrong_type
from robot_llm.profile import (
    Deadlines, DecisionRules, DecisionWord, DetailRules, ResponseProfile,
)
from robot_llm.settings import Limits, SamplingParams
import yaml

_MODELS: tuple[type[BaseModel], ...] = (
    ResponseProfile, DecisionRules, DecisionWord, DetailRules, SamplingParams, Deadlines)
_WANTED_TYPES = {
    'string_type': str, 'int_type': int, 'int_from_float': int, 'float_type': float,
    'tuple_type': list, 'frozen_set_type': list, 'dict_type': dict, 'model_type': dict,
}
_MERGE_TAG = 'tag:yaml.org,2002:merge'
_KEYS = tuple(dict.fromkeys(key for model in _MODELS for key in model.model_fields))


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a mapping with the same key twice; PyYAML takes the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Count the keys as written: one that is merged (``<<``) may be given anew beside it."""
        node = super().compose_mapping_node(anchor)
        keys = [self.construct_object(key) for key, _ in node.value
                if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE_TAG]
        if len(set(keys)) < len(keys):
            twice = max(keys, key=keys.count)
            raise yaml.MarkedYAMLError(
                problem=f'key {twice!r} stands twice; keep one', problem_mark=node.start_mark)
        return node


def load_profiles(
    folder: Path, limits: Limits = Limits(), *, require_heads: bool = True,
) -> dict[str, ResponseProfile]:
    """
    Return the profiles in ``folder`` by name; the name is the file's, without ``.yaml``.

    :param require_heads: whether the file of a decision head must be there
    :raises ConfigError: one sentence per problem in any file, or if there is no profile at all
    """
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in ('.yaml', '.yml'))
    except OSError as error:
        raise ConfigError(
            f'profiles.folder={str(folder)!r} cannot be read ({error.strerror}); '
            'give a folder of *.yaml files') from error
    if not files:
        raise ConfigError(
            f'profiles.folder={str(folder)!r} holds no *.yaml file; '
            "add a profile, or set '' for the shipped ones")
    profiles: dict[str, ResponseProfile] = {}
    problems: list[str] = []
    for path in files:
        try:
            profiles[path.stem] = _load_profile(path, limits, require_heads)
        except ConfigError as error:
            problems.extend(f'{path.name}: {problem}' for problem in error.problems)
    if problems:
        raise ConfigError(*problems)
    return profiles


def check_default_profile(profiles: Mapping[str, ResponseProfile], name: str) -> None:
    """Raise ConfigError if ``profiles.default`` names no loaded profile."""
    if name not in profiles:
        raise ConfigError(
            f'profiles.default={name!r} is not among the profiles {", ".join(sorted(profiles))}'
            f'{near_match(name, tuple(profiles)) or "; choose one of them"}')


def _load_profile(path: Path, limits: Limits, require_heads: bool) -> ResponseProfile:
    if path.suffix != '.yaml' or not re.fullmatch('[a-z][a-z0-9_]*', path.stem):
        raise ConfigError(
            'the file name is the profile name; rename it to lower-case letters, digits and _ '
            'with .yaml behind')
    mapping = _read_mapping(path)
    if 'name' in mapping:
        raise ConfigError(
            f'name={mapping["name"]!r} is given by the file name; remove the key')
    try:
        profile = ResponseProfile.model_validate({**_with_model(mapping), 'name': path.stem})
    except ValidationError as error:
        raise ConfigError(*_sentences(error)) from error
    if problems := list(_limit_problems(profile, limits)):
        raise ConfigError(*problems)
    return _with_head_path(profile, path.parent, require_heads)


def _with_model(mapping: dict[Any, Any]) -> dict[Any, Any]:
    """Put the schema of the user's pydantic model where a schema of the file would stand."""
    detail = mapping.get('detail')
    if not (isinstance(detail, dict) and isinstance(path := detail.get('model'), str) and path):
        return mapping
    if 'json_schema' in detail:
        raise ConfigError(
            f'detail.json_schema is given beside detail.model={path!r}; keep one of them')
    return {**mapping, 'detail': {**detail, 'json_schema': model_schema(path)}}


def _with_head_path(
    profile: ResponseProfile, folder: Path, is_required: bool,
) -> ResponseProfile:
    """Make the head's file absolute; whether it fits the model shows when that is loaded."""
    if not profile.decision.head:
        return profile
    given = Path(profile.decision.head).expanduser()
    places = [folder / given, folder.parent / given]
    for place in places:
        if place.is_file():
            decision = profile.decision.model_copy(update={'head': str(place.resolve())})
            return profile.model_copy(update={'decision': decision})
    if not is_required:
        return profile
    raise ConfigError(
        f'decision.head={profile.decision.head!r} is neither in {folder} nor in {folder.parent}; '
        'fit one with `ros2 run robot_llm evaluate fit`, or set decision.method to words')


def _read_mapping(path: Path) -> dict[Any, Any]:
    try:
        content = yaml.load(path.read_text(encoding='utf-8'), Loader=_UniqueKeyLoader)
    except OSError as error:
        raise ConfigError(f'cannot be read ({error.strerror}); check the permissions') from error
    except UnicodeDecodeError as error:
        raise ConfigError(f'byte {error.start} is not UTF-8; save the file as UTF-8') from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else '?'
        raise ConfigError(f'line {line} is not valid YAML: {error.problem}') from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f'is not valid YAML: {error}') from error
    if not isinstance(content, dict):
        raise ConfigError('is not a mapping; write keys such as description: and decision:')
    return content


def _sentences(error: ValidationError) -> Iterator[str]:
    """Yield one sentence per problem: key path, value, limit, remedy."""
    for item in error.errors():
        path = ''.join(
            f'[{key}]' if isinstance(key, int) else f'.{key}' for key in item['loc']).lstrip('.')
        value, context = item['input'], item.get('ctx', {})
        is_scalar = value is None or isinstance(value, (bool, int, float, str))
        shown = f'{path}={value!r}' if is_scalar else path
        match item['type']:
            case 'missing':
                yield f'{path} is missing; add it'
            case 'extra_forbidden':
                key = str(item['loc'][-1])
                yield f'{shown} is not a key of a profile{near_match(key, _KEYS) or "; remove it"}'
            case 'value_error':
                for problem in str(context['error']).split('\n'):
                    # A whole-group check names its own keys; they follow the group's path.
                    glue = ' ' if is_scalar or not path else '.'
                    yield f'{shown if is_scalar else path}{glue}{problem}'.lstrip()
            case 'literal_error':
                yield f'{shown} is not one of {context["expected"]}; choose one'
            case 'greater_than_equal' | 'less_than_equal':
                side, limit = ('below', context.get('ge')) if 'ge' in context else (
                    'above', context.get('le'))
                yield f'{shown} is {side} the limit {limit}; correct it'
            case kind if kind in _WANTED_TYPES:
                yield wrong_type(path, value, _WANTED_TYPES[kind])
            case _:
                yield f'{shown} is refused: {item["msg"]}; correct it'


def _limit_problems(profile: ResponseProfile, limits: Limits) -> Iterator[str]:
    sizes = [
        ('system_prompt', _bytes(profile.static_prompt), 'prompt_bytes'),
        ('stop', len(profile.stop), 'stop_strings'),
        ('detail.max_tokens', profile.detail.max_tokens, 'max_tokens'),
    ]
    sizes += [(f'detail.{key}', _bytes(json.dumps(schema)), 'schema_bytes')
              for key, schema in profile.detail.json_schemas.items()]
    sizes += [(f'stop[{i}]', _bytes(text), 'stop_bytes') for i, text in enumerate(profile.stop)]
    for name, size, limit_name in sizes:
        if size > (limit := getattr(limits, limit_name)):
            unit = limit_name.rpartition('_')[2]
            yield (f'{name} has {size} {unit}, above limits.{limit_name}={limit}; '
                   'shorten it or raise the limit')


def _bytes(text: str) -> int:
    return len(text.encode())
