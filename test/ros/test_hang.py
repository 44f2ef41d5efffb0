"""An engine that hangs ends its goal, shows in the silence of ``~/status``, and leaves active."""

from collections.abc import Callable, Iterator
from itertools import count

from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import DiagnosticStatus
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from robot_llm.errors import ErrorCode
from robot_llm_msgs.msg import Status
from ros_lifecycle import Lifecycle, UNCONFIGURED
from ros_node import running_node, SCRIPTED
from ros_planner import connected, Planner, reasons, seconds

HUNG = (
    GoalStatus.STATUS_ABORTED, FinishReason.ERROR, ErrorCode.ENGINE_HUNG, 'stop',
    DecisionSource.ERROR)

_gates = (f'h{number}' for number in count())
_epochs = count(1)


@pytest.fixture(params=[False, True], ids=['stay', 'exit'])
def hanging(
    request: pytest.FixtureRequest, executor: str, ros_domain: int,
) -> Iterator[tuple[Planner, bool]]:
    parameters = {'executor': executor, 'engine.hang_s': 2.0, 'preempt.policy': 'queue',
                  'engine.exit_on_hang': request.param, 'status.rate_hz': 50.0}
    with running_node(SCRIPTED, parameters) as node, connected(node) as planner:
        yield planner, request.param


def test_a_hang_ends_every_goal_and_the_node_takes_no_more(
    hanging: tuple[Planner, bool],
) -> None:
    planner, exits = hanging
    node = planner.node_process
    gate = next(_gates)
    running = planner.ask(f'hold-hang:{gate} say-continue')
    node.wait_for_gate(gate)
    waiting = planner.ask('say-continue')
    for answer in (running, waiting):
        planner.finish(answer)
        assert reasons(answer) == HUNG
        assert 'engine.hang_s=2.0' in answer.result.error_msg
    if exits:
        assert node.wait() == 1, 'launch has to see that it must respawn the node'
        return
    planner.wait_for_state(Status.STATE_FAILED)
    planner.wait_for(
        lambda: any(s.level == DiagnosticStatus.ERROR and 'ENGINE_HUNG' in s.message
                    for s in planner.diagnostics), 'level ERROR on /diagnostics')
    refused = planner.ask('say-slow')
    assert refused.wait() and refused.is_rejected
    assert node.stop() == 0, 'the thread that hangs must not keep the process'


def test_a_node_that_is_not_active_any_more_notices_the_hang_as_well(
    hanging: tuple[Planner, bool],
) -> None:
    """It stayed in spite of ``engine.exit_on_hang``, and loaded a second model beside it."""
    planner, exits = hanging
    node, manager, gate = planner.node_process, Lifecycle(planner), next(_gates)
    running = planner.ask(f'hold-hang:{gate} say-continue')
    node.wait_for_gate(gate)
    assert manager.deactivate()
    if exits:
        assert node.wait() == 1, 'launch has to see that it must respawn the node'
        assert planner.finish(running).finish_reason == FinishReason.SHUTDOWN
        return
    assert planner.finish(running).finish_reason == FinishReason.SHUTDOWN
    planner.wait_for_state(Status.STATE_FAILED)
    assert not manager.activate()
    assert manager.cleanup() and not manager.configure()
    node.wait_for_log('configure: an engine that hangs was left behind .* restart the process')
    assert manager.state == UNCONFIGURED
    node.open_gate(gate)  # the driver came back after all: nothing is left behind then
    assert any(manager.configure() for _ in range(1000)), node.log
    assert manager.activate()
    assert planner.answer('say-slow').result.decision == 'slow'


def test_a_cleanup_that_leaves_the_engine_behind_ends_the_process_where_that_is_wanted(
    executor: str, ros_domain: int,
) -> None:
    parameters = {'executor': executor, 'engine.hang_s': 0.0, 'engine.exit_on_hang': True}
    with running_node(SCRIPTED, parameters) as node, connected(node) as planner:
        gate, manager = next(_gates), Lifecycle(planner)
        running = planner.ask(f'hold-hang:{gate} say-continue')
        node.wait_for_gate(gate)
        assert manager.deactivate() and manager.cleanup()
        assert node.wait() == 1
        assert planner.finish(running).finish_reason == FinishReason.SHUTDOWN


@pytest.fixture(scope='module')
def patient(scripted: Callable[..., Planner]) -> Planner:
    """Return a planner of a node that does not give its engine up while a test runs."""
    return scripted(engine__hang_s=600.0)


@pytest.mark.parametrize('stage', ['hang', 'deaf'], ids=['prefill', 'detail'])
@pytest.mark.parametrize(('what', 'source'), [
    ('scene', DecisionSource.STALE_SCENE), ('deadline', DecisionSource.DEADLINE),
    ('deactivate', DecisionSource.CANCELED)])
def test_the_fallback_does_not_wait_for_an_engine_that_hangs(
    patient: Planner, stage: str, what: str, source: DecisionSource,
) -> None:
    planner, gate, epoch = patient, next(_gates), next(_epochs)
    manager = Lifecycle(planner)
    if what == 'scene':
        planner.publish_scene(epoch, 'A corridor.')
    answer = planner.ask(
        f'hold-{stage}:{gate} say-continue', scene_epoch=epoch if what == 'scene' else 0,
        total_deadline=seconds(2.0 if what == 'deadline' else 0.0))
    planner.node_process.wait_for_gate(gate)
    if stage == 'deaf':
        planner.wait_for(lambda: answer.decisions, 'the decision of the model')
        assert answer.decisions[0].word == 'continue'
    if what == 'scene':
        planner.publish_scene(next(_epochs), 'A person.')
    if what == 'deactivate':
        assert manager.deactivate()
    planner.wait_for(lambda: answer.decisions and answer.decisions[-1].source == source,
                     'the fallback, while the engine hangs')
    assert answer.decisions[-1].word == 'stop'
    assert answer.result is None and all(t.kind != TokenKind.END for t in answer.tokens)
    planner.node_process.open_gate(gate)
    planner.finish(answer)
    assert len(answer.decisions) == (2 if stage == 'deaf' else 1)
    if what == 'deactivate':
        assert manager.activate()
