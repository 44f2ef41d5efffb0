"""Logits → one token id."""

from collections.abc import Sequence
import ctypes
from typing import Any

import llama_cpp.llama_cpp as llama
import numpy as np
from numpy.typing import NDArray

from robot_llm.engine.constraint import DetailConstraint
from robot_llm.engine.finite import finite
from robot_llm.settings import SamplingParams

CANDIDATE = np.dtype([('id', np.int32), ('logit', np.float32), ('p', np.float32)])
"""``llama_token_data``."""

BLOCK = 64
"""Of so many tokens only the largest logit is looked at first."""

PENALTY_LAST_N = 64
"""How far back the repetition penalty looks [tokens]; llama.cpp's default ``--repeat-last-n``."""


class Sampler:
    """
    Choose tokens of one request with llama.cpp's own sampler chain.

    A greedy choice asks the constraint about the likeliest token alone, and masks the vocabulary
    only where it refuses. A draw masks first: ``top_k``, ``top_p`` and ``min_p`` then look at what
    is allowed, which a draw that is repeated where it was refused does not do.
    Source: a mask over 49,152 entries makes a draw 40 to 80 µs longer.

    :param n_vocab: length of a row of logits
    :param params: ``seed`` is used as it is; 0 was replaced by a drawn one before
    """

    def __init__(self, n_vocab: int, params: SamplingParams) -> None:
        self._is_plain_argmax = params.temperature == 0 and params.repetition_penalty == 1
        self._chain = None if self._is_plain_argmax else self._make_chain(n_vocab, params)
        self._masked = np.empty(n_vocab, np.float32)
        if self._chain is not None:
            self._ids = np.arange(n_vocab, dtype=np.int32)
            self._candidates = np.zeros(n_vocab, CANDIDATE)
            self._array = llama.llama_token_data_array()
        # A penalty comes before top_k and may change what is likeliest.
        self._top_k = params.top_k if params.repetition_penalty == 1 else 0
        self._block_tops = (np.empty(n_vocab // BLOCK, np.float32)
                            if 0 < self._top_k <= n_vocab // BLOCK else None)
        self._is_likely = np.empty(n_vocab, np.bool_)

    @staticmethod
    def _make_chain(n_vocab: int, params: SamplingParams) -> Any:
        """Build the chain in llama.cpp's order; each switched-off part is left out."""
        chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
        parts = []
        if params.repetition_penalty != 1:
            parts.append(llama.llama_sampler_init_penalties(
                n_vocab, PENALTY_LAST_N, params.repetition_penalty, 0.0, 0.0))
        if params.temperature == 0:
            parts.append(llama.llama_sampler_init_greedy())
        else:
            if params.top_k:
                parts.append(llama.llama_sampler_init_top_k(params.top_k))
            if params.top_p < 1:
                parts.append(llama.llama_sampler_init_top_p(params.top_p, 1))
            if params.min_p:
                parts.append(llama.llama_sampler_init_min_p(params.min_p, 1))
            parts.append(llama.llama_sampler_init_temp(params.temperature))
            # llama.cpp draws a seed of its own for this one; 0 was replaced before, and is free.
            seed = 0 if params.seed == llama.LLAMA_DEFAULT_SEED else params.seed
            parts.append(llama.llama_sampler_init_dist(seed))
        for part in parts:
            llama.llama_sampler_chain_add(chain, part)
        return chain

    def sample(
        self, logits: NDArray[np.float32], constraint: DetailConstraint | None = None,
    ) -> int:
        """
        Choose the next token; the caller accepts it.

        :param logits: shape (n_vocab,), float32; not changed
        :param constraint: what may follow; None = anything
        :raises DecodeError: if a logit is no number
        """
        finite(logits)
        if self._chain is not None:
            return self._draw(logits, constraint.allowed() if constraint is not None else None)
        token_id = int(logits.argmax())
        if constraint is None or constraint.allows(token_id):
            return token_id
        return int(self._mask(logits, constraint.allowed()).argmax())

    def _mask(
        self, logits: NDArray[np.float32], is_allowed: NDArray[np.bool_],
    ) -> NDArray[np.float32]:
        """Return the row with minus infinity for what is not allowed; valid until the next."""
        np.copyto(self._masked, -np.inf)
        np.copyto(self._masked, logits, where=is_allowed)
        return self._masked

    def accept(self, token_ids: Sequence[int]) -> None:
        """Let the repetition penalty see tokens that were sampled or forced, in their order."""
        if self._chain is not None:
            for token_id in token_ids:
                llama.llama_sampler_accept(self._chain, token_id)

    def _likeliest(self, logits: NDArray[np.float32]) -> NDArray[np.intp]:
        """
        Return few tokens, the ``top_k`` likeliest among them; what else is there falls to top_k.

        As many blocks as ``top_k`` have a logit of at least the bar, so as many tokens have.
        """
        assert self._block_tops is not None
        # A block is a column: numpy takes the largest of whole rows at a time.
        blocks = logits[:len(self._block_tops) * BLOCK].reshape(BLOCK, -1)
        blocks.max(axis=0, out=self._block_tops)
        bar = np.partition(self._block_tops, -self._top_k)[-self._top_k]
        np.greater_equal(logits, bar, out=self._is_likely)
        return np.flatnonzero(self._is_likely)

    def _draw(
        self, logits: NDArray[np.float32], is_allowed: NDArray[np.bool_] | None,
    ) -> int:
        """Let the chain choose among the tokens that are allowed, all of them by default."""
        ids: NDArray[Any] = self._ids
        if self._block_tops is not None:
            ids = self._likeliest(logits if is_allowed is None else self._mask(logits, is_allowed))
        if is_allowed is not None and len(ids) == len(logits):
            # No top_k, or it is more than is allowed: what is not must not come in.
            ids = np.flatnonzero(is_allowed)
        num_candidates = len(ids)
        candidates = self._candidates[:num_candidates]
        candidates['id'] = ids
        candidates['logit'] = logits if ids is self._ids else logits[ids]
        self._array.data = ctypes.cast(
            self._candidates.ctypes.data, llama.llama_token_data_p)
        self._array.size = num_candidates
        self._array.selected = -1
        self._array.sorted = False
        llama.llama_sampler_apply(self._chain, ctypes.byref(self._array))
        return int(self._array.data[self._array.selected].id)

    def close(self) -> None:
        """Free the chain; safe to call twice."""
        if self._chain is not None:
            llama.llama_sampler_free(self._chain)
            self._chain = None
