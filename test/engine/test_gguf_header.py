"""The header of a file is read as it was written; of a damaged one nothing is believed."""

from pathlib import Path
import struct

import pytest
from robot_llm.core.model_shape import Tensor
from robot_llm.engine.gguf_header import read_header, read_shape
from robot_llm.errors import ModelLoadError


def text(value: str) -> bytes:
    return struct.pack('<Q', len(value)) + value.encode()


def gguf(tensors: dict[str, tuple[int, int]], **metadata: int) -> bytes:
    """Return a file of version 3; per tensor its two dimensions, one byte a value."""
    data = struct.pack('<4sIQQ', b'GGUF', 3, len(tensors), len(metadata) + 3)
    data += text('general.architecture') + struct.pack('<I', 8) + text('a')
    data += text('tokens') + struct.pack('<IIQ', 9, 8, 2) + text('x') + text('yy')
    data += text('heads') + struct.pack('<IIQ2i', 9, 5, 2, 7, 8)
    for key, value in metadata.items():
        data += text(f'a.{key}') + struct.pack('<II', 4, value)
    offset = 0
    for name, (rows, columns) in tensors.items():
        data += text(name) + struct.pack('<I2QIQ', 2, rows, columns, 24, offset)
        offset += rows * columns
    return data + bytes(-len(data) % 32) + bytes(offset)


TENSORS = {'token_embd.weight': (32, 4), 'blk.0.attn_k.weight': (64, 2)}
FACTS = {'block_count': 1, 'embedding_length': 4}


def test_metadata_and_tensors_are_those_that_were_written(tmp_path: Path) -> None:
    path = tmp_path / 'model.gguf'
    path.write_bytes(gguf(TENSORS, **FACTS))
    header = read_header(path)
    assert header.metadata == {'general.architecture': 'a', 'tokens': 2, 'heads': [7, 8],
                               'a.block_count': 1, 'a.embedding_length': 4}
    assert header.tensors == {name: Tensor(128, 128) for name in TENSORS}


def test_a_model_in_parts_is_read_as_a_whole(tmp_path: Path) -> None:
    for number, name in enumerate(TENSORS, start=1):
        (tmp_path / f'model-0000{number}-of-00002.gguf').write_bytes(
            gguf({name: TENSORS[name]}, **FACTS))
    shape = read_shape(tmp_path / 'model-00001-of-00002.gguf')
    assert shape.whole.num_bytes == 256
    (tmp_path / 'model-00002-of-00002.gguf').unlink()
    with pytest.raises(ModelLoadError, match='model-00002-of-00002.gguf: .*No such file'):
        read_shape(tmp_path / 'model-00001-of-00002.gguf')


def test_the_header_of_the_real_model_is_read_whole(model_path: Path) -> None:
    shape = read_shape(model_path)
    assert 0.9 < shape.whole.num_bytes / model_path.stat().st_size <= 1.0
    assert shape.n_vocab > 1000
    assert all(layer.n_head_kv for layer in shape.layers)


@pytest.mark.parametrize('damage', [
    lambda data: data[:40], lambda data: data[:150], lambda data: b'GGUF',
    lambda data: data[:4] + b'\x09' + data[5:],  # version
    lambda data: data[:8] + b'\xff' * 16 + data[24:],  # numbers of entries
    lambda data: data[:24] + b'\xff' * 8 + data[32:],  # length of a key
    lambda data: data.replace(b'general.architecture\x08', b'general.architecture\x63')])
def test_a_damaged_header_is_refused_with_the_file(tmp_path: Path, damage) -> None:
    path = tmp_path / 'model.gguf'
    path.write_bytes(damage(gguf(TENSORS, **FACTS)))
    with pytest.raises(ModelLoadError, match='model.gguf: its header cannot be read .*check that'):
        read_header(path)


def test_a_header_that_tells_too_little_is_refused(tmp_path: Path) -> None:
    path = tmp_path / 'model.gguf'
    path.write_bytes(gguf(TENSORS, block_count=1))
    with pytest.raises(ModelLoadError, match='tells too little of the model .*embedding_length'):
        read_shape(path)
