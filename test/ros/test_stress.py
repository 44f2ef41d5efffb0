"""
Goals in a row, stopped at random in random ways: each gets one end, one result, and no gap.

``ROBOT_LLM_STRESS_GOALS`` says how many, ``ROBOT_LLM_STRESS_SEED`` which.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
import os
import random

from builtin_interfaces.msg import Duration
from robot_llm.core.request import FinishReason
from robot_llm.ros.answer import Answer
from robot_llm_msgs.msg import Status
from ros_node import TIMEOUT_S
from ros_planner import Planner

NUM_GOALS = int(os.environ.get('ROBOT_LLM_STRESS_GOALS', '40'))
SEED = int(os.environ.get('ROBOT_LLM_STRESS_SEED', '1'))

# Fragments and caches of a process that works; a leaked answer or context is far more.
GROWTH_BYTES = 30 * 2**20


@dataclass
class Stress:
    """One planner that changes its mind all the time."""

    planner: Planner
    dice: random.Random = field(default_factory=lambda: random.Random(SEED))
    epoch: int = 0
    sent: list[Answer] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)

    def one_goal(self) -> None:
        """Send a goal, let it come as far as the dice say, then let something happen to it."""
        answer = self.send()
        num_tokens = self.dice.choice([0, 0, 1, 2, 5])
        answer.wait_for(lambda: answer.is_over or (
            answer.is_accepted and len(answer.tokens) >= num_tokens), TIMEOUT_S)
        way = self.dice.choice(['leave', 'cancel', 'cancel', 'preempt', 'scene', 'pile'])
        self.ways[way] += 1
        match way:
            case 'cancel':
                answer.cancel()
            case 'scene':
                self.rise()
            case 'pile':
                for _ in range(3):
                    self.send().cancel()
        if way != 'preempt':
            answer.wait(TIMEOUT_S)

    def send(self) -> Answer:
        prompt = 'The robot sees a box. ' * self.dice.choice([1, 1, 20])
        answer = self.planner.ask(
            f'{prompt} say-continue', profile=self.dice.choice(['', 'talk']),
            max_tokens=self.dice.choice([0, 8, 24]), scene_epoch=self.dice.choice([0, self.epoch]),
            total_deadline=self.dice.choice([Duration(), Duration(), Duration(nanosec=10**8)]))
        self.sent.append(answer)
        return answer

    def rise(self) -> None:
        self.epoch += 1
        self.planner.publish_scene(self.epoch, f'Corridor number {self.epoch}.')

    def check(self) -> Counter[str]:
        """Hold every goal to the contract; return how they ended."""
        return Counter(
            FinishReason(self.planner.finish(answer).finish_reason).name for answer in self.sent)


def run(planner: Planner) -> None:
    stress = Stress(planner)
    stress.rise()
    rss: list[int] = []
    for number in range(NUM_GOALS):
        stress.one_goal()
        if number >= NUM_GOALS // 4:
            rss.append(planner.node_process.rss_bytes)
    ended = stress.check()
    planner.wait_for_state(Status.STATE_IDLE)
    print(f'{len(stress.sent)} goals, seed {SEED}: {dict(ended)} after {dict(stress.ways)}; '
          f'RSS {rss[0] >> 20} to {rss[-1] >> 20} MiB, at most {max(rss) >> 20}')
    assert len(ended) >= 3, 'the dice should have stopped goals in several ways'
    assert rss[-1] - rss[0] < GROWTH_BYTES
    assert planner.answer('say-slow', scene_epoch=0).result.finish_reason in (
        FinishReason.STOP, FinishReason.LENGTH)
    log = planner.node_process.log
    assert 'Traceback' not in log and '[FATAL]' not in log and '[ERROR]' not in log, log


def test_many_goals_on_a_scripted_engine(scripted: Callable[..., Planner]) -> None:
    run(scripted())


def test_many_goals_on_the_real_model(real_planner: Planner) -> None:
    run(real_planner)
