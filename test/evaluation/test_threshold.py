"""Bars keep what they promise, over many worlds; and say when they cannot promise."""

import numpy as np
import pytest
from robot_llm.errors import ConfigError
from robot_llm.evaluation.commands import write_bars
from robot_llm.evaluation.metrics import group_losses, Predictions, unsafe_matrix
from robot_llm.evaluation.threshold import (
    bar_path, choose_bars, missing_groups, risk_bound, with_bars)
from synthetic import make_dataset, make_predictions, make_rules, true_probabilities, WORDS

RULES = make_rules()


def world(random: np.random.Generator, num_groups: int, *, strength: float = 3.0,
          claimed: float = 3.0) -> Predictions:
    """Return predictions by the true probabilities, or by ones that claim too much."""
    data = make_dataset(random, num_groups, strength=strength)
    predictions = make_predictions(
        true_probabilities(data.hidden, claimed), data.labels, groups=data.groups)
    return predictions


@pytest.mark.parametrize('claimed', [3.0, 9.0])
def test_the_bound_holds_over_200_repetitions_even_for_an_overconfident_head(claimed):
    random = np.random.default_rng(7)
    level, losses, decided = 0.05, [], []
    path = bar_path(world(random, 400, claimed=claimed), RULES)
    for _ in range(200):
        choice = choose_bars(path, world(random, 60, claimed=claimed), RULES, level)
        fresh = with_bars(world(random, 60, claimed=claimed), np.array(choice.bars), 0)
        losses.append(group_losses(fresh, unsafe_matrix(RULES)).mean())
        decided.append(1 - fresh.is_fallback.mean())
    standard_error = np.std(losses) / np.sqrt(len(losses))
    assert np.mean(losses) <= level + 2 * standard_error
    # Not by stopping always.
    assert np.mean(losses) > level / 4
    assert np.mean(decided) > 0.5


def test_the_path_only_ever_raises_bars_and_leaves_the_fallback_alone():
    path = bar_path(world(np.random.default_rng(0), 100), RULES)
    assert (np.diff(path, axis=0) >= 0).all()
    assert (path[:, 0] == 0).all()
    assert path[-1].tolist() == [0.0, 1.0, 1.0]


def test_the_bolder_word_gets_the_higher_bar():
    path = bar_path(world(np.random.default_rng(1), 400), RULES)
    middle = path[len(path) // 4]
    assert middle[2] > middle[1]


def test_with_a_confidence_the_level_holds_in_nearly_every_repetition():
    random = np.random.default_rng(11)
    level, num_above, decided = 0.05, 0, []
    path = bar_path(world(random, 400, claimed=9.0), RULES)
    # The true risk of bars, from situations enough.
    large = world(random, 3000, claimed=9.0)
    for _ in range(40):
        choice = choose_bars(path, world(random, 120, claimed=9.0), RULES, level, 0.9)
        fresh = with_bars(large, np.array(choice.bars), 0)
        num_above += group_losses(fresh, unsafe_matrix(RULES)).mean() > level
        decided.append(1 - fresh.is_fallback.mean())
    assert num_above <= 0.1 * 40
    assert np.mean(decided) > 0.3


def test_with_a_confidence_the_bars_are_never_lower():
    random = np.random.default_rng(2)
    path, calibration = bar_path(world(random, 200), RULES), world(random, 300)
    average, likely = (choose_bars(path, calibration, RULES, 0.05, confidence)
                       for confidence in (0.0, 0.9))
    assert (np.array(likely.bars) >= np.array(average.bars)).all()
    assert likely.observed_unsafe < average.observed_unsafe < likely.bound <= 0.05
    assert '90%' in likely.guarantee() and 'average' not in likely.guarantee()


@pytest.mark.parametrize(('num_groups', 'observed', 'confidence', 'bound'), [
    (99, 0.0, 0.0, 0.01), (99, 0.01, 0.0, 0.0199), (100, 1.0, 0.9, 1.0),
    (230, 0.0, 0.9, 1 - 0.1 ** (1 / 230)), (806, 0.0035, 0.9, 0.010015)])
def test_the_bound_is_what_the_formula_says(num_groups, observed, confidence, bound):
    assert risk_bound(num_groups, observed, confidence) == pytest.approx(bound, rel=1e-3)


def test_without_an_unsafe_decision_so_many_groups_are_needed_for_a_confidence():
    assert missing_groups(200, 0.01, 0.9) == 30
    assert risk_bound(230, 0.0, 0.9) <= 0.01 < risk_bound(229, 0.0, 0.9)


@pytest.mark.parametrize(('num_groups', 'level', 'missing'), [
    (48, 0.01, 51), (98, 0.01, 1), (99, 0.01, 0), (19, 0.05, 0), (18, 0.05, 1)])
def test_too_few_groups_are_counted(num_groups, level, missing):
    assert missing_groups(num_groups, level) == missing


def test_too_few_groups_are_refused_with_how_many_are_missing():
    random = np.random.default_rng(0)
    path = bar_path(world(random, 50), RULES)
    with pytest.raises(ConfigError, match=(
            r'--max-unsafe 0.01: the threshold split has 48 groups, 99 are needed, 51 are missing '
            r'.* about 255 more in the file\); the strictest level these allow is 0.0204')):
        choose_bars(path, world(random, 48), RULES, 0.01)


def test_a_strangers_fallback_is_never_undone():
    predictions = make_predictions([(0.0, 0.0, 1.0)], [2])
    predictions.is_stranger[:] = True
    assert with_bars(predictions, np.zeros(3), 0).published.tolist() == [0]


def test_the_guarantee_names_level_size_and_assumption():
    random = np.random.default_rng(0)
    choice = choose_bars(bar_path(world(random, 200), RULES), world(random, 120), RULES, 0.05)
    assert choice.bound <= 0.05
    text = choice.guarantee()
    for part in ('5.00%', '120 situations', 'exchangeable', 'average'):
        assert part in text


def test_the_profile_lines_replace_the_old_ones_and_keep_the_comments(tmp_path):
    random = np.random.default_rng(0)
    choice = choose_bars(bar_path(world(random, 200), RULES), world(random, 120), RULES, 0.05)
    path = tmp_path / 'drive.yaml'
    path.write_text('decision:\n  # why\n  min_confidence: 0.5\n  min_probability_mass: 0.0\n')
    lines = choice.profile_lines('stop')
    for _ in range(2):  # a second time finds what the first one wrote
        write_bars(path, lines)
        assert path.read_text() == (
            f'decision:\n  # why\n{lines}  min_probability_mass: 0.0\n')
    assert 'stop:' not in lines.splitlines()[1].partition('of:')[2]
    for word, bar in zip(WORDS[1:], choice.bars[1:]):
        assert float(lines.split(f'{word}: ')[1].split(',')[0].split('}')[0]) >= bar


def test_a_profile_without_a_bar_to_replace_is_refused(tmp_path):
    path = tmp_path / 'drive.yaml'
    path.write_text('decision:\n')
    with pytest.raises(ConfigError, match='has no line `  min_confidence:`'):
        write_bars(path, 'a\nb')
