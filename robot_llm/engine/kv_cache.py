"""What is in the cache: pinned prefixes, longest valid prefix, truncation after a cancel."""

from collections.abc import Hashable, Sequence

from robot_llm.engine.backend import Backend
from robot_llm.errors import DecodeError

WORKING = 0
"""The sequence in which requests are evaluated; the pinned ones follow it."""


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many leading entries are equal."""
    for index, (a, b) in enumerate(zip(left, right)):
        if a != b:
            return index
    return min(len(left), len(right))


class KVCache:
    """
    The token ids that the runtime's memory holds, sequence by sequence.

    Pinned prefixes are evaluated once and copied into the working sequence, which needs no
    partial removal and so suits every memory. Where a part can be dropped (full attention, not
    recurrent), the working sequence itself is reused as far as it agrees with the new prompt.

    Only the worker thread calls it.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        info = backend.info
        # A window or a recurrent state: rewinding "works" and the text is silently wrong, or the
        # removal returns False. Source: llama-cpp-python PR 2180, issue 2140.
        self._can_drop_part = not info.is_recurrent and not info.n_swa
        self._is_recurrent = info.is_recurrent
        self._working: list[int] = []
        self._pinned: dict[Hashable, tuple[int, tuple[int, ...]]] = {}

    @property
    def num_tokens(self) -> int:
        """How many tokens the working sequence holds."""
        return len(self._working)

    def pin(self, name: Hashable, token_ids: Sequence[int]) -> None:
        """
        Keep what the working sequence holds now as the prefix of ``name``.

        :param token_ids: what was evaluated, shape (num_tokens,); the whole working sequence
        """
        assert list(token_ids) == self._working, 'only what was just evaluated can be pinned'
        seq_id = WORKING + 1 + len(self._pinned)
        self._backend.copy_sequence(WORKING, seq_id)
        self._pinned[name] = (seq_id, tuple(token_ids))

    def adopt(self, token_ids: Sequence[int]) -> None:
        """Note that the working sequence was filled with ``token_ids`` by other means."""
        self._working = list(token_ids)

    def reuse(
        self, name: Hashable, token_ids: Sequence[int], *, limit: int | None = None,
    ) -> int:
        """
        Prepare the working sequence for a prompt.

        :param name: whose pinned prefix may serve
        :param token_ids: the whole prompt, shape (num_prompt_tokens,)
        :param limit: how many tokens may be reused at most; None leaves it open
        :returns: how many leading tokens need no evaluation; at least one always does, since
            its logits are needed
        """
        most = len(token_ids) - 1
        limit = most if limit is None else min(limit, most)
        shared = common_prefix(self._working, token_ids[:limit])
        keeps_all = shared == len(self._working)
        seq_id, pinned = self._pinned.get(name, (None, ()))
        if len(pinned) > limit or tuple(token_ids[:len(pinned)]) != pinned:
            pinned = ()
        if shared >= max(len(pinned), 1) and (keeps_all or self._can_drop_part):
            if keeps_all or self._backend.truncate(WORKING, shared):
                del self._working[shared:]
                return shared
        self.clear()
        if pinned and seq_id is not None:
            self._backend.copy_sequence(seq_id, WORKING)
            self._working = list(pinned)
        return len(self._working)

    @property
    def can_drop_part(self) -> bool:
        """Whether the end of a sequence can be dropped without harm to what stays."""
        return self._can_drop_part

    def drop_behind(self, length: int) -> None:
        """
        Drop what stands behind the first ``length`` tokens of the working sequence.

        :raises DecodeError: if the memory refuses, which ``can_drop_part`` had promised not to
        """
        if length < len(self._working):
            if not self._backend.truncate(WORKING, length):
                raise DecodeError(f'the memory cannot drop the tokens behind {length}')
            del self._working[length:]

    def extend(self, token_ids: Sequence[int]) -> None:
        """Note that ``token_ids`` were evaluated behind the working sequence."""
        self._working.extend(token_ids)

    def recover(self, attempted: Sequence[int] = ()) -> None:
        """
        Agree with the memory after an aborted decode.

        The finished ubatches stay; the memory's own count tells how many. A recurrent memory
        counts the aborted one as well, whose state was not computed: nothing of it stays.

        :param attempted: the tokens of the aborted call, shape (num_tokens,)
        """
        if self._is_recurrent:
            self.clear()
            return
        length = self._backend.sequence_length(WORKING)
        self._working = (self._working + list(attempted))[:length]
        if length > len(self._working):
            self.clear()

    def clear(self) -> None:
        """Forget the working sequence; the pinned ones stay."""
        self._backend.truncate(WORKING, 0)
        self._working = []

    def check_integrity(self) -> None:
        """
        Assert that the memory holds what is noted here; called when idle and in tests.

        :raises AssertionError: if a sequence is longer or shorter than its tokens
        """
        assert self._backend.sequence_length(WORKING) == len(self._working)
        for seq_id, pinned in self._pinned.values():
            assert self._backend.sequence_length(seq_id) == len(pinned)
