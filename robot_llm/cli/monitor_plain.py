"""The monitor without a terminal: one line for each thing that happens."""

from collections.abc import Callable, Iterator
from queue import Empty
from typing import Any, Final

from robot_llm.cli.monitor_goal import GoalView, name_of
from robot_llm.cli.monitor_link import MonitorLink
from robot_llm.cli.monitor_state import ClockProblem, MonitorState, Presence
from robot_llm.cli.monitor_text import printable, seconds, share
from robot_llm.core.decision import DecisionSource
from robot_llm.core.session import TokenKind
from robot_llm_msgs.msg import Decision, Token

LOOK_PERIOD_S: Final = 1.0
"""How often the time alone is looked at: silence is no event."""

LINE_LENGTH: Final = 72
"""Text is held back until a line is full, or ends; with the goal's id it makes 80 columns."""


class LineWriter:
    """Turns what the state has just been fed with into lines."""

    def __init__(self, state: MonitorState) -> None:
        self._state = state
        self._held = ''
        self._told: tuple[str, ...] = ()

    def lines(self, event: Any, now_s: float) -> Iterator[str]:
        """Yield what there is to say after ``event``, or after a while without one (None)."""
        match event:
            case Token():
                goal = self._state.goal(bytes(event.goal_id.uuid))
                for line in self._token_lines(event, goal):
                    yield f'{goal.short_id} {line}'
            case Decision():
                goal = self._state.goal(bytes(event.goal_id.uuid))
                yield f'{goal.short_id} {_decision_line(event)}'
            case ClockProblem():
                yield f'clock    {event.text}'
            case Presence() if not event.is_there:
                others = f'; there is {", ".join(event.others)}' if event.others else ''
                yield f'node     {self._state.node} is not there{others}'
        yield from self._changes(now_s)

    def _token_lines(self, token: Token, goal: GoalView) -> Iterator[str]:
        if token.kind == TokenKind.DETAIL:
            self._held += printable(token.text)
            *whole, self._held = self._held.split('\n')
            yield from (f'  {line}' for line in whole if line)
            while len(self._held) > LINE_LENGTH:
                cut = self._held.rfind(' ', 1, LINE_LENGTH) + 1 or LINE_LENGTH
                yield f'  {self._held[:cut].rstrip()}'
                self._held = self._held[cut:]
            return
        if self._held:
            yield f'  {self._held}'
            self._held = ''
        if token.kind == TokenKind.DECISION:
            yield f'answer begins: {printable(token.text)}  scene {token.scene_epoch}'
        elif token.kind == TokenKind.RESTART:
            yield f'RESTART on scene {token.scene_epoch} after {seconds(token.elapsed_s)}'
        elif token.kind == TokenKind.END:
            lost = f', {goal.num_missing} messages lost' if goal.num_missing else ''
            yield (f'END {goal.finish_reason} after {seconds(token.elapsed_s)}: '
                   f'first {seconds(goal.ttft_s)}, {goal.num_completion_tokens} tokens, '
                   f'{seconds(goal.tpot_s)} each{lost}')

    def _changes(self, now_s: float) -> Iterator[str]:
        """Yield the state and the health if they are others than last time."""
        level, message, _ = self._state.health(now_s)
        status = self._state.status
        model = f', {status.model} on {status.device}' if status and status.model else ''
        told = (f'node     {self._state.state_name(now_s)}{printable(model)}',
                f'health   {level} {printable(message)}')
        yield from (line for line in told if line not in self._told)
        self._told = told


def _decision_line(decision: Decision) -> str:
    odds = ', '.join(f'{printable(word)} {share(p).strip()}'
                     for word, p in zip(decision.words, decision.probabilities))
    mass = decision.probability_mass
    words = f'; mass {share(mass).strip()}' if mass else ''
    return (f'DECISION {printable(decision.word)} by '
            f'{name_of(DecisionSource, decision.source)} after {seconds(decision.latency_s)}'
            + (f' ({odds}{words})' if odds else ''))


def run_plain(
    link: MonitorLink, node: str, *, clock: Callable[[], float], say: Callable[[str], None],
) -> None:
    """Write lines until Ctrl-C, or until nobody reads them (``BrokenPipeError``)."""
    state = MonitorState(node)
    writer = LineWriter(state)
    try:
        while True:
            try:
                event = link.events.get(timeout=LOOK_PERIOD_S)
                state.feed(event, clock())
            except Empty:
                event = None
            for line in writer.lines(event, clock()):
                say(line)
    except KeyboardInterrupt:
        return
