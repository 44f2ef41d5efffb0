from copy import deepcopy

import pytest
from robot_llm.detail_schema import MAX_STRING_LENGTH, schema_problems

GOOD = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['speed'],
    'properties': {
        'speed': {'type': 'number', 'minimum': 0.0, 'maximum': 1.5, 'multipleOf': 0.1},
        'count': {'type': 'integer', 'minimum': 0, 'maximum': 9},
        'reason': {'type': 'string', 'maxLength': MAX_STRING_LENGTH},
        'lamp': {'type': 'string', 'enum': ['red', 'green']},
        'is_clear': {'type': 'boolean'},
        'points': {'type': 'array', 'maxItems': 3, 'items': {
            'type': 'object', 'additionalProperties': False,
            'properties': {'x': {'type': 'integer', 'const': 1}}}},
    },
}


def with_part(path, value):
    """Return GOOD with the part at ``path`` replaced, or removed where ``value`` is None."""
    schema = deepcopy(GOOD)
    part = schema
    for key in path[:-1]:
        part = part[key]
    if value is None:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return schema


def test_a_bounded_schema_has_no_problems():
    assert schema_problems(GOOD) == []


@pytest.mark.parametrize(('path', 'value', 'sentence'), [
    (['type'], 'array', "$.type='array' is not 'object'"),
    (['type'], 'objet', "$.type='objet' is not valid JSON Schema"),
    (['additionalProperties'], None, '$.additionalProperties is not false'),
    (['properties', 'points', 'items', 'properties'], {},
     '$.properties.points.items.properties is empty'),
    (['required'], ['sped'], "$.required names 'sped', which is not in properties"),
    (['properties', 'reason', 'maxLength'], None, '$.properties.reason.maxLength is missing'),
    (['properties', 'reason', 'maxLength'], 513,
     '$.properties.reason.maxLength=513 is above the limit 512; lower it'),
    (['properties', 'reason'], {'type': 'string', 'pattern': 'a*'},
     '$.properties.reason.maxLength is missing'),
    (['properties', 'points', 'maxItems'], None, '$.properties.points.maxItems is missing'),
    (['properties', 'points', 'maxItems'], 65,
     '$.properties.points.maxItems=65 is above the limit 64'),
    (['properties', 'points', 'items'], None, '$.properties.points.items=True allows anything'),
    (['properties', 'points', 'items', 'additionalProperties'], True,
     '$.properties.points.items.additionalProperties is not false'),
    (['properties', 'speed', 'minimum'], None, '$.properties.speed.minimum is missing'),
    (['properties', 'speed', 'maximum'], None, '$.properties.speed.maximum is missing'),
    (['properties', 'speed', 'multipleOf'], None,
     '$.properties.speed.multipleOf is missing; add a step such as 0.1'),
    (['properties', 'count', 'maximum'], None, '$.properties.count.maximum is missing'),
    (['properties', 'speed', 'type'], ['number', 'null'],
     "$.properties.speed.type=['number', 'null'] is not one type"),
    (['properties', 'reason'], {'$ref': '#'}, '$.properties.reason.type=None is not one type'),
    (['properties', 'reason', 'format'], 'date',
     '$.properties.reason.format is not supported in a detail of type string; remove it'),
    (['properties', 'count', 'maximum'], float('inf'),
     '$.properties.count.maximum=inf cannot stand in JSON'),
    (['properties', True], {'type': 'boolean'},
     '$.properties has the key True, which is not a string; put it in quotes'),
])
def test_an_unbounded_or_invalid_part_is_named_with_its_path(path, value, sentence):
    problem, = schema_problems(with_part(path, value))
    assert problem.startswith(sentence)
    assert '; ' in problem


def test_all_unbounded_parts_are_named_at_once():
    schema = with_part(['properties', 'reason'], {'type': 'string'})
    schema['properties']['count'] = {'type': 'integer'}
    assert [problem.partition(' ')[0] for problem in schema_problems(schema)] == [
        '$.properties.count.minimum', '$.properties.count.maximum',
        '$.properties.reason.maxLength']
