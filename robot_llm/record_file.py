"""Lines of JSON on disk, rotated and bounded: the oldest go, never the robot's disk."""

from collections.abc import Iterator, Mapping
import json
from pathlib import Path
from typing import Any


class RecordFile:
    """
    Appends one line per record; owns ``path`` and ``path.1`` .. ``path.<num_old>``.

    One thread calls it. Nothing is kept open between two records, so that a robot that is switched
    off loses one line at most, and a person may move the file away at any time.

    :param path: the newest records
    :param max_bytes: of each file; what would be longer goes into a new one
    :param num_old: how many full files are kept beside it, 0 or more
    """

    def __init__(self, path: Path, *, max_bytes: int, num_old: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._num_old = num_old

    def append(self, record: Mapping[str, object]) -> bool:
        """
        Write one record.

        :returns: False if the record alone is longer than a file may be; nothing is written then
        :raises OSError: if the disk refuses; the caller decides whether that matters
        """
        line = (json.dumps(record, ensure_ascii=False) + '\n').encode('utf-8', 'replace')
        if len(line) > self._max_bytes:
            return False
        self._path.parent.mkdir(parents=True, exist_ok=True)
        size = self._path.stat().st_size if self._path.exists() else 0
        if size + len(line) > self._max_bytes:
            self._rotate()
        with self._path.open('ab') as file:
            file.write(line)
        return True

    def _rotate(self) -> None:
        for number in range(self._num_old, 0, -1):
            newer = self._old(number - 1)
            if newer.exists():
                newer.replace(self._old(number))
        if self._num_old == 0:
            self._path.unlink()

    def _old(self, number: int) -> Path:
        return self._path.with_name(f'{self._path.name}.{number}') if number else self._path


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """
    Yield the records of a file and of its older ones, oldest first.

    A line that is no JSON object, such as one cut short by a power failure, is left out.
    """
    older = sorted(path.parent.glob(f'{path.name}.*'), reverse=True, key=_age)
    for file in (*older, path):
        if not file.exists():
            continue
        for line in file.read_text(encoding='utf-8', errors='replace').splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


def _age(path: Path) -> int:
    suffix = path.suffix[1:]
    return int(suffix) if suffix.isdigit() else 0
