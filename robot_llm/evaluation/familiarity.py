"""The stranger limit of a head: fitted covariance, and a threshold from held-out distances."""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.head import Familiarity
from robot_llm.evaluation.dataset import Dataset
from robot_llm.evaluation.regression import folds, Scaler

NUM_AXES: Final = 64
"""Wide axes that are kept; all others share one variance."""
QUANTILE: Final = 0.97
"""Of the held-out scenes: 3 of 100 real scenes are called strange; 5 are allowed."""
FAR_QUANTILE: Final = 0.995
"""Of their distances, where other signs tell as well; what is beyond is strange for that alone."""


def fit_familiarity(
    data: Dataset, scaler: Scaler, *, num_axes: int = NUM_AXES, max_distance: float = np.inf,
) -> Familiarity:
    """Fit class means and the shrunk covariance within the classes to all rows."""
    features = scaler(data.hidden)
    means = np.stack([features[data.labels == k].mean(axis=0) for k in range(len(data.words))])
    within = features - means[data.labels]
    num_axes = min(num_axes, within.shape[1] - 1, data.num_groups - len(data.words))
    values, vectors = np.linalg.eigh(np.cov(within.T))
    # eigh gives the widest last. A floor keeps a dead direction from dividing by nothing.
    values = np.maximum(values, 1e-6)
    return Familiarity(
        means=means.astype(np.float32),
        axes=np.ascontiguousarray(vectors[:, -num_axes:].T, np.float32),
        axis_variances=values[-num_axes:].astype(np.float32),
        rest_variance=float(values[:-num_axes].mean()),
        max_distance=max_distance)


def distances(
    familiarity: Familiarity, scaler: Scaler, hidden: NDArray[np.float32],
) -> NDArray[np.float64]:
    """Return the distance of each row, shape (num_rows,)."""
    return np.array([familiarity.distance(row) for row in scaler(hidden)])


def held_out_distances(data: Dataset) -> NDArray[np.float64]:
    """Return each row's distance to a fit that never saw its group, shape (num_rows,)."""
    found = np.empty(len(data))
    for fit, held_out in folds(data):
        part = data.rows(fit)
        scaler = Scaler.of(part.hidden)
        found[held_out] = distances(
            fit_familiarity(part, scaler), scaler, data.hidden[held_out])
    return found
