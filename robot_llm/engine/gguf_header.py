"""The header of a GGUF file → its metadata and tensors, in milliseconds, without the weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
import math
import mmap
from pathlib import Path
import re
import struct
from typing import Any, Final

from robot_llm.core.model_shape import ModelShape, shape_from_header, Tensor
from robot_llm.errors import ModelLoadError

SCALARS: Final = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q',
                  11: 'q', 12: 'd'}
"""``gguf_type`` → struct format. Source: the GGUF specification, ggml/docs/gguf.md."""
STRING: Final = 8
ARRAY: Final = 9

MOST_VALUES: Final = 4096
"""Longer arrays (the vocabulary) are counted and not kept; none per layer is as long."""

SPLIT: Final = re.compile(r'-\d{5}-of-(\d{5})\.gguf$')


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What stands in front of the weights."""

    metadata: dict[str, Any]
    """Scalars, strings, and arrays of numbers; of a longer array its length."""
    tensors: dict[str, Tensor]


class _Cursor:

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.position = 0

    def take(self, format_: str) -> Any:
        layout = '<' + format_
        values = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return values[0] if len(values) == 1 else values

    def skip_text(self) -> tuple[int, int]:
        size = self.take('Q')
        start = self.position
        if size > len(self.data) - start:
            raise struct.error('a text is longer than the file')
        self.position += size
        return start, self.position

    def text(self) -> str:
        start, end = self.skip_text()
        return self.data[start:end].decode('utf-8', 'replace')

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.take(SCALARS[kind])
        item, count = self.take('I'), self.take('Q')
        if item == STRING:
            for _ in range(count):
                self.skip_text()
            return count
        size = struct.calcsize('<' + SCALARS[item])
        start = self.position
        self.position += size * count
        if count > MOST_VALUES:
            return count
        return list(struct.unpack_from(f'<{count}{SCALARS[item]}', self.data, start))


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open('rb') as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def read_header(path: Path) -> GgufHeader:
    """
    Read one file's header.

    :raises ModelLoadError: if it ends too early, or is written in a way that is not known
    """
    try:
        with _mapped(path) as data:
            return _header(_Cursor(data))
    except (OSError, ValueError, KeyError, struct.error, OverflowError) as error:
        raise ModelLoadError(
            f'{path}: its header cannot be read ({error}); check that the file is complete, and '
            'not of a newer GGUF version') from None


def _header(cursor: _Cursor) -> GgufHeader:
    magic, version, num_tensors, num_values = cursor.take('4sIQQ')
    if magic != b'GGUF' or version not in (2, 3):
        raise ValueError(f'magic {magic!r}, version {version}')
    metadata = {}
    for _ in range(num_values):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.take('I'))
    entries = []
    for _ in range(num_tensors):
        name, num_dims = cursor.text(), cursor.take('I')
        dims = [cursor.take('Q') for _ in range(num_dims)]
        _, offset = cursor.take('IQ')
        entries.append((offset, name, math.prod(dims)))
    alignment = int(metadata.get('general.alignment', 32))
    begin = -(-cursor.position // alignment) * alignment
    # The size by the next one's place: right for types that are newer than this module.
    entries.sort()
    ends = [offset for offset, _, _ in entries[1:]] + [len(cursor.data) - begin]
    tensors = {name: Tensor(num_params, end - offset)
               for (offset, name, num_params), end in zip(entries, ends, strict=True)}
    return GgufHeader(metadata, tensors)


def read_shape(path: Path) -> ModelShape:
    """
    Read what a model's size and speed depend on; a file in parts is read as a whole.

    :param path: the file, or the first of its parts
    :raises ModelLoadError: if a header cannot be read, or tells too little
    """
    header = read_header(path)
    tensors = dict(header.tensors)
    if match := SPLIT.search(path.name):
        stem, count = path.name[:match.start()], int(match.group(1))
        for number in range(1, count + 1):
            part = path.with_name(f'{stem}-{number:05}-of-{count:05}.gguf')
            tensors.update(read_header(part).tensors)
    try:
        return shape_from_header(header.metadata, tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelLoadError(
            f'{path}: its metadata tells too little of the model ({error!r}); use an instruct '
            'GGUF') from None
