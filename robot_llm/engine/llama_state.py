"""One sequence of a llama.cpp context as bytes, and what such bytes depend on."""

import ctypes
import json
from pathlib import Path

import llama_cpp
import llama_cpp.llama_cpp as llama

from robot_llm.engine.backend import ModelInfo
from robot_llm.settings import ModelSettings


def state_key(path: Path, info: ModelInfo, settings: ModelSettings) -> str:
    """
    Name everything that the bytes of a sequence depend on, besides its tokens.

    The model file counts by content, place and time of change: the fingerprint alone would not
    see other weights in the middle of the file.
    """
    stat = path.stat()
    return json.dumps([
        llama_cpp.__version__, llama.llama_print_system_info().decode('utf-8', 'replace'),
        info.device, str(path.resolve()), stat.st_size, stat.st_mtime_ns, info.fingerprint,
        settings.type_k, settings.type_v, settings.flash_attn])


def save_sequence(context: llama.llama_context_p, seq_id: int) -> bytes:
    """Return the keys, values and recurrent states of a sequence."""
    size = llama.llama_state_seq_get_size(context, seq_id)
    buffer = (ctypes.c_uint8 * size)()
    return bytes(memoryview(buffer)[:llama.llama_state_seq_get_data(
        context, buffer, size, seq_id)])


def restore_sequence(context: llama.llama_context_p, seq_id: int, state: bytes) -> bool:
    """
    Put saved bytes into an empty sequence.

    :returns: False if llama.cpp refuses them; the sequence is empty then
    """
    buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
    if llama.llama_state_seq_set_data(context, buffer, len(state), seq_id) == len(state):
        return True
    llama.llama_memory_seq_rm(llama.llama_get_memory(context), seq_id, -1, -1)
    return False
