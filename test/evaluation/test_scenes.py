"""A scene file is read, checked line by line, and split for ever."""

from pathlib import Path
import re

import pytest
from robot_llm.errors import ConfigError
from robot_llm.evaluation.scenes import load_scenes, merge_scenes, SceneGroup, SPLITS
from synthetic import WORDS

CONFIG = Path(__file__).parents[2] / 'config'
HEAD = "profile: drive\nguideline: 'stop for people'\ngroups:\n"
GOOD = HEAD + """
  - name: person
    label: stop
    tags: [near]
    texts: ['A person ahead.', 'Someone ahead.']
  - name: clear
    label: continue
    texts: ['Nothing ahead.', 'All clear.']
"""


def load(tmp_path, text):
    path = tmp_path / 'scenes.yaml'
    path.write_text(text)
    return load_scenes(path, WORDS)


def problems(tmp_path, text):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    return [problem.rpartition('scenes.yaml:')[2] for problem in caught.value.problems]


def test_a_good_file_is_read(tmp_path):
    scenes = load(tmp_path, GOOD)
    assert (scenes.profile, scenes.guideline) == ('drive', 'stop for people')
    assert [scene.label for scene in scenes.scenes()] == ['stop', 'stop', 'continue', 'continue']
    assert scenes.groups[0].tags == ('near',)


@pytest.mark.parametrize(('old', 'new', 'expected'), [
    ('label: stop', 'label: halt', "6: label='halt' is not one of stop, slow, continue; correct"),
    ('name: clear', 'name: person', "9: group 'person' stands at line 5 too; rename one"),
    ('label: continue', 'lable: continue', "10: 'lable' is not a key of a group; did you mean"),
    ("'All clear.'", "'A person ahead.'", "9: 'A person ahead.' stands in the group of line 5"),
    ("'All clear.'", "'Nothing ahead.'", "9: 'Nothing ahead.' stands in the group of line 9"),
    ("'All clear.'", '17', '11: texts=17 is no text to YAML; put it in quotes'),
    ('tags: [near]', 'tags: near', '7: tags is not a list; write [one, two]'),
    ('profile: drive', 'profil: drive', "1: 'profil' is not a key of a scene file; did you mean"),
    ("['Nothing ahead.', 'All clear.']", '[a, b, c, d, e]', "11: group 'clear' has 5 texts, not"),
    ("guideline: 'stop for people'", "guideline: ''", '2: guideline is missing or empty; add it'),
    ("'All clear.'", f"'{'a' * 2001}'", '9: a text has 2001 characters, a head reads 2000; sho'),
    ('tags: [near]', 'label: slow', "7: key 'label' stands twice; keep one"),
    ('tags: [near]', 'tags: [near', 'not valid YAML'),
])
def test_a_problem_is_named_with_its_line(tmp_path, old, new, expected):
    assert old in GOOD
    found = problems(tmp_path, GOOD.replace(old, new, 1))
    assert any(expected in problem for problem in found), found


def test_all_problems_are_told_at_once(tmp_path):
    text = GOOD.replace('label: stop', 'label: halt').replace('label: continue', 'label: go')
    assert len(problems(tmp_path, text)) == 2


@pytest.mark.parametrize('text', ['', 'groups: 3', '- a', HEAD])
def test_what_is_no_scene_file_is_refused(tmp_path, text):
    assert problems(tmp_path, text)


def test_the_split_goes_by_the_name_alone():
    # Written down: a change would move groups that heads were fitted on to the other side.
    splits = [SceneGroup(f'group-{i}', 'stop', ('a',)).split for i in range(8)]
    assert splits == ['fit', 'fit', 'threshold', 'fit', 'fit', 'test', 'fit', 'fit']
    assert SceneGroup('group-0', 'slow', ('b', 'c')).split == splits[0]


def test_the_hash_is_of_names_labels_and_texts(tmp_path):
    scenes = load(tmp_path, GOOD)
    assert load(tmp_path, '# hello\n' + GOOD).content_hash == scenes.content_hash
    assert load(tmp_path, GOOD.replace('[near]', '[far]')).content_hash == scenes.content_hash
    assert load(tmp_path, GOOD.replace('All clear.', 'Clear.')).content_hash != scenes.content_hash


@pytest.fixture(scope='module')
def shipped():
    files = sorted((CONFIG / 'scenes').glob('drive*.yaml'))
    return [load_scenes(path, WORDS) for path in files]


def test_the_shipped_scenes_are_many_and_balanced(shipped):
    scenes = [scene for part in shipped for scene in part.scenes()]
    assert len(scenes) >= 400
    for word in WORDS:
        assert sum(scene.label == word for scene in scenes) >= 120
    assert len({scene.text.casefold() for scene in scenes}) == len(scenes)


def test_no_shipped_text_stands_on_two_sides_of_the_split(shipped):
    # In other punctuation neither.
    split_of = {}
    for group in merge_scenes(shipped).groups:
        for text in group.texts:
            plain = ' '.join(re.findall(r'[a-z0-9]+', text.casefold()))
            assert split_of.setdefault(plain, group.split) == group.split, text


def test_the_shipped_groups_are_paraphrases_and_fill_every_side(shipped):
    groups = [group for part in shipped for group in part.groups]
    assert all(2 <= len(group.texts) <= 4 for group in groups)
    assert len({group.name for group in groups}) == len(groups)
    counts = {split: sum(group.split == split for group in groups) for split in SPLITS}
    # What --max-unsafe 0.01 needs.
    assert counts['threshold'] >= 99
    assert counts['test'] >= 60


def test_the_shipped_scenes_tell_the_guideline(shipped):
    assert all(word.upper() in shipped[0].guideline for word in WORDS)
