"""What is reused is right, and what the memory holds is what is noted."""

from hypothesis import given, settings as hypothesis_settings
from hypothesis import strategies as st
import pytest
from robot_llm.engine.backend import DecodeAborted
from robot_llm.engine.kv_cache import common_prefix, KVCache, WORKING
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.settings import Settings

MEMORIES = ({}, {'n_swa': 64}, {'is_recurrent': True})


def make_cache(**memory: object) -> tuple[KVCache, ScriptedBackend]:
    backend = ScriptedBackend(
        Settings.from_flat({'model.n_ubatch': 4}), {'': b'stop\n'}, **memory)
    backend.open_context(4096, num_reserved_tokens=0, num_sequences=4)
    return KVCache(backend), backend


def evaluate(cache: KVCache, backend: ScriptedBackend, token_ids: list[int]) -> None:
    if token_ids:
        backend.decode(token_ids, position=cache.num_tokens)
    cache.extend(token_ids)


def pin(cache: KVCache, backend: ScriptedBackend, name: str, token_ids: list[int]) -> None:
    cache.clear()
    evaluate(cache, backend, token_ids)
    cache.pin(name, token_ids)


@pytest.mark.parametrize(('left', 'right', 'length'), [
    ([], [], 0), ([1], [], 0), ([1, 2], [1, 2], 2), ([1, 2], [1, 3], 1), ([1, 2], [1, 2, 3], 2),
    ([2], [1], 0)])
def test_a_common_prefix_is_as_long_as_both_agree(
    left: list[int], right: list[int], length: int,
) -> None:
    assert common_prefix(left, right) == common_prefix(right, left) == length


@pytest.mark.parametrize('memory', MEMORIES)
def test_a_pinned_prefix_serves_its_own_profile_only(memory: dict[str, object]) -> None:
    cache, backend = make_cache(**memory)
    pin(cache, backend, 'drive', [1, 2, 3])
    pin(cache, backend, 'talk', [1, 2, 7, 8])
    assert cache.reuse('talk', [1, 2, 7, 8, 9]) == 4
    evaluate(cache, backend, [9])
    assert cache.reuse('drive', [1, 2, 3, 4]) == 3
    cache.check_integrity()
    evaluate(cache, backend, [4])
    assert cache.reuse('unknown', [5, 6]) == 0
    cache.check_integrity()


def test_the_last_token_of_a_prompt_is_always_evaluated() -> None:
    cache, backend = make_cache()
    pin(cache, backend, 'drive', [1, 2, 3])
    assert cache.reuse('drive', [1, 2, 3]) == 2
    evaluate(cache, backend, [3])
    assert cache.reuse('drive', [1, 2, 3]) == 2
    assert cache.reuse('drive', [1]) == 0
    cache.check_integrity()


def test_a_prompt_that_differs_within_the_pinned_prefix_does_not_use_it() -> None:
    cache, backend = make_cache()
    pin(cache, backend, 'drive', [1, 2, 3])
    cache.clear()
    assert cache.reuse('drive', [1, 2, 9, 9]) == 0
    cache.check_integrity()


@pytest.mark.parametrize(('memory', 'num_cached'), list(zip(MEMORIES, (5, 3, 3))))
def test_beyond_the_pinned_prefix_only_a_memory_that_can_drop_a_part_is_reused(
    memory: dict[str, object], num_cached: int,
) -> None:
    cache, backend = make_cache(**memory)
    pin(cache, backend, 'drive', [1, 2, 3])
    assert cache.reuse('drive', [1, 2, 3, 4, 5, 6]) == 3
    evaluate(cache, backend, [4, 5, 6])
    assert cache.reuse('drive', [1, 2, 3, 4, 5, 9]) == num_cached
    assert backend._memory[WORKING] == [1, 2, 3, 4, 5][:num_cached]
    cache.check_integrity()


@pytest.mark.parametrize('memory', MEMORIES)
def test_a_prompt_that_goes_on_where_the_memory_ends_keeps_all(memory: dict[str, object]) -> None:
    cache, backend = make_cache(**memory)
    pin(cache, backend, 'drive', [1, 2, 3])
    cache.reuse('drive', [1, 2, 3, 4, 5])
    evaluate(cache, backend, [4, 5])
    assert cache.reuse('drive', [1, 2, 3, 4, 5, 6]) == 5
    cache.check_integrity()


def test_after_an_abort_the_whole_parts_are_kept() -> None:
    cache, backend = make_cache()
    backend.on_decode = lambda call: backend.abort.set() if len(call.sequence) > 8 else None
    token_ids = list(range(20))
    with pytest.raises(DecodeAborted):
        backend.decode(token_ids, position=0)
    cache.recover(token_ids)
    assert cache.num_tokens == 8
    cache.check_integrity()
    backend.abort.clear()
    assert cache.reuse('drive', token_ids) == 8


def test_after_an_abort_nothing_of_a_recurrent_memory_is_kept_but_the_pinned_prefix() -> None:
    cache, backend = make_cache(is_recurrent=True)
    token_ids = list(range(20))
    pin(cache, backend, 'drive', token_ids[:6])
    backend.on_decode = lambda call: backend.abort.set() if len(call.sequence) > 12 else None
    with pytest.raises(DecodeAborted):
        backend.decode(token_ids[6:], position=6)
    cache.recover(token_ids[6:])
    backend.abort.clear()
    cache.check_integrity()
    assert cache.reuse('drive', token_ids) == 6
    assert backend._memory[WORKING] == token_ids[:6]


def test_a_memory_that_holds_more_than_was_asked_for_is_forgotten() -> None:
    cache, backend = make_cache()
    backend.decode([1, 2, 3], position=0)
    cache.recover([1, 2])
    assert (cache.num_tokens, backend.sequence_length(WORKING)) == (0, 0)


def test_only_what_was_just_evaluated_can_be_pinned() -> None:
    cache, backend = make_cache()
    evaluate(cache, backend, [1, 2])
    with pytest.raises(AssertionError, match='only what was just evaluated'):
        cache.pin('drive', [1, 2, 3])


def test_integrity_finds_a_memory_that_disagrees() -> None:
    cache, backend = make_cache()
    pin(cache, backend, 'drive', [1, 2, 3])
    backend.truncate(1, 2)
    with pytest.raises(AssertionError):
        cache.check_integrity()


PROMPTS = st.lists(st.integers(1, 3), min_size=1, max_size=12)


@hypothesis_settings(deadline=None)
@given(memory=st.sampled_from(MEMORIES), static=st.lists(st.integers(1, 3), max_size=4),
       prompts=st.lists(st.tuples(st.booleans(), PROMPTS, st.integers(0, 3)), max_size=8))
def test_whatever_came_before_the_memory_holds_the_prompt(
    memory: dict[str, object], static: list[int],
    prompts: list[tuple[bool, list[int], int]],
) -> None:
    cache, backend = make_cache(**memory)
    pin(cache, backend, 'drive', static)
    for is_of_profile, rest, num_answer in prompts:
        token_ids = [*static, *rest] if is_of_profile else rest
        num_cached = cache.reuse('drive', token_ids)
        assert 0 <= num_cached < len(token_ids)
        if is_of_profile:
            assert num_cached >= len(static)
        evaluate(cache, backend, token_ids[num_cached:])
        assert backend._memory[WORKING] == token_ids
        evaluate(cache, backend, [3] * num_answer)
        cache.check_integrity()
