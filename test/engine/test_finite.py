"""A model that computes no numbers says no word and no detail."""

from collections.abc import Callable

from engine_requests import make_profile, make_request, SPEED_SCHEMA
from engine_running import open_runtime, WorkerHarness
import numpy as np
import pytest
from robot_llm.core.event import Finished
from robot_llm.core.request import FinishReason
from robot_llm.engine.finite import finite
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.errors import DecodeError
from robot_llm.settings import Settings


def test_numbers_come_back_as_they_are_and_nothing_is_no_fault() -> None:
    for values in (np.array([1.0, -np.inf], np.float32), np.empty(0, np.float32)):
        assert finite(values) is values


@pytest.mark.parametrize('broken', [[0.0, np.nan], [0.0, np.inf], [-np.inf, -np.inf]])
def test_a_number_that_is_none_is_an_engine_error_with_a_remedy(broken: list[float]) -> None:
    with pytest.raises(DecodeError, match='NaN or infinite.*check the model file, or try model'):
        finite(np.array(broken, np.float32))


@pytest.mark.parametrize('place', ['decision', 'branch', 'detail'])
def test_numbers_that_are_none_fail_the_engine_and_move_nothing(
    make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, place: str,
) -> None:
    """A greedy grammar made a valid detail of them, at a temperature the process ended."""
    settings = make_settings()
    words = ('slow', 'stop') if place == 'branch' else ('slow', 'go')
    profile = make_profile('drive', words=words, schema=SPEED_SCHEMA)
    backend = ScriptedBackend(settings, {
        '': b'slow\n{"target_speed_mps":1.0,"reason":"free"}'})
    runtime = open_runtime(backend, settings, profile)
    logits, branches = backend.logits, backend.decode_branches
    if place == 'branch':
        monkeypatch.setattr(backend, 'decode_branches', lambda *args, **kwargs: [
            row * np.nan for row in branches(*args, **kwargs)])
    else:
        monkeypatch.setattr(backend, 'logits', lambda row=-1: (
            logits(row) * (np.nan if place == 'decision' or ord('1') in backend._last else 1)))
    with WorkerHarness(runtime) as harness:
        request = make_request(profile)
        harness.worker.requests.submit(request)
        assert isinstance(harness.events_of(request)[-1], Finished)
        assert request.finish_reason is FinishReason.ERROR
        assert isinstance(request.error, DecodeError)
        assert 'NaN or infinite' in str(harness.worker.requests.failure)
    assert (request.latch.standing is not None) == (place == 'detail')
    assert not request.detail_json
