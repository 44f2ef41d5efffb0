"""Whether a generated detail meets its profile's schema, and what it then says."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
import json
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from robot_llm.detail_model import check_by_model
from robot_llm.detail_schema import Schema
from robot_llm.errors import SchemaNotMetError
from robot_llm.profile import ResponseProfile


def validate_detail(profile: ResponseProfile, word: str, text: str) -> dict[str, Any]:
    """
    Return the detail in ``text``, in its schema's key order, numbers in the schema's types.

    A pydantic model of the profile has the last word; it refuses, and changes nothing.

    :param profile: one whose detail is JSON
    :param word: the decision word it stands behind, whose own schema counts if it has one
    :param text: one JSON object, as generated
    :raises SchemaNotMetError: with path, value and limit of everything that is wrong
    """
    schema = profile.detail.schema_behind(word)
    assert schema is not None
    try:
        detail = json.loads(
            text, object_pairs_hook=_object_of_unique_keys, parse_constant=_refuse_constant,
            parse_float=Decimal)
        # Decimal on both sides: in binary 0.3 is no multiple of 0.1.
        errors = list(Draft202012Validator(_decimal(schema)).iter_errors(detail))
    except (ValueError, RecursionError) as error:
        raise SchemaNotMetError(
            f'detail {_short(text)} cannot be read as JSON: {error}') from error
    except ArithmeticError as error:  # 1e999999 has too many digits for a remainder
        raise SchemaNotMetError(
            f'detail {_short(text)} holds a number far beyond its limits') from error
    problems = [_violation(error) for error in errors]
    problems = problems or list(_unprintable_strings(detail, '$'))
    if problems:
        raise SchemaNotMetError('detail is refused: ' + '; '.join(problems))
    canonical = _canonical(schema, detail)
    assert isinstance(canonical, dict)
    if profile.detail.model:
        check_by_model(profile.detail.model, detail_json(canonical))
    return canonical


def detail_json(detail: Mapping[str, Any]) -> str:
    """Return ``detail`` as compact JSON, keys in the order they have; never NaN, never a NUL."""
    return json.dumps(detail, ensure_ascii=False, allow_nan=False, separators=(',', ':'))


def _object_of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f'key {max(names, key=names.count)!r} stands twice')
    return result


def _refuse_constant(name: str) -> object:
    raise ValueError(f'{name} is not a JSON number')


def _decimal(value: Any) -> Any:
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {key: _decimal(item) for key, item in value.items()}
    return [_decimal(item) for item in value] if isinstance(value, list) else value


def _violation(error: ValidationError) -> str:
    return (f'{error.json_path}={_short(error.instance)} does not meet '
            f'{error.validator} {_short(error.validator_value)}')


def _unprintable_strings(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str):
        if any(c == '\0' or '\ud800' <= c <= '\udfff' for c in value):
            yield f'{path}={_short(value)} holds a NUL or half a surrogate pair'
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _unprintable_strings(item, f'{path}.{key}')
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unprintable_strings(item, f'{path}[{index}]')


def _canonical(schema: Schema, value: Any) -> Any:
    match schema.get('type'):
        case 'object' if 'properties' in schema:
            return {key: _canonical(part, value[key])
                    for key, part in schema['properties'].items() if key in value}
        case 'array' if 'items' in schema:
            return [_canonical(schema['items'], item) for item in value]
        case 'integer':
            return int(value)
        case 'number':
            return float(value) + 0.0  # -0.0 becomes 0.0
    return value


def _short(value: object) -> str:
    """Return ``value`` for a message; a model's answer may be long."""
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 80 else f'{text[:77]}...'
