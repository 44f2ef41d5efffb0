"""A user's pydantic model → the JSON schema that constrains a detail, and the rules behind it."""

from collections.abc import Iterator, Mapping
from functools import cache
import importlib
import re
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from robot_llm.errors import ConfigError, SchemaNotMetError

IMPORT_PATH = re.compile(r'[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*')


@cache
def load_detail_model(path: str) -> type[BaseModel]:
    """
    Import a model; once in the life of the process, as Python imports.

    :param path: ``package.module:Class``, importable by the node
    :raises ConfigError: if there is no such thing, or it is no pydantic model
    """
    if not IMPORT_PATH.fullmatch(path):
        raise ConfigError(
            f'detail.model={path!r} is no import path; write package.module:Class')
    module_name, _, class_name = path.partition(':')
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # noqa: B902  a user's module may raise anything
        raise ConfigError(
            f'detail.model={path!r} cannot be imported ({type(error).__name__}: {error}); '
            'install the package, or put its folder on PYTHONPATH') from error
    model = getattr(module, class_name, None)
    if model is None:
        raise ConfigError(
            f'detail.model={path!r}: {module_name} has no {class_name}; correct the name')
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigError(
            f'detail.model={path!r} is no pydantic model; derive the class from '
            'pydantic.BaseModel')
    return model


def model_schema(path: str) -> dict[str, Any]:
    """
    Return the JSON schema of a model, as ``detail.json_schema`` would give it.

    References are replaced by what they stand for; titles, descriptions and defaults are left
    out; a model that says nothing of other keys has none.

    :raises ConfigError: if the model cannot be loaded, or says nothing in JSON Schema
    """
    model = load_detail_model(path)
    try:
        schema = model.model_json_schema()
    except (PydanticInvalidForJsonSchema, ValueError, TypeError) as error:
        raise ConfigError(
            f'detail.model={path!r} has a field without a JSON schema: {error}; use plain '
            'types') from error
    try:
        inlined = _inlined(schema, schema.get('$defs', {}), ())
    except RecursionError as error:
        raise ConfigError(f'detail.model={path!r}: {error}') from error
    assert isinstance(inlined, dict)
    return inlined


def check_by_model(path: str, text: str) -> None:
    """
    Let a model have its say about a detail that meets the schema.

    :param text: the detail as JSON
    :raises SchemaNotMetError: with what its validators said; also if one of them broke
    """
    model = load_detail_model(path)
    try:
        model.model_validate_json(text)
    except ValidationError as error:
        raise SchemaNotMetError(
            f'detail is refused by {path}: ' + '; '.join(_sentences(error))) from error
    except (Exception, SystemExit) as error:  # noqa: B902  a validator that is broken vouches not
        raise SchemaNotMetError(
            f'detail is refused, since {path} raised {type(error).__name__}: {error}; a validator '
            'refuses with ValueError') from error


def _sentences(error: ValidationError) -> Iterator[str]:
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        place = '.'.join(str(key) for key in item['loc'])
        yield f'{place}: {item["msg"]}' if place else item['msg']


def _inlined(schema: Any, parts: Mapping[str, Any], open_parts: tuple[str, ...]) -> Any:
    """Return ``schema`` without references, and without what is for people."""
    if not isinstance(schema, Mapping):
        return schema
    if '$ref' in schema:
        name = str(schema['$ref']).rpartition('/')[2]
        if name in open_parts:
            raise RecursionError(f'{name} contains itself; a detail ends at a known depth')
        return _inlined(parts[name], parts, (*open_parts, name))
    result = {key: value for key, value in schema.items()
              if key not in ('$defs', 'title', 'description', 'default', 'properties', 'items')}
    if 'properties' in schema:
        result['properties'] = {name: _inlined(part, parts, open_parts)
                                for name, part in schema['properties'].items()}
        result.setdefault('additionalProperties', False)
    if 'items' in schema:
        result['items'] = _inlined(schema['items'], parts, open_parts)
    return result
