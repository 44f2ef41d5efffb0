"""What the model computed is made of numbers, or the engine has failed."""

import numpy as np
from numpy.typing import NDArray

from robot_llm.errors import DecodeError


def finite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """
    Return a row of logits or a hidden state as it is.

    One pass over the row: 4 µs of 49,152 entries. Without it llama.cpp's sampler ends the process,
    an argmax says token 0, and a grammar makes valid JSON of that.

    :param values: any shape
    :raises DecodeError: if the largest is NaN, which one NaN makes it, or infinite
    """
    if values.size and not np.isfinite(values.max()):
        raise DecodeError(
            'the model computed numbers that are none (NaN or infinite); check the model file, or '
            "try model.flash_attn='off', model.type_k and model.type_v as f16, or "
            'model.n_gpu_layers=0')
    return values
