"""Which logits stand for the hidden state: enough of them hold all that it says."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def num_features(n_embd: int) -> int:
    """
    Return how many logits stand for a hidden state of ``n_embd`` numbers: a power of two above.

    A logit is the product of the hidden state with its token's row of the output matrix, so more
    rows than numbers give all of them back. llama.cpp would give the state itself only with
    ``embeddings`` on, and then computes the logits of every token of a prompt.
    """
    return 1 << n_embd.bit_length()


@lru_cache(maxsize=4)
def feature_ids(n_vocab: int, count: int) -> NDArray[np.int64]:
    """Return ``count`` token ids, evenly spread over the vocabulary, which groups like tokens."""
    return np.linspace(0, n_vocab - 1, count).astype(np.int64)
