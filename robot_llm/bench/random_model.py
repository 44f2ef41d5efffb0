"""
A GGUF of realistic size with random weights, for speed runs only; nothing is downloaded.

Its times are those of a trained model of the same shape and quantisation: a dense decoder does the
same work whatever the weights say. Its words are noise, so whatever depends on what the model
says (how often the constraint refuses, how often a guess is accepted) means nothing on it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
import os
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
from numpy.typing import NDArray
from robot_llm.errors import ConfigError

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a decoder; ``n_ff`` is the width of its feed-forward part."""

    arch: str
    n_layer: int
    n_embd: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_ff: int
    has_bias: bool
    """Of queries, keys and values."""
    n_vocab: int = 0
    """Filled up to this with tokens that nothing is split into; 0 keeps the tokenizer's."""


SHAPES: Final = {
    # Qwen2.5-0.5B and Llama-3.2-1B by their config.json, with the vocabulary of the tokenizer.
    '0.5B': Shape('qwen2', 24, 896, 14, 2, 64, 4864, True),
    '1B': Shape('llama', 16, 2048, 32, 8, 64, 8192, False),
    # The sampler's cost with a vocabulary as large as Qwen2.5's; too small for anything else.
    'vocab150k': Shape('llama', 1, 64, 2, 1, 32, 128, False, 151_936),
}
QUANTIZATIONS: Final = {
    'Q4_0': (gguf.GGMLQuantizationType.Q4_0, gguf.LlamaFileType.MOSTLY_Q4_0),
    'Q8_0': (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}
NAMES: Final = tuple(f'{shape}-{kind}' for shape in SHAPES for kind in QUANTIZATIONS)

N_CTX_TRAIN: Final = 32_768
POOL_BYTES: Final = 2**24 + 1
"""Odd, so that repeated bytes meet the blocks at other places."""


def random_model(name: str, tokenizer: Path, folder: Path, say: Say = print) -> Path:
    """
    Return the GGUF of that name in ``folder``; written the first time, which takes seconds.

    :param name: one of ``NAMES``
    :param tokenizer: the GGUF file whose vocabulary and chat template it gets
    :param folder: made if it is not there
    :raises ConfigError: if there is no such model
    """
    shape_name, _, kind = name.rpartition('-')
    if shape_name not in SHAPES or kind not in QUANTIZATIONS:
        raise ConfigError(f'random model {name!r} is not among {", ".join(NAMES)}; choose one')
    path = folder / f'random-{name}-{tokenizer.stem}.gguf'
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f'.part{os.getpid()}')
        try:
            _write(part, f'random {name}', SHAPES[shape_name], kind, tokenizer, say)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    return path


def _write(
    path: Path, name: str, shape: Shape, kind: str, tokenizer: Path, say: Say,
) -> None:
    """Write header and vocabulary, then the tensors one by one; none is kept in memory."""
    writer = gguf.GGUFWriter(path, shape.arch)
    try:
        n_vocab = add_vocabulary(writer, gguf.GGUFReader(tokenizer), shape.n_vocab)
        _add_sizes(writer, name, shape, kind, n_vocab)
        tensors = list(_tensors(shape, QUANTIZATIONS[kind][0], n_vocab))
        for tensor_name, sizes, tensor_type in tensors:
            writer.add_tensor_info(
                tensor_name, _byte_sizes(sizes, tensor_type),
                np.dtype(np.float32 if tensor_type == _F32 else np.uint8),
                _num_bytes(sizes, tensor_type), raw_dtype=tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        total = sum(_num_bytes(sizes, kind) for _, sizes, kind in tensors)
        # The same bytes over and over: what is multiplied does not change how long it takes.
        pool = np.frombuffer(np.random.Generator(np.random.SFC64(1)).bytes(POOL_BYTES), np.uint8)
        done, told = 0, 0
        for tensor_name, sizes, tensor_type in tensors:
            data = _values(pool, tensor_name, sizes, tensor_type)
            writer.write_tensor_data(data)
            done += data.nbytes
            if done * 4 // total > told:
                told = done * 4 // total
                say(f'{name}: {done / 2**20:.0f} of {total / 2**20:.0f} MiB')
    finally:
        writer.close()


_F32: Final = gguf.GGMLQuantizationType.F32
_Tensor = tuple[str, tuple[int, ...], gguf.GGMLQuantizationType]


def _tensors(shape: Shape, kind: gguf.GGMLQuantizationType, n_vocab: int) -> Iterator[_Tensor]:
    """Yield name, sizes (rows, columns) and type; the output matrix is the embedding."""
    n_embd, n_q, n_kv = shape.n_embd, shape.n_head * shape.head_dim, (
        shape.n_head_kv * shape.head_dim)
    # As llama-quantize does it for narrow models: the output matrix stays at 8 bits.
    yield 'token_embd.weight', (n_vocab, n_embd), gguf.GGMLQuantizationType.Q8_0
    for layer in range(shape.n_layer):
        block = f'blk.{layer}.'
        for part, rows in (('q', n_q), ('k', n_kv), ('v', n_kv)):
            yield f'{block}attn_{part}.weight', (rows, n_embd), kind
            if shape.has_bias:
                yield f'{block}attn_{part}.bias', (rows,), _F32
        yield f'{block}attn_output.weight', (n_embd, n_q), kind
        yield f'{block}ffn_gate.weight', (shape.n_ff, n_embd), kind
        yield f'{block}ffn_up.weight', (shape.n_ff, n_embd), kind
        yield f'{block}ffn_down.weight', (n_embd, shape.n_ff), kind
        yield f'{block}attn_norm.weight', (n_embd,), _F32
        yield f'{block}ffn_norm.weight', (n_embd,), _F32
    yield 'output_norm.weight', (n_embd,), _F32


def _byte_sizes(sizes: tuple[int, ...], kind: gguf.GGMLQuantizationType) -> tuple[int, ...]:
    """Return the shape in bytes of a quantised tensor; that of an F32 one as it is."""
    if kind == _F32:
        return sizes
    block, num_bytes = gguf.GGML_QUANT_SIZES[kind]
    return (*sizes[:-1], sizes[-1] // block * num_bytes)


def _num_bytes(sizes: tuple[int, ...], kind: gguf.GGMLQuantizationType) -> int:
    return int(np.prod(_byte_sizes(sizes, kind))) * (4 if kind == _F32 else 1)


def _values(
    pool: NDArray[np.uint8], name: str, sizes: tuple[int, ...],
    kind: gguf.GGMLQuantizationType,
) -> NDArray[Any]:
    """
    Return one tensor: norms of ones, biases of zeros, matrices of random bytes.

    The scale of a block makes the row's products as large as a trained model's: a standard
    deviation of 1 / sqrt(columns). Random bytes are uniform: 4.6 steps in Q4_0, 73.9 in Q8_0.
    """
    if kind == _F32:
        return np.full(sizes, 1.0 if 'norm' in name else 0.0, np.float32)
    spread = 4.6 if kind == gguf.GGMLQuantizationType.Q4_0 else 73.9
    num_bytes = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = np.resize(pool, _num_bytes(sizes, kind)).reshape(-1, num_bytes)
    scale = np.array([1 / (spread * np.sqrt(sizes[-1]))], np.float16).view(np.uint8)
    blocks[:, :2] = scale
    return blocks.reshape(_byte_sizes(sizes, kind))


def _add_sizes(
    writer: gguf.GGUFWriter, name: str, shape: Shape, kind: str, n_vocab: int,
) -> None:
    writer.add_name(name)
    writer.add_file_type(QUANTIZATIONS[kind][1])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_block_count(shape.n_layer)
    writer.add_context_length(N_CTX_TRAIN)
    writer.add_embedding_length(shape.n_embd)
    writer.add_feed_forward_length(shape.n_ff)
    writer.add_head_count(shape.n_head)
    writer.add_head_count_kv(shape.n_head_kv)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(n_vocab)


def _more_tokens(tokens: list[str], num_more: int) -> list[str]:
    """Return that many texts which are no tokens yet: pairs of tokens that are."""
    known, more = set(tokens), list[str]()
    # Behind the control tokens and the single bytes.
    pairs = (left + right for left in tokens[300:] for right in tokens[300:600])
    while len(more) < num_more:
        if (text := next(pairs)) not in known:
            known.add(text)
            more.append(text)
    return more


def add_vocabulary(writer: gguf.GGUFWriter, source: gguf.GGUFReader, n_vocab: int) -> int:
    """Copy the tokenizer, longer if wanted; returns how many tokens it has."""
    for key, field in source.fields.items():
        if not key.startswith('tokenizer.'):
            continue
        values = field.contents()
        if key == 'tokenizer.ggml.tokens':
            values += _more_tokens(values, n_vocab - len(values))
            n_vocab = len(values)
        elif key == 'tokenizer.ggml.token_type':
            values += [int(gguf.TokenType.NORMAL)] * (n_vocab - len(values))
        writer.add_key_value(key, values, field.types[0], *field.types[1:2])
    return n_vocab
