"""The floors are what a hand calculation gives, and unknown constants stay unknown."""

import pytest
from robot_llm.roofline import prefill_floor_s, tpot_floor_s

# By hand, SmolLM2-135M (30 layers, 3 KV heads of 64, f16) on a device of 100 GFLOP/s and
# 20 GB/s: 134.5e6 parameters, 98 MB of weights, a prompt of 500 tokens.
NUM_PARAMS = 134_500_000
WEIGHT_BYTES = 98_000_000


def test_prefill_takes_two_operations_per_weight_and_token() -> None:
    # 2 · 134.5e6 · 500 = 134.5e9 operations; at 100e9 per second 1.345 s
    assert prefill_floor_s(NUM_PARAMS, 500, 100e9) == pytest.approx(1.345)


def test_a_token_reads_weights_and_cache_once() -> None:
    # 98e6 + 500 · 23,040 = 109.52e6 bytes; at 20e9 per second 5.476 ms
    assert tpot_floor_s(WEIGHT_BYTES, 500 * 23_040, 20e9) == pytest.approx(0.005476)


def test_a_cached_prompt_has_no_floor_to_wait_for() -> None:
    assert prefill_floor_s(NUM_PARAMS, 0, 100e9) == 0.0


@pytest.mark.parametrize('floor_s', [
    prefill_floor_s(NUM_PARAMS, 500, 0.0),
    prefill_floor_s(0, 500, 100e9),
    tpot_floor_s(WEIGHT_BYTES, 1, 0.0),
    tpot_floor_s(0, 1, 20e9),
])
def test_an_unknown_constant_gives_an_unknown_floor(floor_s: float) -> None:
    assert floor_s == 0.0
