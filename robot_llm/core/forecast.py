"""How soon a goal will be decided, from what earlier goals took."""

from dataclasses import dataclass
from typing import Final

from robot_llm.core.request import Request
from robot_llm.core.timing import GenerationStats

MEMORY: Final = 0.8
"""Weight of the past in the running means: five goals make two thirds of what is known."""


@dataclass(slots=True)
class _Mean:
    """A running mean that starts at its first value."""

    value: float = 0.0

    def learn(self, value: float) -> None:
        self.value = value if not self.value else MEMORY * self.value + (1 - MEMORY) * value


class Forecast:
    """
    Predict the time from a goal to its decision.

    Tokens are estimated from bytes, since only the engine's thread may tokenise; the time of a
    token from the prefills that were evaluated to their end. One thread calls it at a time.
    """

    def __init__(self) -> None:
        self._s_per_token = _Mean()
        self._tokens_per_byte = _Mean()
        self._overhead_s = _Mean()
        self._e2e_s = _Mean()

    def learn(self, request: Request, stats: GenerationStats) -> None:
        """
        Learn from a goal that was decided by the model.

        :param request: finished
        :param stats: of it
        """
        num_evaluated = request.counts.num_tokens_to_decision
        if not num_evaluated or not stats.sample_s:
            return
        num_bytes = self._num_bytes(request, with_static=True)
        self._tokens_per_byte.learn(stats.num_prompt_tokens / num_bytes)
        self._s_per_token.learn(stats.prefill_s / num_evaluated)
        self._overhead_s.learn(stats.ttft_s - stats.queue_s - stats.prefill_s)
        self._e2e_s.learn(stats.e2e_s - stats.queue_s)

    def ttft_s(self, request: Request, *, num_ahead: int) -> float:
        """
        Return the predicted time to the decision [s]; 0 before anything was learnt.

        :param request: not submitted yet; its static prefix counts as cached
        :param num_ahead: how many goals will be answered before it
        """
        num_tokens = self._tokens_per_byte.value * self._num_bytes(request, with_static=False)
        return (num_ahead * self._e2e_s.value + num_tokens * self._s_per_token.value
                + self._overhead_s.value)

    @staticmethod
    def _num_bytes(request: Request, *, with_static: bool) -> int:
        profile = request.profile
        texts = [request.scene.description]
        if with_static or not profile.decision.needs_scene_alone:
            texts.append(request.prompt)
        if with_static:
            texts.append(profile.static_prompt)
        return sum(len(text.encode('utf-8', 'replace')) for text in texts)
