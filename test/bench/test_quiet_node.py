"""What the benchmark's node puts between worker and streamer; no ROS graph is needed."""

from engine_requests import make_profile, make_request
from robot_llm.bench.quiet_node import Hold
from robot_llm.core.event import Alive, Delta, Event, Finished, Started


class Place:
    """A hold, and what has come through it."""

    def __init__(self, *, publishes: bool) -> None:
        self.publishes = publishes
        self.events: list[Event] = []
        self.put = Hold(self.events.append, lambda: self.publishes).put


REQUEST = make_request(make_profile('tell', text=True))
OTHER = make_request(make_profile('tell', text=True))


def test_a_goal_that_is_published_passes_untouched() -> None:
    place = Place(publishes=True)
    events = (Started(REQUEST), Delta(REQUEST, 'a', 1), Alive(), Delta(REQUEST, 'b', 2),
              Finished(REQUEST))
    for event in events:
        place.put(event)
    assert place.events == list(events)


def test_a_goal_that_is_held_comes_as_one_message_before_its_end() -> None:
    place = Place(publishes=False)
    for event in (Started(REQUEST), Delta(REQUEST, 'a', 1), Alive(), Delta(REQUEST, 'b', 2)):
        place.put(event)
    assert place.events == [Started(REQUEST)]
    place.put(Finished(REQUEST))
    assert place.events[1:] == [Delta(REQUEST, 'ab', 3), Finished(REQUEST)]


def test_whether_a_goal_is_held_is_settled_when_it_starts() -> None:
    place = Place(publishes=False)
    place.put(Started(REQUEST))
    place.publishes = True
    place.put(Delta(REQUEST, 'a', 1))
    assert place.events == [Started(REQUEST)]
    place.put(Finished(REQUEST))
    for event in (Started(OTHER), Delta(OTHER, 'c', 1), Alive(), Finished(OTHER)):
        place.put(event)
        assert place.events[-1] == event


def test_a_held_goal_without_a_token_just_ends() -> None:
    place = Place(publishes=False)
    place.put(Started(REQUEST))
    place.put(Finished(REQUEST))
    assert place.events == [Started(REQUEST), Finished(REQUEST)]
    place.put(Alive())
    assert place.events[-1] == Alive()
