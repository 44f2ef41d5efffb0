"""A lifecycle manager in another process: any order, any number of times, goals or not."""

from collections.abc import Callable
from itertools import count
import threading

from action_msgs.msg import GoalStatus
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode
from ros_lifecycle import ACTIVE, FINALIZED, INACTIVE, Lifecycle, UNCONFIGURED
from ros_node import TIMEOUT_S
from ros_planner import Planner, reasons

_gates = (f'l{number}' for number in count())

SHUTDOWN = (
    GoalStatus.STATUS_ABORTED, FinishReason.SHUTDOWN, ErrorCode.NONE, 'stop',
    DecisionSource.CANCELED)


@pytest.fixture(scope='module')
def planner(scripted: Callable[..., Planner]) -> Planner:
    """Return a planner of a node of this module's own, which it may deactivate."""
    return scripted(preempt__policy='queue')


@pytest.fixture(scope='module')
def manager(planner: Planner) -> Lifecycle:
    return Lifecycle(planner)


@pytest.fixture(autouse=True)
def active(manager: Lifecycle) -> None:
    """Let every test begin with an active node, whatever the one before has left."""
    if manager.state == UNCONFIGURED:
        assert manager.configure()
    if manager.state == INACTIVE:
        assert manager.activate()
    assert manager.state == ACTIVE


def check_rejected(planner: Planner) -> None:
    answer = planner.ask('say-slow')
    assert answer.wait_for(lambda: answer.is_rejected, TIMEOUT_S)


def test_goals_are_rejected_unless_the_node_is_active(
    planner: Planner, manager: Lifecycle,
) -> None:
    assert manager.deactivate()
    check_rejected(planner)
    planner.node_process.wait_for_log('goal refused, .*the node is not active; activate it first')
    assert manager.cleanup()
    check_rejected(planner)
    assert manager.configure()
    check_rejected(planner)
    assert manager.activate()
    assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP


def test_a_transition_out_of_order_is_refused_and_changes_nothing(
    planner: Planner, manager: Lifecycle,
) -> None:
    assert not manager.configure() and not manager.activate() and not manager.cleanup()
    assert manager.state == ACTIVE
    assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP
    assert manager.deactivate()
    assert not manager.deactivate() and not manager.configure()
    assert manager.state == INACTIVE
    assert manager.cleanup()
    assert not manager.activate() and not manager.deactivate() and not manager.cleanup()
    assert manager.state == UNCONFIGURED


def test_cleanup_right_behind_deactivate_still_answers_the_goal(
    planner: Planner, manager: Lifecycle,
) -> None:
    gate = next(_gates)
    answer = planner.ask(f'hold-detail:{gate} say-continue')
    planner.node_process.wait_for_gate(gate)
    assert manager.deactivate() and manager.cleanup()
    planner.finish(answer)
    assert reasons(answer) == SHUTDOWN
    assert manager.state == UNCONFIGURED


def test_goals_that_meet_a_transition_are_refused_or_answered_whole(
    planner: Planner, manager: Lifecycle,
) -> None:
    answers = []
    for _ in range(5):
        down = threading.Thread(target=lambda: (manager.deactivate(), manager.cleanup()))
        burst = [planner.ask('say-slow')]
        down.start()
        # DDS keeps ten requests of a service that is busy, and forgets the oldest.
        while down.is_alive() and len(burst) < 9:
            burst.append(planner.ask('say-slow'))
            down.join(0.002)
        down.join()
        assert manager.configure() and manager.activate()
        answers += burst
    for answer in answers:
        assert answer.wait(TIMEOUT_S), planner.node_process.log
        if not answer.is_rejected:
            assert planner.finish(answer).decision in ('slow', 'stop')
    assert sum(answer.is_accepted for answer in answers) >= 1


def test_a_goal_that_waits_for_its_scene_ends_with_the_node(
    planner: Planner, manager: Lifecycle,
) -> None:
    answer = planner.ask('say-continue', scene_epoch=2**40)
    assert answer.wait_for(lambda: answer.is_accepted, TIMEOUT_S)
    assert manager.deactivate()
    planner.finish(answer)
    assert answer.result.finish_reason in (FinishReason.SHUTDOWN, FinishReason.SCENE_CHANGED)
    assert answer.result.decision == 'stop'
    assert manager.cleanup()


def test_a_parameter_of_the_model_needs_a_new_configure(manager: Lifecycle) -> None:
    assert 'model.type_k needs a new configure' in manager.set_text('model.type_k', 'f32')
    assert manager.deactivate()
    assert 'needs a new configure' in manager.set_text('model.type_k', 'f32')
    assert manager.cleanup()
    assert manager.set_text('model.type_k', 'f32') == ''
    assert manager.configure() and manager.activate()


def test_a_policy_counts_from_the_next_goal_on(planner: Planner, manager: Lifecycle) -> None:
    gate = next(_gates)
    running = planner.ask(f'hold-detail:{gate} say-continue')
    planner.node_process.wait_for_gate(gate)
    assert manager.set_text('preempt.policy', 'reject') == ''
    check_rejected(planner)
    assert manager.set_text('preempt.policy', 'queue') == ''
    queued = planner.ask('say-slow')
    planner.node_process.open_gate(gate)
    for answer in (running, queued):
        assert planner.finish(answer).finish_reason == FinishReason.STOP


def rounds_rss_bytes(planner: Planner, num_rounds: int) -> list[int]:
    """Answer a goal and go down and up again; return the memory behind each cleanup [bytes]."""
    manager, rss = Lifecycle(planner), []
    for _ in range(num_rounds):
        planner.answer('Hello. say-Sure', profile='talk', max_tokens=4)
        assert manager.deactivate() and manager.cleanup()
        rss.append(planner.node_process.rss_bytes)
        assert manager.configure() and manager.activate()
    print(f'RSS after cleanup [MiB]: {[size >> 20 for size in rss]}')
    return rss


def test_twenty_rounds_leave_nothing_behind(planner: Planner) -> None:
    rss = rounds_rss_bytes(planner, 20)
    assert rss[-1] - rss[4] < 8 * 2**20


def test_cleanup_frees_the_real_model(real_planner: Planner) -> None:
    loaded = real_planner.node_process.rss_bytes
    rss = rounds_rss_bytes(real_planner, 3)
    model_bytes = 90 * 2**20
    assert rss[0] < loaded - model_bytes
    # Allocator caches and fragments grow a little; a model or a context left behind is 180 MiB.
    assert rss[-1] - rss[0] < model_bytes


def test_shutdown_ends_goals_and_the_process_can_still_be_stopped(
    scripted: Callable[..., Planner],
) -> None:
    planner = scripted()
    manager, gate = Lifecycle(planner), next(_gates)
    answer = planner.ask(f'hold-detail:{gate} say-continue')
    planner.node_process.wait_for_gate(gate)
    assert manager.shutdown()
    planner.finish(answer)
    assert reasons(answer) == SHUTDOWN
    assert manager.state == FINALIZED
    check_rejected(planner)
    planner.wait_for(
        lambda: any(value.key == 'lifecycle_state' and value.value == 'finalized'
                    for status in planner.diagnostics for value in status.values),
        'the state on /diagnostics')
