"""What is loaded is left out of garbage collection, and does not leak for that."""

from collections.abc import Iterator
import gc
import weakref

import pytest
from robot_llm.ros.garbage import spare_what_lives


class Node:
    """Something that can only be freed by the collector."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_lives_is_spared() -> None:
    spare_what_lives()
    assert gc.get_freeze_count() > 10_000
    # What is left for a full collection: nothing but what this test has made since.
    assert len(gc.get_objects()) < 1_000


def test_what_was_spared_and_is_garbage_now_goes_with_the_next_configuration() -> None:
    node = Node()
    is_gone = weakref.ref(node)
    spare_what_lives()
    del node
    gc.collect()
    assert is_gone() is not None
    spare_what_lives()
    assert is_gone() is None
