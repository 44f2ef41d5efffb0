"""A model's vocabulary: text → token ids and back, by the model's own tokenizer."""

from collections.abc import Iterator
import ctypes
import re
from typing import Any, Final

import llama_cpp.llama_cpp as llama
from llguidance.llamacpp import lltokenizer_from_vocab

from robot_llm.engine.model import metadata

LONGEST_PIECE: Final = 2048
"""
Of a text that llama.cpp splits by regular expressions, in one call [characters].

Many of its pre-tokenizers (gpt-4o, tekken, deepseek-llm) run through ``std::regex``, which calls
itself for every character of a match: 24,000 to 32,768 letters in a row, or digits, or spaces,
overflow a stack of 8 MiB, and 65,536 may come. So many fit into 1 MiB.
"""
BREAK: Final = re.compile(r'(?<=\S) (?=\S)')


def split_text(text: str) -> Iterator[str]:
    """
    Cut a long text in front of a single space, with which a word's own tokens begin.

    Only where there is none the cut goes through a word, or a run of spaces, of that length.

    :returns: pieces of at most ``LONGEST_PIECE`` characters, the text itself if it is short
    """
    start = 0
    while (end := start + LONGEST_PIECE) < len(text):
        places = BREAK.finditer(text, start + LONGEST_PIECE // 2, end)
        cut = max((match.start() for match in places), default=end)
        yield text[start:cut]
        start = cut
    yield text[start:]


class LlamaVocab:
    """
    The vocabulary of a loaded model, which must outlive it.

    :param model: what llama.cpp loaded
    """

    def __init__(self, model: llama.llama_model_p) -> None:
        self._vocab = llama.llama_model_get_vocab(model)
        self._constraint_tokenizer: Any = None
        vocab_type = llama.llama_vocab_type(self._vocab)
        self._is_split = vocab_type == llama.LLAMA_VOCAB_TYPE_BPE
        # SentencePiece vocabularies put a space before any text that is tokenised by itself.
        self._space_prefix = (
            vocab_type == llama.LLAMA_VOCAB_TYPE_SPM
            and metadata(model, 'tokenizer.ggml.add_space_prefix') != 'false')
        self._newline = self._tokenize('\n', False) if self._space_prefix else []

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """Turn text into token ids; never adds BOS or EOS."""
        if not text:
            return []
        if self._is_split and not parse_special:
            return [token_id for piece in split_text(text)
                    for token_id in self._tokenize(piece, parse_special)]
        if not self._space_prefix or parse_special:
            return self._tokenize(text, parse_special)
        # Behind a newline no space is added; the newline's own tokens are cut off again.
        token_ids = self._tokenize('\n' + text, False)
        if token_ids[:len(self._newline)] == self._newline:
            return token_ids[len(self._newline):]
        return self._tokenize(text, False)

    def _tokenize(self, text: str, parse_special: bool) -> list[int]:
        data = text.encode('utf-8', 'replace')
        # No token is shorter than a byte; a few may be added in front.
        buffer = (llama.llama_token * (len(data) + 8))()
        num_tokens = llama.llama_tokenize(
            self._vocab, data, len(data), buffer, len(buffer), False, parse_special)
        assert num_tokens >= 0, f'{len(data)} bytes make {-num_tokens} tokens'
        return list(buffer[:num_tokens])

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes behind a token; none for control tokens."""
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            num_bytes = llama.llama_token_to_piece(
                self._vocab, token_id, buffer, size, 0, False)
            if num_bytes >= 0:
                return buffer.raw[:num_bytes]
            size = -num_bytes

    def is_end(self, token_id: int) -> bool:
        """Whether the model ends its turn with this token."""
        return bool(llama.llama_vocab_is_eog(self._vocab, token_id))

    def constraint_tokenizer(self) -> Any:
        """Return the ``llguidance.LLTokenizer``; slow once, then kept."""
        if self._constraint_tokenizer is None:
            self._constraint_tokenizer = lltokenizer_from_vocab(self._vocab)
        return self._constraint_tokenizer
