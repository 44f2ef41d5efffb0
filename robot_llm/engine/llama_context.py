"""The parameters of a llama.cpp context, and the context that they make."""

import llama_cpp.llama_cpp as llama

from robot_llm.core.memory_plan import MemoryPlan, plan_memory
from robot_llm.engine.backend import ModelInfo
from robot_llm.engine.llama_log import LLAMA_LOG
from robot_llm.engine.memory import available_memory
from robot_llm.errors import ConfigError, OutOfMemoryError
from robot_llm.settings import ModelSettings

GGML_TYPES = {
    'f32': llama.GGML_TYPE_F32, 'f16': llama.GGML_TYPE_F16,
    'q8_0': llama.GGML_TYPE_Q8_0, 'q4_0': llama.GGML_TYPE_Q4_0,
}
FLASH_ATTN = {'auto': llama.LLAMA_FLASH_ATTN_TYPE_AUTO,
              'on': llama.LLAMA_FLASH_ATTN_TYPE_ENABLED,
              'off': llama.LLAMA_FLASH_ATTN_TYPE_DISABLED}


def plan_context(info: ModelInfo, settings: ModelSettings, num_reserved_tokens: int) -> MemoryPlan:
    """
    Plan the memory of a loaded model's context, and refuse one that cannot work.

    :param num_reserved_tokens: room beside ``model.n_ctx``, for pinned prefixes and branches
    :raises ConfigError: if ``n_ctx`` is more than the model was trained for
    :raises OutOfMemoryError: if it does not fit, with the table of what is needed
    """
    if settings.n_ctx > info.n_ctx_train:
        raise ConfigError(
            f'model.n_ctx={settings.n_ctx} exceeds the {info.n_ctx_train} tokens that '
            f'{info.name} was trained for; lower it')
    assert info.shape is not None, 'llama.cpp loads from a file, and a file has a header'
    plan = plan_memory(info.shape, settings, available=available_memory(),
                       num_reserved_tokens=num_reserved_tokens)
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
    :raises OutOfMemoryError: with llama.cpp's reason
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
        raise OutOfMemoryError(
            f'model.n_ctx={settings.n_ctx}: '
            f'{LLAMA_LOG.reason("llama.cpp could not make a context")}; lower model.n_ctx or '
            'model.n_ubatch')
    return context
