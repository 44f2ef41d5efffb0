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
