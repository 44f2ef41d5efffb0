"""The last N messages of each stream, for replay."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar('Item')


@dataclass(frozen=True, slots=True)
class Replay(Generic[Item]):
    """
    What a late or slow subscriber gets.

    :param items: from the asked sequence number on, in order, without a gap
    :param is_complete: nothing will follow; the stream was closed
    :param is_lost: the goal is older than the history, or was never heard of
    """

    items: tuple[Item, ...]
    is_complete: bool
    is_lost: bool


@dataclass(eq=False, slots=True)
class _Stream(Generic[Item]):
    items: list[Item] = field(default_factory=list)
    is_closed: bool = False


class History(Generic[Item]):
    """
    Keep the streams of the newest goals; a goal is kept whole or not at all.

    Holds no lock: the owner appends and replays under its own.

    :param max_goals: how many goals at most, running ones included, at least 1
    :raises ValueError: if ``max_goals`` is less than 1
    """

    def __init__(self, max_goals: int) -> None:
        if max_goals < 1:
            raise ValueError(f'max_goals={max_goals} is less than 1: no stream could be kept')
        self._max_goals = max_goals
        self._streams: dict[bytes, _Stream[Item]] = {}
        # Goals that were dropped while they still ran. Without this their next item would look
        # like the first one of a new goal, and sequence numbers would lie.
        self._dropped_open: set[bytes] = set()

    def open(self, goal_id: bytes) -> None:
        """Know a goal that has no item yet; a known one changes nothing."""
        if goal_id not in self._streams and goal_id not in self._dropped_open:
            self._streams[goal_id] = _Stream()
            self._drop_oldest()

    def append(self, goal_id: bytes, item: Item) -> None:
        """
        Add the next item of a goal; the first one opens its stream.

        :param item: the item with sequence number 0, 1, 2 … of this goal
        """
        self.open(goal_id)
        if goal_id in self._dropped_open:
            return
        stream = self._streams[goal_id]
        assert not stream.is_closed, f'append to the closed stream of goal {goal_id.hex()}'
        stream.items.append(item)

    def close(self, goal_id: bytes) -> None:
        """Say that nothing follows; unknown and already closed goals change nothing."""
        self._dropped_open.discard(goal_id)
        if goal_id in self._streams:
            self._streams[goal_id].is_closed = True

    @property
    def newest(self) -> bytes:
        """The last goal that has an item; b'' if none has."""
        return next((goal_id for goal_id, stream in reversed(self._streams.items())
                     if stream.items), b'')

    def replay(self, goal_id: bytes, from_seq: int = 0) -> Replay[Item]:
        """
        Return a goal's items from ``from_seq`` on; none when it has not come that far.

        :param from_seq: sequence number of the first wanted item, at least 0
        """
        assert from_seq >= 0, f'from_seq={from_seq} is unsigned on the wire'
        stream = self._streams.get(goal_id)
        if stream is None:
            return Replay(items=(), is_complete=False, is_lost=True)
        return Replay(
            items=tuple(stream.items[from_seq:]), is_complete=stream.is_closed, is_lost=False)

    def check_integrity(self) -> None:
        """Raise AssertionError if the bounds or the bookkeeping do not hold."""
        assert len(self._streams) <= self._max_goals
        assert self._dropped_open.isdisjoint(self._streams)

    def _drop_oldest(self) -> None:
        """Drop one that has ended, if there is one: a waiting goal must not cost a running one."""
        if len(self._streams) > self._max_goals:
            goal_id = next((goal_id for goal_id, stream in self._streams.items()
                            if stream.is_closed), next(iter(self._streams)))
            if not self._streams.pop(goal_id).is_closed:
                self._dropped_open.add(goal_id)
