"""What ``bench compare`` asks of a system that answers prompts: ours, and the others alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Prompt:
    """
    One request, the same for every system.

    ``text`` is the whole rendered prompt, control tokens included: ours renders it from profile,
    scene and goal, the others get it as it is. ``grammar`` is GBNF for what ours enforces by its
    profile; '' for free text.
    """

    profile: str
    scene: str
    goal: str
    max_tokens: int
    text: str = ''
    grammar: str = ''


@dataclass(frozen=True, slots=True)
class Answer:
    """
    When what came, seen from the client; ``stamps_s`` are monotonic, one per piece of text.

    ``num_first`` tokens need no decode behind the first stamp: one for most systems, and with ours
    the whole word and what stands behind it.
    """

    sent_s: float
    stamps_s: tuple[float, ...]
    num_tokens: int
    text: str
    num_first: int = 1

    @property
    def ttft_s(self) -> float:
        """From sending to the first text [s]."""
        return self.stamps_s[0] - self.sent_s

    @property
    def tpot_s(self) -> float:
        """Mean time per token behind the first text [s]."""
        num_behind = max(self.num_tokens - self.num_first, 1)
        return (self.stamps_s[-1] - self.stamps_s[0]) / num_behind

    @property
    def e2e_s(self) -> float:
        """From sending to the last text [s]."""
        return self.stamps_s[-1] - self.sent_s


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A request that was given up in the middle of its prefill, and the next one behind it."""

    next_s: float
    """From giving up to the first text of the next request [s]."""
    idle_s: float | None = None
    """From giving up to the idle engine [s]; None where nobody outside can see it."""
    is_late: bool = False
    """Whether it is known that the prefill had ended before."""


class System(Protocol):
    """Something that answers prompts, one at a time, with the model loaded."""

    name: str
    stops_prefill: bool
    """Whether giving up ends a prefill before its end."""

    def complete(self, prompt: Prompt) -> Answer:
        """
        Answer a prompt, greedily.

        :raises RobotLlmError: if the system does not answer
        """

    def cancel(self, long: Prompt, after_s: float, following: Prompt) -> Cancelled:
        """
        Send ``long``, give it up after a while, and send ``following`` at once.

        :param after_s: how long the prefill of ``long`` is left alone [s]
        :raises RobotLlmError: if the system does not answer
        """

    def close(self) -> None:
        """Free the model, end the process."""


def best(values: Sequence[tuple[str, float]]) -> str:
    """Return the name with the smallest value."""
    return min(values, key=lambda pair: pair[1])[0]
