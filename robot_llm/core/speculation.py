"""Prompt lookup: what may come next, copied from where the same tokens stood, while it pays."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from robot_llm.core.decode_cost import DecodeCost
from robot_llm.settings import SpeculationSettings

MIN_DECODE_S: Final = 0.0005
"""A faster decode has nothing to gain: proposing and checking take about as long in Python."""
MIN_GAIN: Final = 1.1
"""How much more a guess has to save than it costs; below it the estimates' error decides."""
MEMORY: Final = 0.95
"""How much of a proposal's outcome still counts one proposal later: about the last 20 count."""
DOUBT: Final = 2.0
"""The weight of believing that half of the proposals come true, before any was seen."""


class PromptLookup:
    """
    Find where the last tokens stood before, and propose what followed there.

    The longest match wins, and of those the latest. Linear in the context: one comparison over
    all of it, then over the few places left.

    Source: prompt lookup decoding (A. Saxena, 2023); ``ngram`` in vLLM, ``lookup`` in llama.cpp.

    :param prompt_lookup_min: a match is at least so long [tokens]
    :param prompt_lookup_max: longer ones are not told apart [tokens]
    """

    def __init__(self, *, prompt_lookup_min: int, prompt_lookup_max: int) -> None:
        self._min, self._max = prompt_lookup_min, prompt_lookup_max
        self._context = np.empty(1024, np.int32)
        self._length = 0

    def clear(self) -> None:
        """Forget everything."""
        self._length = 0

    def extend(self, token_ids: Sequence[int]) -> None:
        """Put tokens behind the context."""
        end = self._length + len(token_ids)
        if end > len(self._context):
            larger = np.empty(2 * end, np.int32)
            larger[:self._length] = self._context[:self._length]
            self._context = larger
        self._context[self._length:end] = token_ids
        self._length = end

    def propose(self, max_tokens: int) -> tuple[list[int], int]:
        """
        Return what followed the longest and latest match, and how long the match is.

        :returns: shape (num_proposed,), at most ``max_tokens``; and 0 if nothing matches
        """
        context, last = self._context, self._length - 1
        places = np.flatnonzero(context[:max(last, 0)] == context[last])
        length, found = 0, places[:0]
        while len(places) and length < self._max:
            length, found = length + 1, places
            places = places[places >= length]
            places = places[context[places - length] == context[last - length]]
        if length < self._min:
            return [], 0
        start = int(found[-1]) + 1
        return context[start:min(start + max_tokens, last + 1)].tolist(), length


class Speculator:
    """
    Proposals for the answers of one profile; what it learns goes from answer to answer.

    It learns for nothing: while it does not pay to evaluate a proposal, the first token of it is
    still compared with the one that comes. The longer the match, the more often a proposal comes
    true, so each length has a rate of its own.

    :param settings: ``policy`` says whether, the others how far
    :param cost: what decodes cost on this device
    :param is_possible: whether the memory can drop tokens that did not come true
    """

    def __init__(
        self, settings: SpeculationSettings, cost: DecodeCost, *, is_possible: bool,
    ) -> None:
        self._settings, self._cost = settings, cost
        self._is_on = is_possible and settings.policy != 'off'
        self._lookup = PromptLookup(
            prompt_lookup_min=settings.prompt_lookup_min,
            prompt_lookup_max=settings.prompt_lookup_max)
        self._num_right = np.full(settings.prompt_lookup_max + 1, DOUBT / 2)
        self._num_tried = np.full(settings.prompt_lookup_max + 1, DOUBT)
        self._previous: list[int] = []
        self._answer: list[int] = []
        self._expected: list[int] = []
        self._num_drafted = 0
        self._match = 0

    def begin(self, prompt_ids: Sequence[int], answer_ids: Sequence[int]) -> None:
        """
        Start on an answer; the one before is looked through behind the prompt.

        :param prompt_ids: the whole prompt, shape (num_prompt_tokens,)
        :param answer_ids: how the answer begins, shape (num_tokens,)
        """
        if not self._is_on:
            return
        self._previous, self._answer, self._expected = self._answer, list(answer_ids), []
        self._lookup.clear()
        for token_ids in (prompt_ids, self._previous, answer_ids):
            self._lookup.extend(token_ids)

    def propose(
        self, *, max_tokens: int, num_allowed: Callable[[list[int]], int],
    ) -> list[int]:
        """
        Return the tokens that are worth evaluating behind those that are certain.

        :param max_tokens: how many may be evaluated beside them
        :param num_allowed: how many of these tokens the constraint would take
        :returns: shape (num_drafted,); often none
        """
        self._expected, self._num_drafted = [], 0
        if not self._is_on:
            return []
        # At least one, to learn from, even where none may be evaluated.
        most = max(min(self._settings.num_speculative_tokens, max_tokens), 1)
        expected, self._match = self._lookup.propose(most)
        self._expected = expected[:num_allowed(expected)] if expected else []
        num_possible = min(len(self._expected), max_tokens)
        self._num_drafted = (
            num_possible if self._settings.policy == 'on'
            else self._num_worth(num_possible))
        return self._expected[:self._num_drafted]

    def accept(self, token_ids: Sequence[int]) -> int:
        """
        Take what was sampled, and what is forced behind it, into the context; learn from it.

        :param token_ids: one sampled token and the forced ones, or none at the end of the turn
        :returns: how many leading ones the draft had, so that they are evaluated already
        """
        if not self._is_on:
            return 0
        if self._expected:
            self._learn(token_ids[:1] == self._expected[:1])
        num_equal = 0
        for expected, token_id in zip(self._expected, token_ids):
            if expected != token_id:
                break
            num_equal += 1
        num_evaluated = min(num_equal, self._num_drafted)
        self._num_drafted -= num_evaluated
        self._match += num_equal
        is_right = num_evaluated == len(token_ids)
        self._expected = self._expected[num_equal:] if is_right else []
        self._lookup.extend(token_ids)
        self._answer += token_ids
        return num_evaluated

    def _learn(self, is_right: bool) -> None:
        place = min(self._match, len(self._num_tried) - 1)
        self._num_right[place] *= MEMORY
        self._num_tried[place] *= MEMORY
        self._num_right[place] += is_right
        self._num_tried[place] += 1

    def rate(self, match: int) -> float:
        """Return how often a token proposed behind a match of this length came true, 0 to 1."""
        place = min(match, len(self._num_tried) - 1)
        return float(self._num_right[place] / self._num_tried[place])

    def _num_worth(self, num_possible: int) -> int:
        """
        Return how many leading tokens are worth evaluating.

        One that comes true saves a decode of its own, and every one costs what a wider decode
        costs. Its chance is that of all before it times its own.
        """
        if not num_possible or not self._cost.is_known:
            return 0
        single_s, further_s = self._cost.line()
        if single_s < MIN_DECODE_S:
            return 0
        chance = 1.0
        for index in range(num_possible):
            # A token that came true makes the match longer by one.
            chance *= self.rate(self._match + index)
            if chance * single_s <= MIN_GAIN * further_s:
                return index
        return num_possible
