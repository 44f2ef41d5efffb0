"""A backend without a model: its answers are written down, its faults come when asked for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from robot_llm.engine.backend import DecodeAborted, ModelInfo
from robot_llm.engine.scripted_fault import DecodeCall, OnDecode, ScriptedAbort
from robot_llm.engine.scripted_vocab import (
    BOS, byte_tokenizer, CHAT_TEMPLATE, CONTROLS, encode, END, N_VOCAB, split_turn)
from robot_llm.errors import DecodeError
from robot_llm.settings import Settings

SURE: Final = 0.999
"""How likely the scripted word is while no other probabilities are given."""
UNLIKELY: Final = 1e-9
"""Of every token that the script does not go on with; 259 of them change no other digit."""

N_EMBD: Final = 16
"""Length of the scripted hidden state."""

Script = Mapping[str, bytes] | Callable[[str], bytes]
"""
The answer by prompt: ``word``, a newline, and what is the detail.

A mapping's first key that stands in the prompt gives it; '' as the last one fits every prompt.
"""


class ScriptedBackend:
    """
    A ``Backend`` without a model, for tests and for faults that no model makes on demand.

    Its memory is real: positions, copies, truncation, an abort between the parts of a decode. Its
    logits make the next scripted byte by far the likeliest, behind whichever word was published.

    :param settings: ``model.n_ctx``, ``model.n_batch`` and ``model.n_ubatch`` are read
    :param word_probabilities: what the model thinks of decision words, instead of being sure of
        the scripted one; what is missing to 1 goes to all tokens alike
    :param aborts_inside: whether the abort flag is looked at between the parts of a decode
    :param n_swa: a rewound sequence is then silently wrong, as behind a sliding window
    :param is_recurrent: part of a sequence cannot be dropped, and an abort leaves it wrong
    """

    def __init__(
        self, settings: Settings, script: Script, *,
        word_probabilities: Mapping[str, float] | None = None,
        on_decode: OnDecode = lambda call: None, aborts_inside: bool = True, n_swa: int = 0,
        is_recurrent: bool = False,
    ) -> None:
        self.n_ctx, self.n_batch = settings.model.n_ctx, settings.model.n_batch
        self._n_ubatch = min(settings.model.n_ubatch, self.n_batch)
        self.script, self.on_decode = script, on_decode
        self.word_probabilities = word_probabilities
        self.abort = ScriptedAbort()
        self.aborts_inside = aborts_inside
        self.is_closed = False
        self.info = ModelInfo(
            name='scripted', architecture='scripted', quantization='F32', device='CPU',
            num_params=0, weight_bytes=0, kv_bytes_per_token=0.0, n_ctx_train=2**20,
            n_vocab=N_VOCAB, n_swa=n_swa, is_recurrent=is_recurrent,
            chat_template=CHAT_TEMPLATE, bos_text=CONTROLS[BOS], eos_text=CONTROLS[END],
            bos_token=BOS, adds_bos=True, num_features=N_EMBD, fingerprint='scripted')
        self._tokenizer = byte_tokenizer()
        self._memory: list[list[int]] = []
        self._num_cells = 0
        self._last: Sequence[int] = ()
        self._num_rows = 1
        self._probed: Sequence[int] = ()

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """Turn text into bytes, and control tokens if asked for."""
        return encode(text, parse_special=parse_special)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the byte; none for control tokens."""
        return bytes([token_id]) if token_id < BOS else b''

    def is_end(self, token_id: int) -> bool:
        """Whether the model ends its turn with this token."""
        return token_id == END

    def constraint_tokenizer(self) -> Any:
        """Return the ``llguidance.LLTokenizer`` of the bytes."""
        return self._tokenizer

    def open_context(
        self, n_ctx: int, *, num_reserved_tokens: int, num_sequences: int,
    ) -> None:
        """Make empty sequences; a sequence may grow to what was asked for."""
        self._num_cells = n_ctx + num_reserved_tokens
        self._memory = [[] for _ in range(num_sequences)]

    def decode(
        self, token_ids: Sequence[int], *, position: int, seq_id: int = 0,
        probe: int | None = None, num_rows: int = 1,
    ) -> None:
        """Evaluate tokens behind a sequence, part by part."""
        self._append(token_ids, position, seq_id)
        assert 0 <= num_rows <= len(token_ids), f'{num_rows} rows of {len(token_ids)} tokens'
        self._last, self._num_rows = tuple(self._memory[seq_id]), num_rows
        if probe is not None:
            self._probed = self._last[:position + probe % len(token_ids) + 1]

    def _append(self, token_ids: Sequence[int], position: int, seq_id: int) -> None:
        sequence = self._memory[seq_id]
        assert 1 <= len(token_ids) <= self.n_batch, f'{len(token_ids)} tokens in one decode'
        assert position == len(sequence), f'position {position} behind {len(sequence)} tokens'
        for start in range(0, len(token_ids), self._n_ubatch):
            part = token_ids[start:start + self._n_ubatch]
            if len(sequence) + len(part) > self._num_cells:
                raise DecodeError(f'no room for {len(part)} tokens; raise model.n_ctx')
            self.on_decode(DecodeCall((*sequence, *part), len(part), self.abort))
            if self.aborts_inside and self.abort.is_set():
                if self.info.is_recurrent:  # the position moves although nothing was computed
                    sequence += [0] * len(part)
                raise DecodeAborted
            sequence += part

    def decode_branches(
        self, branches: Sequence[Sequence[int]], *, position: int, seq_ids: Sequence[int],
    ) -> list[NDArray[np.float32]]:
        """Evaluate several continuations, each behind its own sequence."""
        rows = []
        for branch, seq_id in zip(branches, seq_ids, strict=True):
            self._append(branch, position, seq_id)
            sequence = self._memory[seq_id]
            rows.append(np.stack([self._logits_behind(sequence[:position + count])
                                  for count in range(1, len(branch) + 1)]))
        return rows

    def logits(self, row: int = -1) -> NDArray[np.float32]:
        """Return a row, counted from the last one, shape (n_vocab,), float32."""
        assert -self._num_rows <= row <= -1, f'row {row} of {self._num_rows}'
        return self._logits_behind(self._last[:len(self._last) + row + 1])

    def hidden_state(self) -> NDArray[np.float32]:
        """Return how often each byte stands up to the probe, hashed to a few numbers."""
        counts = np.bincount(np.array(self._probed, np.int64) % N_EMBD, minlength=N_EMBD)
        return counts.astype(np.float32)

    def sequence_length(self, seq_id: int) -> int:
        """Return how many tokens the memory holds of a sequence."""
        return len(self._memory[seq_id])

    def truncate(self, seq_id: int, length: int) -> bool:
        """Drop everything behind ``length``; False if this memory cannot drop a part."""
        sequence = self._memory[seq_id]
        if 0 < length < len(sequence):
            if self.info.is_recurrent:
                return False
            if self.info.n_swa:
                sequence[:] = [0] * len(sequence)
        del sequence[length:]
        return True

    def copy_sequence(self, source: int, target: int) -> None:
        """Make ``target`` (empty before) hold what ``source`` holds."""
        assert not self._memory[target], f'sequence {target} is not empty'
        self._memory[target] = list(self._memory[source])

    def state_key(self) -> str:
        """Name nothing but the kind: a script's memory is its tokens."""
        return 'scripted'

    def save_sequence(self, seq_id: int) -> bytes:
        """Return the tokens as bytes."""
        return np.array(self._memory[seq_id], np.int32).tobytes()

    def restore_sequence(self, seq_id: int, state: bytes) -> bool:
        """Take the tokens back; False if they are not whole."""
        is_whole = len(state) % 4 == 0
        self._memory[seq_id] = np.frombuffer(state, np.int32).tolist() if is_whole else []
        return is_whole

    def peaks_key(self) -> str:
        """Return nothing: no device computes."""
        return ''

    def measure_peaks(self) -> tuple[float, float]:
        """Return nothing known."""
        return 0.0, 0.0

    def memory_report(self) -> str:
        """Return nothing: what a script takes does not matter."""
        return ''

    def close(self) -> None:
        """Note that everything is freed; safe to call twice."""
        self.is_closed = True

    def _logits_behind(self, sequence: Sequence[int]) -> NDArray[np.float32]:
        """Return the row that makes the script's next byte by far the likeliest."""
        prompt, said = split_turn(sequence)
        word, _, detail = self._answer(prompt).partition(b'\n')
        said_word, is_behind_word, said_detail = said.partition(b'\n')
        row = np.full(N_VOCAB, UNLIKELY)
        if is_behind_word:
            goes_on = detail.startswith(said_detail) and len(said_detail) < len(detail)
            row[detail[len(said_detail)] if goes_on else END] = 1.0
        else:
            thoughts = self.word_probabilities or {word.decode(): SURE}
            likely = {f'{w}\n'.encode(): p for w, p in thoughts.items()}
            for candidate, probability in likely.items():
                if candidate.startswith(said_word):
                    row[candidate[len(said_word)]] += probability
            if said_word:
                row[ord('\n')] += UNLIKELY
            else:
                row += max(1.0 - sum(likely.values()), 0.0) / N_VOCAB
        logits: NDArray[np.float32] = np.log(row / row.sum()).astype(np.float32)
        return logits

    def _answer(self, prompt: str) -> bytes:
        if callable(self.script):
            return self.script(prompt)
        for key, answer in self.script.items():
            if key in prompt:
                return answer
        raise DecodeError(f'no scripted answer for the prompt {prompt!r}')
