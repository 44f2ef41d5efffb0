import json

from hypothesis import given, strategies as st
import pytest
from robot_llm.detail import detail_json, validate_detail
from robot_llm.errors import SchemaNotMetError
from robot_llm.profile import ResponseProfile

SCHEMA = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['speed', 'reason'],
    'properties': {
        'speed': {'type': 'number', 'minimum': 0.0, 'maximum': 1.5, 'multipleOf': 0.1},
        'reason': {'type': 'string', 'maxLength': 20},
        'lanes': {'type': 'array', 'maxItems': 2, 'items': {
            'type': 'integer', 'minimum': 0, 'maximum': 9}},
        'lamp': {'type': 'string', 'enum': ['red', 'green']},
    },
}
PROFILE = ResponseProfile.model_validate({
    'name': 'p', 'description': 'd', 'system_prompt': 's',
    'decision': {'words': [{'word': w, 'meaning': w} for w in ('stop', 'go')],
                 'fallback': 'stop', 'min_confidence': 0.5},
    'detail': {'kind': 'json', 'json_schema': SCHEMA}})


@pytest.mark.parametrize('tenths', range(16))
def test_every_step_of_the_speed_is_taken_though_binary_floats_are_inexact(tenths):
    detail = validate_detail(PROFILE, 'go', f'{{"speed":{tenths / 10},"reason":"r"}}')
    assert detail == {'speed': tenths / 10, 'reason': 'r'}


def test_the_detail_comes_back_in_the_schemas_order_and_types():
    detail = validate_detail(
        PROFILE, 'go', ' {"lanes":[1,2],"reason":"grüße 🤖","lamp":"red","speed":1}\n')
    assert detail_json(detail) == '{"speed":1.0,"reason":"grüße 🤖","lanes":[1,2],"lamp":"red"}'
    assert detail_json(validate_detail(PROFILE, 'go', '{"speed":-0.0,"reason":""}')) == (
        '{"speed":0.0,"reason":""}')


@pytest.mark.parametrize(('text', 'reason'), [
    ('', 'cannot be read as JSON'),
    ('{"speed":0.1,"reason":"cut', 'cannot be read as JSON'),
    ('{"speed":NaN,"reason":"r"}', 'NaN is not a JSON number'),
    ('{"speed":-Infinity,"reason":"r"}', '-Infinity is not a JSON number'),
    ('{"speed":0.1,"speed":0.2,"reason":"r"}', "key 'speed' stands twice"),
    ('{"speed":0.1,"reason":"a\nb"}', 'Invalid control character'),
    ('[' * 100_000, 'recursion'),
    ('{"speed":' + '9' * 5000 + ',"reason":"r"}', 'digits'),
    ('[1]', r"\$=\[1\] does not meet type 'object'"),
    ('{"speed":0.1}', r"does not meet required \['speed', 'reason'\]"),
    ('{"speed":0.1,"reason":"r","x":1}', 'does not meet additionalProperties False'),
    ('{"speed":true,"reason":"r"}', r"\$.speed=True does not meet type 'number'"),
    ('{"speed":9.9,"reason":"r"}', r'\$.speed=9.9 does not meet maximum 1.5'),
    ('{"speed":0.15,"reason":"r"}', r'\$.speed=0.15 does not meet multipleOf 0.1'),
    ('{"speed":1e999,"reason":"r"}', 'holds a number far beyond its limits'),
    ('{"speed":0.1,"reason":"' + 'r' * 21 + '"}', r'\$.reason=.* does not meet maxLength 20'),
    ('{"speed":0.1,"reason":"r","lanes":[1,2,3]}', r'\$.lanes=.* does not meet maxItems 2'),
    ('{"speed":0.1,"reason":"r","lanes":[1.5]}', r"\$.lanes\[0\]=1.5 does not meet type 'int"),
    ('{"speed":0.1,"reason":"r","lamp":"blue"}', r"\$.lamp='blue' does not meet enum"),
    ('{"speed":0.1,"reason":"\\u0000"}', r'\$.reason=.* holds a NUL'),
    ('{"speed":0.1,"reason":"\\ud800"}', r'\$.reason=.* half a surrogate pair'),
])
def test_a_detail_that_does_not_meet_the_schema_is_refused_with_path_and_limit(text, reason):
    with pytest.raises(SchemaNotMetError, match=reason):
        validate_detail(PROFILE, 'go', text)


def test_everything_wrong_is_named_and_a_long_value_is_shortened():
    with pytest.raises(SchemaNotMetError) as caught:
        validate_detail(PROFILE, 'go', '{"speed":3,"reason":"' + 'r' * 5000 + '"}')
    assert '$.speed=3 does not meet maximum 1.5' in str(caught.value)
    assert 'maxLength 20' in str(caught.value)
    assert len(str(caught.value)) < 400


@given(st.text(max_size=60))
def test_any_text_is_either_a_detail_that_survives_a_second_look_or_refused(text):
    try:
        detail = validate_detail(PROFILE, 'go', text)
    except SchemaNotMetError:
        return
    assert validate_detail(PROFILE, 'go', detail_json(detail)) == detail


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(['speed', 'reason', 'lanes', 'x']), inner, max_size=4), max_leaves=8))
def test_any_json_value_is_either_a_detail_or_refused(value):
    try:
        detail = validate_detail(PROFILE, 'go', json.dumps(value))
    except SchemaNotMetError:
        return
    assert json.loads(detail_json(detail)) == value
