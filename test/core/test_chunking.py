"""Chunks follow what was measured, never over the bound for long, and never by one outlier."""

from itertools import pairwise

import pytest
from robot_llm.core.chunking import ABORTABLE, BEATS_S, chunk_end, ChunkSizer, STEP


def sizer(largest=512, is_abortable=False):
    return ChunkSizer(largest=largest, is_abortable=is_abortable, max_stall_s=0.03)


def run(chunks, num_tokens, seconds):
    """Prefill on a device whose chunk of n tokens takes ``seconds(n)``; return the sizes."""
    sizes = []
    while num_tokens > 0:
        size = min(chunks.size, num_tokens)
        chunks.learn(size, seconds(size))
        sizes.append(size)
        num_tokens -= size
    return sizes


def test_nothing_measured_is_the_smallest_chunk():
    assert sizer().size == STEP
    assert sizer(largest=5).size == 5


@pytest.mark.parametrize(('fixed_s', 'per_token_s'), [
    (0.0, 0.0025), (0.004, 0.0001), (0.008, 0.00001), (0.02, 0.0005), (0.0, 0.1)])
def test_the_size_reaches_the_bound_and_stays_there(fixed_s, per_token_s):
    def seconds(num_tokens):
        return fixed_s + num_tokens * per_token_s

    chunks = sizer()
    sizes = run(chunks, 20_000, seconds)
    settled = chunks.size
    assert settled % STEP == 0
    assert settled == STEP or seconds(settled) <= 0.03
    # One step more would be over the bound, or over the largest chunk.
    assert settled == 512 or seconds(settled + 2 * STEP) > 0.03
    # On the way up no chunk took longer than the bound, the smallest excepted.
    assert all(seconds(size) <= 0.03 for size in sizes if size > STEP)


def test_a_device_that_became_slower_gets_smaller_chunks_within_two():
    chunks = sizer()
    run(chunks, 5000, lambda n: n * 0.0001)
    assert chunks.size == 288
    sizes = run(chunks, 2000, lambda n: n * 0.0005)
    assert sizes[:4] == [288, 288, 48, 48]


@pytest.mark.parametrize('outlier', [0.001, 50.0])
def test_one_outlier_changes_nothing(outlier):
    chunks = sizer()
    run(chunks, 5000, lambda n: n * 0.0002)
    size = chunks.size
    chunks.learn(size, outlier)
    assert chunks.size == size


def test_a_short_remainder_teaches_nothing_unless_it_took_too_long():
    chunks = sizer()
    run(chunks, 5000, lambda n: 0.004 + n * 0.0001)
    size = chunks.size
    for _ in range(5):
        chunks.learn(3, 0.0043)
    assert chunks.size == size
    for _ in range(3):
        chunks.learn(100, 0.06)
    assert chunks.size == 48


def test_the_bound_may_change_between_two_chunks():
    chunks = sizer()
    run(chunks, 2000, lambda n: n * 0.0005)
    assert chunks.size == 48
    chunks.set_max_stall(0.1)
    assert chunks.size == 192
    chunks.set_max_stall(10.0)
    assert chunks.size == 512


def test_where_a_chunk_can_be_aborted_it_is_large_and_still_shows_that_it_lives():
    chunks = sizer(is_abortable=True)
    assert chunks.size == ABORTABLE
    run(chunks, 2000, lambda n: n * 0.0025)
    assert chunks.size == BEATS_S / 0.0025 // STEP * STEP
    chunks.set_max_stall(0.001)
    assert chunks.size > ABORTABLE
    run(chunks, 2000, lambda n: n * 0.1)
    assert chunks.size == ABORTABLE
    run(chunks, 5000, lambda n: n * 0.0001)
    assert chunks.size == 512


@pytest.mark.parametrize('probe', [-1, 0, 10, 20, 50, 63, 64, 100, 199])
@pytest.mark.parametrize('size', [1, 7, 16, 64, 512])
@pytest.mark.parametrize('start', [0, 30, 100])
def test_chunks_cover_the_prompt_once_and_that_of_the_probe_is_short(probe, size, start):
    ends = [start]
    while ends[-1] < 200:
        ends.append(chunk_end(ends[-1], 200, size, probe=probe))
    assert ends[-1] == 200
    assert all(0 < end - begin <= size for begin, end in pairwise(ends))
    inside = [end - begin for begin, end in pairwise(ends) if begin <= probe < end]
    assert len(inside) == (probe >= start)
    assert all(length <= 5 * STEP for length in inside)


def test_what_is_cut_off_for_the_probe_is_worth_a_decode():
    # A short warm prompt is one decode, wherever its scene ends.
    assert chunk_end(169, 190, 512, probe=180) == 190
    assert chunk_end(0, 500, 512, probe=499) == 484
    assert chunk_end(484, 500, 512, probe=499) == 500
    assert chunk_end(0, 500, 512, probe=10) == 11
    assert chunk_end(0, 500, 512) == 500
