"""The arrays behind one ``llama_batch``, owned here so that numpy can fill them."""

from collections.abc import Sequence
import ctypes

import llama_cpp.llama_cpp as llama
import numpy as np


class LlamaBatch:
    """
    One batch that is filled anew for every decode.

    :param capacity: the longest batch [tokens]
    """

    def __init__(self, capacity: int) -> None:
        self._tokens = np.zeros(capacity, np.int32)
        self._positions = np.zeros(capacity, np.int32)
        self._seq_counts = np.ones(capacity, np.int32)
        self._seq_ids = np.zeros(capacity, np.int32)
        self._outputs = np.zeros(capacity, np.int8)
        address = self._seq_ids.ctypes.data
        self._seq_pointers = np.arange(address, address + 4 * capacity, 4, dtype=np.uintp)
        self._batch = llama.llama_batch()
        for name, array in (('token', self._tokens), ('pos', self._positions),
                            ('n_seq_id', self._seq_counts), ('seq_id', self._seq_pointers),
                            ('logits', self._outputs)):
            field_type = dict(llama.llama_batch._fields_)[name]
            setattr(self._batch, name, ctypes.cast(array.ctypes.data, field_type))

    def put(
        self, start: int, token_ids: Sequence[int], *, position: int, seq_id: int,
        are_outputs: bool,
    ) -> int:
        """
        Write tokens of one sequence into the batch.

        :param start: where in the batch
        :param position: of the first token in its sequence
        :param are_outputs: whether each of them gets a row of logits
        :returns: where the next ones go
        """
        end = start + len(token_ids)
        self._tokens[start:end] = token_ids
        self._positions[start:end] = range(position, position + len(token_ids))
        self._seq_ids[start:end] = seq_id
        self._outputs[start:end] = are_outputs
        return end

    def mark_outputs(self, start: int, end: int) -> None:
        """Have a row of logits for each token of a part of the batch."""
        self._outputs[start:end] = True

    def take(self, num_tokens: int) -> llama.llama_batch:
        """Return the first ``num_tokens`` as llama.cpp wants them."""
        self._batch.n_tokens = num_tokens
        return self._batch
