from pathlib import Path
import re

import pytest
from robot_llm.detail import validate_detail
from robot_llm.errors import SchemaNotMetError
from robot_llm.parameter_doc import scalar_text
from robot_llm.profile_file import check_default_profile, load_profiles
from robot_llm.settings import all_specs, parameter_table_markdown, parameter_yaml, Settings
import yaml

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / 'config'


def flat(mapping, prefix=''):
    for key, value in mapping.items():
        if isinstance(value, dict):
            yield from flat(value, f'{prefix}{key}.')
        else:
            yield f'{prefix}{key}', value


@pytest.fixture(scope='module')
def parameters():
    content = yaml.safe_load((CONFIG / 'robot_llm.yaml').read_text())
    assert list(content) == ['/**']
    assert list(content['/**']) == ['ros__parameters']
    return dict(flat(content['/**']['ros__parameters']))


def test_the_parameter_file_is_what_the_declarations_print():
    assert (CONFIG / 'robot_llm.yaml').read_text() == parameter_yaml()


def test_the_parameter_file_loads_and_equals_the_declared_defaults(parameters):
    assert parameters == {spec.name: spec.default for spec in all_specs()}
    assert [type(value) for value in parameters.values()] == [
        spec.value_type for spec in all_specs()]
    assert Settings.from_flat(parameters) == Settings()


def test_every_parameter_in_the_file_has_a_comment_above():
    lines = (CONFIG / 'robot_llm.yaml').read_text().splitlines()
    for spec in all_specs():
        field = spec.name.rpartition('.')[2]
        place = [index for index, line in enumerate(lines)
                 if line.strip() == f'{field}: {scalar_text(spec.default)}']
        assert place, spec.name
        assert all(lines[index - 1].strip().startswith('#') for index in place), spec.name


def test_the_readme_holds_exactly_the_parameter_table():
    readme = (ROOT / 'README.md').read_text()
    found = re.search('<!-- parameters -->\n(.*?)\n<!-- /parameters -->', readme, re.DOTALL)
    assert found, 'README.md lacks the markers <!-- parameters --> and <!-- /parameters -->'
    assert found[1].strip() == parameter_table_markdown()


def test_the_shipped_profiles_load_and_hold_the_default_one():
    profiles = load_profiles(CONFIG / 'profiles')
    assert set(profiles) >= {'drive', 'talk'}
    check_default_profile(profiles, Settings().profiles.default)


def test_drive_falls_back_to_stop_and_bounds_the_speed():
    drive = load_profiles(CONFIG / 'profiles')['drive']
    assert drive.words == ('stop', 'slow', 'continue')
    assert drive.decision.fallback == 'stop'
    assert list(drive.detail.json_schema['properties']) == ['target_speed_mps', 'reason']
    assert drive.detail.json_schema['properties']['target_speed_mps']['minimum'] == 0.0


@pytest.mark.parametrize('folder', ['profiles', 'embedded'])
def test_no_detail_of_drive_contradicts_its_word(folder):
    drive = load_profiles(CONFIG / folder)['drive']
    speeds = {word: drive.detail.schema_behind(word)['properties']['target_speed_mps']
              for word in drive.words}
    assert speeds['stop']['const'] == 0.0
    assert speeds['slow']['maximum'] < speeds['continue']['maximum']
    for word in drive.words:
        properties = drive.detail.schema_behind(word)['properties']
        assert list(properties) == ['target_speed_mps', 'reason'], 'one order behind every word'
    text = '{"target_speed_mps":1.2,"reason":"free"}'
    assert validate_detail(drive, 'continue', text)
    for word in ('stop', 'slow'):
        with pytest.raises(SchemaNotMetError, match='target_speed_mps=1.2 does not meet'):
            validate_detail(drive, word, text)


def test_talk_falls_back_to_its_refusal_and_answers_in_free_text():
    talk = load_profiles(CONFIG / 'profiles')['talk']
    assert 'cannot help' in talk.decision.words[talk.words.index(talk.decision.fallback)].meaning
    assert talk.detail.kind == 'text'


def test_a_shipped_profile_asks_for_more_confidence_than_chance():
    for profile in load_profiles(CONFIG / 'profiles').values():
        uniform = 1 / len(profile.words)
        assert profile.decision.min_confidence > uniform, profile.name
