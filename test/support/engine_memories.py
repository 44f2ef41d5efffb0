"""Tiny models with random weights whose memory is not one of full attention alone."""

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
from robot_llm.bench.random_model import add_vocabulary

N_EMBD, N_FF, N_HEAD, N_LAYER, N_CTX = 64, 128, 4, 2, 2048
WINDOW = 16
"""Of the sliding attention [tokens]: shorter than any prompt."""
D_INNER, D_STATE, D_CONV, DT_RANK = 128, 16, 4, 4

Sizes = tuple[str, tuple[int, ...]]


def _feed_forward(block: str) -> Iterator[Sizes]:
    yield f'{block}ffn_norm.weight', (N_EMBD,)
    yield f'{block}ffn_gate.weight', (N_FF, N_EMBD)
    yield f'{block}ffn_up.weight', (N_FF, N_EMBD)
    yield f'{block}ffn_down.weight', (N_EMBD, N_FF)


def _attention(block: str) -> Iterator[Sizes]:
    for part in 'qkv':
        yield f'{block}attn_{part}.weight', (N_EMBD, N_EMBD)
    yield f'{block}attn_output.weight', (N_EMBD, N_EMBD)


def _recurrent(block: str) -> Iterator[Sizes]:
    """Mamba: a state of fixed size instead of keys and values."""
    yield f'{block}ssm_in.weight', (2 * D_INNER, N_EMBD)
    yield f'{block}ssm_conv1d.weight', (D_INNER, D_CONV)
    yield f'{block}ssm_conv1d.bias', (D_INNER,)
    yield f'{block}ssm_x.weight', (DT_RANK + 2 * D_STATE, D_INNER)
    yield f'{block}ssm_dt.weight', (D_INNER, DT_RANK)
    yield f'{block}ssm_dt.bias', (D_INNER,)
    yield f'{block}ssm_a', (D_INNER, D_STATE)
    yield f'{block}ssm_d', (D_INNER,)
    yield f'{block}ssm_out.weight', (N_EMBD, D_INNER)


def _window(block: str) -> Iterator[Sizes]:
    """Gemma 2: every second layer sees the last tokens alone."""
    yield from _attention(block)
    yield from _feed_forward(block)
    yield f'{block}post_attention_norm.weight', (N_EMBD,)
    yield f'{block}post_ffw_norm.weight', (N_EMBD,)


def _hybrid(block: str) -> Iterator[Sizes]:
    """LFM2: a short convolution with a state in the first layer, attention in the second."""
    yield from _feed_forward(block)
    if block == 'blk.0.':
        yield f'{block}shortconv.conv.weight', (N_EMBD, 3)
        yield f'{block}shortconv.in_proj.weight', (3 * N_EMBD, N_EMBD)
        yield f'{block}shortconv.out_proj.weight', (N_EMBD, N_EMBD)
    else:
        yield from _attention(block)
        yield f'{block}attn_q_norm.weight', (N_EMBD // N_HEAD,)
        yield f'{block}attn_k_norm.weight', (N_EMBD // N_HEAD,)


LAYERS = {'mamba': _recurrent, 'gemma2': _window, 'lfm2': _hybrid}
"""By llama.cpp's name of the architecture."""


def write_memory_model(architecture: str, tokenizer: Path, folder: Path) -> Path:
    """
    Write a model of that architecture, with the vocabulary of another one.

    :param architecture: a key of ``LAYERS``
    :param tokenizer: the GGUF file whose vocabulary and chat template it gets
    """
    path = folder / f'{architecture}.gguf'
    writer = gguf.GGUFWriter(path, architecture)
    n_vocab = add_vocabulary(writer, gguf.GGUFReader(tokenizer), 0)
    writer.add_name(architecture)
    writer.add_block_count(N_LAYER)
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(0 if architecture == 'mamba' else N_FF)
    writer.add_head_count(0 if architecture == 'mamba' else N_HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(n_vocab)
    if architecture == 'mamba':
        writer.add_ssm_conv_kernel(D_CONV)
        writer.add_ssm_inner_size(D_INNER)
        writer.add_ssm_state_size(D_STATE)
        writer.add_ssm_time_step_rank(DT_RANK)
    else:
        writer.add_head_count_kv([0, N_HEAD] if architecture == 'lfm2' else N_HEAD)
        writer.add_key_length(N_EMBD // N_HEAD)
        writer.add_value_length(N_EMBD // N_HEAD)
    if architecture == 'gemma2':
        writer.add_sliding_window(WINDOW)
    if architecture == 'lfm2':
        writer.add_shortconv_l_cache(3)
    random = np.random.default_rng(1)
    last = 'token_embd_norm.weight' if architecture == 'lfm2' else 'output_norm.weight'
    sizes = [('token_embd.weight', (n_vocab, N_EMBD)), (last, (N_EMBD,))]
    for layer in range(N_LAYER):
        sizes.append((f'blk.{layer}.attn_norm.weight', (N_EMBD,)))
        sizes += LAYERS[architecture](f'blk.{layer}.')
    for name, shape in sizes:
        values = random.normal(size=shape).astype(np.float32)
        if 'norm' in name:
            values = np.ones(shape, np.float32)
        elif name.endswith('ssm_a'):
            values = -np.abs(values)
        elif len(shape) > 1:
            values *= 3 / np.sqrt(shape[-1])
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
