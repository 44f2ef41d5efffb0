"""Evidence → predictions, through the very function the node decides with."""

import numpy as np
from robot_llm.core.decision import decide_by, DecisionSource, Evidence
from robot_llm.core.head import DecisionHead
from robot_llm.evaluation.dataset import Dataset
from robot_llm.evaluation.metrics import Predictions
from robot_llm.profile import DecisionMethod, DecisionRules


def with_method(rules: DecisionRules, method: DecisionMethod) -> DecisionRules:
    """Return the rules with another method; whether a head is there is the caller's business."""
    return rules.model_copy(update={'method': method})


def predict(data: Dataset, rules: DecisionRules, head: DecisionHead | None) -> Predictions:
    """
    Decide every row by the rules' method.

    A row without any finite evidence counts as knowing nothing: all words alike.

    :param head: None only for the method ``words``
    """
    decisions = [
        decide_by(rules, Evidence(log_probs, hidden, text), head)
        for log_probs, hidden, text in zip(data.log_probs, data.hidden, data.texts)]
    num_words = len(data.words)
    uniform = (1 / num_words,) * num_words
    sources = np.array([decision.source for decision in decisions])
    return Predictions(
        words=data.words,
        probabilities=np.array([decision.probabilities or uniform for decision in decisions]),
        labels=data.labels, groups=data.groups, scenes=data.scenes,
        published=np.array([data.words.index(decision.word) for decision in decisions]),
        is_fallback=sources != DecisionSource.MODEL,
        is_stranger=sources == DecisionSource.UNFAMILIAR)
