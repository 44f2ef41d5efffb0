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
    # Words.
    ('ten feet', 3.048), ('a step', 0.75), ('12 inches', 0.3048), ('a hundred metres', 100.0),
    ('twenty-five metres', 25.0), ('twenty-seven paces', 20.25), ('a couple of yards', 1.8288),
    ('a couple of metres', 2.0), ('two-metre', 2.0), ('two dozen steps', 18.0),
    ('half a dozen metres', 6.0), ('a hundred and fifty centimetres', 1.5),
    ('nineteen hundred and ninety mm', 1.99), ('2 hundred metres', 200.0),
    ('a thousand two hundred and five metres', 1205.0),
    # Decimals that are told.
    ('two point eight metres', 2.8), ('five point one metres', 5.1), ('2 point 8 m', 2.8),
    ('zero point five metres', 0.5), ('point five metres', 0.5), ('two comma five metres', 2.5),
    ('one point seven five metres', 1.75), ('one point oh five metres', 1.05),
    ('two point twenty-five metres', 2.25), ('one hundred and fifty point five cm', 1.505),
    ('two point five thousand millimetres', 2.5),
    # Decimals and thousands that are written.
    ('.5 m', 0.5), ('x=.5 m', 0.5), ('2,8 m', 2.8), ('2·8 m', 2.8), ('2.8e-1 m', 0.28),
    ('1,500 mm', 1.5), ('12,500 mm', 12.5), ('range_mm=1,500', 1.5), ("1'500 mm", 1.5),
    ('1,500.5 mm', 1.5005), ('1.500,5 mm', 1.5005),
    # What may be two lengths is the nearer one.
    ('1,500 m', 1.5), ('1.500 m', 1.5), ('850,000 mm', 0.85), ('850.000 mm', 0.85),
    # Fractions.
    ('half a metre', 0.5), ('half of a metre', 0.5), ('a half metre', 0.5), ('half metre', 0.5),
    ('two and a half metres', 2.5), ('two and half metres', 2.5), ('one-and-a-half metres', 1.5),
    ('one metre and a half', 1.5), ('a metre and a half', 1.5), ('a metre and a quarter', 1.25),
    ('three quarters of a metre', 0.75), ('two and three quarters metres', 2.75),
    ('two thirds of a metre', 2 / 3), ('a tenth of a metre', 0.1), ('½ m', 0.5), ('2½ m', 2.5),
    ('¾ of a metre', 0.75), ('1/2 m', 0.5), ('1 1/2 m', 1.5), ('3/4 of a metre', 0.75),
    # Two units, or what is left of the second one.
    ('2m80', 2.8), ('2 m 80 cm', 2.8), ('two metres eighty-five', 2.85), ('6 ft 2 in', 1.8796),
    ("6'2\"", 1.8796), ('six feet two inches', 1.8796)])
def test_a_length_is_in_metres_however_it_is_spelled(text: str, value: float) -> None:
    for place in ('{}', 'about {}, ahead.', 'a man less than {} from me and two people'):
        lengths = [token.value for token in text_tokens(place.format(text))
                   if isinstance(token, Number) and token.is_length]
        assert lengths == [pytest.approx(value)]


@pytest.mark.parametrize(('text', 'nearer', 'farther'), [
    ('two to three metres', 2.0, 3.0), ('two or three metres', 2.0, 3.0), ('2-3 m', 2.0, 3.0),
    ('2 – 3 m', 2.0, 3.0), ('two-three metres', 2.0, 3.0), ('½ to 2 m', 0.5, 2.0),
    ('1/2 to 2 m', 0.5, 2.0), ('between one and two metres', 1.0, 2.0), ('2.0/3.0 m', 2.0, 3.0),
    ('between one hundred and two hundred centimetres', 1.0, 2.0), ('0.75..1.95 m', 0.75, 1.95),
    ('1,500 to 2,500 m', 1.5, 2.5), ('one point two to one point four metres', 1.2, 1.4),
    ('80 cm to 2 m', 0.8, 2.0), ('one metre fifty to two metres', 1.5, 2.0)])
def test_of_a_range_both_ends_are_lengths(text: str, nearer: float, farther: float) -> None:
    lengths = [token.value for token in text_tokens(f'a crate {text} ahead')
               if isinstance(token, Number) and token.is_length]
    assert lengths == pytest.approx([nearer, farther])


@pytest.mark.parametrize('text', [
    '2 meteres', '2.8 metrs', 'two or so metres', 'a fraction of a metre', 'the third metre',
    'tens of metres', 'two point', 'gate 1/2', 'two point eight', '1,500', "6'2", '2 m²',
    'point cloud', 'a third of the picture'])
def test_what_cannot_be_read_as_a_length_is_none(text: str) -> None:
    assert not [token for token in text_tokens(f'{text}, here')
                if isinstance(token, Number) and token.is_length]


@pytest.mark.parametrize(('text', 'tokens'), [
    ('A Person, ahead!', ['a', 'person', ',', 'ahead', '!']),
    ('from a point sixteen inches away', ['from', 'a', 'point', 0.4064, 'away']),
    ('ahead.5 m', ['ahead', '.', 5.0]), ('1 m, 20 cm high', [1.0, ',', 0.2, 'high']),
    ('2 metres eighty degrees', [2.0, 80.0, 'degrees']), ('two at 1-6', [2.0, 'at', 1.0, 6.0]),
    ('from 5 to 3 m', ['from', 5.0, 'to', 3.0]), ('a point cloud', ['a', 'point', 'cloud']),
    ('one metre and a half-open door', [1.0, 'and', 0.5, 'open', 'door']),
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
    'a an half two twenty hundred thousand and dozen couple of m mm metre step 3 0,5 . x point '
    'quarter tenth between to 1,500 - / ft in zero ½ ′'.split()), max_size=12))
def test_any_company_of_number_words_is_read(words: list[str]) -> None:
    for token in text_tokens(' '.join(words)):
        assert 0 <= token.value <= 1e12 if isinstance(token, Number) else token
