import pytest
from robot_llm.errors import ConfigError
from robot_llm.profile_file import check_default_profile, load_profiles
from robot_llm.settings import Limits

GOOD = """\
description: d
system_prompt: s
decision:
  words:
    - {word: stop, meaning: danger}
    - {word: go, meaning: clear}
  fallback: stop
  min_confidence: 0.5
"""


def problems_of(folder, limits=Limits()):
    with pytest.raises(ConfigError) as caught:
        load_profiles(folder, limits)
    return caught.value.problems


def problems_in(tmp_path, text):
    (tmp_path / 'p.yaml').write_bytes(text if isinstance(text, bytes) else text.encode())
    return problems_of(tmp_path)


def test_the_file_name_is_the_profile_name_and_other_files_are_no_profiles(tmp_path):
    (tmp_path / 'drive_slow2.yaml').write_text(GOOD)
    (tmp_path / 'README.md').write_text('not a profile')
    profiles = load_profiles(tmp_path)
    assert list(profiles) == ['drive_slow2']
    assert profiles['drive_slow2'].name == 'drive_slow2'


def test_a_missing_folder_a_file_and_an_empty_folder_are_refused_with_the_remedy(tmp_path):
    problem, = problems_of(tmp_path / 'missing')
    assert 'cannot be read (No such file or directory); give a folder of *.yaml' in problem
    (tmp_path / 'file').touch()
    problem, = problems_of(tmp_path / 'file')
    assert 'cannot be read (Not a directory)' in problem
    problem, = problems_of(tmp_path)
    assert 'holds no *.yaml file; add a profile' in problem


def test_a_merged_key_may_be_given_anew(tmp_path):
    # Symptom: "<<" with a key of its own beside it was refused as a key that stands twice.
    merging = '&other {<<: *first, word: go}\n    - {<<: *other, word: on_}'
    (tmp_path / 'p.yaml').write_text(GOOD.replace(
        '{word: stop', '&first {word: stop').replace('{word: go, meaning: clear}', merging))
    words = load_profiles(tmp_path)['p'].decision.words
    assert [(word.word, word.meaning) for word in words] == [
        ('stop', 'danger'), ('go', 'danger'), ('on_', 'danger')]


def test_a_key_that_is_merged_from_deeper_down_may_be_given_anew(tmp_path):
    # PyYAML merges into the node itself, here before its own turn to be read has come.
    (tmp_path / 'p.yaml').write_text(GOOD.replace('{word: stop', '&first {word: stop').replace(
        '{word: go,', '&other {<<: *first, word: go,') + 'deadlines: {<<: *other}\n')
    problems = problems_of(tmp_path)
    assert not any('stands twice' in problem for problem in problems)
    assert any('deadlines.word' in problem for problem in problems)


@pytest.mark.parametrize('name', ['a.yml', 'Drive.yaml', '2.yaml', 'a b.yaml'])
def test_a_file_whose_name_cannot_be_a_profiles_is_refused(tmp_path, name):
    (tmp_path / name).write_text(GOOD)
    problem, = problems_of(tmp_path)
    assert problem.startswith(f'{name}: the file name is the profile name; rename it')


@pytest.mark.parametrize(('text', 'sentence'), [
    ('', 'p.yaml: is not a mapping; write keys'),
    ('- a\n', 'p.yaml: is not a mapping'),
    ('a: [1\n', 'p.yaml: line 2 is not valid YAML: '),
    (b'a: \xff\n', 'p.yaml: byte 3 is not UTF-8; save the file as UTF-8'),
    ('a: "\x01"\n', 'p.yaml: is not valid YAML: '),
    ('a: !!python/object:os.system {}\n', 'p.yaml: line 1 is not valid YAML: could not determine'),
    (GOOD + 'description: again\n', "key 'description' stands twice; keep one"),
    (GOOD.replace('{word: go,', '{word: go, word: run,'), "key 'word' stands twice; keep one"),
    (GOOD.replace('{word: go,', '{<<: *first, word: go, word: run,').replace(
        '{word: stop', '&first {word: stop'), "key 'word' stands twice; keep one"),
    (GOOD + 'name: q\n', "p.yaml: name='q' is given by the file name; remove the key"),
    (GOOD + 'stops: [a]\n', 'p.yaml: stops is not a key of a profile; did you mean stop?'),
    (GOOD + 'xyzzy: 1\n', 'p.yaml: xyzzy=1 is not a key of a profile; remove it'),
    (GOOD.replace('  fallback: stop\n', ''), 'p.yaml: decision.fallback is missing; add it'),
    (GOOD.replace('word: go', 'word: on'),
     'p.yaml: decision.words[1].word=True is a boolean, not a string; put it in quotes '
     '(YAML reads an unquoted on, off, yes, no or 12 as something else)'),
    (GOOD.replace('word: go', "word: 'on off'"),
     "p.yaml: decision.words[1].word='on off' is not one visible word; write it without spaces"),
    (GOOD.replace('fallback: stop', 'fallback: halt'),
     "p.yaml: decision.fallback='halt' is not one of the words stop, go; choose the word"),
    (GOOD.replace('0.5', '1.5'),
     'p.yaml: decision.min_confidence=1.5 is above the limit 1.0; correct it'),
    (GOOD.replace('0.5', '-1'),
     'p.yaml: decision.min_confidence=-1 is below the limit 0.0; correct it'),
    (GOOD.replace('0.5', '1e-3'),
     "p.yaml: decision.min_confidence='1e-3' is a string, not a number; "
     'write a number without quotes, such as 1.0e-3'),
    (GOOD.replace('0.5', '.nan'), 'p.yaml: decision.min_confidence=nan is refused: '),
    (GOOD + 'stop: abc\n', "p.yaml: stop='abc' is a string, not a list; write one item per line"),
    (GOOD + 'sampling: 3\n', 'p.yaml: sampling=3 is an integer, not a mapping; write one key'),
    (GOOD + 'sampling: {top_k: 4.5}\n',
     'p.yaml: sampling.top_k=4.5 is a number, not an integer; write a whole number'),
    (GOOD + 'detail:\n', 'p.yaml: detail is empty, not a mapping; write one key per line'),
    (GOOD + 'detail: {kind: xml}\n',
     "p.yaml: detail.kind='xml' is not one of 'none', 'text' or 'json'; choose one"),
    (GOOD + 'detail: {kind: json, json_schema: {type: array}}\n',
     "p.yaml: detail.json_schema: $.type='array' is not 'object'"),
    (GOOD + 'detail: {kind: json, json_schema: {type: object, properties: {on: {}}}}\n',
     'p.yaml: detail.json_schema: $.properties has the key True, which is not a string'),
])
def test_a_problem_names_file_key_value_limit_and_remedy(tmp_path, text, sentence):
    problem, = problems_in(tmp_path, text)
    assert sentence in problem


def test_a_decision_with_one_word_names_the_limit(tmp_path):
    text = GOOD.replace('    - {word: go, meaning: clear}\n', '')
    assert problems_in(tmp_path, text) == (
        'p.yaml: decision.words has 1 items, allowed are 2 to 64; add or remove some',)


def test_all_problems_of_all_files_are_named_at_once(tmp_path):
    (tmp_path / 'a.yaml').write_text(GOOD.replace('0.5', '2.0') + 'stop: [1]\nextra: 1\n')
    (tmp_path / 'b.yaml').write_text('[')
    (tmp_path / 'good.yaml').write_text(GOOD)
    problems = problems_of(tmp_path)
    assert [problem.partition(' ')[0] for problem in problems] == ['a.yaml:'] * 3 + ['b.yaml:']
    text = '\n'.join(problems)
    assert all(path in text for path in ('decision.min_confidence', 'stop[0]', 'extra'))


@pytest.mark.parametrize(('limits', 'extra', 'sentence'), [
    (Limits(prompt_bytes=10), '',
     'system_prompt has 24 bytes, above limits.prompt_bytes=10; shorten it or raise the limit'),
    (Limits(stop_strings=1), 'stop: [a, b]\n', 'stop has 2 strings, above limits.stop_strings=1'),
    (Limits(stop_bytes=3), 'stop: [üü]\n', 'stop[0] has 4 bytes, above limits.stop_bytes=3'),
    (Limits(max_tokens=8), 'detail: {max_tokens: 9}\n',
     'detail.max_tokens has 9 tokens, above limits.max_tokens=8'),
    (Limits(schema_bytes=64), 'detail: {kind: json, json_schema: {type: object, properties: '
     '{a: {type: boolean}}, additionalProperties: false}}\n',
     'detail.json_schema has 91 bytes, above limits.schema_bytes=64'),
    (Limits(schema_bytes=95), 'detail: {kind: json, json_schema: {type: object, properties: '
     '{a: {type: boolean}}, additionalProperties: false}, json_schema_of: {stop: {type: object, '
     'properties: {abcdefgh: {type: boolean}}, additionalProperties: false}}}\n',
     'detail.json_schema_of.stop has 98 bytes, above limits.schema_bytes=95'),
])
def test_what_is_above_a_limit_is_refused_with_both_numbers(tmp_path, limits, extra, sentence):
    (tmp_path / 'p.yaml').write_text(GOOD + extra)
    problem, = problems_of(tmp_path, limits)
    assert problem.startswith(f'p.yaml: {sentence}')


def test_a_default_profile_that_is_not_there_is_refused(tmp_path):
    (tmp_path / 'drive.yaml').write_text(GOOD)
    profiles = load_profiles(tmp_path)
    check_default_profile(profiles, 'drive')
    with pytest.raises(ConfigError, match="profiles.default='drve' .*; did you mean drive?"):
        check_default_profile(profiles, 'drve')
