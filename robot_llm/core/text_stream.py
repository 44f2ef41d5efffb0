"""Token bytes → text that is complete and safe to publish; stop strings."""

import codecs
from collections.abc import Sequence


class TextStream:
    """
    Turn the bytes of sampled tokens into text, piece by piece.

    What leaves does not depend on how the bytes are cut into tokens. It is valid Unicode (the
    decoder never yields a surrogate), holds no NUL and no part of a stop string that matched.
    The earliest match in the text wins, and of those that begin there the longest.

    A base character may leave before its combining mark: any character may be followed by one,
    so waiting for whole grapheme clusters would delay every character by a token. Readers that
    join the pieces see the cluster; only a character cut in the middle of its bytes is held.

    Time is linear in the bytes (times the stop strings and their length, both bounded): only
    the held part, shorter than the longest stop string, is ever looked at again.

    :param stop: stop strings, none empty; they end the text and are not part of it
    :raises ValueError: if a stop string is empty
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        if '' in stop:
            raise ValueError('an empty stop string would end every answer before it begins')
        self._stop = tuple(sorted(set(stop), key=len, reverse=True))
        self._first_characters = frozenset(string[0] for string in self._stop)
        self._decoder = codecs.getincrementaldecoder('utf-8')('replace')
        self._held = ''
        self._pieces: list[str] = []
        self._is_finished = False
        self._stop_string: str | None = None
        self._num_dropped_bytes = 0

    @property
    def stopped(self) -> bool:
        """Whether a stop string ended the text; ``finish`` may still decide it."""
        return self._stop_string is not None

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended the text."""
        return self._stop_string

    @property
    def text(self) -> str:
        """Everything that left: the concatenation of all returned strings."""
        return ''.join(self._pieces)

    @property
    def num_dropped_bytes(self) -> int:
        """Bytes of an unfinished character at the very end; 0 until ``finish``, at most 3."""
        return self._num_dropped_bytes

    def feed(self, data: bytes) -> str:
        """
        Take the bytes of the next token and return the text that may leave now.

        Bytes that are no UTF-8 become U+FFFD exactly as ``bytes.decode('utf-8', 'replace')``
        does it. NUL is dropped before stop strings are looked for: DDS strings are C strings,
        and what is published must not contain a stop string.

        :param data: any number of bytes, cut anywhere
        :returns: often '', while a character is unfinished or a stop string may be coming;
            always '' after a stop
        """
        assert not self._is_finished, 'feed after finish'
        if self.stopped:
            return ''
        return self._release(self._decode(data), is_end=False)

    def finish(self) -> str:
        """
        Return what was held back, at the end of the generation; safe to call twice.

        An unfinished character at the end is dropped and counted: the token limit cut it, and
        U+FFFD would tell the reader that the model wrote rubbish.
        """
        if self._is_finished or self.stopped:
            self._is_finished = True
            return ''
        self._is_finished = True
        self._num_dropped_bytes = len(self._decoder.getstate()[0])
        return self._release('', is_end=True)

    def _decode(self, data: bytes) -> str:
        decoded = self._decoder.decode(data)
        unfinished = self._decoder.getstate()[0].decode('utf-8', 'replace')
        # CPython waits for the third byte of an encoded surrogate, though two already show that
        # no character can come of it. One that is merely unfinished gives one replacement.
        if len(unfinished) > 1:
            self._decoder.reset()
            decoded += unfinished
        return decoded

    def _release(self, decoded: str, *, is_end: bool) -> str:
        buffer = self._held + decoded.replace('\0', '')
        end, self._held = len(buffer), ''
        for start, character in enumerate(buffer):
            if character not in self._first_characters:
                continue
            # A longer stop string may still come true here, so not even a shorter one that is
            # complete decides yet; everything before has been disproved and may leave.
            if not is_end and self._may_begin_at(buffer, start):
                end, self._held = start, buffer[start:]
                break
            match = next((s for s in self._stop if buffer.startswith(s, start)), None)
            if match is not None:
                end, self._stop_string = start, match
                break
        piece = buffer[:end]
        self._pieces.append(piece)
        return piece

    def _may_begin_at(self, buffer: str, start: int) -> bool:
        """Return whether ``buffer`` from ``start`` on is a proper prefix of a stop string."""
        num_left = len(buffer) - start
        return any(len(s) > num_left and s.startswith(buffer[start:]) for s in self._stop)
