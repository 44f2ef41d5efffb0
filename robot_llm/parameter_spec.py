"""From a pydantic field to a ROS parameter: its limits, and what is wrong with a value."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from robot_llm.errors import ConfigError

Scalar = bool | int | float | str

_TYPE_NAMES = {
    bool: 'a boolean', int: 'an integer', float: 'a number', str: 'a string', list: 'a list',
    dict: 'a mapping', type(None): 'empty',
}
_TYPE_REMEDIES = {
    bool: 'write true or false without quotes',
    int: 'write a whole number without quotes and without a point',
    float: 'write a number without quotes, such as 1.0e-3',
    str: 'put it in quotes (YAML reads an unquoted on, off, yes, no or 12 as something else)',
    list: 'write one item per line, each behind a hyphen',
    dict: 'write one key per line, each with a colon',
}
_UNKNOWN_REMEDY = '; remove it, or put it under the name of the node it is for'


def wrong_type(name: str, value: object, wanted: type) -> str:
    """Return the sentence about a value that is not of the ``wanted`` type."""
    found = _TYPE_NAMES.get(type(value), f'of type {type(value).__name__}')
    shown = f'{name}={value!r}' if isinstance(value, (bool, int, float, str)) else name
    return f'{shown} is {found}, not {_TYPE_NAMES[wanted]}; {_TYPE_REMEDIES[wanted]}'


@dataclass(frozen=True)
class ParameterSpec:
    """
    One ROS parameter, as its pydantic field declares it.

    ``ge`` and ``le`` are inclusive; a number has at least ``ge``. ``choices`` is empty where every
    string is allowed; ``remedy`` replaces the general advice about a value out of range;
    ``is_live`` parameters may change while the node is configured.
    """

    name: str
    default: Scalar
    value_type: type[Scalar]
    description: str
    ge: float | None = None
    le: float | None = None
    choices: tuple[str, ...] = ()
    remedy: str = ''
    is_live: bool = False

    @property
    def range_text(self) -> str:
        """Return the allowed values, to be read by a person."""
        if self.choices:
            return ', '.join(self.choices)
        if self.value_type is bool:
            return 'true, false'
        if self.value_type is str:
            return 'any text'
        return f'{self.ge} to {self.le}' if self.le is not None else f'at least {self.ge}'

    def convert(self, value: object) -> Scalar:
        """
        Return ``value`` in the declared type; the only conversion is integer to float.

        :raises ConfigError: one sentence, if the type is wrong or the value is out of range
        """
        # `temperature: 0` in YAML is an integer; a bool is an int in Python, never a number here.
        if self.value_type is float and type(value) is int:
            value = float(value)
        if type(value) is not self.value_type:
            raise ConfigError(wrong_type(self.name, value, self.value_type))
        if reason := self._reason_to_refuse(value):
            remedy = self.remedy or f'choose {self.range_text}'
            raise ConfigError(f'{self.name}={value!r} is {reason}; {remedy}')
        return value

    def _reason_to_refuse(self, value: Scalar) -> str:
        if isinstance(value, str):
            if self.choices and value not in self.choices:
                return f'not one of {self.range_text}'
            return 'not printable text' if '\0' in value else ''
        if not isfinite(value):
            return 'not a finite number'
        if self.ge is not None and value < self.ge:
            return f'below the limit {self.ge}'
        if self.le is not None and value > self.le:
            return f'above the limit {self.le}'
        return ''


def specs_from_model(model: type[BaseModel], prefix: str = '') -> Iterator[ParameterSpec]:
    """
    Yield one flat parameter per field of ``model``; a field that is a model becomes a group.

    :param prefix: the group's name, '' at the root
    :raises ValueError: if a field has no description; every parameter is documented
    """
    for field_name, info in model.model_fields.items():
        name = f'{prefix}.{field_name}' if prefix else field_name
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from specs_from_model(info.annotation, name)
        else:
            yield _spec_from_field(name, info, is_live=bool(getattr(model, 'IS_LIVE', False)))


def _spec_from_field(name: str, info: FieldInfo, *, is_live: bool) -> ParameterSpec:
    if not info.description:
        raise ValueError(f'{name} has no description')
    limits = {side: getattr(item, side)
              for item in info.metadata for side in ('ge', 'le') if hasattr(item, side)}
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    return ParameterSpec(
        name, info.default, type(info.default), info.description,
        choices=get_args(info.annotation), remedy=str(extra.get('remedy', '')),
        is_live=is_live or bool(extra.get('is_live')), **limits)


def near_match(name: str, known: Sequence[str]) -> str:
    """Return ``; did you mean …`` for a misspelt ``name``, '' if nothing is near."""
    match = get_close_matches(name, known, n=1)
    return f'; did you mean {match[0]}?' if match else ''


def convert_flat(
    specs: Sequence[ParameterSpec], mapping: Mapping[str, object],
) -> tuple[dict[str, Scalar], list[str]]:
    """
    Convert every value of a flat mapping, and collect what is wrong.

    :param mapping: full parameter names → values as ROS or YAML gave them
    :returns: the good values by name, and one sentence per bad one
    """
    known = {spec.name: spec for spec in specs}
    values: dict[str, Scalar] = {}
    problems: list[str] = []
    for name, value in mapping.items():
        try:
            if name not in known:
                raise ConfigError(
                    f'{name}={value!r} is not a parameter of this node'
                    f'{near_match(name, tuple(known)) or _UNKNOWN_REMEDY}')
            values[name] = known[name].convert(value)
        except ConfigError as error:
            problems.extend(error.problems)
    return values, problems


def nest(values: Mapping[str, Scalar]) -> dict[str, object]:
    """Turn ``{'group.field': value}`` into ``{'group': {'field': value}}``."""
    nested: dict[str, object] = {}
    for name, value in values.items():
        group, _, field = name.rpartition('.')
        if group:
            fields = nested.setdefault(group, {})
            assert isinstance(fields, dict)
            fields[field] = value
        else:
            nested[field] = value
    return nested
