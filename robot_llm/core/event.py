"""What the worker tells the rest of the node about a request, in the order it happens."""

from dataclasses import dataclass

from robot_llm.core.decision import Decision, DecisionLatch
from robot_llm.core.request import FinishReason, Request, Scene
from robot_llm.core.timing import StageClock


@dataclass(frozen=True, slots=True)
class Alive:
    """The worker is well: it waits, or it has just finished a decode."""


@dataclass(frozen=True, slots=True)
class Started:
    """The engine has taken the request up."""

    request: Request


@dataclass(frozen=True, slots=True)
class Decided:
    """
    The model has decided; the request's latch tells whether that is the decision that stands.

    ``num_tokens`` is the length of the word that stands, behind which the engine goes on.
    """

    request: Request
    decision: Decision
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Delta:
    """Text that is complete and safe to publish; ``num_tokens`` tokens are behind it."""

    request: Request
    text: str
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Stopping:
    """
    The engine was told to put the request down; when it has obeyed is another event's news.

    ``reason`` is why it ends; None if it starts again for a newer scene.
    """

    request: Request
    reason: FinishReason | None


@dataclass(frozen=True, slots=True)
class Restarted:
    """The same request starts again for a newer scene; what came before is void."""

    request: Request
    scene: Scene
    latch: DecisionLatch
    clock: StageClock
    decision_deadline_s: float

    @classmethod
    def of(cls, request: Request) -> 'Restarted':
        """Return what a request has got by its restart; a later one gives it something else."""
        return cls(request, request.scene, request.latch, request.clock,
                   request.decision_deadline_s)


@dataclass(frozen=True, slots=True)
class Finished:
    """The request is FINISHED and the engine has put it down; always the last event of it."""

    request: Request


Event = Alive | Started | Decided | Delta | Stopping | Restarted | Finished
