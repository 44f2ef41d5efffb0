"""Where no call can be aborted, none of a goal takes longer than a stop may wait."""

from collections.abc import Callable

from engine_requests import make_profile, make_request, SPEED_SCHEMA
from engine_running import Answered, generate, TODAY
import pytest
from robot_llm.core.request import FinishReason, Request, RequestStatus
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.engine.scripted_fault import DecodeCall
from robot_llm.settings import Settings

MakeSettings = Callable[..., Settings]

JSON = make_profile('json', words=('stop', 'go'), schema=SPEED_SCHEMA)
STAY = make_profile('stay', words=('stop', 'stopover', 'stopping', 'slow'))
TOKEN_S = 0.007
"""Four of them fit into the default bound."""
ANSWER = b'stop\n{"target_speed_mps":0.5,"reason":"no no no no no no no no"}'


class SlowDevice:
    """A device on which every token takes as long as one alone, and that abort does not reach."""

    def __init__(
        self, settings: Settings, *profiles: object, aborts_inside: bool = False,
    ) -> None:
        self.now_s = 0.0
        self.widths: list[int] = []
        self.request: Request | None = None
        """Stopped in its first call behind the prefill, if there is one."""
        self.runtime = Runtime(
            ScriptedBackend(settings, {'': ANSWER}, on_decode=self._on_decode,
                            aborts_inside=aborts_inside),
            settings, {profile.name: profile for profile in profiles}, today=TODAY,
            clock=lambda: self.now_s)

    def _on_decode(self, call: DecodeCall) -> None:
        self.now_s += TOKEN_S * call.num_new_tokens
        self.widths.append(call.num_new_tokens)
        if self.request is not None and self.request.status is RequestStatus.DECODE:
            self.request.finish(FinishReason.CANCELED)

    def answer(self, profile: object, **options: object) -> tuple[Answered, list[int]]:
        """Answer a request; return it, and how many tokens each call of it had."""
        self.widths.clear()
        return generate(self.runtime, make_request(profile, **options)), list(self.widths)


@pytest.mark.parametrize('policy', ['off', 'on'])
def test_forced_and_guessed_tokens_are_cut_into_calls_that_a_stop_can_wait_for(
    make_settings: MakeSettings, policy: str,
) -> None:
    settings = make_settings({'speculation.policy': policy, 'speculation.prompt_lookup_min': 1})
    bounded, widths = SlowDevice(settings, JSON).answer(JSON, max_tokens=200)
    assert max(widths) == int(0.03 / TOKEN_S)
    free, free_widths = SlowDevice(settings, JSON, aborts_inside=True).answer(
        JSON, max_tokens=200)
    assert max(free_widths) > 20
    assert bounded.detail == free.detail == ANSWER.partition(b'\n')[2].decode()
    counts, free_counts = bounded.request.counts, free.request.counts
    assert counts.num_forced_tokens == free_counts.num_forced_tokens
    # Forced tokens still share calls, since four take no longer than a stop may wait.
    details = counts.num_decode_calls - counts.num_prefill_chunks
    assert details < counts.num_completion_tokens - counts.num_forced_tokens / 2
    assert (counts.num_draft_tokens > 0) == (policy == 'on')


def test_a_stop_is_obeyed_between_two_parts_of_what_is_forced(
    make_settings: MakeSettings,
) -> None:
    device = SlowDevice(make_settings(), JSON)
    device.request = request = make_request(JSON, max_tokens=200)
    device.widths.clear()
    generate(device.runtime, request)
    counts = request.counts
    assert request.finish_reason is FinishReason.CANCELED
    assert request.stop_clock.acknowledged_s is not None
    assert device.widths[counts.num_prefill_chunks:] == [int(0.03 / TOKEN_S)]
    assert (counts.num_wasted_tokens, counts.num_decode_calls) == (
        0, counts.num_prefill_chunks + 1)


def test_words_that_begin_alike_are_scored_in_parts_with_the_same_outcome(
    make_settings: MakeSettings,
) -> None:
    settings = make_settings()
    bounded, _ = SlowDevice(settings, STAY).answer(STAY)
    free, _ = SlowDevice(settings, STAY, aborts_inside=True).answer(STAY)
    counts, free_counts = bounded.request.counts, free.request.counts
    assert counts.num_decode_calls == counts.num_prefill_chunks + 4
    assert free_counts.num_decode_calls == free_counts.num_prefill_chunks + 1
    assert bounded.decision.probabilities == pytest.approx(free.decision.probabilities)
