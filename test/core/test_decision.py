"""Logits become a word, or the fallback wherever there is doubt."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
import numpy as np
import pytest
from robot_llm.core.decision import (
    decide, Decision, DecisionLatch, DecisionSource, log_softmax_at)

WORDS = ('stop', 'slow', 'continue')


def decide_for(
    probabilities: tuple[float, ...], *, min_confidence: float = 0.0, min_mass: float = 0.0,
) -> Decision:
    with np.errstate(divide='ignore'):
        log_probs = np.log(np.array(probabilities))
    return decide(WORDS, log_probs, fallback='stop', min_confidence=min_confidence,
                  min_probability_mass=min_mass)


def test_the_likeliest_word_wins_with_its_share_of_the_set() -> None:
    decision = decide_for((0.02, 0.03, 0.05))
    assert (decision.word, decision.source) == ('continue', DecisionSource.MODEL)
    assert decision.words == WORDS
    assert decision.probabilities == pytest.approx((0.2, 0.3, 0.5))
    assert decision.confidence == pytest.approx(0.5)
    assert decision.probability_mass == pytest.approx(0.1)


def test_too_little_confidence_publishes_the_fallback_and_says_what_the_model_thought() -> None:
    decision = decide_for((0.02, 0.03, 0.05), min_confidence=0.51)
    assert (decision.word, decision.source) == ('stop', DecisionSource.LOW_CONFIDENCE)
    assert decision.probabilities == pytest.approx((0.2, 0.3, 0.5))
    assert decide_for((0.2, 0.3, 0.5), min_confidence=0.49).source is DecisionSource.MODEL


def test_a_bias_is_divided_out_and_what_was_said_stays_to_be_seen() -> None:
    log_probs = np.log(np.array([0.06, 0.03, 0.01]))
    decision = decide(
        WORDS, log_probs, fallback='stop', min_confidence=0.5, min_probability_mass=0.0,
        bias=np.log(np.array([0.9, 0.09, 0.01])))
    # 0.6/0.9, 0.3/0.09, 0.1/0.01 over their sum.
    assert decision.probabilities == pytest.approx((0.0476, 0.2381, 0.7143), abs=1e-4)
    assert (decision.word, decision.confidence) == ('continue', max(decision.probabilities))
    assert decision.uncalibrated == pytest.approx((0.6, 0.3, 0.1))
    assert decision.probability_mass == pytest.approx(0.1)


def test_an_even_bias_changes_nothing_and_none_leaves_nothing_to_be_seen() -> None:
    log_probs = np.log(np.array([0.02, 0.03, 0.05]))
    even = decide(WORDS, log_probs, fallback='stop', min_confidence=0.0,
                  min_probability_mass=0.0, bias=np.log(np.full(3, 1 / 3)))
    assert even.probabilities == pytest.approx(even.uncalibrated)
    assert decide_for((0.02, 0.03, 0.05)).uncalibrated == ()


def test_a_revoked_decision_still_shows_what_was_said_before_calibration() -> None:
    latch = DecisionLatch(WORDS, 'stop')
    latch.offer(Decision('slow', DecisionSource.MODEL, WORDS, (0.1, 0.8, 0.1), 0.8, 0.5,
                         (0.3, 0.4, 0.3)))
    fallen = latch.fall(DecisionSource.DEADLINE)
    assert fallen is not None and fallen.uncalibrated == (0.3, 0.4, 0.3)


def test_too_little_mass_publishes_the_fallback() -> None:
    assert decide_for((0.0, 0.0, 0.1), min_mass=0.11).source is DecisionSource.LOW_CONFIDENCE
    assert decide_for((0.0, 0.0, 0.1), min_mass=0.09).source is DecisionSource.MODEL


@pytest.mark.parametrize('doubtful', [
    (np.nan, np.nan, np.nan), (0.5, np.nan, 0.5), (0.0, 0.0, 0.0), (np.inf, 0.1, 0.1)])
def test_no_finite_answer_is_doubt(doubtful: tuple[float, ...]) -> None:
    decision = decide_for(doubtful)
    assert (decision.word, decision.source) == ('stop', DecisionSource.LOW_CONFIDENCE)
    assert (decision.probabilities, decision.confidence) == ((), 0.0)


def test_an_impossible_word_has_no_probability() -> None:
    assert decide_for((0.0, 0.25, 0.25)).probabilities == pytest.approx((0.0, 0.5, 0.5))


@given(log_probs=arrays.arrays(np.float64, 3, elements=st.floats(-800, 0)),
       min_confidence=st.floats(0, 1), min_mass=st.floats(0, 1))
def test_a_decision_is_a_distribution_and_never_rises_above_the_thresholds(
    log_probs: np.ndarray, min_confidence: float, min_mass: float,
) -> None:
    decision = decide(WORDS, log_probs, fallback='stop', min_confidence=min_confidence,
                      min_probability_mass=min_mass)
    assert sum(decision.probabilities) == pytest.approx(1.0)
    assert decision.confidence == max(decision.probabilities)
    assert 0.0 <= decision.probability_mass <= 1.0
    is_sure = decision.confidence >= min_confidence and decision.probability_mass >= min_mass
    assert (decision.source is DecisionSource.MODEL) is is_sure
    assert is_sure or decision.word == 'stop'


@given(logits=arrays.arrays(np.float32, st.integers(1, 300), elements=st.floats(
    -80, 80, width=32)), data=st.data())
def test_log_softmax_of_a_few_tokens_equals_the_whole_rows(
    logits: np.ndarray, data: st.DataObject,
) -> None:
    token_ids = data.draw(st.lists(st.integers(0, len(logits) - 1), min_size=1, max_size=8))
    wide = logits.astype(np.float64)
    expected = wide - np.logaddexp.reduce(wide)
    before = logits.copy()
    assert log_softmax_at(logits, token_ids) == pytest.approx(expected[token_ids], abs=1e-4)
    assert np.array_equal(logits, before)


def test_log_softmax_survives_a_masked_row_and_large_logits() -> None:
    logits = np.array([-np.inf, 9000.0, 9000.0, -np.inf], np.float32)
    assert log_softmax_at(logits, [1, 2]) == pytest.approx(np.log([0.5, 0.5]))
    assert log_softmax_at(logits, [0])[0] == -np.inf


def test_the_first_decision_stands_and_later_ones_are_counted() -> None:
    latch = DecisionLatch(WORDS, 'stop')
    first = Decision('slow', DecisionSource.MODEL, WORDS)
    assert latch.standing is None
    assert latch.offer(first) is first
    assert latch.offer(Decision('continue', DecisionSource.MODEL, WORDS)) is first
    assert (latch.standing, latch.num_dropped) == (first, 1)


def test_a_fall_keeps_what_the_model_had_said_and_happens_once() -> None:
    latch = DecisionLatch(WORDS, 'stop')
    latch.offer(Decision('slow', DecisionSource.MODEL, WORDS, (0.1, 0.8, 0.1), 0.8, 0.6))
    fallen = latch.fall(DecisionSource.DEADLINE)
    assert fallen == Decision(
        'stop', DecisionSource.DEADLINE, WORDS, (0.1, 0.8, 0.1), 0.8, 0.6)
    assert latch.fall(DecisionSource.ERROR) is None
    assert latch.standing is fallen


DECISIONS = st.builds(
    Decision, st.sampled_from(WORDS), st.just(DecisionSource.MODEL), st.just(WORDS))


@given(st.lists(DECISIONS | st.sampled_from(DecisionSource)))
def test_behind_a_fall_only_the_fallback_stands(calls: list[Decision | DecisionSource]) -> None:
    latch = DecisionLatch(WORDS, 'stop')
    words, has_fallen = [], False
    for call in calls:
        if isinstance(call, Decision):
            latch.offer(call)
        else:
            assert (latch.fall(call) is None) is has_fallen
            has_fallen = True
        assert latch.standing is not None
        words.append(latch.standing.word)
    changes = [word for i, word in enumerate(words) if i == 0 or word != words[i - 1]]
    assert len(changes) <= 2
    assert changes[1:] in ([], ['stop'])
