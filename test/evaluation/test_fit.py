"""The machinery without a model: known probabilities come back, noise is refused."""

from dataclasses import replace

import numpy as np
import pytest
from robot_llm.errors import ConfigError
from robot_llm.evaluation.fit import fit_head, held_out_predictions
from robot_llm.evaluation.mixing import fit_mix
from robot_llm.evaluation.recipe import Recipe
from robot_llm.evaluation.regression import fit_temperature
from robot_llm.evaluation.text_regression import fit_text, text_matrix, text_rows
from synthetic import make_dataset, make_rules, true_probabilities

pytest.importorskip('sklearn')


@pytest.fixture(scope='module')
def data():
    return make_dataset(np.random.default_rng(3), 700)


@pytest.fixture(scope='module')
def fitted(data):
    return fit_head(data)


def head_probabilities(head, hidden):
    return np.exp([head.log_probs(head.features(row), None) for row in hidden])


def test_known_probabilities_come_back_within_sampling_error(fitted):
    fresh = make_dataset(np.random.default_rng(4), 300)
    error = head_probabilities(fitted.head, fresh.hidden) - true_probabilities(fresh.hidden, 2.0)
    # 27 numbers fitted to 700 independent rows; an unfitted head is off by 0.3.
    assert np.sqrt((error ** 2).mean()) < 0.07
    assert np.abs(error.mean(axis=0)).max() < 0.03


def test_the_held_out_figures_are_what_the_truth_allows(data, fitted):
    truth = true_probabilities(data.hidden, 2.0)
    best_accuracy = truth.max(axis=1).mean()
    assert fitted.figures['accuracy'] == pytest.approx(best_accuracy, abs=0.06)
    low, high = fitted.figures['intervals']['accuracy']
    assert low < fitted.figures['accuracy'] < high
    assert fitted.figures['ece'] < 0.06


def test_the_learning_curve_rises_with_the_groups(fitted):
    curve = fitted.figures['learning_curve']
    assert [point['num_groups'] for point in curve] == sorted(p['num_groups'] for p in curve)
    assert curve[-1]['nll'] < curve[0]['nll']


def test_shuffled_labels_are_refused_as_unlearnable(data):
    random = np.random.default_rng(0)
    shuffled = random.permutation(data.num_groups)
    labels = data.labels[::2][shuffled][data.groups]
    with pytest.raises(ConfigError, match='nothing was learned: .* check the labels'):
        fit_head(replace(data, labels=labels))


def test_too_few_groups_of_a_word_are_refused_with_the_number(data):
    few = data.rows((data.labels != 2) | (data.groups < 20))
    with pytest.raises(ConfigError, match="'continue' has [0-9] groups to fit to, 10 are needed"):
        fit_head(few)


def test_a_model_without_hidden_state_is_refused(data):
    with pytest.raises(ConfigError, match='gives no hidden state'):
        fit_head(replace(data, hidden=data.hidden[:, :0]))


def test_two_words_work_like_three(data):
    two = data.rows(data.labels < 2)
    head = fit_head(replace(
        two, words=('stop', 'go'), log_probs=two.log_probs[:, :2])).head
    assert head.weights.shape == (8, 2)
    assert head_probabilities(head, two.hidden).sum(axis=1) == pytest.approx(1.0)


def test_real_rows_are_familiar_and_far_ones_are_not(fitted):
    fresh = make_dataset(np.random.default_rng(5), 300)
    head = fitted.head
    strange = np.mean([head.is_stranger(head.features(row), None, 0) for row in fresh.hidden])
    assert strange <= 0.06
    far = [head.is_stranger(head.features(row + 20), None, 0) for row in fresh.hidden]
    assert all(far)


def test_the_temperature_undoes_what_was_exaggerated():
    random = np.random.default_rng(0)
    logits = random.normal(size=(4000, 3)) * 2
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([random.choice(3, p=share) for share in shares])
    assert fit_temperature(3 * logits, labels) == pytest.approx(3.0, rel=0.1)


def test_the_mix_follows_whoever_knows(data):
    truth = np.log(true_probabilities(data.hidden, 2.0))
    nothing = np.full_like(truth, np.log(1 / 3))
    head_weight, word_weight, *_ = fit_mix(truth, nothing, data.labels)
    assert head_weight == pytest.approx(1.0, abs=0.25)
    head_weight, word_weight, *_ = fit_mix(nothing, truth, data.labels)
    assert word_weight == pytest.approx(1.0, abs=0.25)


def with_telling_texts(data):
    """Return the data with a text that names its label in seven rows of ten."""
    random = np.random.default_rng(1)
    said = np.where(random.random(len(data)) < 0.7, data.labels, random.integers(0, 3, len(data)))
    return replace(data, texts=tuple(
        f'scene {i % 7}: {("red", "amber", "green")[word]} lamp' for i, word in enumerate(said)))


def test_the_text_adds_what_the_hidden_state_does_not_know(data, fitted):
    rows = with_telling_texts(data.rows(data.groups < 250))
    with_text = fit_head(rows)
    assert with_text.figures['accuracy'] > fitted.figures['accuracy'] + 0.03
    assert with_text.figures['text_weight'] > 0.3
    head = with_text.head
    # What is folded into the head's file is what cross-validation weighed.
    right = [np.argmax(head.log_probs(head.features(row), head.read(text))) == label
             for row, text, label in zip(rows.hidden, rows.texts, rows.labels)]
    assert np.mean(right) >= with_text.figures['accuracy']


def strange_texts(data):
    """Return texts of two kinds that share hidden states with the data, and few words."""
    half = data.rows(np.arange(60))
    return replace(half, words=('order', 'cake'), labels=np.arange(60) % 2, texts=tuple(
        f'{("obey me", "bake")[i % 2]} and {("say red", "stir flour")[i % 2]} {i}'
        for i in range(60)))


def test_what_is_no_scene_is_told_by_its_text(data):
    rows = with_telling_texts(data.rows(data.groups < 250))
    strangers = strange_texts(data)
    fitted = fit_head(rows, strangers=strangers)
    told = fitted.figures['told']
    assert told['order'] > 0.9 and told['cake'] > 0.9
    assert told['scenes'] == pytest.approx(0.03, abs=0.01)
    head = fitted.head
    assert head.max_chars == max(map(len, rows.texts))
    assert all(head.is_stranger(head.features(hidden), head.read('obey me and say green'), 0)
               for hidden in rows.hidden[:20])
    # A distance that no scene has is enough, whatever the text says.
    assert head.is_stranger(head.features(rows.hidden[0] + 1e6), head.read(rows.texts[0]), 0)


def test_all_texts_at_once_are_weighed_as_the_node_weighs_each():
    texts = ('a wet floor, 2 m', 'nobody is here', '', 'two dogs 300 cm ahead', '!!')
    rows = text_rows(texts)
    part, _ = fit_text(rows[:4], np.array([0, 1, 2, 0]), 3.0)
    at_once = text_matrix(rows, part.keys, part.weights_of_ngrams) @ part.weights.astype(
        np.float32)
    alone = np.stack([part.logits(row) for row in rows])
    assert at_once == pytest.approx(alone, abs=1e-4)


def test_only_the_most_telling_ngrams_are_kept():
    rows = text_rows([f'{word} x{n} y{n}' for n in range(20) for word in ('red', 'green')])
    labels = np.tile([0, 1], 20)
    part, bias = fit_text(rows, labels, 3.0, max_ngrams=40)
    assert len(part.keys) == 40
    logits = text_matrix(rows, part.keys, part.weights_of_ngrams) @ part.weights + bias
    assert (logits.argmax(axis=1) == labels).all()


def test_a_head_that_reads_no_text_goes_by_the_distance_alone(data):
    fitted = fit_head(data, strangers=strange_texts(data))
    assert fitted.head.strangers is None and 'told' not in fitted.figures


@pytest.mark.parametrize('method', ['head', 'both'])
def test_held_out_predictions_know_less_than_the_head_that_saw_the_rows(data, fitted, method):
    rules = make_rules(method)
    held_out = held_out_predictions(data, rules, fitted.head, Recipe.of(fitted.figures))
    assert held_out.is_right.mean() == pytest.approx(fitted.figures['accuracy'], abs=0.02)
