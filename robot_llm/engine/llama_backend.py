"""The port on llama.cpp: one model, one context, one batch, one thread that calls."""

from collections.abc import Sequence
from typing import Any

import llama_cpp.llama_cpp as llama
import numpy as np
from numpy.typing import NDArray

from robot_llm.engine.abort import LlamaAbortFlag
from robot_llm.engine.backend import DecodeAborted
from robot_llm.engine.device_peaks import measure_peaks, peaks_key
from robot_llm.engine.features import feature_ids
from robot_llm.engine.gguf_header import read_shape
from robot_llm.engine.llama_batch import LlamaBatch
from robot_llm.engine.llama_context import (
    check_cache_types, open_llama_context, plan_context)
from robot_llm.engine.llama_log import LLAMA_LOG, LogSink
from robot_llm.engine.llama_state import restore_sequence, save_sequence, state_key
from robot_llm.engine.llama_vocab import LlamaVocab
from robot_llm.engine.memory import check_memory, memory_report, return_memory
from robot_llm.engine.model import (
    check_gguf, load_model, num_offloaded, read_info, ShouldStop)
from robot_llm.errors import DecodeError, ModelLoadError
from robot_llm.settings import model_file, resolve_n_threads, Settings

ABORTED = 2
"""``llama_decode``: aborted, the finished ubatches stay in the memory."""
NO_SLOT = 1
"""``llama_decode``: no room for the batch, the memory is as before."""


class LlamaCppBackend:
    """
    A model that llama.cpp runs; see ``Backend`` for the contract.

    :param settings: ``model.*`` and ``engine.use_abort_callback`` are read
    :param num_cores: what this process may use, for ``model.n_threads`` = 0
    :param should_stop: asked while loading; True gives up
    :param log_sink: takes llama.cpp's log lines
    :raises ModelLoadError: with file, reason and remedy
    :raises ConfigError: if ``type_k`` or ``type_v`` does not suit the model
    """

    def __init__(
        self,
        settings: Settings,
        *,
        num_cores: int,
        should_stop: ShouldStop = lambda: False,
        log_sink: LogSink | None = None,
    ) -> None:
        self._settings = settings.model
        self._uses_abort = settings.engine.use_abort_callback
        self._n_threads = resolve_n_threads(settings.model.n_threads, num_cores)
        self._context: llama.llama_context_p | None = None
        self._memory: llama.llama_memory_t | None = None
        """Of the context; llama.cpp takes None for a memory that holds nothing."""
        self.abort = LlamaAbortFlag()
        LLAMA_LOG.install(log_sink, is_muted=lambda: self.abort.is_set)
        llama.llama_backend_init()
        self._path = path = model_file(settings)
        check_gguf(path)
        self._shape = shape = read_shape(path)
        check_cache_types(shape, settings.model)
        self._plan = check_memory(shape, settings.model)
        self._model: llama.llama_model_p | None = load_model(
            path, settings.model, should_stop=should_stop)
        self._has_gpu_layers = num_offloaded()[0] > 0
        try:
            self.info = read_info(self._model, path, settings.model, shape)
        except ModelLoadError:
            self.close()
            raise
        self._vocab = LlamaVocab(self._model)
        # Now: what is mapped stays what it is when the file is moved or replaced.
        self._state_key = state_key(path, self.info, settings.model)

    @property
    def aborts_inside(self) -> bool:
        """Whether the callback is asked: it is by CPU backends only."""
        return self._uses_abort and not self._has_gpu_layers

    @property
    def context(self) -> llama.llama_context_p:
        """llama.cpp's own handle, for whoever measures beside us; None before ``open_context``."""
        return self._context

    @property
    def n_ctx(self) -> int:
        """How many tokens one request may use."""
        return self._settings.n_ctx

    @property
    def n_batch(self) -> int:
        """How many tokens one ``decode`` may carry."""
        return self._settings.n_batch

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """Turn text into token ids; never adds BOS or EOS."""
        return self._vocab.tokenize(text, parse_special=parse_special)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes behind a token; none for control tokens."""
        return self._vocab.token_bytes(token_id)

    def is_end(self, token_id: int) -> bool:
        """Whether the model ends its turn with this token."""
        return self._vocab.is_end(token_id)

    def constraint_tokenizer(self) -> Any:
        """Return the ``llguidance.LLTokenizer`` of this vocabulary."""
        return self._vocab.constraint_tokenizer()

    def open_context(
        self, n_ctx: int, *, num_reserved_tokens: int, num_sequences: int,
    ) -> None:
        """Allocate the KV cache, the compute buffers and the batch."""
        self._plan = plan_context(
            self.info, self._settings, num_reserved_tokens,
            replaces=self._plan.context if self._context is not None else None)
        self._free_context()
        self._hidden_state = np.empty(0, np.float32)
        self._context = open_llama_context(
            self._model, self._settings, num_tokens=n_ctx + num_reserved_tokens,
            num_sequences=num_sequences, n_threads=self._n_threads)
        self._memory = llama.llama_get_memory(self._context)
        if self._uses_abort:
            self.abort.attach(self._context)
        self._batch = LlamaBatch(self._settings.n_batch)

    def decode(self, token_ids: Sequence[int], *, position: int, seq_id: int = 0,
               probe: int | None = None, num_rows: int = 1) -> None:
        """Evaluate tokens behind a sequence; the last ones and the probe get logits."""
        num_tokens = self._batch.put(
            0, token_ids, position=position, seq_id=seq_id, are_outputs=False)
        self._batch.mark_outputs(num_tokens - num_rows, num_tokens)
        if probe is not None:
            self._batch.mark_outputs(probe % num_tokens, probe % num_tokens + 1)
        self._run(num_tokens)
        if probe is not None:
            # The mean is common to all tokens, and large.
            row = self._row(probe % num_tokens)
            features = row[feature_ids(self.info.n_vocab, self.info.num_features)]
            self._hidden_state = features - features.mean()

    def decode_branches(
        self, branches: Sequence[Sequence[int]], *, position: int, seq_ids: Sequence[int],
    ) -> list[NDArray[np.float32]]:
        """Evaluate several continuations in one batch, each behind its own sequence."""
        start, bounds = 0, []
        for seq_id, branch in zip(seq_ids, branches):
            end = self._batch.put(
                start, branch, position=position, seq_id=seq_id, are_outputs=True)
            bounds.append((start, end))
            start = end
        self._run(start)
        return [np.stack([self._row(i) for i in range(*bound)]) for bound in bounds]

    def _run(self, num_tokens: int) -> None:
        if self._context is None:  # llama.cpp would read behind the null pointer
            raise DecodeError('there is no context; clean the node up and configure it again')
        status = llama.llama_decode(self._context, self._batch.take(num_tokens))
        if status == 0:
            # On a GPU llama_decode only enqueues; a chunk is a bound only if it is waited for.
            llama.llama_synchronize(self._context)
            return
        if status == ABORTED:
            raise DecodeAborted
        if status == NO_SLOT:
            raise DecodeError(
                f'no room for {num_tokens} tokens in the KV cache; raise model.n_ctx')
        raise DecodeError(
            f'llama_decode returned {status}: {LLAMA_LOG.reason("llama.cpp gave no reason")}; '
            'clean the node up and configure it again')

    def logits(self, row: int = -1) -> NDArray[np.float32]:
        """Return a row, counted from the last one; a view, valid until the next decode."""
        return self._row(row)

    def hidden_state(self) -> NDArray[np.float32]:
        """Return some of the last probe's logits, less their mean; none before the first one."""
        return self._hidden_state

    def _row(self, index: int) -> NDArray[np.float32]:
        pointer = llama.llama_get_logits_ith(self._context, index)
        return np.ctypeslib.as_array(pointer, shape=(self.info.n_vocab,))

    def sequence_length(self, seq_id: int) -> int:
        """Return how many tokens the memory holds of a sequence."""
        return int(llama.llama_memory_seq_pos_max(self._memory, seq_id)) + 1

    def truncate(self, seq_id: int, length: int) -> bool:
        """Drop everything behind ``length``; False if this memory cannot drop a part."""
        return bool(llama.llama_memory_seq_rm(self._memory, seq_id, length, -1))

    def copy_sequence(self, source: int, target: int) -> None:
        """Make ``target`` hold what ``source`` holds; shares the cells."""
        llama.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def state_key(self) -> str:
        """Name the file, the runtime, the device and the kind of cache."""
        return self._state_key

    def save_sequence(self, seq_id: int) -> bytes:
        """Return a sequence as bytes."""
        return save_sequence(self._context, seq_id)

    def restore_sequence(self, seq_id: int, state: bytes) -> bool:
        """Put saved bytes into an empty sequence; False if llama.cpp refuses them."""
        return restore_sequence(self._context, seq_id, state)

    def peaks_key(self) -> str:
        """Name machine and threads; '' with layers on a GPU, which nothing measures."""
        return '' if self._has_gpu_layers else peaks_key(self._shape, self._n_threads)

    def measure_peaks(self) -> tuple[float, float]:
        """Measure this CPU with as many threads as decode has."""
        return measure_peaks(self._path, self._shape, self._n_threads)

    def memory_report(self) -> str:
        """Return what was planned beside what llama.cpp says it took, as lines of text."""
        return memory_report(self._plan)

    def _free_context(self) -> None:
        if self._context is not None:
            llama.llama_free(self._context)
            self._context = self._memory = None

    def close(self) -> None:
        """Free context, then model; safe to call twice."""
        self._free_context()
        self._vocab = None  # type: ignore[assignment]  # points into the model
        if self._model is not None:
            llama.llama_model_free(self._model)
            self._model = None
            return_memory()
