"""The vocabulary of a scripted backend: a token per byte, and three control tokens."""

from collections.abc import Sequence
import re
from typing import Any, Final

from llguidance import LLTokenizer, TokenizerWrapper

BOS, TURN, END = 256, 257, 258
CONTROLS: Final = {BOS: '<|begin|>', TURN: '<|im_start|>', END: '<|im_end|>'}
N_VOCAB: Final = 259
ANSWER_HEADER: Final = [TURN, *b'assistant\n']

CHAT_TEMPLATE: Final = (
    '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}'
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}')


def encode(text: str, *, parse_special: bool) -> list[int]:
    """Return the bytes of ``text``; with ``parse_special``, control tokens where it spells one."""
    ids = {spelling: token_id for token_id, spelling in CONTROLS.items()}
    token_ids: list[int] = []
    for piece in re.split(f"({'|'.join(map(re.escape, ids))})", text):
        if parse_special and piece in ids:
            token_ids.append(ids[piece])
        else:
            token_ids += piece.encode('utf-8', 'replace')
    return token_ids


def spell(token_ids: Sequence[int]) -> str:
    """Return the text of a sequence, control tokens spelled out."""
    data = b''.join(CONTROLS[t].encode() if t in CONTROLS else bytes([t]) for t in token_ids)
    return data.decode('utf-8', 'replace')


def split_turn(token_ids: Sequence[int]) -> tuple[str, bytes]:
    """Return the prompt's text, and the bytes behind the last header of an answer."""
    token_ids, length = list(token_ids), len(ANSWER_HEADER)
    for start in range(len(token_ids) - length, -1, -1):
        if token_ids[start:start + length] == ANSWER_HEADER:
            said = token_ids[start + length:]
            return spell(token_ids[:start]), bytes(t for t in said if t < BOS)
    return spell(token_ids), b''


def byte_tokenizer() -> Any:
    """Return the ``llguidance.LLTokenizer`` of this vocabulary."""
    return LLTokenizer(TokenizerWrapper(_ByteTokenizer()))


class _ByteTokenizer:
    """What llguidance asks of a tokenizer."""

    bos_token_id, eos_token_id = BOS, END
    tokens = [bytes([value]) for value in range(BOS)] + [t.encode() for t in CONTROLS.values()]
    special_token_ids = list(CONTROLS)

    def __call__(self, data: bytes) -> list[int]:
        return list(data)
