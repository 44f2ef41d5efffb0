"""What an empty prompt makes the model say is divided out of what a scene makes it say."""

from collections.abc import Callable

from engine_requests import make_profile, make_request
from engine_running import generate, open_runtime
import numpy as np
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.engine.calibration import EMPTY_GOAL, EMPTY_SCENES
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.engine.scripted_vocab import split_turn
from robot_llm.settings import Settings

WORDS = ('stop', 'go')
PROFILE = make_profile('contextual', words=WORDS, calibration='contextual')
PLAIN = make_profile('plain', words=WORDS)
LEANING = {'stop': 0.6, 'go': 0.2}
"""What the model says of an empty prompt."""
SEEING = {'stop': 0.4, 'go': 0.4}
"""What it says of a scene."""


class LeaningBackend(ScriptedBackend):
    """It says ``stop`` three times as often as ``go`` where it knows nothing."""

    def _logits_behind(self, sequence):
        prompt, _ = split_turn(sequence)
        self.word_probabilities = SEEING if 'corridor' in prompt else LEANING
        return super()._logits_behind(sequence)


@pytest.fixture
def open_leaning(make_settings: Callable[..., Settings]):
    def opened(*profiles):
        settings = make_settings()
        return open_runtime(LeaningBackend(settings, {'': b'stop\n'}), settings, *profiles)
    return opened


def test_what_the_model_leans_to_is_measured_at_configure_and_divided_out(open_leaning) -> None:
    runtime = open_leaning(PROFILE, PLAIN)
    assert runtime.bias.keys() == {'contextual'}
    assert np.exp(runtime.bias['contextual']) == pytest.approx((0.75, 0.25), abs=0.01)
    assert runtime.cache.num_tokens == 0
    runtime.cache.check_integrity()
    decision = generate(runtime, make_request(PROFILE, scene='A corridor.')).decision
    assert (decision.word, decision.source) == ('go', DecisionSource.MODEL)
    assert decision.probabilities == pytest.approx((0.25, 0.75), abs=0.01)
    assert decision.uncalibrated == pytest.approx((0.5, 0.5), abs=0.01)
    plain = generate(runtime, make_request(PLAIN, scene='A corridor.')).decision
    assert plain.probabilities == pytest.approx((0.5, 0.5), abs=0.01)
    assert plain.uncalibrated == ()
    assert decision.probability_mass == pytest.approx(plain.probability_mass)


def test_a_reload_measures_anew(open_leaning) -> None:
    runtime = open_leaning(PLAIN)
    assert runtime.bias == {}
    runtime.reload({'contextual': PROFILE})
    assert runtime.bias.keys() == {'contextual'}


def test_the_real_model_is_even_about_a_prompt_without_content(
    open_backend, make_settings: Callable[..., Settings],
) -> None:
    flat = {'model.n_ctx': 512}
    runtime = open_runtime(open_backend(flat), make_settings(flat), PROFILE)
    shares = np.exp(runtime.bias['contextual'])
    assert shares.sum() == pytest.approx(1.0)
    rows = [generate(runtime, make_request(PROFILE, EMPTY_GOAL, scene=scene)).decision
            for scene in EMPTY_SCENES]
    assert np.mean([row.uncalibrated for row in rows], axis=0) == pytest.approx(shares, abs=0.02)
    assert np.mean([row.probabilities for row in rows], axis=0) == pytest.approx(
        (0.5, 0.5), abs=0.1)
