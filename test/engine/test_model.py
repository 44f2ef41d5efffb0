"""A good file gives facts; a bad one, or a bad wish, gives a reason and a remedy."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from robot_llm.core.memory_plan import Available
from robot_llm.engine import llama_backend, llama_context, model
from robot_llm.engine.gguf_header import read_shape
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.runtime import Runtime
from robot_llm.errors import (
    ConfigError, DecodeError, EngineError, ErrorCode, ModelLoadError, OutOfMemoryError)
from robot_llm.settings import model_file, Settings

Load = Callable[..., LlamaCppBackend]


@pytest.fixture
def cut_model(model_path: Path, tmp_path: Path) -> Callable[[int], Path]:
    """Return what writes the first bytes of the model to a file."""
    def cut(num_bytes: int) -> Path:
        path = tmp_path / 'cut.gguf'
        with model_path.open('rb') as source:
            path.write_bytes(source.read(num_bytes))
        return path
    return cut


def test_the_facts_are_those_of_the_file(runtime: Runtime, model_path: Path) -> None:
    info = runtime.backend.info
    assert info.architecture == 'llama'
    assert info.device == 'CPU'
    assert info.name and info.quantization and info.chat_template
    assert 0.9 < info.weight_bytes / model_path.stat().st_size <= 1.0
    assert info.num_params > info.n_vocab
    assert info.n_ctx_train >= runtime.backend.n_ctx
    assert info.kv_bytes_per_token > 0
    assert (info.n_swa, info.is_recurrent) == (0, False)


def test_the_facts_of_the_embedded_model(runtime: Runtime, model_path: Path) -> None:
    if not model_path.name.startswith('SmolLM2-135M'):
        pytest.skip(f'{model_path.name} is not the embedded model')
    info = runtime.backend.info
    assert (info.num_params, info.n_ctx_train, info.n_vocab) == (134515008, 8192, 49152)
    # 30 layers, 3 heads of keys and values, 64 wide, two bytes each.
    assert info.kv_bytes_per_token == 30 * 3 * (64 + 64) * 2
    assert (info.bos_text, info.eos_text) == ('<|im_start|>', '<|im_end|>')


@pytest.mark.parametrize('type_v', ['q8_0', 'q4_0'])
def test_a_quantised_cache_needs_less_memory(open_backend: Load, type_v: str) -> None:
    half = open_backend({'model.type_k': type_v, 'model.type_v': type_v})
    full = 30 * 3 * (64 + 64) * 2
    assert half.info.kv_bytes_per_token < 0.6 * full
    half.close()


def test_no_model_is_named(open_backend: Load) -> None:
    with pytest.raises(ConfigError, match=r"model.path='' names no model; give a GGUF file"):
        open_backend({'model.path': ''})


@pytest.mark.parametrize('name', ['missing.gguf', ''])
def test_a_missing_file_and_a_directory_are_no_model(
    open_backend: Load, tmp_path: Path, name: str,
) -> None:
    path = tmp_path / name
    with pytest.raises(ConfigError, match=f"model.path='{path}' is not a file; check the path"):
        open_backend({'model.path': str(path)})


@pytest.mark.parametrize('content', [
    b'', b'GGU', b'version https://git-lfs.github.com/spec/v1\n', b'<html>', b'\x00' * 4096])
def test_a_file_that_is_no_gguf_is_refused_before_llama_cpp_sees_it(
    open_backend: Load, tmp_path: Path, content: bytes,
) -> None:
    path = tmp_path / 'model.gguf'
    path.write_bytes(content)
    with pytest.raises(ModelLoadError, match='instead of GGUF; it is no GGUF file') as raised:
        open_backend({'model.path': str(path)})
    assert str(path) in str(raised.value)
    assert raised.value.code is ErrorCode.MODEL_NOT_LOADED


@pytest.mark.parametrize('num_bytes', [4, 8, 24, 1000, 100_000, 1_000_000, 40_000_000, -1])
def test_a_truncated_file_is_refused_with_the_file_and_what_to_check(
    open_backend: Load, cut_model: Callable[[int], Path], model_path: Path, num_bytes: int,
) -> None:
    length = num_bytes if num_bytes > 0 else model_path.stat().st_size + num_bytes
    path = cut_model(length)
    with pytest.raises(ModelLoadError, match='check that the file is complete') as raised:
        open_backend({'model.path': str(path)})
    assert str(path) in str(raised.value)
    assert 'gave no reason' not in str(raised.value)


def test_a_file_that_cannot_be_read_says_why(
    open_backend: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / 'model.gguf'
    path.write_bytes(b'GGUF')

    def refuse(*_: object) -> None:
        raise PermissionError(13, 'Permission denied')

    monkeypatch.setattr(Path, 'open', refuse)
    with pytest.raises(ModelLoadError, match='Permission denied; set model.path to a readable'):
        open_backend({'model.path': str(path)})


def test_loading_can_be_given_up(make_settings: Callable[..., Settings]) -> None:
    with pytest.raises(ModelLoadError, match='loading was given up, the node is being stopped'):
        LlamaCppBackend(make_settings(), num_cores=1, should_stop=lambda: True)


def test_a_context_beyond_the_training_is_refused_with_both_numbers(open_backend: Load) -> None:
    backend = open_backend({'model.n_ctx': 9000})
    with pytest.raises(ConfigError, match='model.n_ctx=9000 exceeds the 8192 tokens that'):
        backend.open_context(9000, num_reserved_tokens=0, num_sequences=1)
    backend.close()


def test_a_gpu_that_this_build_does_not_have_is_refused_with_the_remedy(
    open_backend: Load, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model.llama, 'llama_supports_gpu_offload', lambda: False)
    with pytest.raises(ModelLoadError, match=(
            'model.n_gpu_layers=-1, but this llama-cpp-python was built without a GPU '
            'backend; rebuild it with CMAKE_ARGS=.*or set model.n_gpu_layers to 0')):
        open_backend({'model.n_gpu_layers': -1})


def test_a_gpu_that_takes_no_layer_is_refused(
    open_backend: Load, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model.llama, 'llama_supports_gpu_offload', lambda: True)
    monkeypatch.setattr(model, 'num_offloaded', lambda: (0, 0))
    with pytest.raises(ModelLoadError, match='put no layer on a GPU; .*check the driver'):
        open_backend({'model.n_gpu_layers': 99})


def test_a_cache_larger_than_the_memory_is_refused_with_the_numbers(
    open_backend: Load, monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = open_backend({'model.n_ctx': 8192})
    monkeypatch.setattr(
        llama_context, 'available_memory', lambda: Available(host=100 * 2**20))
    with pytest.raises(OutOfMemoryError, match=(
            r'context of 8292 tokens needs \d+ MiB of memory and 100 MiB are available; lower '
            r'model.n_ctx, set model.type_k (.|\n)*KV cache +186')) as raised:
        backend.open_context(8192, num_reserved_tokens=100, num_sequences=2)
    assert raised.value.code is ErrorCode.OUT_OF_MEMORY
    backend.close()


def test_a_context_that_would_not_fit_leaves_the_one_that_is_there(
    open_backend: Load, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old context was freed first, and the next decode crashed the process."""
    backend = open_backend({'model.n_ctx': 512})
    backend.open_context(512, num_reserved_tokens=0, num_sequences=1)
    backend.decode([5, 6], position=0)
    monkeypatch.setattr(llama_context, 'available_memory', lambda: Available(host=10**6))
    with pytest.raises(OutOfMemoryError):
        backend.open_context(512, num_reserved_tokens=2048, num_sequences=1)
    assert backend.sequence_length(0) == 2
    backend.decode([7], position=2)
    # One that takes what the old one gives back does fit.
    backend.open_context(512, num_reserved_tokens=0, num_sequences=1)
    backend.decode([5, 6], position=0)
    backend.close()


@pytest.mark.parametrize(('reason', 'error', 'remedy'), [
    ('failed to initialize the context: failed to allocate buffer for kv cache',
     OutOfMemoryError, '; lower model.n_ctx or model.n_ubatch'),
    ('cudaMalloc failed: out of memory',
     OutOfMemoryError, '; lower model.n_ctx or model.n_ubatch'),
    ('something else is wrong', ModelLoadError, '')])
def test_a_context_that_llama_cpp_refuses_is_an_error_with_its_reason(
    open_backend: Load, monkeypatch: pytest.MonkeyPatch, reason: str, error: type[EngineError],
    remedy: str,
) -> None:
    """Whatever was wrong, the advice was to lower ``model.n_ctx``."""
    backend = open_backend()
    backend.open_context(256, num_reserved_tokens=0, num_sequences=2)
    backend.decode([5], position=0)
    monkeypatch.setattr(llama_context.llama, 'llama_init_from_model', lambda *_: None)
    monkeypatch.setattr(llama_context.LLAMA_LOG, 'reason', lambda default: reason)
    with pytest.raises(error, match=f'no context of 512 tokens .*: {reason}{remedy}$'):
        backend.open_context(512, num_reserved_tokens=0, num_sequences=1)
    # A goal that comes all the same looks its prefix up first.
    assert (backend.sequence_length(0), backend.truncate(0, 3)) == (0, True)
    backend.copy_sequence(0, 1)
    with pytest.raises(DecodeError, match='there is no context; clean the node up'):
        backend.decode([5], position=0)
    backend.close()


def test_a_quantised_cache_whose_blocks_do_not_divide_a_head_is_refused_before_loading(
    make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The context was refused as out of memory, or without flash attention made wrong."""
    shape = read_shape(model_file(make_settings()))
    odd = replace(shape, name='odd', key_length=48, value_length=80)
    monkeypatch.setattr(llama_backend, 'read_shape', lambda path: odd)
    monkeypatch.setattr(
        llama_backend, 'load_model', lambda *_, **__: pytest.fail('the weights were loaded'))
    with pytest.raises(ConfigError) as raised:
        LlamaCppBackend(
            make_settings({'model.type_k': 'q8_0', 'model.type_v': 'q4_0'}), num_cores=1)
    assert raised.value.problems == (
        "model.type_k='q8_0' stores blocks of 32 values, and a head of odd has 48; set "
        'model.type_k to f16',
        "model.type_v='q4_0' stores blocks of 32 values, and a head of odd has 80; set "
        'model.type_v to f16')
    model = make_settings({'model.type_v': 'q4_0'}).model
    llama_context.check_cache_types(replace(odd, value_length=64), model)
    without_keys = [replace(layer, n_head_kv=0) for layer in odd.layers]
    llama_context.check_cache_types(replace(odd, layers=tuple(without_keys)), model)
