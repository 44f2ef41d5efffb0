"""Which JSON schemas a detail may have: valid ones, bounded in every part."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError as JsonSchemaError

Schema = Mapping[str, Any]

# A valid schema with maxLength near 2,000 crashed llama.cpp's grammar, and a
# small model fills what it is given: a reason is a sentence, not a page.
MAX_STRING_LENGTH = 512
MAX_ARRAY_ITEMS = 64

_VALUES = {'enum', 'const'}
_ANNOTATIONS = {'type', 'title', 'description'}
# Every keyword a detail schema may use, by type: each is enforced while generating and checked
# again afterwards. $ref, anyOf, format and the like are left out: they hide an unbounded part.
_KEYWORDS = {
    'object': {'properties', 'required', 'additionalProperties'},
    'array': {'items', 'minItems', 'maxItems'},
    'string': {'minLength', 'maxLength', 'pattern'} | _VALUES,
    'number': {'minimum', 'maximum', 'multipleOf'} | _VALUES,
    'integer': {'minimum', 'maximum', 'multipleOf'} | _VALUES,
    'boolean': _VALUES,
    'null': _VALUES,
}


def schema_problems(schema: Schema) -> list[str]:
    """
    Return what is wrong with a detail schema; an empty list means it is valid and bounded.

    An unbounded detail never ends on a small model: every string, array and number has limits.

    :returns: one sentence each: key path, value, limit, remedy
    """
    if problems := list(_not_json(schema, '$')):
        return problems
    try:
        Draft202012Validator.check_schema(schema)
    except JsonSchemaError as error:
        return [f'{error.json_path}={error.instance!r} is not valid JSON Schema: '
                f'{error.message}; correct it']
    if schema.get('type') != 'object':
        return [f"$.type={schema.get('type')!r} is not 'object'; a detail is a JSON object"]
    return list(_unbounded_parts(schema, '$'))


def _not_json(value: object, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(key, str):
                yield from _not_json(item, f'{path}.{key}')
            else:
                yield (f'{path} has the key {key!r}, which is not a string; put it in quotes '
                       '(YAML reads an unquoted on, off, yes or no as a boolean)')
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _not_json(item, f'{path}[{index}]')
    elif not (value is None or isinstance(value, (bool, int, str))
              or (isinstance(value, float) and isfinite(value))):
        yield f'{path}={value!r} cannot stand in JSON; write a string or a finite number'


def _unbounded_parts(schema: object, path: str) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        yield f'{path}={schema!r} allows anything; write a schema with a type'
        return
    kind = schema.get('type')
    if not isinstance(kind, str):
        yield f'{path}.type={kind!r} is not one type; choose one of {", ".join(_KEYWORDS)}'
        return
    for key in sorted(set(schema) - _ANNOTATIONS - _KEYWORDS[kind]):
        yield f'{path}.{key} is not supported in a detail of type {kind}; remove it'
    if _VALUES & set(schema):
        return
    match kind:
        case 'object':
            yield from _unbounded_object(schema, path)
        case 'array':
            yield from _above(schema, path, 'maxItems', MAX_ARRAY_ITEMS)
            yield from _unbounded_parts(schema.get('items', True), f'{path}.items')
        case 'string':
            # Beside a pattern too: `a*` repeats for ever.
            yield from _above(schema, path, 'maxLength', MAX_STRING_LENGTH)
        case 'number' | 'integer':
            # llguidance lets a number within limits have any count of digits after the point.
            needed = ('minimum', 'maximum') + (('multipleOf',) if kind == 'number' else ())
            for key in needed:
                if key not in schema:
                    example = 'a step such as 0.1' if key == 'multipleOf' else 'a limit'
                    yield f'{path}.{key} is missing; add {example}, or list the values in enum'


def _unbounded_object(schema: Schema, path: str) -> Iterator[str]:
    if schema.get('additionalProperties') is not False:
        yield f'{path}.additionalProperties is not false; set it, or any key may follow'
    properties = schema.get('properties', {})
    if not properties:
        yield f'{path}.properties is empty; name at least one'
    for name in schema.get('required', []):
        if name not in properties:
            yield f'{path}.required names {name!r}, which is not in properties; add or remove it'
    for name, part in properties.items():
        yield from _unbounded_parts(part, f'{path}.properties.{name}')


def _above(schema: Schema, path: str, key: str, limit: int) -> Iterator[str]:
    if key not in schema:
        yield f'{path}.{key} is missing; add one of at most {limit}, or list the values in enum'
    elif schema[key] > limit:
        yield f'{path}.{key}={schema[key]} is above the limit {limit}; lower it'
