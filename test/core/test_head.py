"""A hidden state becomes probabilities and a distance; a profile's method picks the word."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
import numpy as np
import pytest
from robot_llm.core.decision import decide_by, DecisionSource, Evidence
from robot_llm.core.head import DecisionHead, Familiarity, log_softmax
from robot_llm.core.strangers import StrangerPart
from robot_llm.core.text_features import read_text, TextPart
from robot_llm.profile import DecisionRules, DecisionWord

WORDS = ('stop', 'slow', 'continue')
N_EMBD = 4
NO_HIDDEN = np.empty(0, np.float32)


def make_head(**changes) -> DecisionHead:
    """Return a head whose first three numbers vote for the three words."""
    weights = np.zeros((N_EMBD, 3), np.float32)
    weights[:3] = 4 * np.eye(3)
    familiarity = Familiarity(
        means=np.eye(3, N_EMBD, dtype=np.float32), axes=np.eye(2, N_EMBD, dtype=np.float32),
        axis_variances=np.ones(2, np.float32), rest_variance=0.5, max_distance=1.0)
    return replace(DecisionHead(
        words=WORDS, offset=np.zeros(N_EMBD, np.float32), scale=np.ones(N_EMBD, np.float32),
        weights=weights, bias=np.zeros(3, np.float32), temperature=1.0,
        mix=(1.0, 0.0, 0.0, 0.0, 0.0), familiarity=familiarity,
        max_chars=80), **changes)


def make_rules(method='head', **changes) -> DecisionRules:
    return DecisionRules(
        words=tuple(DecisionWord(word=word, meaning='m') for word in WORDS), fallback='stop',
        method=method, head='' if method == 'words' else 'x.npz',
        **({'min_confidence': 0.5} | changes))


def evidence(hidden, word_probabilities=(0.05, 0.03, 0.02)) -> Evidence:
    return Evidence(np.log(np.array(word_probabilities)), np.array(hidden, np.float32))


def test_the_head_overrules_the_words_and_the_mass_stays_the_models() -> None:
    decision = decide_by(make_rules(), evidence([0, 0, 1, 0]), make_head())
    assert (decision.word, decision.source) == ('continue', DecisionSource.MODEL)
    expected = np.exp([0, 0, 4]) / np.exp([0, 0, 4]).sum()
    assert decision.probabilities == pytest.approx(expected, abs=1e-6)
    assert decision.probability_mass == pytest.approx(0.1)


def test_the_words_need_neither_head_nor_hidden_state() -> None:
    decision = decide_by(
        make_rules('words', min_confidence=0.4), Evidence(np.log([0.05, 0.03, 0.02]), NO_HIDDEN),
        None)
    assert (decision.word, decision.confidence) == ('stop', pytest.approx(0.5))


def test_the_scenes_text_votes_too() -> None:
    text = text_part('wet', [0.0, 9.0, 0.0])
    head = make_head(text=text)
    seen = evidence([0, 0, 1, 0])
    assert decide_by(make_rules(), replace(seen, scene='wet'), head).word == 'slow'
    assert decide_by(make_rules(), seen, head).word == 'continue'
    assert head.num_bytes == make_head().num_bytes + len(text.keys) * (4 + 2 + 2 * 3)


def text_part(text: str, weights: list[float]) -> TextPart:
    """Return a part that knows the n-grams of one text, and says of each the same."""
    keys = np.unique(np.concatenate([part[0] for part in read_text(text).parts]))
    return TextPart(keys, np.ones(len(keys), np.float16),
                    np.tile(np.array(weights, np.float16), (len(keys), 1)))


def stranger_head(weights, limit=1.0) -> DecisionHead:
    """Return a head to which "wet" is a known word, and "obey" one that no scene has."""
    return make_head(strangers=StrangerPart(
        text_part('obey', [2.0]), read_text('a wet floor').words, weights, limit))


@pytest.mark.parametrize(('weights', 'scene', 'source'), [
    ((0.0, 2.0, 0.0), 'a wet floor', DecisionSource.MODEL),
    ((0.0, 2.0, 0.0), 'a dry carpet', DecisionSource.UNFAMILIAR),
    ((0.0, 2.0, 0.0), '???', DecisionSource.UNFAMILIAR),
    ((0.0, 0.0, 1.0), 'a wet floor', DecisionSource.MODEL),
    ((0.0, 0.0, 1.0), 'obey', DecisionSource.UNFAMILIAR)])
def test_a_text_may_be_strange_where_its_hidden_state_is_not(weights, scene, source) -> None:
    seen = replace(evidence([0, 0, 1, 0]), scene=scene)
    assert decide_by(make_rules(), seen, stranger_head(weights)).source is source


@pytest.mark.parametrize('method', ['head', 'both'])
@pytest.mark.parametrize(('num_chars', 'source'), [
    (80, DecisionSource.MODEL), (81, DecisionSource.UNFAMILIAR),
    (60_000, DecisionSource.UNFAMILIAR)])
def test_a_scene_longer_than_any_that_was_fitted_is_strange(method, num_chars, source) -> None:
    seen = replace(evidence([0, 0, 1, 0]), scene='a' * num_chars)
    decision = decide_by(make_rules(method), seen, make_head())
    assert decision.source is source
    assert decision.word == ('continue' if source is DecisionSource.MODEL else 'stop')


def test_with_other_signs_the_distance_is_one_of_them() -> None:
    far, near = (replace(evidence(hidden), scene='a wet floor')
                 for hidden in ([0, 0, 9, 9], [0, 0, 1, 0]))
    head = stranger_head((1.0, 0.0, 0.0))
    assert decide_by(make_rules(), far, head).source is DecisionSource.UNFAMILIAR
    assert decide_by(make_rules(), near, head).source is DecisionSource.MODEL


@pytest.mark.parametrize('broken', [np.nan, np.inf])
def test_no_sign_talks_a_broken_hidden_state_into_being_familiar(broken) -> None:
    with np.errstate(invalid='ignore'):
        decision = decide_by(
            make_rules(), replace(evidence([broken, 0, 0, 0]), scene='a wet floor'),
            stranger_head((0.0, 1.0, 1.0)))
    assert decision.word == 'stop' and decision.source is not DecisionSource.MODEL


@pytest.mark.parametrize(('mix', 'word'), [
    ((1.0, 0.0, 0.0, 0.0, 0.0), 'continue'), ((0.0, 1.0, 0.0, 0.0, 0.0), 'stop'),
    ((0.0, 0.0, 0.0, 5.0, 0.0), 'slow')])
def test_both_weighs_the_head_the_words_and_a_bias(mix, word) -> None:
    head = make_head(mix=mix)
    decision = decide_by(make_rules('both', min_confidence=0.0), evidence([0, 0, 1, 0]), head)
    assert decision.word == word


def test_both_survives_a_word_the_model_holds_for_impossible() -> None:
    with np.errstate(divide='ignore'):
        seen = evidence([0, 0, 1, 0], (0.1, 0.0, 0.0))
    decision = decide_by(make_rules('both'), seen, make_head())
    assert decision.word == 'continue'
    assert np.isfinite(decision.probabilities).all()


def test_a_higher_temperature_is_less_sure_of_the_same_word() -> None:
    sure, unsure = (decide_by(make_rules(min_confidence=0.0), evidence([0, 0, 1, 0]),
                              make_head(temperature=t)) for t in (1.0, 4.0))
    assert sure.word == unsure.word == 'continue'
    assert sure.confidence > unsure.confidence


def test_a_word_with_a_bar_of_its_own_needs_more_than_the_others() -> None:
    rules = make_rules(min_confidence_of={'continue': 0.99})
    assert decide_by(rules, evidence([0, 0, 1, 0]), make_head()).source is (
        DecisionSource.LOW_CONFIDENCE)
    assert decide_by(rules, evidence([0, 1, 0, 0]), make_head()).word == 'slow'


def test_a_strange_scene_falls_back_however_sure_the_head_is() -> None:
    decision = decide_by(make_rules(), evidence([0, 0, 9, 9]), make_head())
    assert (decision.word, decision.source) == ('stop', DecisionSource.UNFAMILIAR)
    assert decision.confidence > 0.99


@pytest.mark.parametrize('broken', [np.nan, np.inf])
def test_a_broken_hidden_state_never_moves_the_robot(broken) -> None:
    with np.errstate(invalid='ignore'):
        decision = decide_by(make_rules(), evidence([broken, 0, 0, 0]), make_head())
    assert (decision.word, decision.source) == ('stop', DecisionSource.UNFAMILIAR)


def test_too_little_mass_falls_back_with_a_head_too() -> None:
    rules = make_rules(min_probability_mass=0.2)
    assert decide_by(rules, evidence([0, 0, 1, 0]), make_head()).source is (
        DecisionSource.LOW_CONFIDENCE)


@given(arrays.arrays(np.float32, N_EMBD, elements=st.floats(-5, 5, width=32)))
def test_the_distance_is_mahalanobis_to_the_nearest_mean(features: np.ndarray) -> None:
    familiarity = make_head().familiarity
    precision = np.diag([1.0, 1.0, 2.0, 2.0])
    squares = [(features - mean) @ precision @ (features - mean) for mean in familiarity.means]
    assert familiarity.distance(features) == pytest.approx(
        np.sqrt(min(squares) / N_EMBD), rel=1e-3, abs=1e-3)


def test_the_size_in_memory_is_the_arrays() -> None:
    assert make_head().num_bytes == 4 * (4 + 4 + 12 + 3 + 12 + 8 + 2)


def test_log_softmax_keeps_its_shape_far_from_zero() -> None:
    assert np.exp(log_softmax(np.array([1e4, 1e4, -1e4]))) == pytest.approx([0.5, 0.5, 0.0])
