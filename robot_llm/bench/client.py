"""A planner with a stop-watch, in another process than the node that it measures."""

from collections.abc import Callable, Iterable
from functools import partial
import time
from typing import Any, Final

from builtin_interfaces.msg import Duration
from rcl_interfaces.msg import Parameter
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.parameter import Parameter as Value, parameter_value_to_python
from robot_llm.bench.timed_goal import Heard, TimedGoal
from robot_llm.bench.timeline import Arrival
from robot_llm.core.session import TokenKind
from robot_llm.errors import RobotLlmError
from robot_llm.ros.answer import Answer
from robot_llm.ros.client import Client
from robot_llm.ros.message_age import stamp_s
from robot_llm_msgs.action import Generate
from robot_llm_msgs.msg import Decision, Token

GOAL_TIMEOUT_S: Final = 300.0
"""Longer than any goal of a benchmark; who waits for it has met a fault."""

LOOK_S: Final = 0.5
"""How often a wait looks whether the node still lives."""

STREAM_TIMEOUT_S: Final = 5.0
"""How long the decision's own topic may lag behind the result."""


class BenchError(RobotLlmError):
    """The node does not do what a measurement needs; the message says what."""


class BenchClient(Client):
    """
    Sends goals and notes when what came back.

    :param server: fully qualified name of the node under measurement
    """

    def __init__(self, server: str, *, name: str = 'robot_llm_bench') -> None:
        self._heard: dict[bytes, Heard] = {}
        self.server = server
        self.node_pid = 0
        """Of a node that the benchmark has started; 0 for one that somebody runs."""
        self.has_ended: Callable[[], bool] = lambda: False
        """Whether the node's process is gone, as far as anybody can know."""
        super().__init__(server, name=name)
        self._get = self.node.create_client(GetParameters, f'{server}/get_parameters')
        self._set = self.node.create_client(SetParameters, f'{server}/set_parameters')

    def __enter__(self) -> 'BenchClient':
        """Return itself."""
        return self

    # On the spin thread.

    def _token_callback(self, token: Token) -> None:
        now_s, now_at_s = time.monotonic(), time.time()
        heard = self.heard(bytes(token.goal_id.uuid))
        if token.num_tokens:
            heard.arrivals.append(
                Arrival(now_s, now_at_s - stamp_s(token.stamp), token.num_tokens))
        if token.kind == TokenKind.END:
            heard.end_s, heard.finish_reason = now_s, token.finish_reason
        super()._token_callback(token)

    def _decision_callback(self, decision: Decision) -> None:
        now_s, now_at_s = time.monotonic(), time.time()
        heard = self.heard(bytes(decision.goal_id.uuid))
        if not heard.decision_s:
            heard.decision_s, heard.decision_age_s = now_s, now_at_s - stamp_s(decision.stamp)
        super()._decision_callback(decision)

    # Off it.

    def heard(self, goal_id: bytes) -> Heard:
        """Return what has come in of a goal, whoever sent it."""
        return self._heard.setdefault(goal_id, Heard())

    def start(
        self, prompt: str, *, profile: str = '', max_tokens: int = 0, deadline_s: float = 0.0,
        scene_epoch: int = 0,
    ) -> TimedGoal:
        """Send a greedy goal; returns at once. Empty and 0 mean the node's own."""
        goal = Generate.Goal(
            prompt=prompt, profile=profile, max_tokens=max_tokens, temperature=0.0,
            scene_epoch=scene_epoch,
            decision_deadline=Duration(
                sec=int(deadline_s), nanosec=round(deadline_s % 1 * 1e9)))
        sent_s, sent_at_s = time.monotonic(), time.time()
        answer = self.send(goal)
        return TimedGoal(answer, self.heard(answer.goal_id), sent_s, sent_at_s)

    def finish(self, goal: TimedGoal, *, needs_decision: bool = True) -> TimedGoal:
        """
        Wait for everything that belongs to a goal.

        :param needs_decision: False where a burst may push decisions of goals that have ended out
            of the topic's history
        :raises BenchError: if it is refused, or no result or decision comes
        """
        self.wait_for_end(goal)
        if goal.answer.is_rejected or goal.answer.result is None:
            raise BenchError(
                'the goal was refused: '
                + (self.refusal or goal.answer.failure or 'the log of the node says why'))
        if not goal.answer.wait(STREAM_TIMEOUT_S):
            raise BenchError('the result is there, and the end of the stream is not')
        if needs_decision and not goal.answer.wait_for(
                lambda: bool(goal.answer.decisions), STREAM_TIMEOUT_S):
            raise BenchError('the result is there, and the decision is not; is '
                             'topics.decision_lifespan_s shorter than the delivery?')
        return goal

    def wait_for_end(self, goal: TimedGoal) -> None:
        """
        Wait for a result or a refusal, and note when it came.

        :raises BenchError: if neither comes, or the node ends
        """
        if not self._wait(
                goal.answer, lambda: goal.answer.result is not None or goal.answer.is_over):
            raise BenchError(f'no result within {GOAL_TIMEOUT_S:.0f} s; see the log of the node')
        goal.result_s = goal.result_s or time.monotonic()

    def run(self, prompt: str, **fields: Any) -> TimedGoal:
        """Send a goal and wait for its end."""
        return self.finish(self.start(prompt, **fields))

    def settle(self) -> None:
        """Cancel whatever of ours still runs, and wait until it has ended."""
        open_goals = [answer for answer in list(self._answers.values()) if not answer.is_over]
        for answer in open_goals:
            answer.cancel()
        for answer in open_goals:
            self._wait(answer, partial(getattr, answer, 'is_over'))

    def wait_for_tokens(self, goal: TimedGoal, num_tokens: int) -> None:
        """
        Wait until so many tokens of a goal have come in.

        :raises BenchError: if it, or the node, ends before
        """
        self._wait(goal.answer,
                   lambda: goal.answer.is_over or goal.heard.num_tokens >= num_tokens)
        if (num_heard := goal.heard.num_tokens) < num_tokens:
            raise BenchError(f'the answer ended after {num_heard} tokens, and {num_tokens} are '
                             'needed; give a profile with free text (--profile)')

    def _wait(self, answer: Answer, condition: Callable[[], bool]) -> bool:
        """
        Wait until what came in of a goal meets a condition; False if the time runs out.

        :raises BenchError: if the node ends before
        """
        end_s = time.monotonic() + GOAL_TIMEOUT_S
        while not answer.wait_for(condition, LOOK_S):
            self._see_that_it_lives()
            if time.monotonic() > end_s:
                return False
        return True

    def _see_that_it_lives(self) -> None:
        if self.has_ended():
            raise BenchError(f'{self.server} has ended')

    # The node's parameters.

    def parameters(self, names: Iterable[str]) -> dict[str, Any]:
        """Return parameters of the node by name."""
        wanted = list(names)
        response = self._call(self._get, GetParameters.Request(names=wanted))
        return {name: parameter_value_to_python(value)
                for name, value in zip(wanted, response.values)}

    def set_parameters(self, **parameters: object) -> None:
        """
        Change live parameters; ``__`` stands for the dot.

        :raises BenchError: with the node's reason
        """
        named = {name.replace('__', '.'): value for name, value in parameters.items()}
        response = self._call(self._set, SetParameters.Request(parameters=[
            Parameter(name=name, value=Value(name, value=value).get_parameter_value())
            for name, value in named.items()]))
        for result in response.results:
            if not result.successful:
                raise BenchError(f'{named}: {result.reason}')

    def _call(self, client: Any, request: Any) -> Any:
        answers: list[Any] = []
        if not client.wait_for_service(STREAM_TIMEOUT_S):
            raise BenchError(f'there is no {client.srv_name}')
        # Sent on the spin thread: from another one rclpy can miss an answer that is very fast.
        self._executor.create_task(lambda: client.call_async(request).add_done_callback(
            lambda future: answers.append(future.result())))
        self.wait_until(lambda: bool(answers), f'{client.srv_name} does not answer')
        return answers[0]

    def wait_until(
        self, condition: Callable[[], bool], failure: str, timeout_s: float = GOAL_TIMEOUT_S,
    ) -> None:
        """
        Look at a condition every two milliseconds until it holds.

        :raises BenchError: ``failure``, if the time runs out; or if the node ends
        """
        end_s = time.monotonic() + timeout_s
        while not condition():
            self._see_that_it_lives()
            if time.monotonic() > end_s:
                raise BenchError(f'{failure} within {timeout_s:.0f} s')
            time.sleep(0.002)
