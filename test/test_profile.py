import re

from pydantic import ValidationError
import pytest
from robot_llm.profile import merge_sampling, ResponseProfile
from robot_llm.settings import SamplingParams, Settings


def make_profile(**changes):
    decision = {
        'words': [{'word': 'stop', 'meaning': 'danger'}, {'word': 'go', 'meaning': 'all clear'}],
        'fallback': 'stop', 'min_confidence': 0.5, **changes.pop('decision', {})}
    return ResponseProfile.model_validate({
        'name': 'test', 'description': 'a test', 'system_prompt': 'Decide.\n',
        'decision': decision, **changes})


def words(*names):
    return {'words': [{'word': name, 'meaning': 'm'} for name in names], 'fallback': names[0]}


def test_a_small_profile_has_safe_defaults():
    profile = make_profile()
    assert profile.words == ('stop', 'go')
    assert profile.decision.revoke_on == {'error', 'deadline', 'refused_detail', 'scene_change'}
    assert profile.detail.kind == 'none'
    assert (profile.scene_header, profile.goal_header) == ('Scene:\n', '\nTask:\n')
    assert profile.stop == ()


def test_the_static_prompt_says_what_each_word_means():
    assert make_profile().static_prompt == 'Decide.\nstop: danger\ngo: all clear'


@pytest.mark.parametrize('word', [
    '', ' ', 'two words', 'line\nbreak', 'tab\t', 'zero\u200bwidth', 'nul\0', '\ud800', '\x7f'])
def test_a_word_that_is_not_one_visible_word_is_refused(word):
    with pytest.raises(ValidationError, match='is not one visible word'):
        make_profile(decision=words('stop', word))


def test_a_word_has_at_most_32_bytes_not_characters():
    assert make_profile(decision=words('stop', 'ü' * 16)).words[1] == 'ü' * 16
    with pytest.raises(ValidationError, match='has more than 32 bytes; shorten it'):
        make_profile(decision=words('stop', 'ü' * 16 + 'x'))


@pytest.mark.parametrize('count', [0, 1, 65])
def test_a_decision_has_2_to_64_words(count):
    names = [f'w{index}' for index in range(count)]
    with pytest.raises(ValidationError, match=f'words has {count} items, allowed are 2 to 64; '):
        make_profile(decision={**words('a', 'b'), 'words': [
            {'word': name, 'meaning': 'm'} for name in names]})


def test_64_words_are_taken():
    assert len(make_profile(decision=words(*(f'w{i}' for i in range(64)))).words) == 64


@pytest.mark.parametrize('second', ['stop', 'Stop', 'STOP'])
def test_a_word_twice_is_refused_whatever_its_case(second):
    with pytest.raises(ValidationError, match=f"'{second}' stands twice; keep one"):
        make_profile(decision=words('stop', second))


def test_a_fallback_that_is_no_word_is_refused():
    with pytest.raises(ValidationError, match="fallback='halt' is not one of the words stop, go"):
        make_profile(decision={'fallback': 'halt'})


@pytest.mark.parametrize('changes', [
    {'decision': {'min_confidence': 1.1}}, {'decision': {'min_probability_mass': -0.1}},
    {'decision': {'min_confidence': True}}, {'decision': {'revoke_on': ['cancel']}},
    {'system_prompt': ''}, {'system_prompt': 'a\0b'}, {'scene_header': '\ud800'},
    {'stop': ['']}, {'stop': 'abc'}, {'deadlines': {'total_s': -1.0}}, {'detail': {'kind': 'xml'}},
    {'sampling': {'temperature': 9.0}}, {'sampling': {'temp': 0.5}}, {'unknown': 1},
    {'detail': {'max_tokens': -1}},
])
def test_a_value_out_of_its_limits_or_of_the_wrong_type_is_refused(changes):
    with pytest.raises(ValidationError):
        make_profile(**changes)


def test_a_decision_deadline_after_the_total_one_is_refused_and_zero_is_none():
    with pytest.raises(ValidationError, match='decision_s=2.0 is above total_s=1.0; lower it'):
        make_profile(deadlines={'decision_s': 2.0, 'total_s': 1.0})
    assert make_profile(deadlines={'decision_s': 2, 'total_s': 0}).deadlines.decision_s == 2.0


@pytest.mark.parametrize('detail', [
    {'kind': 'json'}, {'kind': 'text', 'json_schema': {'type': 'object'}},
    {'json_schema': {'type': 'object'}}])
def test_a_schema_is_given_exactly_when_the_detail_is_json(detail):
    with pytest.raises(ValidationError, match='give a schema exactly when kind is json'):
        make_profile(detail=detail)


@pytest.mark.parametrize('schema', [{}, {'type': 'object'}])
def test_an_unbounded_schema_is_refused(schema):
    with pytest.raises(ValidationError, match=r'json_schema: \$'):
        make_profile(detail={'kind': 'json', 'json_schema': schema})


SWITCH = {
    'type': 'object', 'additionalProperties': False, 'properties': {'a': {'type': 'boolean'}}}


def test_a_word_may_have_a_schema_of_its_own():
    own = SWITCH | {'required': ['a']}
    rules = make_profile(
        detail={'kind': 'json', 'json_schema': SWITCH, 'json_schema_of': {'stop': own}}).detail
    assert (rules.schema_behind('stop'), rules.schema_behind('go')) == (own, SWITCH)
    assert make_profile().detail.schema_behind('stop') is None


@pytest.mark.parametrize(('detail', 'sentence'), [
    ({'kind': 'json', 'json_schema': SWITCH, 'json_schema_of': {'halt': SWITCH}},
     "detail.json_schema_of: 'halt' is not one of the words stop, go; correct it"),
    ({'json_schema_of': {'stop': SWITCH}}, 'json_schema_of is given without json_schema; give'),
    ({'kind': 'json', 'json_schema': SWITCH, 'json_schema_of': {'stop': {'type': 'array'}}},
     "json_schema_of.stop: $.type='array' is not 'object'"),
])
def test_a_words_schema_is_checked_like_the_profiles_own(detail, sentence):
    with pytest.raises(ValidationError, match=re.escape(sentence)):
        make_profile(detail=detail)


def test_calibration_is_for_the_models_own_words():
    rules = make_profile(decision={'calibration': 'contextual'}).decision
    assert rules.calibration == 'contextual'
    with pytest.raises(ValidationError, match="calibration is for the method words, not 'head'"):
        make_profile(decision={'calibration': 'contextual', 'method': 'head', 'head': 'x.npz'})


def test_stop_strings_beside_a_json_detail_are_refused():
    schema = {'type': 'object', 'additionalProperties': False, 'properties': {
        'a': {'type': 'boolean'}}}
    with pytest.raises(ValidationError, match='stop would cut the JSON detail; remove it'):
        make_profile(detail={'kind': 'json', 'json_schema': schema}, stop=['x'])


def test_the_order_of_the_schemas_keys_is_kept():
    part = {'type': 'boolean'}
    schema = {'type': 'object', 'additionalProperties': False, 'properties': {
        'z': part, 'a': part, 'm': part}}
    profile = make_profile(detail={'kind': 'json', 'json_schema': schema})
    assert list(profile.detail.json_schema['properties']) == ['z', 'a', 'm']


def test_only_what_the_profile_gives_replaces_the_settings():
    base = SamplingParams(temperature=1.0, top_k=7, seed=3, max_tokens=50)
    assert merge_sampling(base, make_profile()) == base
    # The given value counts, though it is the default of the parameter.
    merged = merge_sampling(base, make_profile(sampling={'temperature': 0, 'min_p': 0.2}))
    assert merged == SamplingParams(
        temperature=0.0, top_k=7, min_p=0.2, seed=3, max_tokens=50)


def test_the_longest_answer_stands_in_one_place():
    merged = merge_sampling(Settings().sampling, make_profile(detail={'max_tokens': 9}))
    assert merged.max_tokens == 9
    with pytest.raises(ValidationError, match='write detail.max_tokens instead'):
        make_profile(sampling={'max_tokens': 9})


def test_a_profile_cannot_be_changed():
    with pytest.raises(ValidationError, match='frozen'):
        make_profile().stop = ('x',)
