"""
Goals in a row to which everything happens at random: each gets one end, one result, and no gap.

``ROBOT_LLM_STRESS_GOALS`` says how many, ``ROBOT_LLM_STRESS_SEED`` which, and
``ROBOT_LLM_STRESS_STALL_S`` how late the executor may be; on a machine that others use the figure
is printed only. Beside it stands how late the same timer came in a process that does nothing.
"""

from collections.abc import Callable
import os
from pathlib import Path

import pytest
from robot_llm.core.request import FinishReason
from robot_llm_msgs.msg import Status
from ros_listening import heard, keeping_time, kept_time, listening
from ros_node import NodeProcess, Process, REAL, running_node
from ros_planner import connected, Planner
from ros_stress import Stress

NUM_GOALS = int(os.environ.get('ROBOT_LLM_STRESS_GOALS', '40'))
SEED = int(os.environ.get('ROBOT_LLM_STRESS_SEED', '1'))
MAX_STALL_S = float(os.environ.get('ROBOT_LLM_STRESS_STALL_S', 'inf'))

# Fragments and caches of a process that works; a leaked answer or context is far more.
GROWTH_BYTES = 30 * 2**20

PROBE_HZ = 100.0

PARAMETERS = {'status.stall_probe_hz': PROBE_HZ, 'client.grace_s': 0.5,
              'topics.decision_lifespan_s': 60.0}


def run(planner: Planner, *, can_fail: bool) -> None:
    with listening(planner.node_process) as listener, keeping_time(PROBE_HZ) as idle:
        check(Stress(planner, listener, SEED, can_fail), idle)


def check(stress: Stress, idle: Process) -> None:
    planner, rss = stress.planner, []
    stress.rise()
    for number, way in enumerate(stress.turns(NUM_GOALS)):
        stress.one_goal(way)
        if number >= NUM_GOALS // 4:
            rss.append(planner.node_process.rss_bytes)
    ended = stress.check()
    stress.wait_for_diagnostics()
    delays_s, beside = stress.figures('executor_delay_max_s'), kept_time(idle)
    print(f'{sum(ended.values())} goals, seed {SEED}: {dict(ended)} after {dict(stress.ways)}; '
          f'RSS {rss[0] >> 20} to {rss[-1] >> 20} MiB, at most {max(rss) >> 20}; '
          f'the executor was {max(delays_s) * 1e3:.1f} ms late at most, p99 '
          f'{max(stress.figures("executor_delay_p99_s")) * 1e3:.1f} ms; an idle process '
          f'{beside["max_s"] * 1e3:.1f} and {beside["p99_s"] * 1e3:.1f} ms')
    assert len(ended) >= 4, 'the dice should have stopped goals in several ways'
    assert rss[-1] - rss[0] < GROWTH_BYTES
    assert max(delays_s) <= MAX_STALL_S
    planner.wait_for_state(Status.STATE_IDLE)
    check_the_next_goal(stress)
    log = planner.node_process.log
    assert 'Traceback' not in log, log


def check_the_next_goal(stress: Stress) -> None:
    """Hold the goal behind all of this to the contract, at a listener that was stopped as well."""
    answer = stress.planner.answer('say-slow')
    assert answer.result.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
    assert heard(stress.listener, answer.goal_id)['text'] == answer.result.text


@pytest.mark.parametrize('scene_policy', ['abort', 'restart'])
def test_many_goals_on_a_scripted_engine(
    scripted: Callable[..., Planner], scene_policy: str,
) -> None:
    parameters = PARAMETERS | {'scene.policy': scene_policy}
    run(scripted(**{name.replace('.', '__'): value for name, value in parameters.items()}),
        can_fail=True)


def test_many_goals_on_the_real_model(
    executor: str, ros_domain: int, model_path: Path,
) -> None:
    parameters = PARAMETERS | {
        'executor': executor, 'model.path': model_path, 'status.rate_hz': 50.0}
    with running_node(REAL, parameters) as node:
        run_beside(node)


def run_beside(node: NodeProcess) -> None:
    with connected(node) as planner:
        run(planner, can_fail=False)
