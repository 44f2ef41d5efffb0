"""A goal of the benchmark: what has come in of it, and when."""

from dataclasses import dataclass, field

from robot_llm.bench.timeline import Arrival, Timeline
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.ros.answer import Answer
from robot_llm.ros.message_age import stamp_s
from robot_llm_msgs.action import Generate


@dataclass(eq=False, slots=True)
class Heard:
    """What came in of one goal, whoever sent it; filled on the spin thread. 0: not yet."""

    arrivals: list[Arrival] = field(default_factory=list)
    decision_s: float = 0.0
    """Monotonic [s], as all that end so."""
    decision_age_s: float = 0.0
    """From the stamp to the callback."""
    end_s: float = 0.0
    finish_reason: int = 0

    @property
    def num_tokens(self) -> int:
        """Tokens that have come in so far."""
        return sum(arrival.num_tokens for arrival in self.arrivals)


@dataclass(eq=False, slots=True)
class TimedGoal:
    """A goal of ours, and what has come in of it."""

    answer: Answer
    heard: Heard
    sent_s: float
    """Monotonic [s]."""
    sent_at_s: float
    """The same moment, system clock [s]."""
    result_s: float = 0.0

    @property
    def result(self) -> Generate.Result:
        """The goal's result; wait for it first."""
        assert self.answer.result is not None, 'wait for the result first'
        return self.answer.result

    @property
    def finish_reason(self) -> FinishReason:
        """Why it ended."""
        return FinishReason(self.result.finish_reason)

    @property
    def decision_source(self) -> DecisionSource:
        """Where the first published decision came from."""
        return DecisionSource(self.answer.decisions[0].source)

    @property
    def late_s(self) -> float:
        """How long the first decision took from the goal's arrival to its subscriber [s]."""
        return float(self.answer.decisions[0].latency_s) + self.heard.decision_age_s

    def timeline(self) -> Timeline:
        """Return the times of a finished goal."""
        decision, stats = self.answer.decisions[0], self.result.stats
        received_at_s = stamp_s(decision.stamp) - decision.latency_s
        return Timeline(
            sent_s=self.sent_s, decision_s=self.heard.decision_s, result_s=self.result_s,
            goal_way_s=received_at_s - self.sent_at_s, latency_s=float(decision.latency_s),
            arrivals=tuple(self.heard.arrivals),
            stats={name: getattr(stats, name) for name in stats.get_fields_and_field_types()})
