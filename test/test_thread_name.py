"""The name that the system knows a thread by."""

from pathlib import Path
from threading import get_native_id, Thread

import pytest
from robot_llm.thread_name import show_thread_name


@pytest.mark.parametrize(('name', 'shown'), [
    ('robot_llm_streamer', 'streamer'), ('client', 'client'),
    ('robot_llm_a_name_that_is_too_long', 'a_name_that_is_')])
def test_a_thread_is_shown_by_its_name_as_far_as_there_is_room(name: str, shown: str) -> None:
    seen = []

    def work() -> None:
        show_thread_name()
        seen.append(Path(f'/proc/self/task/{get_native_id()}/comm').read_text().strip())

    thread = Thread(target=work, name=name)
    thread.start()
    thread.join()
    assert seen == [shown]
