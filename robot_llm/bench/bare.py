"""What ours is compared with: a bare low-level llama.cpp loop, and ``llama_cpp.Llama``."""

from collections.abc import Sequence
import time

import llama_cpp
import llama_cpp.llama_cpp as llama
import numpy as np


class BareLoop:
    """
    The least that generates: one batch for the prompt, argmax, one decode per token.

    No template, no constraint, no stop flag, no text. Same model file, threads and context as the
    engine beside it.
    """

    def __init__(self, path: str, *, n_ctx: int, n_batch: int, n_threads: int) -> None:
        params = llama.llama_model_default_params()
        params.n_gpu_layers = 0
        self._model = llama.llama_model_load_from_file(path.encode(), params)
        context = llama.llama_context_default_params()
        context.n_ctx, context.n_batch = n_ctx, n_batch
        context.n_threads = context.n_threads_batch = n_threads
        self._context = llama.llama_init_from_model(self._model, context)
        self._memory = llama.llama_get_memory(self._context)
        self._n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self._model))

    def _decode(self, token_ids: Sequence[int]) -> int:
        tokens = (llama.llama_token * len(token_ids))(*token_ids)
        status = llama.llama_decode(
            self._context, llama.llama_batch_get_one(tokens, len(token_ids)))
        assert status == 0, f'llama_decode returned {status}'
        row = np.ctypeslib.as_array(
            llama.llama_get_logits_ith(self._context, -1), shape=(self._n_vocab,))
        return int(row.argmax())

    def prefill_s(self, token_ids: Sequence[int]) -> float:
        """Return the time of the whole prompt in one batch [s]."""
        llama.llama_memory_clear(self._memory, False)
        started_s = time.monotonic()
        self._decode(token_ids)
        return time.monotonic() - started_s

    def tpot_s(self, token_ids: Sequence[int], num_tokens: int) -> float:
        """Return the mean time of ``num_tokens`` single decodes behind the prompt [s]."""
        llama.llama_memory_clear(self._memory, False)
        token_id = self._decode(token_ids)
        started_s = time.monotonic()
        for _ in range(num_tokens):
            token_id = self._decode([token_id])
        return (time.monotonic() - started_s) / num_tokens

    def close(self) -> None:
        """Free context and model."""
        llama.llama_free(self._context)
        llama.llama_model_free(self._model)


class Binding:
    """``llama_cpp.Llama``'s own streaming completion, as most Python users run it."""

    def __init__(self, path: str, *, n_ctx: int, n_batch: int, n_threads: int) -> None:
        self._llama = llama_cpp.Llama(
            path, n_ctx=n_ctx, n_batch=n_batch, n_threads=n_threads, n_threads_batch=n_threads,
            verbose=False)

    def tpot_s(self, token_ids: Sequence[int], num_tokens: int) -> float:
        """Return the mean time between two streamed pieces [s]; the prompt is not in it."""
        self._llama.reset()
        stamps = [time.monotonic() for _ in self._llama.create_completion(
            list(token_ids), max_tokens=num_tokens, temperature=0.0, stream=True)]
        return (stamps[-1] - stamps[0]) / max(len(stamps) - 1, 1)

    def close(self) -> None:
        """Free the model."""
        self._llama.close()
