"""Pinned prefixes on disk: restored where nothing speaks against it, else evaluated again."""

from collections.abc import Callable, Sequence
import hashlib
import json
from typing import Final

import numpy as np
from numpy.typing import NDArray

from robot_llm.cache_folder import CacheFolder
from robot_llm.engine.backend import Backend
from robot_llm.engine.kv_cache import WORKING

FORMAT: Final = 1
"""Of an entry: key, the row of logits behind the prefix, the runtime's own bytes."""
KEY_BYTES: Final = 32

TOLERANCE: Final = 0.05
"""
Largest difference of a logit behind a restored prefix to what it was when it was saved.

The same bytes on the same device give the same logits but for the order of sums. Another chunking
of the same prompt gives differences up to 0.7, another model ones of several units.
"""


class PrefixStore:
    """
    What a respawned node need not evaluate again.

    An entry belongs to one model file, one set of tokens, one runtime, one kind of cache and one
    device. It is used only if the cache folder finds it whole, it carries that key, the runtime
    takes it, the memory then holds as many tokens as it should, and one token behind it gets the
    logits that it got when the entry was written.

    :param backend: its context holds nothing in the working sequence during a call
    :param folder: where the entries are
    :param warn: takes a sentence for every entry that was not used although it was there
    """

    def __init__(
        self, backend: Backend, folder: CacheFolder, warn: Callable[[str], None],
    ) -> None:
        self._backend = backend
        self._folder = folder
        self._warn = warn

    def restore(self, token_ids: Sequence[int]) -> bool:
        """
        Put a saved prefix into the working sequence.

        :param token_ids: the whole prefix, shape (num_tokens,)
        :returns: False if it has to be evaluated; the working sequence is empty then
        """
        if not token_ids or not (key := self._key(token_ids)):
            return False
        entry = self._folder.read(_name(key))
        if entry is None:
            return False
        if reason := self._refusal(key, entry, token_ids):
            self._backend.truncate(WORKING, 0)
            self._warn(f'a saved prefix of {len(token_ids)} tokens is not used: {reason}; it is '
                       'evaluated and saved again')
            return False
        return True

    def _refusal(self, key: bytes, entry: bytes, token_ids: Sequence[int]) -> str:
        """Restore twice, once to look at; return what speaks against the entry."""
        row_end = KEY_BYTES + 4 * self._backend.info.n_vocab
        if entry[:KEY_BYTES] != key or len(entry) <= row_end:
            return 'it belongs to another model, prompt or runtime'
        state = entry[row_end:]
        for must_check in (True, False):
            if not self._backend.restore_sequence(WORKING, state):
                return 'the runtime refuses it'
            length = self._backend.sequence_length(WORKING)
            if length != len(token_ids):
                return f'it holds {length} tokens'
            if must_check:
                wanted = np.frombuffer(entry[KEY_BYTES:row_end], np.float32)
                difference = float(np.abs(self._row_behind(token_ids) - wanted).max())
                # Not "greater than": no comparison with a NaN holds.
                if not difference <= TOLERANCE:
                    return f'the logits behind it differ by {difference:.2g}'
                # A recurrent memory cannot drop the last token alone.
                self._backend.truncate(WORKING, 0)
        return ''

    def save(self, token_ids: Sequence[int]) -> None:
        """
        Keep the working sequence, which holds ``token_ids`` and is used up by this.

        :param token_ids: the whole prefix, shape (num_tokens,)
        """
        if not token_ids or not (key := self._key(token_ids)):
            return
        state = self._backend.save_sequence(WORKING)
        row = self._row_behind(token_ids).astype(np.float32)
        self._folder.write(_name(key), key + row.tobytes() + state)

    def _row_behind(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """Evaluate one token more, any; a finite row of logits is as good as a checksum."""
        self._backend.decode(token_ids[:1], position=len(token_ids))
        return self._backend.logits()

    def _key(self, token_ids: Sequence[int]) -> bytes:
        context = self._backend.state_key()
        if not context:
            return b''
        return hashlib.sha256(json.dumps([FORMAT, context, list(token_ids)]).encode()).digest()


def _name(key: bytes) -> str:
    return f'prefix-{key.hex()[:32]}'
