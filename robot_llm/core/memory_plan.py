"""What a model needs in memory, before it is loaded, beside what there is."""

from dataclasses import dataclass, replace
from typing import Final

from robot_llm.core.model_shape import ModelShape
from robot_llm.settings import ModelSettings

BYTES_PER_VALUE: Final = {'f32': 4.0, 'f16': 2.0, 'q8_0': 34 / 32, 'q4_0': 18 / 32}
"""Of a KV cache type; the quantised ones store blocks of 32 with a two-byte scale (ggml)."""

CELLS: Final = 256
"""llama.cpp makes the KV cache a multiple of this many tokens."""


@dataclass(frozen=True, slots=True)
class Available:
    """What can be taken [bytes]; 0 is unknown, and then nothing is refused."""

    host: int = 0
    gpu: int = 0
    is_unified: bool = False
    """The GPU draws from the host's memory (Jetson), so both columns share ``host``."""

    def after_freeing(self, held: 'MemoryPlan') -> 'Available':
        """Return what there will be once what was planned is given back."""
        return replace(self, host=self.host and self.host + held.host,
                       gpu=self.gpu and self.gpu + held.gpu)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the plan [bytes]."""

    what: str
    host: int
    gpu: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """
    Weights, KV cache and compute buffers, on the host and on the GPU, beside what is available.

    Weights and KV cache are exact for a model with one kind of attention and an upper bound for
    others; the compute buffers are an estimate.
    """

    rows: tuple[Row, ...]
    available: Available

    @property
    def host(self) -> int:
        """All that is needed on the host; with unified memory that is everything [bytes]."""
        unified = sum(row.gpu for row in self.rows) if self.available.is_unified else 0
        return sum(row.host for row in self.rows) + unified

    @property
    def gpu(self) -> int:
        """All that is needed in the GPU's own memory [bytes]."""
        return 0 if self.available.is_unified else sum(row.gpu for row in self.rows)

    @property
    def context(self) -> 'MemoryPlan':
        """What is still to be taken once the weights are loaded."""
        return MemoryPlan(self.rows[1:], self.available)

    @property
    def is_too_much(self) -> bool:
        """More is needed than there is, on the host or on the GPU."""
        available = self.available
        return (0 < available.host < self.host) or (0 < available.gpu < self.gpu)

    @property
    def shortage(self) -> str:
        """One sentence with the numbers and the remedies, and the table; '' if it fits."""
        if not self.is_too_much:
            return ''
        available = self.available
        on_host = 0 < available.host < self.host
        where = 'of memory' if on_host else 'of GPU memory'
        need, have = ((self.host, available.host) if on_host else (self.gpu, available.gpu))
        fewer = '' if on_host else 'lower model.n_gpu_layers, '
        return (
            f'needs {_mib(need)} MiB {where} and {_mib(have)} MiB are available; {fewer}lower '
            'model.n_ctx, set model.type_k and model.type_v to q8_0, lower model.n_ubatch, or '
            f'take a smaller model.path\n{self.table()}')

    def table(self) -> str:
        """Return the plan as lines of text, MiB, the GPU's column only where it is used."""
        available = self.available
        has_gpu = any(row.gpu for row in self.rows)
        total = Row('all', sum(row.host for row in self.rows), sum(row.gpu for row in self.rows))
        there = Row('available', available.host, available.gpu)
        lines = ['MiB'.ljust(16) + 'host'.rjust(10) + ('GPU'.rjust(10) if has_gpu else '')]
        for row in (*self.rows, total, there):
            is_limit = row is there
            gpu = ('(shared)' if is_limit and available.is_unified
                   else _mib(row.gpu, is_limit=is_limit))
            lines.append(
                row.what.ljust(16) + _mib(row.host, is_limit=is_limit).rjust(10)
                + (gpu.rjust(10) if has_gpu else ''))
        return '\n'.join(lines)


def _mib(num_bytes: int, *, is_limit: bool = False) -> str:
    return 'unknown' if is_limit and not num_bytes else f'{num_bytes / 2**20:.0f}'


def plan_memory(
    shape: ModelShape, settings: ModelSettings, *, available: Available,
    num_reserved_tokens: int = 0,
) -> MemoryPlan:
    """
    Plan what loading a model takes; pure, from its header and the parameters ``model.*``.

    llama.cpp puts the last layers on the GPU and counts the output matrix as one more; the input
    table stays on the host. Where a table is tied, the GPU gets a copy of it.

    :param shape: from the file's header, see ``engine.gguf_header.read_shape``
    :param available: see ``engine.memory.available_memory``
    :param num_reserved_tokens: room beside ``model.n_ctx``, for pinned prefixes and branches;
        unknown before the prompts are tokenised

    Source: compute buffers fitted to what llama.cpp reserved for SmolLM2-135M with n_ubatch 64 to
    2048, n_ctx 4096 to 32768, with and without flash attention; 2 % below to 9 % above.
    """
    num_layers = len(shape.layers)
    wanted = settings.n_gpu_layers if settings.n_gpu_layers >= 0 else num_layers + 1
    on_gpu = shape.layers[max(num_layers + 1 - wanted, 0):] if wanted else ()
    has_output = wanted > 0
    layer_bytes = sum(layer.dense.num_bytes + layer.experts.num_bytes for layer in on_gpu)
    gpu_weights = layer_bytes + (shape.output.num_bytes if has_output else 0)
    host_weights = shape.whole.num_bytes - layer_bytes - (
        shape.output.num_bytes if has_output and not shape.is_tied else 0)
    cells = -(-(settings.n_ctx + num_reserved_tokens) // CELLS) * CELLS
    per_token = shape.kv_bytes_per_token(
        BYTES_PER_VALUE[settings.type_k], BYTES_PER_VALUE[settings.type_v])
    heads = [sum(layer.n_head_kv for layer in layers) for layers in (shape.layers, on_gpu)]
    kv_bytes = int(cells * per_token)
    gpu_kv = kv_bytes * heads[1] // max(heads[0], 1)
    compute = compute_bytes(shape, settings, cells)
    logits = shape.n_vocab * 4
    return MemoryPlan((
        Row('weights', host_weights, gpu_weights),
        Row('KV cache', kv_bytes - gpu_kv, gpu_kv),
        Row('compute buffers', logits if has_output else compute + logits,
            compute if has_output else 0),
    ), available)


def compute_bytes(shape: ModelShape, settings: ModelSettings, num_cells: int) -> int:
    """
    Estimate what llama.cpp reserves to compute one ubatch [bytes].

    The largest of two moments counts, since buffers are used again: the logits of all its tokens,
    or one layer with the attention mask, and without flash attention its whole score matrix.

    :param num_cells: length of the KV cache [tokens]
    """
    rows = min(settings.n_ubatch, settings.n_batch)
    mask = num_cells * 4
    scores = shape.n_head * num_cells * 4 if settings.flash_attn == 'off' else mask // 2
    experts = max(shape.n_expert_used, 1)
    layer = mask + scores + 4 * (2 * experts * shape.n_ff + 2 * shape.n_embd)
    return rows * (max(4 * shape.n_vocab, layer) + 8 * shape.n_embd)
