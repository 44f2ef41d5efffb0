"""What threads did: read from a made-up /proc, and from this very process."""

import os
from pathlib import Path
from threading import Event, Thread
import time

from robot_llm.bench.threads import between, Work, work_by_thread
from robot_llm.thread_name import show_thread_name


def write_task(proc: Path, number: int, name: str, schedstat: str, num_lost: int) -> None:
    task = proc / '7' / 'task' / str(number)
    task.mkdir(parents=True)
    (task / 'comm').write_text(f'{name}\n')
    (task / 'schedstat').write_text(f'{schedstat}\n')
    (task / 'status').write_text(
        f'Name:\t{name}\nvoluntary_ctxt_switches:\t99\nnonvoluntary_ctxt_switches:\t{num_lost}\n')


def test_threads_of_one_group_are_added_up(tmp_path: Path) -> None:
    write_task(tmp_path, 1, 'worker', '3000000000 1000000000 5', 4)
    write_task(tmp_path, 2, 'dds.ev.0', '2000000 0 1', 0)
    write_task(tmp_path, 3, 'dds.shm.7001', '1000000 5000000 1', 1)
    write_task(tmp_path, 4, 'python', '7000000 0 1', 0)
    found = work_by_thread(7, tmp_path)
    assert set(found) == {'engine', 'DDS', 'others'}
    assert found['engine'] == Work(3.0, 1.0, 4.0)
    assert found['DDS'].plus(Work(-0.003, -0.005, -1.0)) == Work()
    assert found['others'] == Work(0.007, 0.0, 0.0)


def test_a_process_that_is_not_there_has_done_nothing(tmp_path: Path) -> None:
    assert work_by_thread(7, tmp_path) == {}


def test_a_thread_that_has_begun_in_between_counts_from_its_beginning() -> None:
    before, after = {'engine': Work(1.0, 2.0, 3.0)}, {
        'engine': Work(1.5, 2.0, 4.0), 'DDS': Work(0.5, 0.0, 0.0)}
    assert between(before, after) == {
        'engine': Work(0.5, 0.0, 1.0), 'DDS': Work(0.5, 0.0, 0.0)}


def test_a_named_thread_of_this_process_is_found_with_its_work() -> None:
    must_end, is_named = Event(), Event()

    def work() -> None:
        show_thread_name()
        is_named.set()
        end_s = time.thread_time() + 0.02
        while time.thread_time() < end_s:
            pass
        must_end.wait()

    thread = Thread(target=work, name='robot_llm_streamer')
    thread.start()
    try:
        assert is_named.wait(10.0)
        # The kernel adds up what runs at its ticks: look until it has seen it all.
        end_s = time.monotonic() + 10.0
        while (found := work_by_thread(os.getpid()).get('streamer', Work())).run_s < 0.02:
            assert time.monotonic() < end_s, found
            time.sleep(0.001)
    finally:
        must_end.set()
        thread.join()
