"""A scripted node in which every pair of docs/contract.md can be brought about."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import count
import signal
from typing import Any, Final

from contract_table import BY_MODEL, FALLBACK, Pair
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm_msgs.msg import Status
from ros_contract_case import Case, IDLE_TIMEOUT_S, Visitor, WORDS
from ros_lifecycle import Lifecycle
from ros_node import one_cpu, running_node, SCRIPTED, TIMEOUT_S
from ros_planner import connected, seconds

GATES: Final = {'prefill': 'prefill', 'before the decision': 'decision', 'detail': 'detail',
                'last token': 'last'}
"""Where the scripted engine is held in a stage."""

SOON_S: Final = 0.1
"""A deadline that passes while a goal is held."""

LATE_S: Final = (0.3, 1.5, 8.0)
"""Deadlines that pass behind a decision; the longer ones are for a machine that is busy."""

REFUSED: Final = r'{"target_speed_mps":0.5,"reason":"a NUL: \u0000"}'
"""A detail that meets its schema, and that no message may carry."""

GRACE_S: Final = 0.2
"""How long a client may be away."""

PARAMETERS: Final = {'preempt.policy': 'queue', 'status.rate_hz': 50.0, 'client.grace_s': GRACE_S,
                     'scene.wait_s': 10.0}

_gates = (f'm{number}' for number in count())


class Stand:
    """
    A node, its planner and its manager; another node once this one was ended.

    :param executor: of the node
    :param has_one_cpu: the node's process gets a single CPU
    """

    def __init__(self, executor: str, *, has_one_cpu: bool) -> None:
        self._parameters = PARAMETERS | {'executor': executor}
        self._has_one_cpu = has_one_cpu
        self._parts = ExitStack()
        self._is_spoilt = False
        """A pair has failed half way: the next one gets another node."""
        self._epoch = 0
        self.idle_ms: list[float] = []
        """From each stop to the idle engine; 0 where nothing was stopped."""
        self._num_tokens: dict[str, int] = {}
        self._triggers: Mapping[str, Callable[[Pair], Case]] = {
            'client cancel': self._cancel, 'preempt': self._preempt,
            'scene change': self._change_scene, 'decision deadline': self._miss_decision,
            'total deadline': self._miss_total, 'deactivate': self._deactivate,
            'SIGTERM': self._terminate, 'client gone': self._leave,
            'engine error': self._fail, 'invalid detail': self._refuse,
            'length': self._cut, 'length, free text': self._cut}
        self._start()

    def _start(self) -> None:
        with one_cpu(self._has_one_cpu):
            self.node = self._parts.enter_context(running_node(SCRIPTED, self._parameters))
        self.planner = self._parts.enter_context(connected(self.node))
        self._manager = Lifecycle(self.planner)

    def _restart(self) -> None:
        self._parts.close()
        self._start()

    def close(self) -> None:
        """End the node as every node has to end."""
        self._parts.close()

    def play(self, pair: Pair) -> Case:
        """Bring a pair about, and see everything through but the next goal."""
        if self._is_spoilt:
            self.node.kill()
            self._restart()
        self._is_spoilt = True
        case = self._triggers[pair.trigger](pair)
        if pair.engine == 'goes on':
            self._open(case)
        self.planner.finish(case.goal)
        self._open(case)
        for other in case.others:
            self.planner.finish(other)
        self.planner.wait_for_state(
            Status.STATE_FAILED if pair.error_code >= 300 else Status.STATE_IDLE)
        self.idle_ms.append(case.goal.result.stats.cancel_latency_s * 1e3)
        return case

    def _has_reached(self, gate: str) -> bool:
        return f'gate {gate} reached\n' in self.node.log

    def _open(self, case: Case) -> None:
        for gate in case.gates:
            self.node.open_gate(gate)
        case.gates.clear()

    # Bringing a goal into its stage.

    def _hold(
        self, pair: Pair, prompt: str = '', *, block: str = 'hold-prefill', block_prompt: str = '',
        block_fields: Mapping[str, Any] = {}, ask: Any = None, **fields: Any,
    ) -> Case:
        """Return a goal that waits behind another one, or that the engine is held in."""
        gate, ask = next(_gates), ask or self.planner.ask
        word = WORDS[fields.get('profile', 'drive')][BY_MODEL]
        if pair.stage == 'queued':
            blocker = self.planner.ask(f'{block}:{gate} {block_prompt} say-slow', **block_fields)
            self.node.wait_for_gate(gate)
            case = Case(ask(f'say-{word} {prompt}', **fields), [gate], [blocker])
            # The blocker was in the queue as well, for a moment, and a status said so.
            self.planner.wait_for(lambda: case.goal.is_over or any(
                s.queue_length == 1 and bytes(s.goal_id.uuid) == blocker.goal_id
                for s in self.planner.statuses), 'the goal in the queue')
        else:
            stage = GATES[pair.stage]
            case = Case(ask(f'hold-{stage}:{gate} say-{word} {prompt}', **fields), [gate])
            while not (is_held := self._has_reached(gate)) and (
                    not case.goal.wait_for(lambda: case.goal.is_over, 0.002)):
                assert self.node.popen.poll() is None, self.node.log
            if is_held and pair.stage in ('detail', 'last token'):
                assert case.goal.wait_for(lambda: bool(case.goal.decisions), TIMEOUT_S)
        case.profile = fields.get('profile') or 'drive'
        case.strike()
        return case

    # What happens to it.

    def _cancel(self, pair: Pair) -> Case:
        case = self._hold(pair)
        case.goal.cancel()
        return case

    def _preempt(self, pair: Pair) -> Case:
        assert self._manager.set_text('preempt.policy', 'newest_wins') == ''
        # Queued: the goal before it is preempted and does not obey, so this one waits.
        case = self._hold(pair, block='hold-hang')
        case.others.append(self.planner.ask('say-slow'))
        assert case.goal.wait(TIMEOUT_S)
        assert self._manager.set_text('preempt.policy', 'queue') == ''
        return case

    def _rise(self) -> int:
        self._epoch += 1
        self.planner.publish_scene(self._epoch, 'A corridor.')
        return self._epoch

    def _change_scene(self, pair: Pair) -> Case:
        epoch = self._rise()
        case = self._hold(pair, block_fields={'scene_epoch': epoch}, scene_epoch=epoch)
        self._rise()
        return case

    def _miss_decision(self, pair: Pair) -> Case:
        if pair.decisions[0][0] == FALLBACK:
            case = self._hold(pair, decision_deadline=seconds(SOON_S))
            assert case.goal.wait_for(lambda: bool(case.goal.decisions), TIMEOUT_S)
            assert not case.goal.is_over
            return case
        for deadline_s in LATE_S:
            case = self._hold(pair, decision_deadline=seconds(deadline_s))
            if case.goal.decisions[0].source == DecisionSource.MODEL:
                assert not case.goal.wait_for(lambda: case.goal.is_over, deadline_s)
                return case
            self._open(case)
            self.planner.finish(case.goal)
        raise AssertionError(f'no decision within {LATE_S[-1]} s')

    def _miss_total(self, pair: Pair) -> Case:
        for deadline_s in (SOON_S, *LATE_S):
            case = self._hold(pair, total_deadline=seconds(deadline_s))
            assert case.goal.wait(TIMEOUT_S)
            if pair.stage == 'queued' or self._has_reached(case.gates[0]):
                return case
        raise AssertionError(f'the goal has not come to its stage in {LATE_S[-1]} s')

    def _deactivate(self, pair: Pair) -> Case:
        case = self._hold(pair)
        assert self._manager.deactivate()
        return case

    def _terminate(self, pair: Pair) -> Case:
        case = self._hold(pair)
        self.node.send_signal(signal.SIGTERM)
        return case

    def _leave(self, pair: Pair) -> Case:
        visitor = Visitor(self.planner)
        case = self._hold(pair, ask=visitor.ask)
        # Let the node look at the graph: whom it has not seen it cannot miss.
        assert not case.goal.wait_for(lambda: case.goal.is_over, GRACE_S)
        visitor.leave()
        case.strike()
        self.planner.fetch_result(case.goal)
        return case

    def _fail(self, pair: Pair) -> Case:
        num_inactive = self.node.log.count(']: inactive')
        stage = GATES.get(pair.stage)
        case = self._hold(pair, f'fail-{stage}' if stage else '', block_prompt='fail-prefill')
        self._open(case)
        self.node.wait_for_log(r'\]: inactive', times=num_inactive + 1)
        return case

    def _refuse(self, pair: Pair) -> Case:
        return self._hold(pair, f'detail-{REFUSED}')

    def _cut(self, pair: Pair) -> Case:
        profile = 'talk' if 'free text' in pair.trigger else 'drive'
        if profile not in self._num_tokens:
            whole = self.planner.answer(f'say-{WORDS[profile][BY_MODEL]}', profile=profile)
            self._num_tokens[profile] = whole.result.stats.num_completion_tokens
        num_tokens = self._num_tokens[profile]
        limit = {'detail': num_tokens * 3 // 4, 'last token': num_tokens - (profile == 'drive')}
        return self._hold(pair, profile=profile, max_tokens=limit.get(pair.stage, 1))

    # What must be right afterwards.

    def serve_next(self, pair: Pair) -> None:
        """Do what the table says is needed, and have a goal answered right."""
        if pair.next_goal == 'in a new process':
            assert self.node.wait(IDLE_TIMEOUT_S) == 0, self.node.log
            assert 'Traceback' not in self.node.log and '[FATAL]' not in self.node.log
            self._restart()
        elif pair.next_goal == 'after activate':
            assert self._manager.activate()
        elif pair.next_goal != 'at once':
            assert not self._manager.activate()
            assert self._manager.cleanup() and self._manager.configure()
            if self._epoch:
                self._rise()  # it waits for the scene of whoever has told one before
            assert self._manager.activate()
        answer = self.planner.answer('say-slow')
        assert answer.result.finish_reason == FinishReason.STOP
        assert answer.text == f'slow\n{answer.result.detail_json}'
        assert answer.result.detail_json == '{"target_speed_mps":0.5,"reason":"all of it"}'
        self.planner.wait_for_state(Status.STATE_IDLE)
        self._is_spoilt = False
