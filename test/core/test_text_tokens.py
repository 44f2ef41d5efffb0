"""Numbers and lengths are read however they are told; everything else stays a word."""

from hypothesis import given
from hypothesis import strategies as st
import pytest
from robot_llm.core.text_tokens import Number, text_tokens, words_of


def read(text: str) -> list[object]:
    return [round(token.value, 4) if isinstance(token, Number) else token
            for token in text_tokens(text)]


@pytest.mark.parametrize('text', [
    '1.9 m', '1,9 m', '1900 mm', '190 cm', '19 dm', 'one metre ninety', '0.0019 km',
    'fourteen hundred and fifty millimetres and 450 mm', '1.9m', 'range_mm=1900'])
def test_a_length_is_the_same_in_every_unit(text: str) -> None:
    lengths = [token.value for token in text_tokens(text)
               if isinstance(token, Number) and token.is_length]
    assert sum(lengths) == pytest.approx(1.9)


@pytest.mark.parametrize(('text', 'value'), [
    ('ten feet', 3.048), ('a step', 0.75), ('two and a half metres', 2.5), ('12 inches', 0.3048),
    ('half a metre', 0.5), ('one metre and a half', 1.5), ('a hundred metres', 100.0),
    ('twenty-seven paces', 20.25), ('a couple of yards', 1.8288), ('two dozen steps', 18.0),
    ('a thousand two hundred and five metres', 1205.0)])
def test_a_length_is_in_metres(text: str, value: float) -> None:
    (token,) = text_tokens(text)
    assert isinstance(token, Number) and token.is_length
    assert token.value == pytest.approx(value)


@pytest.mark.parametrize(('text', 'tokens'), [
    ('A Person, ahead!', ['a', 'person', ',', 'ahead', '!']),
    ('two three metres', [2.0, 3.0]), ('one metre twenty inches', [1.0, 0.508]),
    ('80 % of 2', [80.0, '%', 'of', 2.0]), ('half the path', [0.5, 'the', 'path']),
    ('an m', ['an', 'm']), ('two hundred and', [200.0, 'and']), ('a', ['a']), ('', []),
    ('mm', ['mm']), ('9' * 400, [1e9])])
def test_what_is_no_length_stays_what_it_is(text: str, tokens: list[object]) -> None:
    assert read(text) == tokens


def test_sizes_are_logarithmic_and_lengths_have_their_own() -> None:
    tokens = text_tokens('2 m, 2.9 m, 2')
    assert words_of(tokens, 2) == ['@2', ',', '@3', ',', '#2']
    assert words_of(tokens, 1) == ['@1', ',', '@1', ',', '#1']
    assert words_of(text_tokens('0 m'), 2) == ['@-14']


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    for token in text_tokens(text):
        assert token.value >= 0 if isinstance(token, Number) else token


@given(st.lists(st.sampled_from(
    'a an half two twenty hundred thousand and dozen couple of m mm metre step 3 0,5 . x'.split()),
    max_size=12))
def test_any_company_of_number_words_is_read(words: list[str]) -> None:
    for token in text_tokens(' '.join(words)):
        assert 0 <= token.value <= 1e12 if isinstance(token, Number) else token
