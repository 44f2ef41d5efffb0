"""Figures on predictions small enough to be counted by hand."""

import numpy as np
import pytest
from robot_llm.evaluation.metrics import (
    bootstrap, brier_score, confusion, cost_matrix, ece_if_calibrated, expected_calibration_error,
    negative_log_likelihood, paraphrase_agreement, reliability, risk_coverage, scalar_figures,
    unsafe_matrix)
from synthetic import make_predictions, make_rules

SURE_STOP, SURE_SLOW, SURE_GO = (0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8)


def test_the_confusion_matrix_has_right_words_down_and_likeliest_across():
    predictions = make_predictions([SURE_STOP, SURE_GO, SURE_SLOW], [0, 0, 1])
    assert confusion(predictions).tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_proper_scores_are_those_of_the_textbook():
    predictions = make_predictions([SURE_STOP, SURE_GO], [0, 0])
    assert negative_log_likelihood(predictions) == pytest.approx(
        -(np.log(0.8) + np.log(0.1)) / 2)
    assert brier_score(predictions) == pytest.approx(
        ((0.04 + 0.01 + 0.01) + (0.81 + 0.01 + 0.64)) / 2)


def test_who_is_sure_at_80_percent_and_right_at_80_percent_is_calibrated():
    predictions = make_predictions([SURE_STOP] * 5, [0, 0, 0, 0, 1])
    assert expected_calibration_error(predictions) == pytest.approx(0.0)
    assert expected_calibration_error(
        make_predictions([SURE_STOP] * 5, [1] * 5)) == pytest.approx(0.8)
    assert reliability(predictions)[8] == (5, pytest.approx(0.8), pytest.approx(0.8))


def test_certainty_falls_into_the_last_bin():
    assert reliability(make_predictions([(1.0, 0.0, 0.0)], [0]))[9][0] == 1


def test_agreement_counts_pairs_of_paraphrases_not_goals():
    predictions = make_predictions(
        [SURE_STOP, SURE_STOP, SURE_GO, SURE_GO], [0] * 4, groups=[0, 0, 0, 1])
    assert paraphrase_agreement(predictions) == pytest.approx(1 / 3)
    predictions.scenes[:] = [0, 1, 1, 2]
    assert paraphrase_agreement(predictions) == pytest.approx(1 / 2)


def test_unsafe_is_what_costs_more_than_the_fallback():
    rules = make_rules()
    assert unsafe_matrix(rules).tolist() == [
        [False, True, True], [False, False, True], [False, False, False]]
    assert cost_matrix(rules)[0].tolist() == [0.0, 4.0, 10.0]


def test_without_costs_only_a_missed_fallback_is_unsafe():
    assert unsafe_matrix(make_rules(costs={})).tolist() == [
        [False, True, True], [False] * 3, [False] * 3]


def test_risk_is_of_what_was_published():
    predictions = make_predictions([SURE_GO, SURE_GO], [0, 1], published=[2, 0])
    figures = scalar_figures(predictions, make_rules())
    assert figures['risk'] == pytest.approx((10 + 1) / 2)
    assert figures['unsafe'] == pytest.approx(0.5)


def test_every_group_counts_alike_in_the_figure_that_the_bars_bound():
    predictions = make_predictions(
        [SURE_GO, SURE_STOP, SURE_STOP, SURE_STOP], [0] * 4, groups=[0, 1, 1, 1])
    figures = scalar_figures(predictions, make_rules())
    assert figures['unsafe'] == pytest.approx(1 / 4)
    assert figures['unsafe_by_group'] == pytest.approx(1 / 2)


def test_the_least_sure_row_is_left_out_first():
    predictions = make_predictions([SURE_STOP, (0.4, 0.3, 0.3)], [0, 1])
    coverage, error = risk_coverage(predictions)
    assert coverage.tolist() == [0.5, 1.0]
    assert error.tolist() == [0.0, 0.5]


def draw(random, sharpness, num_groups=1000):
    """Return predictions that are right as often as they say, then sharpened."""
    logits = np.repeat(random.normal(0, 2.5, (num_groups, 3)), 2, axis=0)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    chance = np.repeat(random.random(num_groups), 2)[:, None]
    told = shares ** sharpness
    return make_predictions(
        told / told.sum(axis=1, keepdims=True), (shares.cumsum(axis=1) < chance).sum(axis=1),
        groups=np.repeat(np.arange(num_groups), 2))


@pytest.mark.parametrize(('sharpness', 'truth'), [(1.0, 0.0), (1.5, 0.065)])
def test_the_interval_of_the_calibration_error_holds_the_true_one(sharpness, truth):
    random = np.random.default_rng(0)
    num_hits = 0
    for _ in range(10):
        predictions = draw(random, sharpness)
        low, high = bootstrap(
            predictions, lambda p: {'ece': expected_calibration_error(p)}, num_samples=60)['ece']
        num_hits += low <= truth <= high
        assert low <= expected_calibration_error(predictions) <= high
    assert num_hits >= 8


def test_a_calibrated_head_shows_what_chance_gives():
    random = np.random.default_rng(1)
    shown = [expected_calibration_error(draw(random, 1.0)) for _ in range(30)]
    by_chance = ece_if_calibrated(draw(random, 1.0), num_samples=100)
    assert np.mean(shown) == pytest.approx(by_chance.mean(), rel=0.2)


def test_the_bootstrap_draws_groups_so_copies_narrow_nothing():
    random = np.random.default_rng(0)
    right = random.random(40) < 0.7
    probabilities = [SURE_STOP] * 40
    labels = np.where(right, 0, 1)
    once = make_predictions(probabilities, labels)
    copied = make_predictions(
        probabilities * 5, np.tile(labels, 5), groups=np.tile(np.arange(40), 5))
    widths = []
    for predictions in (once, copied):
        low, high = bootstrap(
            predictions, lambda p: {'a': float(p.is_right.mean())}, num_samples=300)['a']
        assert low <= right.mean() <= high
        widths.append(high - low)
    assert widths[1] == pytest.approx(widths[0], abs=0.06)
