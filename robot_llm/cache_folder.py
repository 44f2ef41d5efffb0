"""Bytes on disk that may be lost at any time: whole or absent, bounded, safe between processes."""

from collections.abc import Callable, Iterator
import hashlib
import os
from pathlib import Path
import tempfile
import time
from typing import Final

from robot_llm.settings import CacheSettings

DIGEST_BYTES: Final = 32
"""Of the SHA-256 in front of every entry."""

SUFFIX: Final = '.cache'
UNFINISHED: Final = '.tmp'
ABANDONED_AFTER_S: Final = 3600.0
"""An unfinished file this old belongs to a process that was killed while it wrote."""


def _nowhere(_problem: str) -> None:
    return


class CacheFolder:
    """
    Named entries in one folder, which several processes may share.

    An entry is written beside its place and renamed into it, with a checksum in front: a reader
    gets all of it or nothing, whoever writes at the same time and wherever the power failed. What
    was not used for longest goes first. Nothing here raises: a disk that is full, read-only or
    absent costs the time that the cache would have saved, and is told once.

    :param folder: made when the first entry is written; None keeps nothing
    :param max_bytes: of all entries together
    :param warn: takes the first problem, as a sentence with its remedy
    """

    def __init__(
        self, folder: Path | None, *, max_bytes: int, warn: Callable[[str], None] = _nowhere,
    ) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._warn = warn
        self._has_warned = False

    def read(self, name: str) -> bytes | None:
        """
        Return what was written under ``name``; None if there is nothing, or it is damaged.

        :param name: letters, digits, ``-`` and ``_``
        """
        if self._folder is None:
            return None
        path = self._path(name)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._tell(error)
            return None
        payload = memoryview(data)[DIGEST_BYTES:]
        if hashlib.sha256(payload).digest() != data[:DIGEST_BYTES]:
            self._warn(f'{path} is damaged and is not used; it will be written anew')
            return None
        try:
            os.utime(path)  # used now, so it stays longest
        except OSError:
            pass  # read-only: nobody deletes anything there
        return bytes(payload)

    def write(self, name: str, data: bytes) -> bool:
        """
        Keep ``data`` under ``name``, instead of what was there.

        :returns: False if it is not kept: no folder, no room, or larger than all may be
        """
        size = len(data) + DIGEST_BYTES
        if self._folder is None or size > self._max_bytes:
            return False
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._make_room(size, self._path(name))
            with tempfile.NamedTemporaryFile(
                    dir=self._folder, suffix=UNFINISHED, delete=False) as file:
                try:
                    file.write(hashlib.sha256(data).digest())
                    file.write(data)
                    file.flush()
                    os.replace(file.name, self._path(name))
                except BaseException:
                    os.unlink(file.name)
                    raise
        except OSError as error:
            self._tell(error)
            return False
        return True

    def _make_room(self, size: int, replaced: Path) -> None:
        """Delete what was not used for longest until ``size`` more bytes are allowed."""
        assert self._folder is not None
        for path in self._folder.glob(f'*{UNFINISHED}'):
            if time.time() - _stat(path)[0] > ABANDONED_AFTER_S:
                path.unlink(missing_ok=True)
        entries = sorted((*_stat(path), path) for path in self._entries() if path != replaced)
        total = sum(num_bytes for _, num_bytes, _ in entries)
        for _, num_bytes, path in entries:
            if total + size <= self._max_bytes:
                break
            path.unlink(missing_ok=True)
            total -= num_bytes

    def _entries(self) -> Iterator[Path]:
        assert self._folder is not None
        return self._folder.glob(f'*{SUFFIX}')

    def _path(self, name: str) -> Path:
        assert self._folder is not None
        assert name.replace('-', '').replace('_', '').isalnum(), f'{name!r} is no entry'
        return self._folder / f'{name}{SUFFIX}'

    def _tell(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._warn(
                f'cache.folder={str(self._folder)!r}: {error.strerror}; what it would save is '
                "computed anew at every start. Name a writable folder, or '' for none")


def open_cache(settings: CacheSettings, warn: Callable[[str], None]) -> CacheFolder:
    """Return the cache that the parameters ``cache.*`` name."""
    folder = Path(settings.folder).expanduser() if settings.folder else None
    return CacheFolder(folder, max_bytes=settings.max_bytes, warn=warn)


def _stat(path: Path) -> tuple[float, int]:
    """Return when a file was last used, and its size; another process may have deleted it."""
    try:
        stat = path.stat()
    except OSError:
        return time.time(), 0
    return stat.st_mtime, stat.st_size
