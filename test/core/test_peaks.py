"""Floors by hand for each trap, and never above the time that they stand beside."""

import pytest
from robot_llm.core.model_shape import shape_from_header, Tensor
from robot_llm.core.peaks import Peaks
from robot_llm.core.timing import TokenCounts

# 1e6 parameters in one layer, 4e5 in the tied table; a byte each.
SHAPE = shape_from_header(
    {'general.architecture': 'a', 'a.block_count': 1, 'a.embedding_length': 8,
     'a.attention.head_count': 1},
    {'blk.0.attn_k.weight': Tensor(1_000_000, 1_000_000),
     'token_embd.weight': Tensor(400_000, 400_000)})


def floors(peaks, shape=SHAPE, kv=0.0, **counts):
    return peaks.floors(shape, TokenCounts(**counts), kv_bytes_per_token=kv)


def test_the_prefill_multiplies_the_layers_for_every_token_and_the_output_once():
    # 2 · 1e6 · 50 + 2 · 4e5 = 100.8e6 operations at 1e9 per second
    prefill_s, _ = floors(Peaks(flops=1e9), num_prompt_tokens=60, num_cached_tokens=10,
                          num_prefilled_tokens=50)
    assert prefill_s == pytest.approx(0.1008)


def test_what_is_evaluated_behind_the_decision_is_no_part_of_its_floor():
    early, _ = floors(Peaks(flops=1e9), num_prefilled_tokens=50)
    late, _ = floors(Peaks(flops=1e9), num_prefilled_tokens=90, num_late_tokens=40)
    assert early == late > 0
    assert floors(Peaks(flops=1e9), num_prefilled_tokens=40, num_late_tokens=40)[0] == 0.0


def test_a_short_prefill_reads_every_weight_once_all_the_same():
    # 1.4e6 + 1000 · 100 bytes at 1e9 per second, beside 4.8e-6 s of arithmetic
    prefill_s, _ = floors(Peaks(flops=1e12, bandwidth=1e9), kv=100.0, num_cached_tokens=1000,
                          num_prefilled_tokens=2)
    assert prefill_s == pytest.approx(0.0015)


def test_a_token_reads_layers_output_and_the_mean_cache():
    counts = {'num_prompt_tokens': 100, 'num_completion_tokens': 21, 'num_decode_calls': 23,
              'num_calls_to_decision': 3}
    # 20 decodes for 20 tokens behind the first; 1.4e6 + 110.5 · 1000 bytes
    _, tpot_s = floors(Peaks(bandwidth=1e9), kv=1000.0, **counts)
    assert tpot_s == pytest.approx(1.5105e-3)
    # Half of them forced: a token's share of a decode.
    _, forced_s = floors(Peaks(bandwidth=1e9), kv=1000.0, **{**counts, 'num_decode_calls': 13})
    assert forced_s == pytest.approx(tpot_s / 2)


def test_a_floor_does_not_grow_behind_the_window():
    windowed = shape_from_header(
        {'general.architecture': 'a', 'a.block_count': 1, 'a.embedding_length': 8,
         'a.attention.head_count': 1, 'a.attention.sliding_window': 100},
        {'blk.0.attn_k.weight': Tensor(1_000_000, 1_000_000),
         'token_embd.weight': Tensor(400_000, 400_000)})
    counts = {'num_completion_tokens': 21, 'num_decode_calls': 23, 'num_calls_to_decision': 3}
    # 1.4e6 + 100 · 1000 bytes, however much is in front
    for num_prompt_tokens in (100, 5000):
        _, tpot_s = floors(Peaks(bandwidth=1e9), windowed, 1000.0,
                           num_prompt_tokens=num_prompt_tokens, **counts)
        assert tpot_s == pytest.approx(1.5e-3)
    # What crosses it is below the mean depth of all: (90 + 100) / 2 at both ends.
    _, tpot_s = floors(Peaks(bandwidth=1e9), windowed, 1000.0, num_prompt_tokens=90, **counts)
    assert tpot_s == pytest.approx(1.495e-3)


def test_what_did_not_happen_and_what_is_not_known_has_no_floor():
    assert floors(Peaks(1e9, 1e9)) == (0.0, 0.0)
    assert floors(Peaks(1e9, 1e9), num_completion_tokens=1, num_decode_calls=1,
                  num_calls_to_decision=1) == (0.0, 0.0)
    some = {'num_prefilled_tokens': 5, 'num_completion_tokens': 9, 'num_decode_calls': 9}
    assert floors(Peaks(), **some) == (0.0, 0.0)
    assert floors(Peaks(1e9, 1e9), shape=None, **some) == (0.0, 0.0)


def test_what_was_faster_than_the_peaks_raises_them():
    peaks = Peaks(flops=1e9, bandwidth=1e9)
    peaks.see(SHAPE, 50, 0.0, 0.05)
    assert peaks.flops == pytest.approx(2e9)
    peaks.see(SHAPE, 1, 100_000.0, 0.0005)
    assert peaks.bandwidth == pytest.approx(3e9)
    peaks.see(SHAPE, 50, 0.0, 10.0)
    peaks.see(SHAPE, 50, 0.0, 0.0)
    assert (peaks.flops, peaks.bandwidth) == (
        pytest.approx(4e9), pytest.approx(3e9))


def test_what_was_given_or_is_unknown_stays():
    given = Peaks(1e9, 1e9, is_flops_given=True, is_bandwidth_given=True)
    unknown = Peaks()
    for peaks in (given, unknown):
        peaks.see(SHAPE, 50, 0.0, 1e-6)
    assert (given.flops, given.bandwidth) == (1e9, 1e9)
    assert (unknown.flops, unknown.bandwidth) == (0.0, 0.0)
