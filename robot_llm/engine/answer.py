"""The detail of one request as it grows: sampled and forced tokens in, safe text out."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robot_llm.core.request import FinishReason, Request
from robot_llm.core.text_stream import TextStream
from robot_llm.detail import detail_json, validate_detail
from robot_llm.engine.backend import Backend
from robot_llm.engine.constraint import SEPARATOR, WordTokens
from robot_llm.engine.prompt_tokens import CompiledProfile
from robot_llm.engine.sampler import Sampler
from robot_llm.errors import LimitInDetailError, SchemaNotMetError


class Answer:
    """
    What follows the decision word of one request.

    :param compiled: the request's profile; its grammar behind the word constrains the detail
    :param request: its limits, stop strings and sampling; its counts and reason are written here
    :param word: the decision word that stands
    """

    def __init__(
        self, backend: Backend, compiled: CompiledProfile, request: Request, word: WordTokens,
    ) -> None:
        self._backend = backend
        self._request = request
        self._counts = request.counts
        self._stream = TextStream(request.stop_strings)
        self._word = word
        constraint = compiled.constraints.get(word.word)
        self._constraint = None if constraint is None else constraint.begin()
        self._sampler = Sampler(backend.info.n_vocab, request.sampling)
        self._num_unpublished = 0
        self._separator = SEPARATOR
        self._has_ended = False
        self._is_cut = False

    @property
    def is_over(self) -> bool:
        """No further token is wanted: whole, ended, stopped by a string, or at the limit."""
        return self._has_ended or self._stream.stopped or self._is_complete or self.room <= 0

    @property
    def _is_complete(self) -> bool:
        """The schema is met, by what was appended and not merely by what was forced."""
        return (self._constraint is not None and self._constraint.is_complete
                and not self._is_cut)

    @property
    def room(self) -> int:
        """How many more tokens may be appended."""
        return self._request.sampling.max_tokens - self._counts.num_completion_tokens

    def begin(self) -> list[int]:
        """
        Go behind the word and its separator, which nobody has to sample.

        The word is never cut; the separator is, if ``max_tokens`` leaves no room for it.

        :returns: the forced beginning of the detail, to be appended
        """
        word = self._word
        separator_ids = word.separator_ids[:max(self.room, 0)]
        if len(separator_ids) < len(word.separator_ids):
            self._separator = ''
        self._sampler.accept([*word.token_ids, *separator_ids])
        self._counts.num_forced_tokens += len(separator_ids)
        self._count(len(separator_ids))
        forced = self._force(self.room)
        self._sampler.accept(forced)
        return forced

    def choose(self, logits: NDArray[np.float32]) -> list[int]:
        """
        Sample one token, and name what the constraint forces behind it.

        :param logits: the row behind everything appended so far, shape (n_vocab,)
        :returns: the tokens to append, shape (num_new,); none if the model ended its turn
        """
        token_id = self._sampler.sample(logits, self._constraint)
        if self._backend.is_end(token_id):
            self._has_ended = True
            return []
        if self._constraint is not None:
            self._constraint.accept([token_id])
        new_ids = [token_id, *self._force(self.room - 1)]
        self._sampler.accept(new_ids)
        return new_ids

    def num_allowed(self, token_ids: list[int]) -> int:
        """Return how many of these tokens might follow, none of them the turn's end."""
        end = next((i for i, t in enumerate(token_ids) if self._backend.is_end(t)), None)
        if self._constraint is None:
            return len(token_ids) if end is None else end
        return self._constraint.num_allowed(token_ids[:end])

    def _force(self, room: int) -> list[int]:
        """Return what must follow, cut to the room that is left."""
        if self._constraint is None or self._constraint.is_complete:
            return []
        forced = self._constraint.forced()
        self._constraint.accept(forced)
        self._is_cut = len(forced) > room
        forced = forced[:max(room, 0)]
        self._counts.num_forced_tokens += len(forced)
        return forced

    def append(self, token_ids: Sequence[int]) -> str:
        """
        Take the tokens that ``begin`` or ``choose`` returned into the answer.

        :returns: the text that may be published now
        """
        text, self._separator = self._separator, ''
        for token_id in token_ids:
            text += self._stream.feed(self._backend.token_bytes(token_id))
        self._count(len(token_ids))
        return text

    def _count(self, num_tokens: int) -> None:
        self._counts.num_completion_tokens += num_tokens
        self._num_unpublished += num_tokens

    def take_num_tokens(self) -> int:
        """Return how many tokens were appended since the last call."""
        num_tokens, self._num_unpublished = self._num_unpublished, 0
        return num_tokens

    def finish(self) -> str:
        """
        Latch why the answer is over, after checking a detail that has to be whole.

        :returns: the text that was held back until now
        """
        text = self._stream.finish()
        request = self._request
        is_whole = self._has_ended or self._stream.stopped or self._is_complete
        if self._constraint is None:
            request.finish(FinishReason.STOP if is_whole else FinishReason.LENGTH)
        elif not is_whole:
            request.finish(FinishReason.LENGTH, error=LimitInDetailError(
                f'max_tokens={request.sampling.max_tokens} was reached inside the detail; raise '
                'it, or make the schema smaller'))
        else:
            self._check_detail()
        return text

    def _check_detail(self) -> None:
        """Hold the whole detail against the profile once more: a constraint is not a proof."""
        try:
            detail = validate_detail(
                self._request.profile, self._word.word, self._stream.text)
        except SchemaNotMetError as error:
            self._request.finish(FinishReason.ERROR, error=error)
            return
        # A deadline may have come first and revoked the word; this detail then belongs to none.
        if self._request.finish(FinishReason.STOP):
            self._request.detail_json = detail_json(detail)

    def close(self) -> None:
        """Free the sampler."""
        self._sampler.close()
