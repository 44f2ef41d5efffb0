"""The port between our generation and a runtime: tokens in, logits out, memory by sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robot_llm.core.model_shape import ModelShape
from robot_llm.errors import RobotLlmError


class DecodeAborted(RobotLlmError):
    """The abort flag stopped a running decode; finished ubatches stay in the memory."""


class AbortFlag(Protocol):
    """Stops the running decode; any thread may set it."""

    def set(self) -> None:
        """Ask the running decode to end as soon as it can."""

    def clear(self) -> None:
        """Let the next decode run."""

    @property
    def num_nodes(self) -> int:
        """How far the decode is; changes while it runs, unless the runtime tells nothing."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The facts of a loaded model, read from its file and its runtime."""

    name: str
    architecture: str
    quantization: str
    device: str
    """Where the layers run, for people: ``CPU`` or ``GPU (25/25 layers)``."""
    num_params: int
    weight_bytes: int
    kv_bytes_per_token: float
    n_ctx_train: int
    n_vocab: int
    n_swa: int
    """Length of the sliding attention window [tokens]; 0 = every layer sees everything."""
    is_recurrent: bool
    """Part of the state cannot be dropped from the memory (recurrent and hybrid models)."""
    chat_template: str
    bos_text: str
    eos_text: str
    bos_token: int
    """-1 if the vocabulary has none."""
    adds_bos: bool
    """The model wants BOS before the prompt."""
    num_layers: int = 0
    num_gpu_layers: int = 0
    """How many of the layers are on a GPU, the output layer counted as llama.cpp does."""
    num_features: int = 0
    """Length of what ``hidden_state`` gives; 0 if the runtime gives none."""
    fingerprint: str = ''
    """Tells this model file from every other; see ``model.fingerprint``."""
    shape: ModelShape | None = None
    """What one token is multiplied with, and reads; None if the runtime has no such file."""


class Backend(Protocol):
    """
    A loaded model and its context; only the worker thread calls it, except for ``abort``.

    Sequence 0 is the working one. Positions are 0, 1, 2 … within a sequence, without a gap.
    """

    @property
    def info(self) -> ModelInfo:
        """The facts of the model."""

    @property
    def abort(self) -> AbortFlag:
        """What stops the running decode."""

    @property
    def aborts_inside(self) -> bool:
        """Whether ``abort`` ends a decode in its middle, and not merely at its end."""

    @property
    def n_ctx(self) -> int:
        """How many tokens one request may use."""

    @property
    def n_batch(self) -> int:
        """How many tokens one ``decode`` may carry."""

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """
        Turn text into token ids; never adds BOS or EOS.

        :param parse_special: whether control tokens written in ``text`` become control tokens
        """

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes behind a token; none for control tokens."""

    def is_end(self, token_id: int) -> bool:
        """Whether the model ends its turn with this token."""

    def constraint_tokenizer(self) -> Any:
        """Return the ``llguidance.LLTokenizer`` of this vocabulary; slow once, then kept."""

    def open_context(
        self, n_ctx: int, *, num_reserved_tokens: int, num_sequences: int,
    ) -> None:
        """
        Allocate the memory for the sequences; one that is there already is replaced.

        :param n_ctx: what one request may use [tokens]
        :param num_reserved_tokens: room beside it, for pinned prefixes and branches [tokens]
        :param num_sequences: sequence ids 0 .. num_sequences - 1 may be used
        :raises EngineError: if it does not fit; nothing can be decoded before it succeeds
        """

    def decode(
        self, token_ids: Sequence[int], *, position: int, seq_id: int = 0,
        probe: int | None = None, num_rows: int = 1,
    ) -> None:
        """
        Evaluate tokens behind a sequence; ``logits`` then gives the rows of the last ones.

        Returns when the device has finished.

        :param token_ids: shape (num_tokens,), 1 <= num_tokens <= ``n_batch``
        :param position: how many tokens the sequence holds already
        :param probe: which of ``token_ids`` gives ``hidden_state``; None: nobody will ask
        :param num_rows: how many of the last tokens get a row of logits, 0 <= num_rows
        :raises DecodeAborted: if the abort flag ended it
        :raises EngineError: if the runtime fails
        """

    def decode_branches(
        self, branches: Sequence[Sequence[int]], *, position: int, seq_ids: Sequence[int],
    ) -> list[NDArray[np.float32]]:
        """
        Evaluate several continuations in one batch, each behind its own sequence.

        :param branches: token ids, shape (num_branches,) of (num_tokens,)
        :param seq_ids: one sequence per branch, all of length ``position``
        :returns: per branch its logits, shape (num_tokens, n_vocab), float32, copied
        :raises DecodeAborted: if the abort flag ended it
        :raises EngineError: if the runtime fails
        """

    def logits(self, row: int = -1) -> NDArray[np.float32]:
        """
        Return a row of the last ``decode``; a view, valid until the next one.

        :param row: counted from the last token, -num_rows to -1
        :returns: shape (n_vocab,), float32
        """

    def hidden_state(self) -> NDArray[np.float32]:
        """
        Return a linear image of the hidden state of the last probe; a copy.

        :returns: shape (num_features,), float32; empty if this runtime gives none
        """

    def sequence_length(self, seq_id: int) -> int:
        """Return how many tokens the memory holds of a sequence."""

    def truncate(self, seq_id: int, length: int) -> bool:
        """Drop everything behind ``length``; False if this memory cannot drop a part."""

    def copy_sequence(self, source: int, target: int) -> None:
        """Make ``target`` (empty before) hold what ``source`` holds; shares the memory."""

    def state_key(self) -> str:
        """Name all that a saved sequence depends on besides its tokens; '' if none can be."""

    def save_sequence(self, seq_id: int) -> bytes:
        """Return a sequence as bytes."""

    def restore_sequence(self, seq_id: int, state: bytes) -> bool:
        """
        Put saved bytes into an empty sequence.

        :param state: from ``save_sequence`` of a context with the same ``state_key``
        :returns: False if they are refused; the sequence is empty then
        """

    def peaks_key(self) -> str:
        """Name what ``measure_peaks`` would measure; '' where nothing can be."""

    def measure_peaks(self) -> tuple[float, float]:
        """Measure the peaks of the device that computes, FLOP/s and bytes/s; 0 is unknown."""

    def memory_report(self) -> str:
        """Return what was planned beside what was taken, as lines of text; '' if unknown."""

    def close(self) -> None:
        """Free context, then model; safe to call twice."""
