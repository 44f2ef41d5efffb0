"""One request's life: statuses, events, the transition table, the terminal reason latched once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import auto, Enum, IntEnum
import math
from threading import Lock
from types import MappingProxyType
from typing import Final

from robot_llm.core.decision import DecisionLatch, Evidence
from robot_llm.core.timing import StageClock, StopClock, TokenCounts
from robot_llm.errors import IllegalTransitionError, RobotLlmError
from robot_llm.profile import ResponseProfile
from robot_llm.settings import SamplingParams


class RequestStatus(Enum):
    """Where a request stands."""

    WAITING = auto()
    """In the queue; the engine has not seen it."""
    PREFILL = auto()
    """Its prompt is being evaluated."""
    DECODE = auto()
    """Its decision is made, its detail is being generated."""
    FINISHED = auto()
    """Nothing more will come; the reason is latched."""


class RequestEvent(Enum):
    """What moves a request along."""

    SLOT_GRANTED = auto()
    PROMPT_EVALUATED = auto()
    RESTARTED = auto()
    FINISH = auto()


class FinishReason(IntEnum):
    """Why a request ended; wire values, append only."""

    STOP = 1
    """The answer is whole."""
    LENGTH = 2
    """``max_tokens`` was reached."""
    CANCELED = 3
    """The client asked for it."""
    PREEMPTED = 4
    """A newer goal took its place."""
    SCENE_CHANGED = 5
    """The scene it was bound to is no longer the current one."""
    DEADLINE = 6
    """Its time ran out."""
    CLIENT_GONE = 7
    """The client left the graph."""
    SHUTDOWN = 8
    """The node left ``active``."""
    ERROR = 9
    """See ``error_code``."""


TRANSITIONS: Final[Mapping[tuple[RequestStatus, RequestEvent], RequestStatus]] = MappingProxyType({
    (RequestStatus.WAITING, RequestEvent.SLOT_GRANTED): RequestStatus.PREFILL,
    (RequestStatus.WAITING, RequestEvent.FINISH): RequestStatus.FINISHED,
    (RequestStatus.PREFILL, RequestEvent.PROMPT_EVALUATED): RequestStatus.DECODE,
    (RequestStatus.PREFILL, RequestEvent.RESTARTED): RequestStatus.WAITING,
    (RequestStatus.PREFILL, RequestEvent.FINISH): RequestStatus.FINISHED,
    (RequestStatus.DECODE, RequestEvent.RESTARTED): RequestStatus.WAITING,
    (RequestStatus.DECODE, RequestEvent.FINISH): RequestStatus.FINISHED,
})


@dataclass(frozen=True, slots=True)
class Scene:
    """What the robot sees, as the prompt tells it; a higher ``epoch`` replaces it."""

    epoch: int = 0
    description: str = ''


@dataclass(eq=False, slots=True)
class Request:
    """
    One prompt on its way through the engine; identity, not content, makes it unique.

    Written by one thread at a time (executor, then worker), except for ``stop``, ``finish``,
    ``ask_restart`` and the decision latch, which any thread may call: the first terminal reason
    wins, and so does the first decision of each scene.
    """

    request_id: bytes
    profile: ResponseProfile
    prompt: str
    sampling: SamplingParams
    scene: Scene = Scene()
    stop_strings: tuple[str, ...] = ()
    decision_timeout_s: float = math.inf
    """From the goal's arrival, or from the scene it was restarted for, to its decision [s]."""
    decision_deadline_s: float = math.inf
    """The same on the monotonic clock."""
    total_deadline_s: float = math.inf
    client: str = ''
    """Fully qualified name of the node that asks; '' = unknown."""
    clock: StageClock = field(default_factory=StageClock)
    stop_clock: StopClock = field(default_factory=StopClock)
    counts: TokenCounts = field(default_factory=TokenCounts)
    status: RequestStatus = RequestStatus.WAITING
    finish_reason: FinishReason | None = None
    next_scene: Scene | None = None
    """The scene to start again for; None = go on."""
    num_restarts: int = 0
    error: RobotLlmError | None = None
    detail_json: str = ''
    evidence: Evidence | None = None
    latch: DecisionLatch = field(init=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        self.latch = DecisionLatch(self.profile.words, self.profile.decision.fallback)

    @property
    def is_stopping(self) -> bool:
        """Whoever works on this request must put it down: it ends, or starts again."""
        return self.finish_reason is not None or self.next_scene is not None

    def apply(self, event: RequestEvent) -> None:
        """
        Move along the table; an event with no row changes nothing.

        :raises IllegalTransitionError: if ``event`` cannot happen in ``status``
        """
        try:
            self.status = TRANSITIONS[self.status, event]
        except KeyError:
            raise IllegalTransitionError(
                f'request {self.request_id.hex()}: {event.name} while {self.status.name}'
            ) from None

    def stop(self, reason: FinishReason, now_s: float, *,
             error: RobotLlmError | None = None) -> bool:
        """
        Latch why this request ends and when that was asked for; the first call wins.

        :param reason: the terminal reason
        :param now_s: monotonic clock [s]
        :param error: what went wrong; its code and message go into the result
        :returns: whether this call was the first
        """
        with self._lock:
            if self.finish_reason is not None:
                return False
            self.stop_clock.requested_s = now_s
            self.finish_reason, self.error = reason, error
            return True

    def finish(self, reason: FinishReason, *, error: RobotLlmError | None = None) -> bool:
        """Latch a reason nobody asked for: the answer is whole, or it failed by itself."""
        with self._lock:
            if self.is_stopping:
                return False
            self.finish_reason, self.error = reason, error
            return True

    def withdraw_answer(self) -> None:
        """Let a whole answer count as late: the word that it stands behind was not published."""
        with self._lock:
            if self.has_answer:
                self.finish_reason, self.detail_json = FinishReason.DEADLINE, ''

    def ask_restart(self, scene: Scene, max_restarts: int, now_s: float) -> bool:
        """
        Ask for the same request on a newer scene; the newest one asked for counts.

        :param max_restarts: how often a request may start again
        :param now_s: monotonic clock [s]
        :returns: False if it has ended, or has been restarted too often
        """
        with self._lock:
            is_waiting_for_one = self.next_scene is not None
            if self.finish_reason is not None or (
                    self.num_restarts >= max_restarts and not is_waiting_for_one):
                return False
            self.next_scene = scene
            if not is_waiting_for_one:
                self.num_restarts += 1
                self.stop_clock.requested_s = now_s
            return True

    def take_restart(self, now_s: float) -> bool:
        """
        Become WAITING again with a decision, a clock and deadlines of their own, if asked to.

        What was generated before is void: it counts as wasted. The worker calls it.
        """
        with self._lock:
            if self.finish_reason is not None or self.next_scene is None:
                return False
            self.scene, self.next_scene = self.next_scene, None
        if self.status is not RequestStatus.WAITING:
            self.apply(RequestEvent.RESTARTED)
        self.latch = DecisionLatch(self.profile.words, self.profile.decision.fallback)
        self.evidence = None
        self.stop_clock = StopClock()
        self.clock = self.clock.restarted()
        self.counts.void()
        self.decision_deadline_s = now_s + self.decision_timeout_s
        return True

    @property
    def was_stopped(self) -> bool:
        """Somebody ended it, and neither the model nor a fault on the way."""
        return self.finish_reason is not None and self.stop_clock.requested_s is not None

    @property
    def has_answer(self) -> bool:
        """It ended because the model had said what it had to say."""
        return self.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)

    @property
    def must_fall(self) -> bool:
        """
        Whether the decision that stands may not stand, now that the request has ended.

        Without a decision: always. With one: as the profile's ``revoke_on`` says, and always when
        the node itself goes away, since nobody vouches for the word any more.
        """
        if self.latch.standing is None:
            return True
        revoke_on = self.profile.decision.revoke_on
        match self.finish_reason:
            case FinishReason.SHUTDOWN:
                return True
            case FinishReason.DEADLINE:
                return 'deadline' in revoke_on
            case FinishReason.SCENE_CHANGED:
                return 'scene_change' in revoke_on
            case _ if self.error is not None:
                kind = 'refused_detail' if 200 <= self.error.code < 300 else 'error'
                return kind in revoke_on
        return False
