"""The time of a decode is a line over its width, and one stall does not bend it."""

import pytest
from robot_llm.core.decode_cost import DecodeCost, MAX_WIDTH, NUM_NEEDED


def learn(cost: DecodeCost, *, single_s: float = 0.01, further_s: float = 0.002) -> DecodeCost:
    for index in range(NUM_NEEDED):
        cost.observe(1, single_s)
        cost.observe(2 + index, single_s + (1 + index) * further_s)
    return cost


def test_the_line_is_found_from_single_and_from_wide_decodes() -> None:
    cost = DecodeCost()
    assert not cost.is_known
    assert learn(cost).line() == pytest.approx((0.01, 0.002))
    assert cost.is_known


def test_one_stalled_decode_changes_nothing() -> None:
    cost = learn(learn(DecodeCost()))
    cost.observe(1, 5.0)
    cost.observe(4, 5.0)
    assert cost.line() == pytest.approx((0.01, 0.002))


def test_a_prefill_chunk_says_nothing_of_a_few_tokens() -> None:
    cost = learn(DecodeCost())
    for _ in range(50):
        cost.observe(MAX_WIDTH + 1, 9.0)
    assert cost.line() == pytest.approx((0.01, 0.002))


def test_a_wide_decode_that_was_faster_costs_nothing_more_and_not_less() -> None:
    assert learn(DecodeCost(), further_s=-0.001).line() == (0.01, 0.0)


def test_a_device_that_slows_down_is_followed() -> None:
    cost = learn(DecodeCost())
    for _ in range(10):
        learn(cost, single_s=0.03, further_s=0.01)
    assert cost.line() == pytest.approx((0.03, 0.01))


@pytest.mark.parametrize(('bound_s', 'num_tokens', 'expected'), [
    (0.02, 16, 6),  # one takes 10 ms, and five more take another 10
    (0.02, 3, 3),
    (0.005, 16, 1),  # no decode is shorter than a token
])
def test_as_many_tokens_fit_as_the_line_affords(
    bound_s: float, num_tokens: int, expected: int,
) -> None:
    assert learn(DecodeCost()).fitting(num_tokens, bound_s) == expected


def test_everything_fits_where_nothing_is_known_or_a_token_more_costs_nothing() -> None:
    assert DecodeCost().fitting(16, 0.001) == 16
    assert learn(DecodeCost(), further_s=0.0).fitting(16, 0.02) == 16
