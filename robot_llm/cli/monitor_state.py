"""What the monitor knows: fed with messages and the time, asked by whoever paints it."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from action_msgs.srv import CancelGoal
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from robot_llm.cli.monitor_goal import GoalView
from robot_llm.core.session import TokenKind
from robot_llm_msgs.msg import Decision, Status, Token

MAX_GOALS: Final = 32
"""As many as the node's default ``history.goals``: older ones could not be replayed anyway."""

SILENCE_S: Final = 3.0
"""Three periods of ``/diagnostics`` and of the idle heartbeat, both 1 s."""

NOTICE_S: Final = 8.0
"""How long a notice stays: two lines, read while something else happens."""

STATES: Final = {
    Status.STATE_UNSET: 'NOT CONFIGURED', Status.STATE_LOADING: 'LOADING',
    Status.STATE_IDLE: 'IDLE', Status.STATE_QUEUED: 'QUEUED', Status.STATE_PREFILL: 'PREFILL',
    Status.STATE_DECODE: 'DECODE', Status.STATE_STOPPING: 'STOPPING',
    Status.STATE_FAILED: 'FAILED'}
NO_HEARTBEAT: Final = (Status.STATE_UNSET, Status.STATE_LOADING, Status.STATE_FAILED)
"""In the other states the engine's own thread publishes the status, at least once a second."""

LEVELS: Final = ('OK', 'WARN', 'ERROR', 'STALE')
"""The names of ``DiagnosticStatus.level``, by value."""

CANCEL_ANSWERS: Final = {
    CancelGoal.Response.ERROR_NONE: 'the node stops it',
    CancelGoal.Response.ERROR_REJECTED: 'refused: it is ending for another reason',
    CancelGoal.Response.ERROR_UNKNOWN_GOAL_ID: 'the node does not know it any more',
    CancelGoal.Response.ERROR_GOAL_TERMINATED: 'it has ended already'}


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether the node is in the graph, and which nodes of its kind are."""

    is_there: bool
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClockProblem:
    """What the stamp of a decision says of the clocks of the node and of this machine."""

    text: str


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    """What came of a cancel; None if nothing came."""

    goal_id: bytes
    return_code: int | None


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """What came of a replay; None if nothing came."""

    goal_id: bytes
    response: Any | None


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the person who watches, for a while."""

    text: str
    until_s: float


class MonitorState:
    """
    The model behind the screen; pure, one thread calls it.

    :param node: fully qualified name of the node that is watched
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self.goals: OrderedDict[bytes, GoalView] = OrderedDict()
        self.current: GoalView | None = None
        """The goal on the screen: the one the engine works on, else the newest."""
        self.status: Status | None = None
        self.presence: Presence | None = None
        """None while nobody has looked."""
        self.replay: ReplayAnswer | None = None
        self.notice: Notice | None = None
        self._diagnostics: dict[str, DiagnosticStatus] = {}
        self._status_s = 0.0
        self._heard_s = 0.0

    def feed(self, event: Any, now_s: float) -> None:
        """
        Take a message of a topic, or what the link found out.

        :param now_s: monotonic clock [s]
        """
        match event:
            case Token():
                self._heard_s = now_s
                goal = self.goal(bytes(event.goal_id.uuid))
                goal.add_token(event)
                # The END of a preempted goal may come behind the start of the next one.
                if event.kind != TokenKind.END or self.current is None:
                    self.current = goal
            case Decision():
                self._heard_s = now_s
                self.goal(bytes(event.goal_id.uuid)).add_decision(event)
            case Status():
                self._add_status(event, now_s)
            case DiagnosticArray():
                self._add_diagnostics(event, now_s)
            case Presence():
                self._set_presence(event, now_s)
            case ClockProblem():
                self.say(event.text, now_s)
            case CancelAnswer():
                answer = ('no answer from the node' if event.return_code is None else
                          CANCEL_ANSWERS.get(event.return_code, f'code {event.return_code}'))
                self.say(f'cancel {event.goal_id.hex()[:8]}: {answer}', now_s)
            case ReplayAnswer():
                self.replay = event
                for token in event.response.tokens if event.response else ():
                    self.goal(bytes(token.goal_id.uuid)).add_token(token)
            case _:
                raise TypeError(f'{type(event).__name__} is nothing the monitor knows')

    def goal(self, goal_id: bytes) -> GoalView:
        """Return the view of a goal, a new one if it was not heard of before."""
        if goal_id not in self.goals:
            self.goals[goal_id] = GoalView(goal_id)
            while len(self.goals) > MAX_GOALS:
                self.goals.popitem(last=False)
        return self.goals[goal_id]

    def say(self, text: str, now_s: float) -> None:
        """Tell the person who watches."""
        self.notice = Notice(text, now_s + NOTICE_S)

    def _add_status(self, status: Status, now_s: float) -> None:
        if self.status is not None and status.last_refusal not in ('', self.status.last_refusal):
            self.say(f'goal refused, {status.last_refusal}', now_s)
        self.status, self._status_s, self._heard_s = status, now_s, now_s
        if status.state == Status.STATE_LOADING:
            # Killed and started again, before the graph had noticed the first.
            self._cut_off()
        goal_id = self.running_goal_id
        if goal_id:
            goal = self.goal(goal_id)
            goal.add_status(status)
            if goal.end is None:
                self.current = goal

    def _add_diagnostics(self, array: DiagnosticArray, now_s: float) -> None:
        ours = [s for s in array.status if s.name.startswith(f'{self.node}:')]
        if ours:
            self._heard_s = now_s
        for status in ours:
            self._diagnostics[status.name] = status

    def _set_presence(self, presence: Presence, now_s: float) -> None:
        was_there = self.presence is not None and self.presence.is_there
        self.presence = presence
        if presence.is_there and not was_there:
            self._heard_s = now_s
        if was_there and not presence.is_there:
            self.status = None
            self._diagnostics.clear()
            self._cut_off()

    def _cut_off(self) -> None:
        """Note that the process is gone that ran the goals without an END."""
        for goal in self.goals.values():
            goal.is_cut_off = goal.end is None

    # What a painter asks.

    def state_name(self, now_s: float) -> str:
        """Return what the engine does, or why nobody knows."""
        if self.presence is None:
            return 'LOOKING'
        if not self.presence.is_there:
            return 'NOT THERE'
        if self.silence_s(now_s):
            return 'SILENT'
        if self.hang_s(now_s):
            return 'HANGS'
        return STATES.get(self.status.state, '?') if self.status is not None else 'NO STATUS YET'

    def silence_s(self, now_s: float) -> float:
        """
        Return how long a node that is there has said nothing [s]; 0 if that is not long.

        A node that loads its model is busy with it, and silent by design.
        """
        is_loading = self.status is not None and self.status.state == Status.STATE_LOADING
        silence_s = now_s - self._heard_s
        return 0.0 if is_loading or silence_s < SILENCE_S else silence_s

    def hang_s(self, now_s: float) -> float:
        """Return how long the engine has given no sign of life [s]; 0 if not long."""
        has_heartbeat = self.status is not None and self.status.state not in NO_HEARTBEAT
        silence_s = now_s - self._status_s
        return silence_s if has_heartbeat and silence_s >= SILENCE_S else 0.0

    @property
    def running_goal_id(self) -> bytes:
        """The goal that the engine works on, as ``~/status`` says; empty if on none."""
        if self.status is None:
            return b''
        goal_id = bytes(self.status.goal_id.uuid)
        return goal_id if any(goal_id) else b''

    def elapsed_s(self, now_s: float) -> float:
        """Return how long the running goal takes by now [s]; 0 if none runs."""
        if self.status is None or not self.running_goal_id:
            return 0.0
        return float(self.status.elapsed_s) + now_s - self._status_s

    def health(self, now_s: float) -> tuple[str, str, dict[str, str]]:
        """
        Return level, message and values of ``/diagnostics``.

        The worst level and its message win; STALE is what is not known, or not any more.
        """
        if not self._diagnostics:
            return 'STALE', 'nothing on /diagnostics', {}
        statuses = self._diagnostics.values()
        values = {pair.key: pair.value for status in statuses for pair in status.values}
        if silence_s := self.silence_s(now_s):
            return 'STALE', f'figures of {silence_s:.0f} s ago', values
        worst = max(statuses, key=level_of)
        return LEVELS[min(level_of(worst), len(LEVELS) - 1)], worst.message, values

    def current_notice(self, now_s: float) -> str:
        """Return what is to be told now; empty if nothing."""
        return self.notice.text if self.notice and now_s < self.notice.until_s else ''


def level_of(status: DiagnosticStatus) -> int:
    """Return the level as a number; rclpy gives a byte."""
    return status.level[0] if isinstance(status.level, bytes) else int(status.level)
