"""Who runs next, under every policy; the queue is bounded and loses nobody."""

from engine_requests import make_profile, make_request
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, RuleBasedStateMachine
import pytest
from robot_llm.core.request import Request, RequestEvent, RequestStatus
from robot_llm.core.scheduler import PreemptPolicy, Scheduler
from robot_llm.errors import QueueFullError

DRIVE = make_profile('drive')
POLICIES: tuple[PreemptPolicy, ...] = ('newest_wins', 'queue', 'reject')


def a_request() -> Request:
    return make_request(DRIVE)


@pytest.mark.parametrize('policy', POLICIES)
def test_an_idle_engine_takes_a_request_at_once(policy: PreemptPolicy) -> None:
    scheduler, request = Scheduler(policy, 1), a_request()
    assert scheduler.is_idle
    assert scheduler.start_next() is None
    assert scheduler.submit(request) == ()
    assert (scheduler.num_waiting, scheduler.is_idle) == (1, False)
    assert scheduler.start_next() is request
    assert request.status is RequestStatus.PREFILL
    assert (scheduler.running, scheduler.num_waiting) == (request, 0)
    assert scheduler.start_next() is None
    request.apply(RequestEvent.FINISH)
    scheduler.release(request)
    assert scheduler.is_idle


def test_the_newest_wins_over_the_running_and_over_the_waiting() -> None:
    scheduler, (first, second, third) = Scheduler('newest_wins', 1), (a_request() for _ in '123')
    scheduler.submit(first)
    scheduler.start_next()
    assert scheduler.submit(second) == (first,)
    assert scheduler.submit(third) == (second, first)
    assert scheduler.requests == (third, first)
    scheduler.release(first)
    assert scheduler.start_next() is third


def test_a_queue_is_served_in_order_and_refuses_when_full() -> None:
    scheduler = Scheduler('queue', 2)
    first, second, third, fourth = (a_request() for _ in '1234')
    scheduler.submit(first)
    scheduler.start_next()
    assert scheduler.submit(second) == scheduler.submit(third) == ()
    with pytest.raises(QueueFullError, match=r'2 goals wait and preempt.max_queue=2; try again'):
        scheduler.submit(fourth)
    with pytest.raises(QueueFullError):
        scheduler.check_capacity()
    scheduler.release(first)
    assert scheduler.start_next() is second
    scheduler.submit(fourth)
    scheduler.release(second)
    assert scheduler.start_next() is third


def test_a_busy_engine_rejects() -> None:
    scheduler, request = Scheduler('reject', 4), a_request()
    scheduler.submit(request)
    with pytest.raises(QueueFullError, match='busy and preempt.policy is reject'):
        scheduler.submit(a_request())
    scheduler.start_next()
    with pytest.raises(QueueFullError):
        scheduler.submit(a_request())
    scheduler.release(request)
    scheduler.submit(a_request())


def test_a_waiting_request_can_be_withdrawn_once() -> None:
    scheduler, running, waiting = Scheduler('queue', 2), a_request(), a_request()
    scheduler.submit(running)
    scheduler.start_next()
    scheduler.submit(waiting)
    assert scheduler.withdraw(waiting)
    assert not scheduler.withdraw(waiting)
    assert not scheduler.withdraw(running)
    assert not scheduler.withdraw(a_request())
    assert scheduler.requests == (running,)


def test_only_the_running_request_can_be_released() -> None:
    scheduler, request = Scheduler('queue', 2), a_request()
    scheduler.submit(request)
    with pytest.raises(AssertionError, match='only the running request'):
        scheduler.release(request)


class SchedulerMachine(RuleBasedStateMachine):
    """Compare the scheduler with a list and one variable."""

    @initialize(policy=st.sampled_from(POLICIES), max_queue=st.integers(1, 3))
    def start(self, policy: PreemptPolicy, max_queue: int) -> None:
        self.policy, self.max_queue = policy, max_queue
        self.scheduler = Scheduler(policy, max_queue)
        self.waiting: list[Request] = []
        self.running: Request | None = None

    @rule()
    def submit(self) -> None:
        request = a_request()
        everybody = (*self.waiting, *([self.running] if self.running else []))
        is_full = {'newest_wins': False, 'reject': bool(everybody),
                   'queue': len(self.waiting) >= self.max_queue}[self.policy]
        if is_full:
            with pytest.raises(QueueFullError):
                self.scheduler.submit(request)
        elif self.policy == 'newest_wins':
            assert self.scheduler.submit(request) == everybody
            self.waiting = [request]
        else:
            assert self.scheduler.submit(request) == ()
            self.waiting.append(request)

    @rule()
    def start_next(self) -> None:
        if self.running or not self.waiting:
            assert self.scheduler.start_next() is None
        else:
            self.running = self.waiting.pop(0)
            assert self.scheduler.start_next() is self.running

    @precondition(lambda self: self.running)
    @rule()
    def release(self) -> None:
        self.running.apply(RequestEvent.FINISH)
        self.scheduler.release(self.running)
        self.running = None

    @rule(index=st.integers(0, 3))
    def withdraw(self, index: int) -> None:
        if index < len(self.waiting):
            assert self.scheduler.withdraw(self.waiting.pop(index))
        else:
            assert not self.scheduler.withdraw(self.running or a_request())

    @invariant()
    def agrees_with_the_list(self) -> None:
        self.scheduler.check_integrity()
        assert self.scheduler.running is self.running
        assert self.scheduler.num_waiting == len(self.waiting)
        assert self.scheduler.requests[:len(self.waiting)] == tuple(self.waiting)
        assert self.scheduler.is_idle is (not self.waiting and self.running is None)


TestSchedulerMachine = SchedulerMachine.TestCase
