"""A scene's text becomes n-grams that are the same on every machine, and logits."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_llm.core.text_features import known_parts, PART_WEIGHTS, read_text, TextPart

WORDS, PIECES, PAIRS, NEGATED, LENGTHS = range(5)


def make_part(*texts: str, num_words: int = 3) -> TextPart:
    """Return a part that knows what stands in these texts."""
    random = np.random.default_rng(0)
    keys = np.unique(np.concatenate(
        [part[0] for text in texts for part in read_text(text).parts] or [np.arange(5)]))
    return TextPart(
        keys.astype(np.uint32), random.uniform(1, 5, len(keys)).astype(np.float16),
        random.normal(size=(len(keys), num_words)).astype(np.float16))


def keys_of(text: str, kind: int) -> set[int]:
    return set(read_text(text).parts[kind][0].tolist())


def test_lengths_of_like_size_keep_the_same_company() -> None:
    five, six, forty = (keys_of(f'{length} ahead', PAIRS) for length in (
        '5 m', 'twenty feet', 'forty metres'))
    assert five == six
    assert not five & forty


def test_a_length_stands_beside_every_word_of_its_text() -> None:
    text = 'a dog, which is brown and old and asleep, lies 2 m ahead'
    assert len(keys_of(text, LENGTHS)) == 10
    assert not keys_of('a dog lies ahead', LENGTHS)


def test_a_negation_reaches_to_the_end_of_its_clause() -> None:
    assert keys_of('nobody is here', NEGATED) == keys_of('never is here, but there', NEGATED)
    assert not keys_of('somebody is here', NEGATED)
    assert len(keys_of('not a b c d e f g', NEGATED)) == 5


def test_the_keys_are_written_down() -> None:
    # A head file from another machine must mean the same: this may never change.
    text = read_text('wet wet floor')
    words, counts = text.parts[WORDS]
    assert words.tolist() == [3476255663, 3453978429, 589644155, 3764140720]
    assert counts.tolist() == pytest.approx([1 + np.log(2), 1, 1, 1])
    assert [len(part[0]) for part in text.parts] == [4, 28, 2, 0, 0]
    assert text.words.tolist() == [3192247854, 3776810240]


@given(st.text(max_size=200))
def test_any_text_gives_finite_logits(text) -> None:
    assert np.isfinite(make_part('wet floor', text).logits(read_text(text))).all()


def test_an_empty_text_says_nothing_and_so_does_an_unknown_one() -> None:
    part = make_part('wet floor')
    for text in ('', 'qqq'):
        assert part.logits(read_text(text)).tolist() == [0.0, 0.0, 0.0]


def test_each_kind_counts_alike_however_long_the_text() -> None:
    for text in ('not wet, 2 m', 'no wet floor in the long corridor of the hospital for 20 m'):
        part = make_part(text)
        lengths = [np.linalg.norm(values) for _, values in known_parts(
            read_text(text).parts, part.keys, part.weights_of_ngrams)]
        assert lengths == pytest.approx(PART_WEIGHTS, rel=1e-3)


def test_what_is_not_known_is_left_out() -> None:
    part = make_part('wet floor')
    known = [len(rows) for rows, _ in known_parts(
        read_text('wet stone').parts, part.keys, part.weights_of_ngrams)]
    assert known == [1, 10, 0, 0, 0]


def test_what_lies_behind_two_thousand_characters_is_not_read() -> None:
    text = 'wet floor ' * 200
    part = make_part(text, 'a person')
    assert part.logits(read_text(text + 'a person')).tolist() == part.logits(
        read_text(text)).tolist()
