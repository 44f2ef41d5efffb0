import os
from pathlib import Path
import subprocess
import sys

import pytest
from robot_llm.cache_folder import CacheFolder, DIGEST_BYTES, open_cache
from robot_llm.settings import CacheSettings


@pytest.fixture
def problems() -> list[str]:
    return []


@pytest.fixture
def cache(tmp_path, problems) -> CacheFolder:
    return CacheFolder(tmp_path / 'deep' / 'cache', max_bytes=1000, warn=problems.append)


def files(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / 'deep' / 'cache').iterdir())


def test_what_was_written_is_read_and_replaced(cache, tmp_path, problems):
    assert cache.read('device') is None
    assert not (tmp_path / 'deep').exists(), 'reading makes no folder'
    assert cache.write('device', b'one')
    assert cache.read('device') == b'one'
    assert cache.write('device', b'')
    assert cache.read('device') == b''
    assert files(tmp_path) == ['device.cache']
    assert problems == []


def test_without_a_folder_nothing_is_kept(problems):
    cache = open_cache(CacheSettings(folder=''), problems.append)
    assert not cache.write('device', b'one')
    assert cache.read('device') is None


def test_the_default_folder_is_in_the_home_folder(tmp_path, monkeypatch, problems):
    monkeypatch.setenv('HOME', str(tmp_path))
    assert open_cache(CacheSettings(), problems.append).write('device', b'one')
    assert (tmp_path / '.cache' / 'robot_llm' / 'device.cache').is_file()


@pytest.mark.parametrize('damage', [
    lambda data: data[:-1], lambda data: data[:10], lambda data: b'', lambda data: data + b'x',
    lambda data: data[:-1] + b'x'])
def test_a_damaged_entry_is_not_used_and_is_said_so(cache, tmp_path, problems, damage):
    cache.write('device', b'one')
    path = tmp_path / 'deep' / 'cache' / 'device.cache'
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read('device') is None
    assert [problem for problem in problems if 'device.cache is damaged' in problem]
    assert cache.write('device', b'two')
    assert cache.read('device') == b'two'


def test_what_was_not_used_for_longest_goes_first(cache, tmp_path):
    for age, name in enumerate(('new', 'middle', 'old')):
        cache.write(name, bytes(300 - DIGEST_BYTES))
        stamp = 1e9 - age
        os.utime(tmp_path / 'deep' / 'cache' / f'{name}.cache', (stamp, stamp))
    assert cache.read('old') is not None  # used just now
    assert cache.write('more', bytes(300 - DIGEST_BYTES))
    assert files(tmp_path) == ['more.cache', 'new.cache', 'old.cache']


def test_an_entry_larger_than_all_may_be_is_not_written_and_deletes_nothing(cache, tmp_path):
    cache.write('small', b'one')
    assert not cache.write('large', bytes(1000))
    assert files(tmp_path) == ['small.cache']


def test_what_a_killed_process_left_is_removed_when_it_is_old(cache, tmp_path):
    cache.write('small', b'one')
    folder = tmp_path / 'deep' / 'cache'
    for name, age in (('left.tmp', 1e9), ('being_written.tmp', None)):
        (folder / name).write_bytes(b'half')
        if age is not None:
            os.utime(folder / name, (age, age))
    cache.write('other', b'two')
    assert files(tmp_path) == ['being_written.tmp', 'other.cache', 'small.cache']


def test_a_place_that_cannot_be_written_is_told_once_and_stops_nothing(tmp_path, problems):
    (tmp_path / 'file').write_bytes(b'')
    cache = CacheFolder(tmp_path / 'file' / 'cache', max_bytes=1000, warn=problems.append)
    for _ in range(3):
        assert not cache.write('device', b'one')
        assert cache.read('device') is None
    assert len(problems) == 1
    assert 'cache.folder=' in problems[0]
    assert 'Name a writable folder' in problems[0]


def test_a_name_that_leaves_the_folder_is_our_own_bug(cache):
    for name in ('../device', 'a/b', '', '.hidden'):
        with pytest.raises(AssertionError, match='is no entry'):
            cache.write(name, b'')


WRITER = """
from pathlib import Path
import sys
from robot_llm.cache_folder import CacheFolder
cache = CacheFolder(Path(sys.argv[1]), max_bytes=250_000)
for number in range(100):
    assert cache.write('shared', sys.argv[2].encode() * 100_000)
    assert cache.write(f'own-{number % 3}', sys.argv[2].encode() * 40_000)
"""


def test_two_processes_that_share_it_never_see_a_half_written_entry(tmp_path, problems):
    cache = CacheFolder(tmp_path, max_bytes=250_000, warn=problems.append)
    cache.write('shared', b'a' * 100_000)
    writers = [subprocess.Popen([sys.executable, '-c', WRITER, str(tmp_path), letter])
               for letter in 'bc']
    seen = set()
    while any(writer.poll() is None for writer in writers):
        entry = cache.read('shared')
        assert entry is None or (len(entry) == 100_000 and len(set(entry)) == 1)
        seen.add(entry and entry[:1])
    assert [writer.returncode for writer in writers] == [0, 0]
    assert problems == []
    assert seen & {b'b', b'c'}
