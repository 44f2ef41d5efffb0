"""A goal in its stage, whoever asked, and whether what became of it is what the contract says."""

from dataclasses import dataclass, field
from itertools import count
from threading import Event
import time
from typing import Any, Final
import uuid

from action_msgs.msg import GoalStatus
from contract_table import BY_MODEL, FALLBACK, Pair
from rclpy.action import ActionClient
from rclpy.node import Node
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from robot_llm.errors import ErrorCode
from robot_llm.ros.answer import Answer
from robot_llm_msgs.action import Generate
from ros_node import TIMEOUT_S
from ros_planner import Planner
from unique_identifier_msgs.msg import UUID

IDLE_TIMEOUT_S: Final = 10.0
"""No engine takes that long to be put down; the time itself is for the report."""

WORDS: Final = {'drive': {BY_MODEL: 'continue', FALLBACK: 'stop'},
                'talk': {BY_MODEL: 'Sure', FALLBACK: 'Sorry'}}

_visitors = count()


@dataclass
class Case:
    """A goal in its stage, and who else is there."""

    goal: Answer
    gates: list[str]
    others: list[Answer] = field(default_factory=list)
    profile: str = 'drive'
    struck_s: float = 0.0
    """When the trigger was pulled, monotonic."""

    def strike(self) -> None:
        """Note the time."""
        self.struck_s = time.monotonic()


class Visitor:
    """
    A client that leaves: a node of its own, which is in the graph as long as it lives.

    :param planner: whose process and executor it shares, and who stays
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._node = Node(f'visitor_{next(_visitors)}', context=planner.node.context)
        self._action = ActionClient(
            self._node, Generate, f'{planner.node_process.name}/generate')
        planner.executor.add_node(self._node)

    def ask(self, prompt: str) -> Answer:
        """Send a goal; return what the planner gets to see of it."""
        goal_id, accepted = uuid.uuid4().bytes, Event()
        goal = Generate.Goal(prompt=prompt, client=self._node.get_fully_qualified_name())
        assert self._action.wait_for_server(TIMEOUT_S)

        def on_accepted(future: Any) -> None:
            # As every client does; what the node owes it is not sent once it has left.
            future.result().get_result_async()
            accepted.set()

        self._planner.executor.create_task(
            lambda: self._action.send_goal_async(
                goal, goal_uuid=UUID(uuid=list(goal_id))).add_done_callback(on_accepted))
        assert accepted.wait(TIMEOUT_S), self._planner.node_process.log
        return self._planner.follow(goal_id)

    def leave(self) -> None:
        """Leave the graph without a word to the goal."""
        def leave() -> None:
            self._planner.executor.remove_node(self._node)
            self._action.destroy()
            self._node.destroy_node()
            left.set()

        left = Event()
        self._planner.executor.create_task(leave)
        assert left.wait(TIMEOUT_S)


def check_result(pair: Pair, case: Case) -> None:
    """Hold a goal to its row."""
    goal, result, words = case.goal, case.goal.result, WORDS[case.profile]
    assert result is not None
    assert (FinishReason(result.finish_reason), ErrorCode(result.error_code)) == (
        pair.finish_reason, pair.error_code)
    assert goal.status == getattr(GoalStatus, f'STATUS_{pair.status}')
    assert bool(result.error_msg) == bool(pair.error_code)
    said = [(d.word, DecisionSource(d.source)) for d in goal.decisions]
    assert said == [(words[kind], source) for kind, source in pair.decisions]
    assert (result.decision, result.decision_source) == said[-1]
    stats = result.stats
    if pair.engine == 'has not begun':
        assert (stats.num_prompt_tokens, stats.num_decode_calls) == (0, 0)
    elif pair.engine == 'stopped':
        assert 0 < stats.cancel_latency_s < IDLE_TIMEOUT_S
        assert stats.num_wasted_tokens <= 1
    else:
        assert stats.cancel_latency_s == 0


def check_stream(planner: Planner, goal: Answer) -> None:
    """See that topic, feedback and status said everything once, and nothing since."""
    goal_id = goal.goal_id
    planner.wait_for(lambda: len(planner.feedback[goal_id]) >= len(goal.tokens), 'the feedback')
    for heard in (planner.heard[goal_id], planner.feedback[goal_id]):
        assert [token.seq for token in heard] == list(range(len(goal.tokens)))
        assert [token.kind for token in heard].count(TokenKind.END) == 1
    assert planner.decided[goal_id] == goal.decisions
    assert planner.terminal[goal_id] == [goal.status]
