"""Figures as lines for people."""

import pytest
from robot_llm.bench.sample import Figure, Target, yes_or_no
from robot_llm.bench.table import line_of, quantity


@pytest.mark.parametrize(('value', 'unit', 'text'), [
    (0.0123, 's', '12.3 ms'), (2.5, 's', '2.5 s'), (4.2e-5, 's', '42 µs'),
    (3e-12, 's', '0.003 ns'), (0.0, 's', '0 s'), (1.034, 'x', '1.03 x'),
    (123456.0, 'B', '123456 B'), (1.0, 'yes/no', 'yes'),
    (42.0, '', '42')])
def test_a_quantity_is_short_and_has_its_unit(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_a_line_says_value_spread_target_and_verdict() -> None:
    line = line_of(Figure('tpot', 's', (0.010, 0.011, 0.012), Target(0.0105), note='why'))
    assert 'tpot' in line
    assert '11 ms' in line
    assert 'MISSED (<= 10.5 ms)' in line
    assert line.endswith('\n      why')


def test_a_target_that_is_met_says_so_and_none_says_nothing() -> None:
    assert 'met    (>= 0.95 x)' in line_of(Figure('r', 'x', (1.0,), Target(0.95, is_floor=True)))
    assert line_of(Figure('r', 'x', (1.0,))).endswith('1 x')
    assert line_of(yes_or_no('same', [True, False])).endswith('MISSED (yes)')
    assert 'p99 3 s' in line_of(Figure('r', 's', (3.0,) * 100, statistic='p99'))
