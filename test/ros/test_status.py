"""~/status tells what the engine does now, ~/diagnostics what it has done."""

from collections.abc import Callable
from itertools import count

from diagnostic_msgs.msg import DiagnosticStatus
import pytest
from robot_llm.ros.health import status_qos
from robot_llm_msgs.msg import Status
from ros_node import TIMEOUT_S
from ros_planner import Planner

try:
    from rclpy.event_handler import SubscriptionEventCallbacks
except ImportError:  # ROS 2 Humble
    from rclpy.qos_event import SubscriptionEventCallbacks

_gates = (f't{number}' for number in count())


@pytest.fixture(scope='module')
def queue_planner(scripted: Callable[..., Planner]) -> Planner:
    return scripted(preempt__policy='queue')


def states_since(planner: Planner, start: int) -> list[int]:
    """Return the states as they followed each other."""
    states: list[int] = []
    for status in planner.statuses[start:]:
        if states[-1:] != [status.state]:
            states.append(status.state)
    return states


def test_a_goal_is_seen_in_prefill_then_in_decode_then_no_more(real_planner: Planner) -> None:
    planner, start = real_planner, len(real_planner.statuses)
    answer = planner.answer('Tell me a story.', profile='talk', max_tokens=48)
    planner.wait_for_state(Status.STATE_IDLE)
    busy = [s for s in states_since(planner, start)
            if s in (Status.STATE_PREFILL, Status.STATE_DECODE)]
    assert busy == [Status.STATE_PREFILL, Status.STATE_DECODE]
    goal_ids = {bytes(s.goal_id.uuid) for s in planner.statuses[start:]}
    assert goal_ids <= {answer.goal_id, bytes(16)}
    last = planner.statuses[-1]
    assert not any(last.goal_id.uuid) and last.elapsed_s == 0.0
    assert last.model != '' and last.device == 'CPU'


def test_the_heartbeat_of_the_real_model_counts_its_prefill(real_planner: Planner) -> None:
    start = len(real_planner.statuses)
    answer = real_planner.ask('The robot sees a box. ' * 300)

    def progress() -> list[int]:
        return [s.num_prefilled_tokens for s in real_planner.statuses[start:]
                if bytes(s.goal_id.uuid) == answer.goal_id and s.state == Status.STATE_PREFILL]

    real_planner.wait_for(lambda: len({n for n in progress() if n}) >= 2, 'two counts')
    seen = progress()
    assert seen == sorted(seen)
    counted = real_planner.statuses[-1]
    assert counted.num_prompt_tokens >= counted.num_cached_tokens + seen[-1] > 0
    answer.cancel()
    real_planner.finish(answer)


def test_the_heartbeat_goes_on_in_the_middle_of_a_decode(real_planner: Planner) -> None:
    start = len(real_planner.statuses)
    answer = real_planner.ask('The robot sees a chair. ' * 100)

    def beats() -> list[float]:
        """Return when it beat within the chunk in which it did so most often."""
        seen: dict[int, list[float]] = {}
        for status in real_planner.statuses[start:]:
            if bytes(status.goal_id.uuid) == answer.goal_id and (
                    status.state == Status.STATE_PREFILL and status.num_prompt_tokens):
                seen.setdefault(status.num_prefilled_tokens, []).append(status.elapsed_s)
        return max(seen.values(), key=len, default=[])

    # The end of a chunk accounts for one, and the start of the goal for another.
    real_planner.wait_for(lambda: len(beats()) >= 4, 'four beats within a chunk')
    assert beats() == sorted(set(beats()))
    answer.cancel()
    real_planner.finish(answer)


def test_the_queue_is_counted(queue_planner: Planner) -> None:
    planner, gate = queue_planner, next(_gates)
    running = planner.ask(f'hold-detail:{gate} say-continue')
    planner.node_process.wait_for_gate(gate)
    waiting = []
    for length in (1, 2, 3):
        waiting.append(planner.ask('say-slow'))
        planner.wait_for(lambda: planner.statuses[-1].queue_length == length, f'queue {length}')
    planner.node_process.open_gate(gate)
    for answer in (running, *waiting):
        planner.finish(answer)
    planner.wait_for(lambda: planner.statuses[-1].queue_length == 0, 'an empty queue')


def test_a_refusal_is_told_where_a_client_can_read_it(planner: Planner) -> None:
    answer = planner.ask('say-slow', temperature=9.0)
    assert answer.wait_for(lambda: answer.is_rejected, TIMEOUT_S)
    planner.wait_for(lambda: 'temperature=9.0' in planner.refusal, 'the reason in ~/status')
    assert planner.refusal.startswith('MALFORMED_FIELD: ')


def test_diagnostics_count_goals_and_say_that_all_is_well(planner: Planner) -> None:
    planner.answer('say-slow')
    start = len(planner.diagnostics)
    planner.wait_for(lambda: len(planner.diagnostics) > start + 1, 'the next diagnostics')
    status = planner.diagnostics[-1]
    values = {item.key: item.value for item in status.values}
    assert (status.level, status.message) == (DiagnosticStatus.OK, 'active')
    assert values['lifecycle_state'] == 'active' and values['model'] == 'scripted'
    assert int(values['goals_stop']) >= 1
    assert int(values['n_ctx']) > int(values['kv_tokens']) > 0
    assert 0 < float(values['kv_use']) < 1 and int(values['memory_rss_bytes']) > 0
    assert {'layers', 'gpu_layers', 'queue_length', 'wasted_tokens', 'deadline_misses',
            'decisions_low_confidence', 'cached_token_rate', 'scenes_ignored'} <= set(values)
    assert float(values['ttft_p99_s']) >= float(values['ttft_p50_s']) > 0


def test_a_short_lease_is_kept_by_a_healthy_node(scripted: Callable[..., Planner]) -> None:
    """An idle engine showed its pulse once a second, whatever silence counts as a hang."""
    lease_s, alarms = 0.5, []
    planner = scripted(status__lease_s=lease_s, status__rate_hz=0.1)
    planner.node.create_subscription(
        Status, f'{planner.node_process.name}/status', lambda _: None, status_qos(lease_s),
        event_callbacks=SubscriptionEventCallbacks(
            deadline=alarms.append, liveliness=lambda event: alarms.extend(
                [event] * (event.alive_count == 0))))
    num_heard = len(planner.diagnostics)
    planner.wait_for(lambda: len(planner.diagnostics) >= num_heard + 5, 'five seconds')
    assert not alarms
