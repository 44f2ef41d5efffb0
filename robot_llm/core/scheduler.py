"""Who runs next: ``newest_wins``, ``queue``, ``reject``; bounded."""

from collections import deque
from typing import Literal

from robot_llm.core.request import Request, RequestEvent, RequestStatus
from robot_llm.errors import QueueFullError

PreemptPolicy = Literal['newest_wins', 'queue', 'reject']


class Scheduler:
    """
    At most one running request and a bounded number of waiting ones, first in first out.

    No clock, no lock: the caller serialises the calls.
    """

    def __init__(self, policy: PreemptPolicy, max_queue: int) -> None:
        self.policy = policy
        self.max_queue = max_queue
        self._waiting: deque[Request] = deque()
        self.running: Request | None = None

    @property
    def num_waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @property
    def requests(self) -> tuple[Request, ...]:
        """Every request that has not ended: the waiting ones, then the running one."""
        running = () if self.running is None else (self.running,)
        return (*self._waiting, *running)

    @property
    def is_idle(self) -> bool:
        """Nothing runs and nothing waits."""
        return self.running is None and not self._waiting

    def check_capacity(self, num_held: int = 0) -> None:
        """
        Refuse a request that ``submit`` would have no room for.

        :param num_held: requests that wait elsewhere, to be submitted later
        :raises QueueFullError: if the policy leaves no place now
        """
        num_waiting = len(self._waiting) + num_held
        if self.policy == 'reject' and (num_waiting or self.running is not None):
            raise QueueFullError(
                'the engine is busy and preempt.policy is reject; try again when it is idle')
        if self.policy == 'queue' and num_waiting >= self.max_queue:
            raise QueueFullError(
                f'{num_waiting} goals wait and preempt.max_queue={self.max_queue}; '
                'try again later or raise the limit')

    def submit(self, request: Request) -> tuple[Request, ...]:
        """
        Let a request wait for its turn.

        :param request: WAITING
        :returns: the requests that have to make way, shape (num_preempted,): those that waited
            are out of the queue already, a running one has to be stopped by the caller
        :raises QueueFullError: if the policy leaves no place; nothing has changed then
        """
        self.check_capacity()
        preempted: tuple[Request, ...] = ()
        if self.policy == 'newest_wins':
            preempted = self.requests
            self._waiting.clear()
        self._waiting.append(request)
        return preempted

    def start_next(self) -> Request | None:
        """Grant the engine to the request that waits longest; None if it is taken."""
        if self.running is not None or not self._waiting:
            return None
        self.running = self._waiting.popleft()
        self.running.apply(RequestEvent.SLOT_GRANTED)
        return self.running

    def release(self, request: Request) -> None:
        """Take the engine back from the running request."""
        assert self.running is request, 'only the running request can be released'
        self.running = None

    def withdraw(self, request: Request) -> bool:
        """Take a waiting request out of the queue; False if it does not wait."""
        if request not in self._waiting:
            return False
        self._waiting.remove(request)
        return True

    def check_integrity(self) -> None:
        """
        Assert what must hold between any two calls.

        :raises AssertionError: if the queue is too long or a status does not fit its place
        """
        assert all(r.status is RequestStatus.WAITING for r in self._waiting)
        assert len(set(map(id, self._waiting))) == len(self._waiting)
        assert self.running is None or self.running.status in (
            RequestStatus.PREFILL, RequestStatus.DECODE)
        if self.policy == 'queue':
            assert len(self._waiting) <= self.max_queue
        else:
            assert len(self._waiting) <= 1
