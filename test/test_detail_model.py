"""User models: what constrains, what is checked afterwards, and what is refused at configure."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
import re
import sys
from types import ModuleType

import pytest
from robot_llm.detail import validate_detail
from robot_llm.detail_model import check_by_model, load_detail_model, model_schema
from robot_llm.errors import ConfigError, SchemaNotMetError
from robot_llm.profile_file import load_profiles

DOCS = Path(__file__).parents[1] / 'docs'
EXAMPLE = 'example_detail_model:Drive'

PROFILE = """\
description: d
system_prompt: s
decision:
  words:
    - {word: stop, meaning: danger}
    - {word: go, meaning: clear}
  fallback: stop
  min_confidence: 0.5
detail:
  kind: json
"""

MODEL = """
from enum import Enum
from typing import Annotated, Any, Literal, Optional
from pydantic import BaseModel, Field, RootModel, field_validator, model_validator
Speed = Annotated[float, Field(ge=0.0, le=1.5, multiple_of=0.1)]
"""

_names = (f'robot_llm_user_module_{number}' for number in count())


@pytest.fixture(autouse=True)
def docs_on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(DOCS))
    yield
    sys.modules.pop('example_detail_model', None)
    load_detail_model.cache_clear()


@pytest.fixture
def user_class(monkeypatch: pytest.MonkeyPatch):
    """Return what makes ``Model`` out of a class body and gives its import path."""
    def make(body: str) -> str:
        module = ModuleType(next(_names))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(MODEL + body, vars(module))
        return f'{module.__name__}:Model'
    return make


def detail(speed: float = 0.5, free_m: int = 3, side: str = 'left', reason: str = 'It is free'):
    return (f'{{"target_speed_mps":{speed},"free_path_m":{free_m},"side":"{side}",'
            f'"reason":"{reason}"}}')


def load(folder: Path, lines: str):
    (folder / 'drive.yaml').write_text(PROFILE + lines)
    return load_profiles(folder)['drive']


def problems(folder: Path, lines: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, lines)
    return '\n'.join(caught.value.problems)


def test_the_page_shows_the_example_as_it_is() -> None:
    page = (DOCS / 'detail_models.md').read_text()
    shown = re.search(r'<!-- example_detail_model -->\n```python\n(.*?)```\n'
                      r'<!-- /example_detail_model -->', page, re.S)
    assert shown and shown[1] == (DOCS / 'example_detail_model.py').read_text()


def test_the_examples_limits_enumeration_and_pattern_are_in_its_schema() -> None:
    assert model_schema(EXAMPLE) == {
        'type': 'object', 'additionalProperties': False,
        'required': ['target_speed_mps', 'free_path_m', 'side', 'reason'],
        'properties': {
            'target_speed_mps': {
                'type': 'number', 'minimum': 0.0, 'maximum': 1.5, 'multipleOf': 0.1},
            'free_path_m': {'type': 'integer', 'minimum': 0, 'maximum': 20},
            'side': {'type': 'string', 'enum': ['left', 'right', 'middle']},
            'reason': {'type': 'string', 'minLength': 1, 'maxLength': 60,
                       'pattern': '^[A-Za-z ,]+$'}}}


def test_a_detail_that_meets_every_rule_is_whole(tmp_path: Path) -> None:
    profile = load(tmp_path, f'  model: {EXAMPLE}\n')
    assert validate_detail(profile, 'go', detail())['target_speed_mps'] == 0.5


@pytest.mark.parametrize(('text', 'reason'), [
    (detail(speed=1.6), 'target_speed_mps'),
    (detail(side='up'), 'side'),
    (detail(reason='100%'), 'reason'),
    (detail(speed=1.5, free_m=2), '1.5 m/s needs 2.25 m to stop, and only 2 m are free'),
])
def test_a_detail_that_breaks_a_rule_is_refused_with_it(
    tmp_path: Path, text: str, reason: str,
) -> None:
    profile = load(tmp_path, f'  model: {EXAMPLE}\n')
    with pytest.raises(SchemaNotMetError, match=re.escape(reason)):
        validate_detail(profile, 'go', text)


def test_a_words_own_schema_holds_beside_the_model(tmp_path: Path) -> None:
    profile = load(tmp_path, f"""\
  model: {EXAMPLE}
  json_schema_of:
    stop:
      type: object
      additionalProperties: false
      required: [target_speed_mps, free_path_m, side, reason]
      properties:
        target_speed_mps: {{type: number, enum: [0.0]}}
        free_path_m: {{type: integer, minimum: 0, maximum: 20}}
        side: {{type: string, enum: [left, right, middle]}}
        reason: {{type: string, maxLength: 60}}
""")
    assert validate_detail(profile, 'stop', detail(speed=0.0))['side'] == 'left'
    with pytest.raises(SchemaNotMetError, match='target_speed_mps'):
        validate_detail(profile, 'stop', detail(speed=0.5))
    with pytest.raises(SchemaNotMetError, match='reason'):  # the word's schema has no pattern
        validate_detail(profile, 'stop', detail(speed=0.0, reason='100%'))


def test_other_models_as_fields_stand_in_the_schema_themselves(user_class) -> None:
    path = user_class("""
class Colour(str, Enum):
    RED = 'red'
    GREEN = 'green'
class Lamp(BaseModel):
    colour: Colour
class Model(BaseModel):
    lamp: Lamp
    lamps: Annotated[list[Lamp], Field(max_length=2)] = []
""")
    lamp = {'type': 'object', 'additionalProperties': False, 'required': ['colour'],
            'properties': {'colour': {'type': 'string', 'enum': ['red', 'green']}}}
    assert model_schema(path)['properties'] == {
        'lamp': lamp, 'lamps': {'type': 'array', 'maxItems': 2, 'items': lamp}}
    check_by_model(path, '{"lamp":{"colour":"red"}}')


@pytest.mark.parametrize(('path', 'sentence'), [
    ('Drive', 'is no import path; write package.module:Class'),
    ('a b:Drive', 'is no import path'),
    ('no_such_robot.actions:Drive', 'cannot be imported (ModuleNotFoundError: '),
    ('example_detail_model:Fly', 'example_detail_model has no Fly; correct the name'),
    ('example_detail_model:BRAKING_MPS2', 'is no pydantic model; derive the class'),
])
def test_what_cannot_be_loaded_is_refused_at_configure(
    tmp_path: Path, path: str, sentence: str,
) -> None:
    found = problems(tmp_path, f'  model: "{path}"\n')
    assert found.startswith(f"drive.yaml: detail.model='{path}'") and sentence in found


def test_a_module_that_raises_is_refused_at_configure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / 'broken_robot.py').write_text('raise RuntimeError("no calibration")\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert 'cannot be imported (RuntimeError: no calibration)' in problems(
        tmp_path, '  model: broken_robot:Drive\n')


@pytest.mark.parametrize(('body', 'sentence'), [
    ('class Model(BaseModel):\n    speed: float', '$.properties.speed.minimum is missing'),
    ('class Model(BaseModel):\n    speed: Annotated[int, Field(gt=0, lt=5)]',
     '$.properties.speed.exclusiveMaximum is not supported'),
    ('class Model(BaseModel):\n    speed: Optional[Speed]',
     '$.properties.speed.type=None is not one type'),
    ('class Model(BaseModel, extra="allow"):\n    speed: Speed',
     '$.additionalProperties is not false'),
    ('class Model(RootModel[Speed]):\n    pass', "$.type='number' is not 'object'"),
    ('class Model(BaseModel):\n    next: "Model"', 'Model contains itself'),
    ('class Model(BaseModel):\n    call: type', 'has a field without a JSON schema'),
])
def test_a_model_without_bounds_is_refused_at_configure(
    tmp_path: Path, user_class, body: str, sentence: str,
) -> None:
    path = user_class(body)
    found = problems(tmp_path, f'  model: {path}\n')
    assert f"model='{path}'" in found and sentence in found


@pytest.mark.parametrize(('lines', 'sentence'), [
    (f'  model: {EXAMPLE}\n  json_schema: {{type: object}}\n', 'keep one of them'),
    ('  model: 3\n', 'detail.model=3'),
])
def test_a_model_beside_a_schema_or_of_another_type_is_refused(
    tmp_path: Path, lines: str, sentence: str,
) -> None:
    assert sentence in problems(tmp_path, lines)


def test_a_model_without_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / 'drive.yaml').write_text(
        PROFILE.replace('kind: json', 'kind: text') + f'  model: {EXAMPLE}\n')
    with pytest.raises(ConfigError, match="does not fit kind='text'"):
        load_profiles(tmp_path)


@pytest.mark.parametrize(('statement', 'reason'), [
    ('raise ValueError("too bold")', 'speed: Value error, too bold'),
    ('return 1 // 0', 'raised ZeroDivisionError'),
    ('import sys; sys.exit(3)', 'raised SystemExit'),
])
def test_whatever_a_validator_raises_refuses_the_detail(
    user_class, statement: str, reason: str,
) -> None:
    path = user_class(f"""
class Model(BaseModel):
    speed: Speed
    @field_validator('speed')
    @classmethod
    def check(cls, speed):
        {statement}
""")
    with pytest.raises(SchemaNotMetError, match=re.escape(reason)):
        check_by_model(path, '{"speed":0.5}')
