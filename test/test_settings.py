from itertools import product
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError
import pytest
from robot_llm.errors import ConfigError
from robot_llm.parameter_spec import specs_from_model
from robot_llm.settings import (
    all_specs, model_file, resolve_n_threads, SamplingParams, Settings,
)

DEFAULTS = {spec.name: spec.default for spec in all_specs()}
NUMBERS = [spec for spec in all_specs() if spec.value_type in (int, float)]


def problems_of(mapping):
    with pytest.raises(ConfigError) as caught:
        Settings.from_flat(mapping)
    return caught.value.problems


def test_an_empty_mapping_gives_the_declared_defaults():
    assert Settings.from_flat({}) == Settings()
    assert Settings.from_flat(DEFAULTS) == Settings()


def test_every_group_of_the_settings_has_parameters_and_no_name_stands_twice():
    names = [spec.name for spec in all_specs()]
    assert len(names) == len(set(names))
    groups = {name.partition('.')[0] for name in names}
    assert groups == set(Settings.model_fields)


def test_a_single_parameter_of_a_group_may_be_live():
    live = {spec.name for spec in all_specs() if spec.is_live}
    assert 'engine.max_stall_s' in live
    assert 'engine.chunk_tokens' not in live


def test_a_field_without_a_description_cannot_become_a_parameter():
    class Undocumented(BaseModel):
        rate: Annotated[int, Field(ge=0)] = 1

    with pytest.raises(ValueError, match='g.rate has no description'):
        list(specs_from_model(Undocumented, 'g'))


@pytest.mark.parametrize('spec', NUMBERS, ids=lambda spec: spec.name)
def test_every_number_takes_its_limits_and_refuses_what_is_beyond(spec):
    step = 1 if spec.value_type is int else 0.001
    assert spec.ge is not None
    assert spec.convert(spec.value_type(spec.ge)) == spec.ge
    with pytest.raises(ConfigError, match=f'{spec.name}=.* is below the limit {spec.ge}; '):
        spec.convert(spec.value_type(spec.ge) - step)
    if spec.le is not None:
        assert spec.convert(spec.value_type(spec.le)) == spec.le
        with pytest.raises(ConfigError, match=f'{spec.name}=.* is above the limit {spec.le}; '):
            spec.convert(spec.value_type(spec.le) + step)


def is_taken(spec, value):
    return type(value) is spec.value_type or (spec.value_type is float and type(value) is int)


@pytest.mark.parametrize(
    ('spec', 'value'),
    [(spec, value) for spec, value in product(all_specs(), [True, 1, 0.5, 'text', [1], None])
     if not is_taken(spec, value)],
    ids=lambda item: getattr(item, 'name', repr(item)))
def test_every_parameter_refuses_every_other_type(spec, value):
    with pytest.raises(ConfigError, match=f'{spec.name}.* is .*, not .*; '):
        spec.convert(value)


def test_an_integer_is_taken_where_a_float_is_declared():
    temperature = Settings.from_flat({'sampling.temperature': 0}).sampling.temperature
    assert isinstance(temperature, float)
    assert temperature == 0.0


@pytest.mark.parametrize(('name', 'value', 'sentence'), [
    ('sampling.temperature', 3.0,
     'sampling.temperature=3.0 is above the limit 2.0; choose 0.0 to 2.0'),
    ('sampling.temperature', True,
     'sampling.temperature=True is a boolean, not a number; '
     'write a number without quotes, such as 1.0e-3'),
    ('device.peak_flops', float('nan'),
     'device.peak_flops=nan is not a finite number; choose at least 0.0'),
    ('sampling.top_k', 4.0,
     'sampling.top_k=4.0 is a number, not an integer; '
     'write a whole number without quotes and without a point'),
    ('preempt.policy', 'newest',
     "preempt.policy='newest' is not one of newest_wins, queue, reject; "
     'choose newest_wins, queue, reject'),
    ('model.flash_attn', True,
     'model.flash_attn=True is a boolean, not a string; put it in quotes '
     '(YAML reads an unquoted on, off, yes, no or 12 as something else)'),
    ('scene.policy', 'drop',
     "scene.policy='drop' is not one of abort, restart; choose abort, restart"),
    ('sampling.temprature', 0.5,
     'sampling.temprature=0.5 is not a parameter of this node; '
     'did you mean sampling.temperature?'),
    ('xyzzy', 1,
     'xyzzy=1 is not a parameter of this node; '
     'remove it, or put it under the name of the node it is for'),
    ('model.path', 'a\0b', "model.path='a\\x00b' is not printable text; choose any text"),
])
def test_a_problem_names_parameter_value_limit_and_remedy(name, value, sentence):
    assert problems_of({name: value}) == (sentence,)


def test_n_ctx_zero_is_refused_with_what_llama_cpp_would_do():
    problem, = problems_of({'model.n_ctx': 0})
    assert problem.startswith('model.n_ctx=0 is below the limit 256; give the window you need')
    assert 'length of the training' in problem


def test_all_problems_are_named_at_once_relations_included():
    problems = problems_of({
        'sampling.top_k': -1, 'modle.path': 'x', 'status.rate_hz': 'fast',
        'engine.chunk_tokens': 4096})
    assert [problem.partition('=')[0] for problem in problems] == [
        'sampling.top_k', 'modle.path', 'status.rate_hz', 'engine.chunk_tokens']


@pytest.mark.parametrize(('values', 'sentence'), [
    ({'engine.chunk_tokens': 512, 'model.n_batch': 256},
     'engine.chunk_tokens=512 is above model.n_batch=256'),
    ({'sampling.max_tokens': 512, 'model.n_ctx': 512},
     'sampling.max_tokens=512 leaves no room for a prompt in model.n_ctx=512'),
    ({'sampling.max_tokens': 1001},
     'sampling.max_tokens=1001 is above limits.max_tokens=1000'),
    ({'limits.max_tokens': 1023},
     'topics.token_depth=1024 is below limits.max_tokens + 2 = 1025'),
    ({'model.type_v': 'q8_0', 'model.flash_attn': 'off'},
     "model.type_v='q8_0' needs flash attention, but model.flash_attn='off'"),
])
def test_parameters_that_do_not_fit_each_other_are_refused(values, sentence):
    problem, = problems_of(values)
    assert problem.startswith(sentence)
    assert '; ' in problem


def test_parameters_that_just_fit_each_other_are_taken():
    settings = Settings.from_flat({
        'engine.chunk_tokens': 256, 'model.n_batch': 256, 'limits.max_tokens': 1022})
    assert settings.limits.max_tokens == 1022


def test_settings_cannot_be_changed_and_unknown_fields_are_refused():
    with pytest.raises(ValidationError, match='frozen'):
        Settings().sampling.top_k = 3
    with pytest.raises(ValidationError, match='Extra inputs'):
        SamplingParams(temp=0.5)


@pytest.mark.parametrize(('n', 'cores', 'expected'), [
    (0, 1, 1), (0, 2, 1), (0, 12, 11), (3, 12, 3), (12, 12, 12)])
def test_threads_leave_one_core_free_unless_given(n, cores, expected):
    assert resolve_n_threads(n, cores) == expected


def test_no_model_path_names_the_remedy():
    with pytest.raises(ConfigError, match="model.path='' names no model; .*model:=/path"):
        model_file(Settings())


def test_a_path_without_a_file_is_refused_and_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    settings = Settings.from_flat({'model.path': '~/model.gguf'})
    with pytest.raises(ConfigError, match="model.path='~/model.gguf' is not a file; check"):
        model_file(settings)
    (tmp_path / 'model.gguf').touch()
    assert model_file(settings) == tmp_path / 'model.gguf'
