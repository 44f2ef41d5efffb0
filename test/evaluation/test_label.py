"""What was recorded comes back least certain first, and its labels make a scene file."""

from collections.abc import Iterator

from robot_llm.evaluation.label import append_group, candidates, group_name, label_all
from robot_llm.evaluation.scenes import load_scenes
from synthetic import WORDS


def record(scene, *probabilities, words=WORDS):
    return {'scene': scene, 'words': list(words), 'probabilities': list(probabilities),
            'word': 'stop'}


def answers(*lines) -> Iterator[str]:
    yield from lines


def run(found, *lines):
    kept, said, given = [], [], answers(*lines)

    def ask(prompt):
        try:
            return next(given)
        except StopIteration:
            raise EOFError from None

    return label_all(found, kept.append, ask, said.append), kept, said


def test_the_least_certain_scene_comes_first_and_every_text_once():
    found = candidates(
        [record('sure', 0.9, 0.1, 0.0), record('unsure', 0.4, 0.3, 0.3),
         record('Unsure ', 0.4, 0.3, 0.3), record('known', 0.4, 0.3, 0.3), record(''),
         record('other', 0.5, 0.5, words=('yes', 'no'))],
        WORDS, ['Known'])
    assert [candidate.text for candidate in found] == ['unsure', 'sure']


def test_a_number_or_a_word_labels_enter_skips_q_ends():
    found = candidates([record(text, 0.4, 0.3, 0.3) for text in 'abcde'], WORDS, [])
    num, kept, said = run(found, '3', 'a in other words', '', 'slow', '', 'bold', 'q')
    assert num == 2
    assert [(group.label, group.texts) for group in kept] == [
        ('continue', ('a', 'a in other words')), ('slow', ('c',))]
    assert any("'bold' is neither a number nor a word" in line for line in said)


def test_the_end_of_the_input_ends_the_loop():
    found = candidates([record('a', 0.4, 0.3, 0.3)], WORDS, [])
    assert run(found)[0] == 0
    assert run(found, '1')[0] == 0  # no answer about the paraphrase: nothing half done is kept


def test_labels_become_a_scene_file_that_loads(tmp_path):
    path = tmp_path / 'mine.yaml'
    path.write_text("profile: drive\nguideline: 'as written'\ngroups:\n")
    found = candidates(
        [record("it's: a \"quote\" – 你好", 0.4, 0.3, 0.3), record('yes', 0.5, 0.3, 0.2)], WORDS, [])
    _, kept, _ = run(found, '1', 'another', '2', '')
    for group in kept:
        append_group(path, group)
    scenes = load_scenes(path, WORDS)
    assert [group.texts for group in scenes.groups] == [
        ("it's: a \"quote\" – 你好", 'another'), ('yes',)]
    assert scenes.groups[0].tags == ('recorded',)


def test_a_name_is_of_the_text_so_that_its_split_stays():
    assert group_name('A man, 2 m ahead!') == group_name('A man, 2 m ahead!')
    assert group_name('A man').startswith('a-man-')
    assert group_name('你好') != group_name('你')
