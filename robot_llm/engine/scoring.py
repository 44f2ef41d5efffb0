"""The decision set's log-probabilities behind the prompt that was just evaluated."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from robot_llm.core.decision import log_softmax_at
from robot_llm.engine.backend import Backend
from robot_llm.engine.constraint import DecisionSet
from robot_llm.engine.finite import finite
from robot_llm.engine.kv_cache import WORKING


def _nothing() -> None:
    return


def score_words(
    backend: Backend, decision_set: DecisionSet, *, position: int, first_branch: int,
    max_tokens: int | None = None, check_stop: Callable[[], None] = _nothing,
) -> tuple[NDArray[np.float64], int]:
    """
    Return how likely each word is, whole words compared.

    One row of logits does where first tokens differ. A group that shares its first token divides
    that token's probability by the rest of its members' sequences, evaluated in one batched
    decode over copies of the working sequence.

    :param position: length of the working sequence, whose last logits are the current row
    :param first_branch: the first sequence id that branches may use
    :param max_tokens: how many one decode may carry where only that bounds a stop; a group with
        more of them takes several, of whole sequences. None takes one
    :param check_stop: called before each decode; what it raises ends the scoring
    :returns: log-probabilities, shape (num_words,), and the number of decode calls
    :raises DecodeAborted: if the abort flag ended a branch
    :raises DecodeError: if a row holds a number that is none
    """
    first_ids = [word.token_ids[0] for word in decision_set.words]
    log_probs = log_softmax_at(finite(backend.logits()), first_ids)
    num_calls = 0
    for group in decision_set.shared:
        words = [decision_set.words[index] for index in group]
        # The last token of a sequence needs no evaluation: it is only predicted.
        sequences = [word.token_ids + word.separator_ids for word in words]
        branches = [sequence[:-1] for sequence in sequences]
        seq_ids = range(first_branch, first_branch + len(group))
        for seq_id in seq_ids:
            backend.copy_sequence(WORKING, seq_id)
        rows: list[NDArray[np.float32]] = []
        try:
            for part in _parts(branches, max_tokens):
                check_stop()
                rows += backend.decode_branches(
                    branches[part], position=position, seq_ids=seq_ids[part])
                num_calls += 1
        finally:
            for seq_id in seq_ids:
                backend.truncate(seq_id, 0)
        rest = np.array([
            sum(float(log_softmax_at(row, [token_id])[0])
                for row, token_id in zip(finite(branch), sequence[1:]))
            for branch, sequence in zip(rows, sequences)])
        log_probs[group] += rest - np.logaddexp.reduce(rest)
    return log_probs, num_calls


def _parts(branches: Sequence[Sequence[int]], max_tokens: int | None) -> Iterator[slice]:
    """Cut branches into runs of at most so many tokens, at least one branch in each."""
    if max_tokens is None:
        yield slice(0, len(branches))
        return
    start = num_tokens = 0
    for index, branch in enumerate(branches):
        if index > start and num_tokens + len(branch) > max_tokens:
            yield slice(start, index)
            start, num_tokens = index, 0
        num_tokens += len(branch)
    yield slice(start, len(branches))
