"""The facts of a GGUF header that a model's memory and speed depend on."""

from collections.abc import Mapping
from dataclasses import dataclass
import re
from typing import Any, Final, NamedTuple

LAYER: Final = re.compile(r'blk\.(\d+)\.(.+)')
KEEPS_KEYS: Final = ('attn_k.weight', 'attn_kv_a_mqa.weight')
"""Tensors of a layer that keeps keys and values, whatever else is in it."""


class Tensor(NamedTuple):
    """How large one tensor is; sums are written the same way."""

    num_params: int
    num_bytes: int


NOTHING: Final = Tensor(0, 0)


@dataclass(frozen=True, slots=True)
class Layer:
    """One block of the model."""

    dense: Tensor
    """What every token passes through."""
    experts: Tensor
    """All experts of a mixture together; nothing in a dense layer."""
    n_head_kv: int
    """Key and value heads in the cache; 0 where the layer keeps none."""
    window: int = 0
    """How many tokens it looks back on at most; 0 is all of them."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What is multiplied, read and kept for one token; see ``shape_from_header``."""

    name: str
    architecture: str
    layers: tuple[Layer, ...]
    embedding: Tensor
    """The input table; one row of it is read for a token."""
    output: Tensor
    """The output matrix; the input table again where ``is_tied``."""
    rest: Tensor
    """The last norm and whatever else belongs to no layer."""
    is_tied: bool
    n_embd: int
    n_ff: int
    n_head: int
    key_length: int
    value_length: int
    n_vocab: int
    n_ctx_train: int
    n_expert: int
    n_expert_used: int

    @property
    def whole(self) -> Tensor:
        """Everything in the file; a tied table counts once."""
        parts = [part for layer in self.layers for part in (layer.dense, layer.experts)]
        parts += [self.rest, self.embedding, *([] if self.is_tied else [self.output])]
        return _sum(parts)

    @property
    def active_layers(self) -> Tensor:
        """What one token is multiplied with in the layers: of a mixture its active experts."""
        share = self.n_expert_used / self.n_expert if self.n_expert else 1.0
        return Tensor(
            sum(layer.dense.num_params + round(share * layer.experts.num_params)
                for layer in self.layers),
            sum(layer.dense.num_bytes + round(share * layer.experts.num_bytes)
                for layer in self.layers))

    @property
    def read_per_token(self) -> int:
        """Weights that a decode at batch 1 reads: active layers and output matrix [bytes]."""
        return self.active_layers.num_bytes + self.output.num_bytes

    def kv_bytes_per_token(self, bytes_k: float, bytes_v: float) -> float:
        """
        Return what one token adds to the KV cache [bytes].

        :param bytes_k: per element of K: 2 for f16, 34/32 for q8_0, 18/32 for q4_0
        :param bytes_v: the same for V
        """
        return sum(layer.n_head_kv for layer in self.layers) * (
            self.key_length * bytes_k + self.value_length * bytes_v)

    def kv_bytes_read(self, num_tokens: float, kv_bytes_per_token: float) -> float:
        """
        Return what a decode reads of the KV cache at least [bytes]: in a window no more than that.

        :param num_tokens: in front of the one that is decoded
        :param kv_bytes_per_token: what ``kv_bytes_per_token`` gives: of all layers, for one token
        """
        num_heads = sum(layer.n_head_kv for layer in self.layers)
        num_read = sum(
            layer.n_head_kv * (min(num_tokens, layer.window) if layer.window else num_tokens)
            for layer in self.layers)
        return kv_bytes_per_token * num_read / num_heads if num_heads else 0.0


def shape_from_header(
    metadata: Mapping[str, Any], tensors: Mapping[str, Tensor],
) -> ModelShape:
    """
    Read the shape out of a GGUF header.

    Traps it looks at: an output matrix may be the input table (tied), and is then multiplied
    although the file holds it once; of a mixture of experts only the active ones are; heads of
    keys and values may differ from layer to layer, and a recurrent layer has none; layers with a
    sliding window read no more than that, and which ones they are the header may not tell.

    :param metadata: the file's values by key; arrays of numbers as lists
    :param tensors: by name
    :raises KeyError: if a value that every decoder has is missing
    """
    architecture = str(metadata['general.architecture'])

    def fact(key: str, default: Any = None) -> Any:
        value = metadata.get(f'{architecture}.{key}', default)
        if value is None:
            raise KeyError(f'{architecture}.{key}')
        return value

    n_layer, n_embd = int(fact('block_count')), int(fact('embedding_length'))
    heads = _per_layer(fact('attention.head_count', 0), n_layer)
    heads_kv = _per_layer(fact('attention.head_count_kv', heads), n_layer)
    windows = _windows(fact('attention.sliding_window', 0),
                       metadata.get(f'{architecture}.attention.sliding_window_pattern'), n_layer)
    head_dim = n_embd // max(*heads, 1)
    embedding = tensors.get('token_embd.weight', NOTHING)
    output = tensors.get('output.weight')
    parts: list[dict[str, Tensor]] = [{} for _ in range(n_layer)]
    rest = []
    for name, tensor in tensors.items():
        if (match := LAYER.fullmatch(name)) and int(match.group(1)) < n_layer:
            parts[int(match.group(1))][match.group(2)] = tensor
        elif name not in ('token_embd.weight', 'output.weight'):
            rest.append(tensor)
    return ModelShape(
        name=str(metadata.get('general.name', '')),
        architecture=architecture,
        layers=tuple(map(_layer, parts, heads_kv, windows)),
        embedding=embedding,
        output=output or embedding,
        rest=_sum(rest),
        is_tied=output is None,
        n_embd=n_embd,
        n_ff=max(_per_layer(fact('feed_forward_length', 0), n_layer), default=0),
        n_head=max(heads, default=0),
        key_length=int(fact('attention.key_length', head_dim)),
        value_length=int(fact('attention.value_length', head_dim)),
        n_vocab=_count(fact('vocab_size', metadata.get('tokenizer.ggml.tokens', 0))),
        n_ctx_train=int(fact('context_length', 0)),
        n_expert=int(fact('expert_count', 0)),
        n_expert_used=int(fact('expert_used_count', 0)))


def _per_layer(value: Any, n_layer: int) -> list[int]:
    return [int(v) for v in value] if isinstance(value, list) else [int(value)] * n_layer


def _windows(window: Any, pattern: Any, n_layer: int) -> list[int]:
    """Return each layer's window; of all layers where the header does not tell which have one."""
    has_window = pattern if isinstance(pattern, list) else [True] * n_layer
    return [int(window) if has else 0 for has in has_window]


def _count(value: Any) -> int:
    return len(value) if isinstance(value, list) else int(value)


def _layer(tensors: Mapping[str, Tensor], n_head_kv: int, window: int) -> Layer:
    experts = [tensor for name, tensor in tensors.items() if '_exps.' in name]
    dense = [tensor for name, tensor in tensors.items() if '_exps.' not in name]
    keeps_keys = any(name in tensors for name in KEEPS_KEYS) or (
        'attn_qkv.weight' in tensors and 'ssm_conv1d.weight' not in tensors)
    return Layer(_sum(dense), _sum(experts), n_head_kv if keeps_keys else 0, window)


def _sum(tensors: list[Tensor]) -> Tensor:
    return Tensor(sum(t.num_params for t in tensors), sum(t.num_bytes for t in tensors))
