"""Chunks follow what was measured, never over the bound for long, and never by one outlier."""

from hypothesis import example, given
from hypothesis import strategies as st
import pytest
from robot_llm.core.chunking import (
    ABORTABLE, ChunkSizer, DOUBT, LOSS_S, STEP, TILE, TOKEN_SHARE,
    WIDEST)
from robot_llm.core.decode_cost import NUM_NEEDED


def sizer(n_ubatch=512, chunk_tokens=0, is_abortable=False):
    return ChunkSizer(n_ubatch, chunk_tokens, is_abortable=is_abortable, max_stall_s=0.03)


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
    assert sizer(n_ubatch=5).size == 5


def warm(seconds, **options):
    """Return a sizer that has seen what configure shows it: one token, and a few."""
    chunks = sizer(**options)
    for num_tokens in (1, STEP):
        chunks.learn(num_tokens, seconds(num_tokens))
    return chunks


@pytest.mark.parametrize(('fixed_s', 'per_token_s'), [
    (0.004, 0.0001), (0.008, 0.00001), (0.02, 0.0005)])
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


@pytest.mark.parametrize(('fixed_s', 'per_token_s', 'expected'), [
    (0.0, 0.0024, 12), (0.0, 0.007, 4), (0.003, 0.007, 3), (0.0205, 0.0009, 10)])
def test_a_slow_device_gets_fewer_tokens_than_a_step(fixed_s, per_token_s, expected):
    def seconds(num_tokens):
        return fixed_s + num_tokens * per_token_s

    chunks = warm(seconds)
    sizes = run(chunks, 2000, seconds)
    assert chunks.size == expected
    # Configure has shown enough: no chunk of a goal is over the bound.
    assert all(seconds(size) <= 0.03 for size in sizes)


@pytest.mark.parametrize('token_s', [0.016, 0.1])
def test_a_token_stands_alone_where_two_take_longer_but_for_a_try_now_and_then(token_s):
    sizes = run(warm(lambda n: n * token_s), 2 * DOUBT, lambda n: n * token_s)
    assert set(sizes) == {1, 2}
    assert sizes.count(2) == 1


def test_a_device_whose_every_call_takes_longer_than_the_bound_keeps_its_step():
    def seconds(num_tokens):
        return 0.04 + num_tokens * 0.0003

    chunks = warm(seconds)
    assert set(run(chunks, 300, seconds)) == {STEP, 300 % STEP}
    assert seconds(STEP) <= chunks.bound_s == TOKEN_SHARE * seconds(1)


def test_what_made_a_few_tokens_slow_may_pass():
    def seconds(num_tokens):
        return 0.0185 + num_tokens * 0.001

    chunks = warm(seconds)
    assert chunks.size == 11
    while chunks.size > 1:
        chunks.learn(chunks.size, 0.3)
    # One token says nothing of a second one: without a try this would stay so for ever.
    assert run(chunks, DOUBT, seconds) == [1] * DOUBT
    assert run(chunks, 2, seconds) == [2]
    run(chunks, 100, seconds)
    assert chunks.size >= 10


def test_a_call_outside_the_prefill_is_bounded_where_it_cannot_be_aborted():
    assert warm(lambda n: n * 0.007).limit(2048) == 4
    assert warm(lambda n: n * 0.007).limit(3) == 3
    assert warm(lambda n: n * 0.007, is_abortable=True).limit(2048) == 2048


def test_the_tokens_of_an_answer_teach_what_one_token_takes():
    chunks = warm(lambda n: 0.019 + n * 0.001)
    for _ in range(3):
        chunks.learn_few(1, 0.05)
    assert chunks.bound_s == TOKEN_SHARE * 0.05
    # And nothing of the prefill's rate.
    large = warm(lambda n: 0.0001 * n)
    before = large.size
    for _ in range(3):
        large.learn_few(1, 0.02)
    assert large.size == before


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


def test_where_a_chunk_can_be_aborted_it_is_large_in_whole_tiles():
    chunks = sizer(chunk_tokens=512, is_abortable=True)
    assert chunks.size == ABORTABLE
    run(chunks, 2000, lambda n: n * 0.015)
    assert chunks.size == LOSS_S / 0.015 // TILE * TILE == 256
    chunks.set_max_stall(0.001)
    assert chunks.size > ABORTABLE
    run(chunks, 2000, lambda n: n * 0.1)
    assert chunks.size == ABORTABLE
    run(chunks, 5000, lambda n: n * 0.0001)
    assert chunks.size == 512


def test_where_a_chunk_can_be_aborted_it_is_no_wider_than_pays_unless_the_user_says_so():
    for chunk_tokens, size in ((0, WIDEST), (100, 100), (300, 300)):
        chunks = sizer(chunk_tokens=chunk_tokens, is_abortable=True)
        run(chunks, 2000, lambda n: n * 0.0001)
        assert chunks.size == size
    assert sizer(n_ubatch=32, is_abortable=True).size == 32


def test_chunks_that_were_thrown_away_become_shorter_until_one_comes_through():
    chunks = sizer(chunk_tokens=512, is_abortable=True)
    run(chunks, 2000, lambda n: n * 0.005)
    sizes = [chunks.size]
    for _ in range(6):
        chunks.note_abort(chunks.size)
        sizes.append(chunks.size)
    assert sizes == [512, 256, 128, 64, 64, 64, 64]
    chunks.note_abort(1)  # a token of an answer
    assert chunks.size == 64
    for size in (64, 128, 256, 512):
        assert chunks.size == size
        chunks.learn(chunks.size, size * 0.005)
    assert chunks.size == 512


@pytest.mark.parametrize('patience_s', [1.0, 1.7, 3.0])
def test_who_preempts_faster_than_a_chunk_comes_through_a_long_prompt(patience_s):
    chunks = sizer(is_abortable=True)
    run(chunks, 2000, lambda n: n * 0.01)
    num_left, num_goals = 2000, 0
    while num_left and num_goals < 200:
        num_goals += 1
        spare_s = patience_s
        while num_left:
            size = min(chunks.size, num_left)
            if size * 0.01 > spare_s:
                chunks.note_abort(size)
                break
            spare_s -= size * 0.01
            chunks.learn(size, size * 0.01)
            num_left -= size
    assert num_left == 0
    # 20 s of work, of which an abort throws half away or less on the average.
    assert num_goals * patience_s < 20 * 4


def test_calls_of_an_answer_are_bounded_by_what_they_take_themselves():
    chunks = warm(lambda num_tokens: 0.007 * num_tokens)
    assert chunks.limit(100) == chunks.size == 4
    for _ in range(NUM_NEEDED):
        chunks.decode_cost.observe(1, 0.01)
        chunks.decode_cost.observe(4, 0.01 + 3 * 0.012)
    assert chunks.limit(100) == 2  # 10 ms and 12 ms, of 30
    assert chunks.size == 4


TIMES = st.floats(0.0, 10.0) | st.sampled_from([0.0, 0.045, 0.06])
PHASE = st.tuples(st.integers(1, 40), TIMES, st.integers(1, 12))
"""So many calls of one width that take the same time."""


def answer(chunks, width, elapsed_s, num_calls=1):
    """Measure calls as a runtime does behind the prefill."""
    for _ in range(num_calls):
        chunks.decode_cost.observe(width, elapsed_s)
        chunks.learn_few(width, elapsed_s)


@pytest.mark.parametrize('is_abortable', [False, True])
@given(phases=st.lists(PHASE, max_size=12), num_tokens=st.integers(1, 2048))
@example(phases=[(1, 0.06, 8), (8, 0.06, 3), (1, 0.045, 3)], num_tokens=100)
def test_whatever_was_measured_a_limit_is_between_one_token_and_all(
    is_abortable, phases, num_tokens,
):
    chunks = sizer(is_abortable=is_abortable)
    for width, elapsed_s, num_calls in phases:
        for _ in range(num_calls):
            answer(chunks, width, elapsed_s)
            assert 1 <= chunks.limit(num_tokens) <= num_tokens


def test_a_device_that_became_faster_than_its_medians_bounds_a_call_to_one_token():
    """A division by zero: a wide call that costs nothing more, and a bound below one token."""
    chunks = sizer()
    answer(chunks, 1, 0.06, 8)
    answer(chunks, 8, 0.06, 3)
    answer(chunks, 1, 0.045, 3)
    assert chunks.limit(100) == 1
    answer(chunks, 1, 0.045, 6)
    answer(chunks, 8, 0.045, 4)
    assert chunks.limit(100) == STEP
