"""One planner that changes its mind all the time, and a node to which everything happens."""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
import random
import signal

from builtin_interfaces.msg import Duration
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from robot_llm.ros.answer import Answer
from robot_llm.ros.client import Client
from robot_llm_msgs.action import Generate
from robot_llm_msgs.msg import Status
from ros_lifecycle import INACTIVE, Lifecycle
from ros_node import Process, TIMEOUT_S
from ros_planner import Planner
from std_srvs.srv import Trigger

WAYS = {'leave': 30, 'cancel': 30, 'preempt': 20, 'scene': 20, 'pile': 10, 'deactivate': 3,
        'reload': 2, 'visitor': 2, 'fail': 2, 'slow': 4}
"""What happens to a goal, and how often; every one happens once at least."""

NUM_OPEN = 16
"""How many of the last goals have not been looked at."""

DEADLINES_S = (0.0, 0.0, 0.0, 0.0, 0.001, 0.02, 0.1)


@dataclass
class Stress:
    """
    What the dice do to one node.

    :param seed: which run
    :param can_fail: the engine fails when a prompt says so
    :param listener: a process that hears the tokens, to be stopped and continued
    """

    planner: Planner
    listener: Process
    seed: int
    can_fail: bool
    epoch: int = 0
    sent: deque[Answer] = field(default_factory=deque)
    ended: Counter[str] = field(default_factory=Counter)
    visitors: list[bytes] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)
    is_listener_stopped: bool = False

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.manager = Lifecycle(self.planner)
        self.reload = self.planner.node.create_client(
            Trigger, f'{self.planner.node_process.name}/reload_profiles')

    def turns(self, num_goals: int) -> Iterator[str]:
        """Yield what happens to each goal."""
        weights = {way: weight for way, weight in WAYS.items() if self.can_fail or way != 'fail'}
        first = list(weights)
        self.dice.shuffle(first)
        rest = self.dice.choices(list(weights), list(weights.values()), k=num_goals)
        yield from (first + rest)[:num_goals]

    def one_goal(self, way: str) -> None:
        """Send a goal, let it come as far as the dice say, then let something happen to it."""
        self.ways[way] += 1
        answer = self.send(f'fail-{self.dice.choice(("prefill", "decision", "detail"))} '
                           if way == 'fail' else '')
        num_tokens = self.dice.choice([0, 0, 1, 2, 5])
        answer.wait_for(lambda: answer.is_over or (
            answer.is_accepted and len(answer.tokens) >= num_tokens), TIMEOUT_S)
        match way:
            case 'cancel':
                answer.cancel()
            case 'scene':
                self.rise()
            case 'pile':
                for _ in range(3):
                    self.send().cancel()
            case 'deactivate':
                assert self.manager.deactivate() and self.manager.activate()
            case 'reload':
                assert self.planner.call(self.reload, Trigger.Request()).success
            case 'visitor':
                self.visit()
            case 'slow':
                self.toggle_listener()
        if way != 'preempt':
            answer.wait(TIMEOUT_S)
        if way == 'fail' and self.is_refused():
            self.repair()
        while len(self.sent) > NUM_OPEN:
            self.finish_one()

    def send(self, prefix: str = '') -> Answer:
        """Send a goal of the dice's making."""
        prompt = 'The robot sees a box. ' * self.dice.choice([1, 1, 20])
        answer = self.planner.ask(
            f'{prefix}{prompt} say-continue', profile=self.dice.choice(['', 'talk']),
            max_tokens=self.dice.choice([0, 8, 24]), scene_epoch=self.dice.choice([0, self.epoch]),
            decision_deadline=self._deadline(), total_deadline=self._deadline())
        self.sent.append(answer)
        return answer

    def _deadline(self) -> Duration:
        return Duration(nanosec=round(self.dice.choice(DEADLINES_S) * 1e9))

    def rise(self) -> None:
        """Publish the next scene."""
        self.epoch += 1
        self.planner.publish_scene(self.epoch, f'Corridor number {self.epoch}.')

    def visit(self) -> None:
        """Let another client send a goal and leave the graph without a word."""
        number = len(self.visitors)
        with Client(self.planner.node_process.name, name=f'visitor_{number}') as visitor:
            assert visitor.wait_until_ready(TIMEOUT_S)
            answer = visitor.send(Generate.Goal(prompt='long say-continue ' * 20))
            assert answer.wait_for(lambda: answer.is_accepted, TIMEOUT_S), answer.failure
        self.visitors.append(answer.goal_id)

    def toggle_listener(self) -> None:
        """Stop the listening process in the middle of whatever it does, or let it go on."""
        self.listener.send_signal(
            signal.SIGCONT if self.is_listener_stopped else signal.SIGSTOP)
        self.is_listener_stopped = not self.is_listener_stopped

    def is_refused(self) -> bool:
        """Whether the node takes no goal; a stop may have been faster than the fault."""
        answer = self.send()
        assert answer.wait_for(lambda: answer.is_over or answer.is_accepted, TIMEOUT_S)
        if answer.is_rejected:
            self.sent.remove(answer)
        return answer.is_rejected

    def repair(self) -> None:
        """Do what an operator does about a failed engine."""
        self.planner.wait_for_state(Status.STATE_FAILED)
        self.wait_for_diagnostics()
        while self.manager.state != INACTIVE:
            pass
        assert self.manager.cleanup() and self.manager.configure() and self.manager.activate()
        assert self.planner.wait_until_ready(TIMEOUT_S)
        self.rise()
        # A publisher that was made anew may have to find this process first.
        while not self._hears_decisions():
            pass

    def _hears_decisions(self) -> bool:
        answer = self.planner.ask('say-slow')
        assert answer.wait(TIMEOUT_S) and not answer.is_rejected
        return bool(answer.wait_for(lambda: bool(answer.decisions), 1.0))

    def wait_for_diagnostics(self) -> None:
        """Wait until the node has told what it measured up to now."""
        start = len(self.planner.diagnostics)
        self.planner.wait_for(
            lambda: len(self.planner.diagnostics) > start, 'the next diagnostics')

    def figures(self, key: str) -> list[float]:
        """Return every value of a figure in the diagnostics, in order."""
        return [float(item.value) for status in self.planner.diagnostics
                for item in status.values if item.key == key]

    def finish_one(self) -> None:
        """Hold the oldest goal to the contract, and count how it ended."""
        result = self.planner.finish(self.sent.popleft())
        self.ended[FinishReason(result.finish_reason).name] += 1

    def check(self) -> Counter[str]:
        """Hold the goals that are left to the contract; return how all of them ended."""
        if self.is_listener_stopped:
            self.toggle_listener()
        for goal_id in self.visitors:
            self._check_visitor(goal_id)
        while self.sent:
            self.finish_one()
        return self.ended

    def _check_visitor(self, goal_id: bytes) -> None:
        """Hold the stream of a goal to the contract whose client is not there to be asked."""
        heard = self.planner.heard[goal_id]
        self.planner.wait_for(
            lambda: heard and heard[-1].kind == TokenKind.END and self.planner.terminal[goal_id],
            'the end of a goal whose client left')
        assert [token.seq for token in heard] == list(range(len(heard)))
        assert [token.kind == TokenKind.END for token in heard].count(True) == 1
        assert len(self.planner.terminal[goal_id]) == 1
