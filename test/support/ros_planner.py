"""A planner that writes down everything the node says."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Condition, Event
from typing import Any

from action_msgs.msg import GoalStatus, GoalStatusArray
from builtin_interfaces.msg import Duration
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.executors import Executor
from rclpy.qos import DurabilityPolicy, QoSProfile
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from robot_llm.ros.answer import Answer
from robot_llm.ros.client import Client
from robot_llm_msgs.action import Generate
from robot_llm_msgs.msg import Decision, Scene, Status, Token
from robot_llm_msgs.srv import Replay
from ros_goal import check_contract
from ros_node import NodeProcess, TIMEOUT_S
from unique_identifier_msgs.msg import UUID

TERMINAL = (
    GoalStatus.STATUS_SUCCEEDED, GoalStatus.STATUS_CANCELED, GoalStatus.STATUS_ABORTED)


_names = count(1)


def seconds(value: float) -> Duration:
    """Return a duration message."""
    return Duration(sec=int(value // 1), nanosec=int(value % 1 * 1e9))


class Planner(Client):
    """A client that also keeps feedback, status and diagnostics, in the order of arrival."""

    def __init__(self, node: NodeProcess) -> None:
        self.node_process = node
        self.seen = Condition()
        self.statuses: list[Status] = []
        self.heard: dict[bytes, list[Token]] = defaultdict(list)
        self.feedback: dict[bytes, list[Token]] = defaultdict(list)
        self.decided: dict[bytes, list[Decision]] = defaultdict(list)
        self.terminal: dict[bytes, list[int]] = defaultdict(list)
        self.diagnostics: list[DiagnosticStatus] = []
        # A test is not a robot: it wants to know of every decision, however late it hears of it.
        super().__init__(node.name, name=f'planner_{next(_names)}', decision_lifespan_s=TIMEOUT_S)
        deep = QoSProfile(depth=4096)
        self.node.create_subscription(
            Generate.Impl.FeedbackMessage, f'{node.name}/generate/_action/feedback',
            self._feedback_callback, deep)
        self.node.create_subscription(
            GoalStatusArray, f'{node.name}/generate/_action/status', self._terminal_callback,
            QoSProfile(depth=64, durability=DurabilityPolicy.TRANSIENT_LOCAL))
        self.node.create_subscription(
            DiagnosticArray, '/diagnostics', self._diagnostics_callback, deep)
        self._replay = self.node.create_client(Replay, f'{node.name}/replay')
        self._get_result = self.node.create_client(
            Generate.Impl.GetResultService, f'{node.name}/generate/_action/get_result')

    def publish(self, scene: Scene) -> None:
        """Publish a scene as it is, behind the first one."""
        assert self._scene is not None, 'publish_scene makes the publisher'
        self._scene.publish(scene)

    def diagnostic(self, key: str) -> str:
        """Return a figure of the last diagnostics; empty before the first."""
        values = {item.key: item.value for item in self.diagnostics[-1].values
                  } if self.diagnostics else {}
        return values.get(key, '')

    @property
    def executor(self) -> Executor:
        """Where other nodes of this process may spin along."""
        return self._executor

    # On the spin thread.

    def _status_callback(self, status: Status) -> None:
        super()._status_callback(status)
        with self.seen:
            self.statuses.append(status)
            self.seen.notify_all()

    def _token_callback(self, token: Token) -> None:
        super()._token_callback(token)
        with self.seen:
            self.heard[bytes(token.goal_id.uuid)].append(token)
            self.seen.notify_all()

    def _decision_callback(self, decision: Decision) -> None:
        super()._decision_callback(decision)
        with self.seen:
            self.decided[bytes(decision.goal_id.uuid)].append(decision)
            self.seen.notify_all()

    def _feedback_callback(self, message: Any) -> None:
        with self.seen:
            self.feedback[bytes(message.goal_id.uuid)].append(message.feedback.token)
            self.seen.notify_all()

    def _terminal_callback(self, message: GoalStatusArray) -> None:
        with self.seen:
            for goal in message.status_list:
                ends = self.terminal[bytes(goal.goal_info.goal_id.uuid)]
                if goal.status in TERMINAL and ends[-1:] != [goal.status]:
                    ends.append(goal.status)
            self.seen.notify_all()

    def _diagnostics_callback(self, message: DiagnosticArray) -> None:
        with self.seen:
            self.diagnostics += [
                status for status in message.status
                if status.name.startswith(self.node_process.name)]
            self.seen.notify_all()

    # Off it.

    def wait_for(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until ``condition``, asked after every message, holds."""
        with self.seen:
            assert self.seen.wait_for(condition, TIMEOUT_S), (
                f'not seen: {what}; the log:\n{self.node_process.log}')

    def wait_for_state(self, state: int) -> Status:
        """Return the first status in ``state`` from now on, or the last one if it is in it."""
        start = max(len(self.statuses) - 1, 0)
        self.wait_for(lambda: any(s.state == state for s in self.statuses[start:]),
                      f'~/status in state {state}')
        return next(s for s in self.statuses[start:] if s.state == state)

    def ask(self, prompt: str, **fields: Any) -> Answer:
        """Send a goal; returns at once."""
        return self.send(Generate.Goal(prompt=prompt, **fields))

    def follow(self, goal_id: bytes) -> Answer:
        """Return the answer to somebody else's goal; the result has to be fetched."""
        answer = Answer(goal_id, None, self._executor.create_task)

        def begin() -> None:
            self._answers[goal_id] = answer
            for token in self.heard[goal_id]:
                answer.add_token(token)
            for decision in self.decided[goal_id]:
                answer.add_decision(decision)

        self._executor.create_task(begin)
        return answer

    def fetch_result(self, answer: Answer) -> None:
        """
        Ask for the result of a goal whose client has left.

        What the node owes to that client it drops, and it cannot tell who else has asked by then.
        """
        assert self._get_result.wait_for_service(TIMEOUT_S)
        assert answer.wait_for(lambda: bool(answer.tokens) and (
            answer.tokens[-1].kind == TokenKind.END), TIMEOUT_S), self.node_process.log
        request = Generate.Impl.GetResultService.Request(
            goal_id=UUID(uuid=list(answer.goal_id)))
        for _ in range(10):
            self._get_result.call_async(request).add_done_callback(answer._on_result)
            if answer.wait_for(lambda: answer.result is not None, 1.0):
                return
        raise AssertionError(f'no result; the log:\n{self.node_process.log}')

    def finish(self, answer: Answer) -> Generate.Result:
        """Wait for everything that belongs to an accepted goal, and hold it to the contract."""
        goal_id = answer.goal_id
        log = self.node_process
        assert answer.wait(TIMEOUT_S), f'no end of the goal; the log:\n{log.log}'
        assert not answer.is_rejected, log.log
        result = answer.result
        assert result is not None, answer.failure
        assert answer.wait_for(
            lambda: [d.source for d in answer.decisions[-1:]] == [result.decision_source],
            TIMEOUT_S), (f'the decision of the result of {goal_id.hex()} is not on ~/decision:\n'
                         f'{log.log}')
        self.wait_for(lambda: self.terminal[goal_id], 'the terminal status of the goal')
        check_contract(answer)
        assert self.terminal[goal_id] == [answer.status]
        return result

    def answer(self, prompt: str, **fields: Any) -> Answer:
        """Send a goal and wait for its end."""
        answer = self.ask(prompt, **fields)
        self.finish(answer)
        return answer

    def replay(self, goal_id: bytes, from_seq: int = 0) -> Replay.Response:
        """Ask ``~/replay``."""
        return self.call(self._replay, Replay.Request(
            goal_id=UUID(uuid=list(goal_id)), from_seq=from_seq))

    def call(self, client: Any, request: Any) -> Any:
        """Call a service and return its response."""
        assert client.wait_for_service(TIMEOUT_S), f'there is no {client.srv_name}'
        done = Event()
        future = client.call_async(request)
        future.add_done_callback(lambda _: done.set())
        assert done.wait(TIMEOUT_S), (
            f'{client.srv_name} does not answer; the log:\n{self.node_process.log}')
        return future.result()


@contextmanager
def connected(node: NodeProcess) -> Iterator[Planner]:
    """Return a planner once the node is active and every topic is matched."""
    # Two participants that start together may miss each other's first announcements, and Fast DDS
    # repeats them after 3 s only.
    node.wait_for_log('active, goals are welcome')
    with Planner(node) as planner:
        assert planner.wait_until_ready(TIMEOUT_S), f'the node is not active:\n{node.log}'
        yield planner


def reasons(answer: Answer) -> tuple[int, FinishReason, int, str, DecisionSource]:
    """Return how a goal ended: status, reason, error code, decision and its source."""
    result = answer.result
    assert result is not None
    return (answer.status, FinishReason(result.finish_reason), result.error_code,
            result.decision, DecisionSource(result.decision_source))
