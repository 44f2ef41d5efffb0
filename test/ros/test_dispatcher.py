"""Requests that are held for their scene: in the order of their arrival, and never too many."""

from collections.abc import Callable
from threading import Event
import time
from typing import Any

import pytest
from robot_llm.core.request import FinishReason, Request, Scene
from robot_llm.core.scheduler import PreemptPolicy
from robot_llm.engine.request_queue import RequestQueue
from robot_llm.errors import QueueFullError
from robot_llm.profile_file import load_profiles
from robot_llm.ros.dispatcher import Dispatcher
from robot_llm.settings import Settings
from ros_node import DEFAULTS, SCRIPTED

MAX_QUEUE = 4


class Streamer:
    """Forgets what it is told."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_: None


def dispatcher(policy: PreemptPolicy) -> tuple[Dispatcher, RequestQueue]:
    settings = Settings.from_flat({'preempt.policy': policy, 'preempt.max_queue': MAX_QUEUE})
    queue = RequestQueue(lambda _: None, time.monotonic, policy=policy, max_queue=MAX_QUEUE)
    queue.open(Abort())
    streamer: Any = Streamer()
    return Dispatcher(queue, streamer, settings, time.monotonic), queue


class Abort(Event):
    """An abort flag without an engine."""

    num_nodes = 0


def early(number: int, epoch: int = 7) -> Request:
    settings = Settings()
    folder = DEFAULTS[SCRIPTED]['profiles.folder']
    return Request(bytes([number]) * 16, load_profiles(folder, settings.limits)['drive'], 'Go?',
                   settings.sampling, scene=Scene(epoch))


def test_goals_that_wait_for_one_scene_start_in_the_order_of_their_arrival() -> None:
    held, queue = dispatcher('queue')
    requests = [early(number) for number in range(MAX_QUEUE)]
    for request in requests:
        held.dispatch(request, Scene(6))
    assert held.requests == tuple(requests)
    held.change_scene(Scene(7))
    assert queue._scheduler.requests == tuple(requests)


@pytest.mark.parametrize('epoch', [7, 8])
def test_a_newer_goal_preempts_the_older_one_that_is_held(epoch: int) -> None:
    """The older one started last now and then, and took the newer one's place."""
    held, _ = dispatcher('newest_wins')
    older, newer = early(0), early(1, epoch)
    for request in (older, newer):
        held.dispatch(request, Scene(6))
    assert (older.finish_reason, held.num_waiting) == (FinishReason.PREEMPTED, 1)
    held.change_scene(Scene(epoch))
    assert newer.finish_reason is None


@pytest.mark.parametrize(('policy', 'num_held'), [('queue', MAX_QUEUE), ('reject', 1)])
def test_goals_that_are_held_count_as_waiting(policy: PreemptPolicy, num_held: int) -> None:
    held, queue = dispatcher(policy)
    for number in range(num_held):
        held.check_capacity()
        held.dispatch(early(number), Scene(6))
    with pytest.raises(QueueFullError):
        held.check_capacity()
    assert held.num_waiting == num_held
    held.change_scene(Scene(7))
    assert queue.num_waiting == num_held
