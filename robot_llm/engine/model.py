"""A GGUF file → a loaded model; on which device it really runs."""

from collections.abc import Callable
import ctypes
import hashlib
import os
from pathlib import Path
import re

import llama_cpp.llama_cpp as llama

from robot_llm.core.memory_plan import BYTES_PER_VALUE
from robot_llm.core.model_shape import ModelShape
from robot_llm.engine.backend import ModelInfo
from robot_llm.engine.features import num_features
from robot_llm.engine.llama_log import LLAMA_LOG
from robot_llm.errors import ModelLoadError
from robot_llm.settings import ModelSettings

LOAD_MODES = {
    (False, False): llama.LLAMA_LOAD_MODE_NONE, (True, False): llama.LLAMA_LOAD_MODE_MMAP,
    (False, True): llama.LLAMA_LOAD_MODE_MLOCK, (True, True): llama.LLAMA_LOAD_MODE_MMAP_MLOCK,
}
"""By (use_mmap, use_mlock)."""

OFFLOADED = re.compile(r'offloaded (\d+)/(\d+) layers to GPU')

FINGERPRINT_BYTES = 2**20
"""Read at each end of the file: metadata and vocabulary in front, weights behind."""

ShouldStop = Callable[[], bool]


def check_gguf(path: Path) -> None:
    """
    Refuse what is no GGUF file before llama.cpp sees it.

    :raises ModelLoadError: if the file is missing, unreadable, or does not begin like a GGUF
    """
    try:
        with path.open('rb') as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelLoadError(
            f'{path}: {error.strerror}; set model.path to a readable GGUF file') from None
    if magic != b'GGUF':
        raise ModelLoadError(
            f'{path} begins with {magic!r} instead of GGUF; it is no GGUF file, or the '
            'download is incomplete (a Git LFS pointer, an HTML page)')


def load_model(
    path: Path, settings: ModelSettings, *, should_stop: ShouldStop = lambda: False,
) -> llama.llama_model_p:
    """
    Load the weights; the caller frees the model.

    :param should_stop: asked while loading; True gives up, since a shutdown cannot wait for it
    :raises ModelLoadError: with file, llama.cpp's reason and the remedy
    """
    if settings.n_gpu_layers and not llama.llama_supports_gpu_offload():
        raise ModelLoadError(
            f'model.n_gpu_layers={settings.n_gpu_layers}, but this llama-cpp-python was built '
            'without a GPU backend; rebuild it with CMAKE_ARGS="-DGGML_CUDA=on '
            '-DCMAKE_CUDA_ARCHITECTURES=87" (Orin), by scripts/setup or by pip install '
            '--force-reinstall --no-cache-dir --no-deps, or set model.n_gpu_layers to 0')
    params = llama.llama_model_default_params()
    # -1 is "all" for users and for llama.cpp.
    params.n_gpu_layers = settings.n_gpu_layers
    params.load_mode = LOAD_MODES[settings.use_mmap, settings.use_mlock]
    progress = llama.llama_progress_callback(lambda _done, _data: not should_stop())
    params.progress_callback = progress
    model = llama.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        if should_stop():
            raise ModelLoadError(f'{path}: loading was given up, the node is being stopped')
        reason = LLAMA_LOG.reason('llama.cpp gave no reason')
        raise ModelLoadError(
            f'{path}: {reason}; check that the file is complete and that this llama.cpp knows '
            'its architecture')
    if settings.n_gpu_layers and not num_offloaded()[0]:
        llama.llama_model_free(model)
        raise ModelLoadError(
            f'model.n_gpu_layers={settings.n_gpu_layers}, but llama.cpp put no layer on a GPU; '
            f'{LLAMA_LOG.reason("it gave no reason")}; check the driver, or set it to 0')
    return model


def num_offloaded() -> tuple[int, int]:
    """Return how many layers of how many the last load put on a GPU, by llama.cpp's own log."""
    for _, line in reversed(LLAMA_LOG.lines):
        if match := OFFLOADED.search(line):
            return int(match.group(1)), int(match.group(2))
    return 0, 0


def read_info(
    model: llama.llama_model_p, path: Path, settings: ModelSettings, shape: ModelShape,
) -> ModelInfo:
    """
    Read the facts that the rest of the engine needs.

    :param shape: from the file's header

    :raises ModelLoadError: if the file holds no decoder (an embedding or encoder model)
    """
    if not llama.llama_model_has_decoder(model):
        raise ModelLoadError(f'{path}: this model generates no text; use an instruct GGUF')
    vocab = llama.llama_model_get_vocab(model)
    template = llama.llama_model_chat_template(model, None)
    on_gpu, num_layers = num_offloaded()
    return ModelInfo(
        name=metadata(model, 'general.name') or path.stem,
        architecture=shape.architecture,
        quantization=quantization(model),
        device=f'GPU ({on_gpu}/{num_layers} layers)' if on_gpu else 'CPU',
        num_params=llama.llama_model_n_params(model),
        weight_bytes=llama.llama_model_size(model),
        kv_bytes_per_token=shape.kv_bytes_per_token(
            BYTES_PER_VALUE[settings.type_k], BYTES_PER_VALUE[settings.type_v]),
        n_ctx_train=llama.llama_model_n_ctx_train(model),
        n_vocab=llama.llama_vocab_n_tokens(vocab),
        n_swa=llama.llama_model_n_swa(model),
        is_recurrent=bool(llama.llama_model_is_recurrent(model)
                          or llama.llama_model_is_hybrid(model)),
        chat_template=template.decode('utf-8', 'replace') if template else '',
        bos_text=token_text(vocab, llama.llama_vocab_bos(vocab)),
        eos_text=token_text(vocab, llama.llama_vocab_eos(vocab)),
        bos_token=llama.llama_vocab_bos(vocab),
        adds_bos=bool(llama.llama_vocab_get_add_bos(vocab)),
        num_layers=num_layers or llama.llama_model_n_layer(model) + 1,
        num_gpu_layers=on_gpu,
        num_features=num_features(llama.llama_model_n_embd(model)),
        fingerprint=fingerprint(path),
        shape=shape)


def fingerprint(path: Path) -> str:
    """
    Return a hash of the file's size, its first MiB and its last; fast for a file of any size.

    It tells models, quantisations and fine-tunes apart. It is no protection against somebody who
    changes weights in the middle on purpose.
    """
    with path.open('rb') as file:
        size = file.seek(0, os.SEEK_END)
        digest = hashlib.sha256(str(size).encode())
        for start in (0, max(size - FINGERPRINT_BYTES, 0)):
            file.seek(start)
            digest.update(file.read(FINGERPRINT_BYTES))
    return digest.hexdigest()


def metadata(model: llama.llama_model_p, key: str) -> str:
    """Return one value of the file's metadata as text; '' if it has none."""
    buffer = ctypes.create_string_buffer(1024)
    size = llama.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
    return buffer.value.decode('utf-8', 'replace') if size >= 0 else ''


def quantization(model: llama.llama_model_p) -> str:
    """Return llama.cpp's name of the file type, such as ``Q4_K - Medium``."""
    buffer = ctypes.create_string_buffer(256)
    llama.llama_model_desc(model, buffer, len(buffer))
    # The description is "<architecture> <size> <file type>"; the type may hold spaces.
    return buffer.value.decode('utf-8', 'replace').split(' ', 2)[-1]


def token_text(vocab: llama.llama_vocab_p, token_id: int) -> str:
    """Return how a token is written in templates; '' for "the vocabulary has none"."""
    if token_id < 0:
        return ''
    text = llama.llama_vocab_get_text(vocab, token_id)
    return text.decode('utf-8', 'replace') if text else ''
