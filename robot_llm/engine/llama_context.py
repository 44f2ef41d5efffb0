"""The parameters of a llama.cpp context, and the context that they make."""

import re
from typing import Final

import llama_cpp.llama_cpp as llama

from robot_llm.core.memory_plan import MemoryPlan, plan_memory
from robot_llm.core.model_shape import ModelShape
from robot_llm.engine.backend import ModelInfo
from robot_llm.engine.llama_log import LLAMA_LOG
from robot_llm.engine.memory import available_memory
from robot_llm.errors import ConfigError, ModelLoadError, OutOfMemoryError
from robot_llm.settings import ModelSettings

GGML_TYPES = {
    'f32': llama.GGML_TYPE_F32, 'f16': llama.GGML_TYPE_F16,
    'q8_0': llama.GGML_TYPE_Q8_0, 'q4_0': llama.GGML_TYPE_Q4_0,
}
FLASH_ATTN = {'auto': llama.LLAMA_FLASH_ATTN_TYPE_AUTO,
              'on': llama.LLAMA_FLASH_ATTN_TYPE_ENABLED,
              'off': llama.LLAMA_FLASH_ATTN_TYPE_DISABLED}
BLOCK: Final = 32
"""How many values of a head q8_0 and q4_0 store together (``QK8_0``, ``QK4_0``)."""
NO_MEMORY: Final = re.compile('alloc|out of memory', re.IGNORECASE)
"""In llama.cpp's reason, on every device: ``failed to allocate buffer for kv cache``."""


def check_cache_types(shape: ModelShape, settings: ModelSettings) -> None:
    """
    Refuse a quantised KV cache whose blocks do not divide a head, before anything is loaded.

    llama.cpp refuses it once the weights are there, and without flash attention not even then:
    its logits are wrong by several units.

    :raises ConfigError: with the parameter, the size of the head and the remedy
    """
    if not any(layer.n_head_kv for layer in shape.layers):
        return
    problems = [
        f'model.{name}={type_!r} stores blocks of {BLOCK} values, and a head of {shape.name} has '
        f'{length}; set model.{name} to f16'
        for name, type_, length in (('type_k', settings.type_k, shape.key_length),
                                    ('type_v', settings.type_v, shape.value_length))
        if type_.startswith('q') and length % BLOCK]
    if problems:
        raise ConfigError(*problems)


def plan_context(
    info: ModelInfo, settings: ModelSettings, num_reserved_tokens: int, *,
    replaces: MemoryPlan | None = None,
) -> MemoryPlan:
    """
    Plan the memory of a loaded model's context, and refuse one that cannot work.

    :param num_reserved_tokens: room beside ``model.n_ctx``, for pinned prefixes and branches
    :param replaces: plan of the context that is freed for it
    :raises ConfigError: if ``n_ctx`` is more than the model was trained for
    :raises OutOfMemoryError: if it does not fit, with the table of what is needed
    """
    if settings.n_ctx > info.n_ctx_train:
        raise ConfigError(
            f'model.n_ctx={settings.n_ctx} exceeds the {info.n_ctx_train} tokens that '
            f'{info.name} was trained for; lower it')
    assert info.shape is not None, 'llama.cpp loads from a file, and a file has a header'
    available = available_memory()
    if replaces is not None:
        available = available.after_freeing(replaces)
    plan = plan_memory(
        info.shape, settings, available=available, num_reserved_tokens=num_reserved_tokens)
    if shortage := plan.context.shortage:
        raise OutOfMemoryError(
            f'a context of {settings.n_ctx + num_reserved_tokens} tokens {shortage}')
    return plan


def open_llama_context(
    model: llama.llama_model_p, settings: ModelSettings, *, num_tokens: int,
    num_sequences: int, n_threads: int,
) -> llama.llama_context_p:
    """
    Allocate KV cache and compute buffers; the caller frees the context.

    :param num_tokens: length of the cache, all sequences together
    :raises OutOfMemoryError: if that is llama.cpp's reason
    :raises ModelLoadError: with any other reason
    """
    params = llama.llama_context_default_params()
    params.n_ctx = num_tokens
    params.n_batch = settings.n_batch
    params.n_ubatch = min(settings.n_ubatch, settings.n_batch)
    params.n_seq_max = num_sequences
    params.kv_unified = True  # sequences share cells, so that a copy costs nothing
    params.n_threads = params.n_threads_batch = n_threads
    params.flash_attn_type = FLASH_ATTN[settings.flash_attn]
    params.type_k = GGML_TYPES[settings.type_k]
    params.type_v = GGML_TYPES[settings.type_v]
    context = llama.llama_init_from_model(model, params)
    if not context:
        reason = (f'no context of {num_tokens} tokens and {num_sequences} sequences: '
                  f'{LLAMA_LOG.reason("llama.cpp gave no reason")}')
        if NO_MEMORY.search(reason):
            raise OutOfMemoryError(f'{reason}; lower model.n_ctx or model.n_ubatch')
        raise ModelLoadError(reason)
    return context
