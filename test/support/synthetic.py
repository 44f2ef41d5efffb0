"""Hidden states with known class probabilities, and scene files, for the tests of evaluation."""

import numpy as np
from robot_llm.evaluation.dataset import Dataset
from robot_llm.evaluation.metrics import Predictions
from robot_llm.profile import DecisionRules, DecisionWord

WORDS = ('stop', 'slow', 'continue')
COSTS = {'stop': {'slow': 4.0, 'continue': 10.0}, 'slow': {'stop': 1.0, 'continue': 4.0},
         'continue': {'stop': 1.0, 'slow': 0.5}}


def make_rules(method='words', **changes) -> DecisionRules:
    return DecisionRules(
        words=tuple(DecisionWord(word=word, meaning='m') for word in WORDS), fallback='stop',
        method=method, head='' if method == 'words' else 'x.npz',
        **({'min_confidence': 0.0, 'costs': COSTS} | changes))


def true_probabilities(hidden: np.ndarray, strength: float) -> np.ndarray:
    """Return p(word | hidden): a softmax of the first three numbers."""
    logits = strength * hidden[:, :3].astype(np.float64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def make_dataset(
    random: np.random.Generator, num_groups: int, *, n_embd: int = 8, strength: float = 2.0,
    per_group: int = 2,
) -> Dataset:
    """Return groups of near-equal rows whose labels are drawn from ``true_probabilities``."""
    centres = random.normal(size=(num_groups, n_embd))
    shares = true_probabilities(centres, strength)
    labels = np.array([random.choice(3, p=share) for share in shares])
    rows = np.repeat(np.arange(num_groups), per_group)
    hidden = centres[rows] + 0.02 * random.normal(size=(len(rows), n_embd))
    return Dataset(
        words=WORDS, hidden=hidden.astype(np.float32),
        log_probs=np.log(np.full((len(rows), 3), 0.01)), labels=labels[rows], groups=rows,
        scenes=np.arange(len(rows)), decision_s=np.zeros(len(rows)),
        texts=('',) * len(rows))


def make_predictions(probabilities, labels, *, groups=None, published=None) -> Predictions:
    """Return predictions that published their likeliest words."""
    probabilities = np.array(probabilities, np.float64)
    num_rows = len(probabilities)
    return Predictions(
        WORDS, probabilities, np.array(labels),
        np.arange(num_rows) if groups is None else np.array(groups), np.arange(num_rows),
        np.argmax(probabilities, axis=1) if published is None else np.array(published),
        np.zeros(num_rows, np.bool_), np.zeros(num_rows, np.bool_))
