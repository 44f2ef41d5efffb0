from pathlib import Path

import pytest
from robot_llm.record_file import read_records, RecordFile


def numbers(path: Path) -> list[int]:
    return [record['n'] for record in read_records(path)]


def test_what_was_written_is_read_oldest_first_over_rotations(tmp_path):
    path = tmp_path / 'deep' / 'records.jsonl'
    file = RecordFile(path, max_bytes=30, num_old=20)
    for n in range(12):
        assert file.append({'n': n})
    assert numbers(path) == list(range(12))
    assert len(list(path.parent.iterdir())) > 2


@pytest.mark.parametrize('num_old', [0, 1, 3])
def test_the_disk_is_bounded_and_the_newest_stay(tmp_path, num_old):
    path = tmp_path / 'records.jsonl'
    file = RecordFile(path, max_bytes=25, num_old=num_old)
    for n in range(100):
        file.append({'n': n})
    files = list(tmp_path.iterdir())
    assert len(files) <= num_old + 1
    assert all(f.stat().st_size <= 25 for f in files)
    kept = numbers(path)
    assert kept[-1] == 99
    assert kept == list(range(kept[0], 100))


def test_a_record_longer_than_a_file_is_left_out(tmp_path):
    path = tmp_path / 'records.jsonl'
    file = RecordFile(path, max_bytes=20, num_old=1)
    assert not file.append({'text': 'x' * 30})
    assert file.append({'n': 1})
    assert numbers(path) == [1]


def test_a_line_that_a_power_failure_cut_is_skipped(tmp_path):
    path = tmp_path / 'records.jsonl'
    RecordFile(path, max_bytes=1000, num_old=1).append({'n': 1})
    with path.open('ab') as file:
        file.write(b'{"n": 2, "te\n[3]\n\xff\n')
    RecordFile(path, max_bytes=1000, num_old=1).append({'n': 4, 'text': 'grüße \ud800'})
    assert numbers(path) == [1, 4]


def test_a_file_that_is_not_there_has_no_records(tmp_path):
    assert list(read_records(tmp_path / 'none.jsonl')) == []
