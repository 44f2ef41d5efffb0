"""What ours is compared with: a bare low-level llama.cpp loop, and ``llama_cpp.Llama``."""

from collections.abc import Sequence
import time

import llama_cpp
import llama_cpp.llama_cpp as llama
import numpy as np
from numpy.typing import NDArray


class BareLoop:
    """
    The least that generates: one batch for the prompt, argmax, one decode per token.

    No template, no constraint, no stop flag, no text. Same model file, threads and context as the
    engine beside it.
    """

    def __init__(
        self, path: str, *, n_ctx: int, n_batch: int, n_threads: int, n_gpu_layers: int = 0,
    ) -> None:
        params = llama.llama_model_default_params()
        params.n_gpu_layers = n_gpu_layers
        self._model = llama.llama_model_load_from_file(path.encode(), params)
        assert self._model, f'{path} does not load'
        context = llama.llama_context_default_params()
        context.n_ctx, context.n_batch = n_ctx, n_batch
        context.n_threads = context.n_threads_batch = n_threads
        self._use(llama.llama_init_from_model(self._model, context), n_batch)

    def _use(self, context: llama.llama_context_p, n_batch: int) -> None:
        model = llama.llama_get_model(context)
        self._context, self._n_batch = context, n_batch
        self._memory = llama.llama_get_memory(context)
        self._n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))

    def evaluate(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """
        Evaluate tokens behind what is there, in as few batches as ``n_batch`` allows.

        :returns: the last row of logits, shape (n_vocab,); valid until the next call
        """
        for start in range(0, len(token_ids), self._n_batch):
            part = token_ids[start:start + self._n_batch]
            tokens = (llama.llama_token * len(part))(*part)
            status = llama.llama_decode(
                self._context, llama.llama_batch_get_one(tokens, len(part)))
            assert status == 0, f'llama_decode returned {status}'
        return np.ctypeslib.as_array(
            llama.llama_get_logits_ith(self._context, -1), shape=(self._n_vocab,))

    def clear(self) -> None:
        """Forget everything that was evaluated."""
        llama.llama_memory_clear(self._memory, False)

    def prefill_s(self, token_ids: Sequence[int], *, num_cached: int = 0) -> float:
        """
        Return the time of the prompt in one batch [s].

        :param num_cached: how many of its tokens are there before the clock starts
        """
        self.clear()
        if num_cached:
            self.evaluate(token_ids[:num_cached])
        started_s = time.monotonic()
        self.evaluate(token_ids[num_cached:])
        return time.monotonic() - started_s

    def decode_s(
        self, token_ids: Sequence[int], first_ids: Sequence[int] | None, num_decodes: int,
    ) -> float:
        """
        Return the time of ``num_decodes`` greedy decodes behind the prompt [s].

        :param first_ids: what the first of them carries, the others carry one token each; None is
            the likeliest token
        """
        self.clear()
        row = self.evaluate(token_ids)
        pending = [int(row.argmax())] if first_ids is None else list(first_ids)
        started_s = time.monotonic()
        for _ in range(num_decodes):
            pending = [int(self.evaluate(pending).argmax())]
        return time.monotonic() - started_s

    def tpot_s(self, token_ids: Sequence[int], num_tokens: int) -> float:
        """Return the mean time of ``num_tokens`` single decodes behind the prompt [s]."""
        return self.decode_s(token_ids, None, num_tokens) / num_tokens

    def close(self) -> None:
        """Free context and model."""
        llama.llama_free(self._context)
        llama.llama_model_free(self._model)


class GuestLoop(BareLoop):
    """
    The same loop in a context that somebody else made: same buffers, same place in the memory.

    :param context: the owner's; what it holds is lost, and only the owner frees it
    """

    def __init__(self, context: llama.llama_context_p, *, n_batch: int) -> None:
        self._use(context, n_batch)

    def clear(self) -> None:
        """Forget the first sequence; the owner's others stay."""
        llama.llama_memory_seq_rm(self._memory, 0, -1, -1)

    def close(self) -> None:
        """Leave the context to its owner."""


class Binding:
    """``llama_cpp.Llama``'s own streaming chat completion, as most Python users run it."""

    def __init__(
        self, path: str, *, n_ctx: int, n_batch: int, n_threads: int, n_gpu_layers: int = 0,
    ) -> None:
        self._llama = llama_cpp.Llama(
            path, n_ctx=n_ctx, n_batch=n_batch, n_threads=n_threads, n_threads_batch=n_threads,
            n_gpu_layers=n_gpu_layers, verbose=False)

    def tpot_s(self, system: str, prompt: str, num_tokens: int) -> float:
        """Return the mean time between two streamed pieces [s]; the prompt is not in it."""
        self._llama.reset()
        stamps = [time.monotonic() for chunk in self._llama.create_chat_completion(
            [{'role': 'system', 'content': system}, {'role': 'user', 'content': prompt}],
            max_tokens=num_tokens, temperature=0.0, repeat_penalty=1.0, stream=True)
            if chunk['choices'][0]['delta'].get('content')]
        return (stamps[-1] - stamps[0]) / max(len(stamps) - 1, 1)

    def close(self) -> None:
        """Free the model."""
        self._llama.close()
