"""A word's probability does not depend on how many tokens it has, or with whom it shares them."""

from collections.abc import Sequence

from engine_requests import make_request
from engine_running import generate
import numpy as np
import pytest
from robot_llm.core.decision import log_softmax_at
from robot_llm.engine.backend import DecodeAborted
from robot_llm.engine.prompt_tokens import tokenize_segments
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scoring import score_words
from robot_llm.profile import ResponseProfile

SHARED = ('turn', 'prefix')


def prefill(runtime: Runtime, name: str, prompt: str) -> list[int]:
    """Evaluate a prompt as a request would; return its tokens."""
    segments = runtime.profiles[name].segments(runtime.renderer, '', prompt)
    token_ids = tokenize_segments(runtime.backend, segments)
    num_cached = runtime.cache.reuse(name, token_ids)
    runtime.decode(token_ids[num_cached:])
    return token_ids


def log_probs_alone(runtime: Runtime, token_ids: Sequence[int]) -> list[float]:
    """Decode a word behind the prompt, token by token; then forget it again."""
    start, log_probs = runtime.cache.num_tokens, []
    # The prompt's last row again, from its own decode.
    last = runtime.cache._working[-1]
    runtime.backend.truncate(0, start - 1)
    runtime.backend.decode([last], position=start - 1)
    for index, token_id in enumerate(token_ids):
        log_probs.append(float(log_softmax_at(runtime.backend.logits(), [token_id])[0]))
        if index + 1 < len(token_ids):
            runtime.backend.decode([token_id], position=start + index)
    runtime.backend.truncate(0, start)
    return log_probs


def score(runtime: Runtime, name: str) -> tuple[np.ndarray, int]:
    return score_words(
        runtime.backend, runtime.profiles[name].decision_set,
        position=runtime.cache.num_tokens, first_branch=runtime.first_branch)


def test_the_profiles_hold_words_that_share_tokens(runtime: Runtime) -> None:
    turn, prefix = (runtime.profiles[name].decision_set for name in SHARED)
    assert turn['go_left'].token_ids[:2] == turn['go_right'].token_ids[:2]
    stop, stopover = prefix['stop'].token_ids, prefix['stopover'].token_ids
    assert stopover[:len(stop)] == stop and len(stopover) > len(stop)
    assert turn.shared == [[0, 1]]


@pytest.mark.parametrize('name', SHARED)
@pytest.mark.parametrize('prompt', ['A person stands in the way.', 'The left side is free.'])
def test_whole_words_are_compared_as_if_each_was_decoded_alone(
    runtime: Runtime, name: str, prompt: str,
) -> None:
    prefill(runtime, name, prompt)
    scored, num_calls = score(runtime, name)
    decision_set = runtime.profiles[name].decision_set
    alone = [log_probs_alone(runtime, w.token_ids + w.separator_ids) for w in decision_set.words]
    for group in decision_set.groups.values():
        # The group has its first token's probability; its members divide it by their rests.
        rests = np.array([sum(alone[index][1:]) for index in group])
        shares = rests - np.logaddexp.reduce(rests) if len(group) > 1 else [0.0]
        expected = [alone[index][0] + share for index, share in zip(group, shares)]
        assert scored[group] == pytest.approx(expected, abs=0.3)
    assert num_calls == len(decision_set.shared) == 1
    runtime.cache.check_integrity()


@pytest.mark.parametrize('name', SHARED)
def test_the_words_sum_to_at_most_one_and_a_long_one_keeps_its_probability(
    runtime: Runtime, name: str,
) -> None:
    prefill(runtime, name, 'Where to?')
    scored, _ = score(runtime, name)
    assert np.exp(scored).sum() <= 1.0 + 1e-6
    for word, log_prob in zip(runtime.profiles[name].decision_set.words, scored):
        alone = log_probs_alone(runtime, word.token_ids + word.separator_ids)
        # Never below the probability of writing exactly this word and its newline.
        assert log_prob >= sum(alone) - 0.3


def test_words_whose_first_tokens_differ_need_no_decode(runtime: Runtime) -> None:
    prefill(runtime, 'word', 'Where to?')
    expected = log_softmax_at(runtime.backend.logits(), [
        w.token_ids[0] for w in runtime.profiles['word'].decision_set.words])
    scored, num_calls = score(runtime, 'word')
    assert (num_calls, list(scored)) == (0, list(expected))


@pytest.mark.parametrize(('name', 'num_extra'), [('word', 0), ('turn', 1), ('prefix', 1)])
def test_a_decision_costs_the_prefill_and_a_branch_only_where_words_share_tokens(
    runtime: Runtime, profiles: dict[str, ResponseProfile], name: str, num_extra: int,
) -> None:
    counts = generate(runtime, make_request(profiles[name])).request.counts
    assert counts.num_decode_calls == counts.num_prefill_chunks + num_extra
    assert counts.num_prefill_chunks >= 1


def test_scoring_leaves_the_working_sequence_as_it_was(runtime: Runtime) -> None:
    token_ids = prefill(runtime, 'turn', 'Where to?')
    first, _ = score(runtime, 'turn')
    assert runtime.backend.sequence_length(0) == len(token_ids)
    for seq_id in range(runtime.first_branch, runtime.first_branch + 2):
        assert runtime.backend.sequence_length(seq_id) == 0
    log_probs_alone(runtime, [token_ids[-1]])
    again, _ = score(runtime, 'turn')
    assert again == pytest.approx(first, abs=0.3)


def test_an_aborted_branch_leaves_no_branch_behind(runtime: Runtime) -> None:
    token_ids = prefill(runtime, 'turn', 'Where to?')
    runtime.backend.abort.set()
    with pytest.raises(DecodeAborted):
        score(runtime, 'turn')
    runtime.backend.abort.clear()
    assert runtime.backend.sequence_length(0) == len(token_ids)
    for seq_id in range(runtime.first_branch, runtime.first_branch + 2):
        assert runtime.backend.sequence_length(seq_id) == 0
    score(runtime, 'turn')
