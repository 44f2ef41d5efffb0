"""A scene's text becomes n-grams that are the same on every machine, and logits."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_llm.core.text_features import normalized_words, text_halves, TextPart, weigh

NUM_BUCKETS = 256


def make_part(num_words: int = 3) -> TextPart:
    random = np.random.default_rng(0)
    return TextPart(
        random.uniform(1, 5, NUM_BUCKETS).astype(np.float32),
        random.normal(size=(NUM_BUCKETS, num_words)).astype(np.float32))


@pytest.mark.parametrize(('text', 'words'), [
    ('A Person, ahead!', ['a', 'person', 'ahead']),
    ('2 m', ['#2', 'm']), ('2.9 m', ['#3', 'm']), ('7m', ['#5', 'm']), ('0,42', ['#-3']),
    ('seven metres', ['#5', 'm']),
    ('80 %', ['#12', '%']), ('0', ['#-14']), ('', [])])
def test_words_are_folded_and_numbers_become_sizes(text, words) -> None:
    assert normalized_words(text) == words


def test_numbers_of_like_size_keep_the_same_company() -> None:
    five, seven, forty = (
        set(text_halves(f'{number} m ahead', 2**20)[0][0].tolist())
        for number in ('5', 'seven', '40'))
    assert len(five & seven) == 5
    assert len(five & forty) == 3


def test_the_buckets_are_written_down() -> None:
    # A head file from another machine must mean the same: this may never change.
    (words, counts), (pieces, _) = text_halves('wet wet floor', 2**14)
    assert words.tolist() == [12526, 5598, 5515, 9650]
    assert counts.tolist() == pytest.approx([1 + np.log(2), 1, 1, 1])
    assert len(pieces) == 28


@given(st.text(max_size=200))
def test_any_text_gives_finite_logits(text) -> None:
    assert np.isfinite(make_part().logits(text)).all()


def test_an_empty_text_says_nothing() -> None:
    assert make_part().logits('').tolist() == [0.0, 0.0, 0.0]


def test_each_half_counts_alike_however_long_the_text() -> None:
    part = make_part()
    for text in ('wet', 'a wet floor in the long corridor of the hospital'):
        for buckets, values in text_halves(text, NUM_BUCKETS):
            assert np.linalg.norm(weigh(values, part.weights_of_ngrams[buckets])) == pytest.approx(
                1.0, rel=1e-5)


def test_what_lies_behind_two_thousand_characters_is_not_read() -> None:
    part, text = make_part(), 'wet floor ' * 200
    assert part.logits(text + 'a person').tolist() == part.logits(text).tolist()
