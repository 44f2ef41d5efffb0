"""A simulation that pauses its clock: what is about real time goes on."""

from collections.abc import Callable

import pytest
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from ros_node import TIMEOUT_S
from ros_planner import Planner


@pytest.fixture(scope='module')
def executor() -> str:
    """Return one executor: the clock is the same on both."""
    return 'single_threaded'


def test_a_paused_clock_pauses_neither_watch_nor_diagnostics(
    scripted: Callable[..., Planner],
) -> None:
    """Timers followed ROS time: a client that left was never noticed."""
    planner = scripted(use_sim_time=True, client__grace_s=0.1)
    planner.wait_for(lambda: planner.diagnostic('executor_delay_max_s'), 'figures of the probe')
    with Planner(planner.node_process) as leaver:
        assert leaver.wait_until_ready(TIMEOUT_S)
        goal_id = leaver.ask('hold-detail:left say-continue').goal_id
        planner.node_process.wait_for_gate('left')
    planner.wait_for(lambda: planner.heard[goal_id]
                     and planner.heard[goal_id][-1].kind == TokenKind.END, 'the end of its goal')
    assert planner.heard[goal_id][-1].finish_reason == FinishReason.CLIENT_GONE
