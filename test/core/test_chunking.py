"""Chunks follow what was measured, never over the bound for long, and never by one outlier."""


import pytest
from robot_llm.core.chunking import ABORTABLE, BEATS_S, ChunkSizer, STEP


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
