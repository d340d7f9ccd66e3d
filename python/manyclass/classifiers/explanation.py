"""Which features drive a class, and what each feature of a row adds to the score of a label.

Scores are sums over features, z_k = b_k + sum_j x_j w_kj: of a linear model w_kj is in W, of pairs it is their weight
or 0, of a sum of embeddings it is w_k . e_j, and of a hybrid the sum of the last two. So x_j w_kj is exactly what
feature j adds. After a "relu" the sum has only the places of the hidden layer in which the row is above 0, b_k what
these have without any feature, and the weight of a feature by itself is what it adds to the score of a row of zeros, as
w_k . max(e_j, 0) where the hidden layer has no bias. What a mixture with counts
and repeats (`manyclass.models.Hybrid`) adds to a score is no sum over features, and is told beside them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import as_csr
from manyclass.training.state import State
from manyclass.weights.arrays import Doubles, Matrix
from manyclass.weights.hashing import UsedColumns


class Explanation(NamedTuple):
    """Why a label has its score: `intercept` + the sum of `contributions` + `others` + `counts` is the score.

    Attributes
    ----------
    label : object
        One of `classes_`.
    score : float
        That of `decision_function`, or, against another label, the difference of both: the log-odds of the two.
    features : ndarray of shape (n,)
        Features that add most to the score, or take most from it, first: their names where they have some, terms of
        texts among them, else their columns.
    contributions : ndarray of shape (n,), float64
        What each of them adds.
    others : float
        What the other features of the row add together.
    intercept : float
    counts : float
        What is added by a mixture with counts.
    """

    label: Any
    score: float
    features: NDArray[Any]
    contributions: Doubles
    others: float
    intercept: float
    counts: float


def names_of(state: State) -> NDArray[Any]:
    """Return the names of features, or their columns.

    Raises
    ------
    ValueError
        If features are hashed, so that several share their weights.
    """
    if isinstance(state.hashing, UsedColumns):
        return state.hashing.ids
    if state.hashing is not None:
        raise ValueError(
            f"the model has hashed its features onto {state.hashing.n_rows} rows of weights, which several share; fit "
            "it with more max_memory"
        )
    names = state.features.names
    if names is None and state.encoder is not None and state.encoder.keeps_terms:
        names = state.encoder.get_feature_names_out()
    return np.arange(state.features.n) if names is None else names


def top_features(state: State, position: int, k: int) -> tuple[NDArray[Any], Doubles]:
    """Return the features of largest weight for a class, and these weights; see `Answers.top_features`."""
    names = names_of(state)
    weights = state.weights.feature_weights(position, np.arange(state.weights.n_features, dtype=np.int32))
    best = np.argsort(-weights, kind="stable")[:k]
    return names[best], weights[best]


def explanations(
    state: State, x: Matrix, labels: NDArray[Any], rest: NDArray[Any] | None, k: int, n_threads: int
) -> list[Explanation]:
    """Explain the score of one class of each row, or the log-odds to another class; see `Answers.explain`.

    Parameters
    ----------
    state : State
    x : {csr_array, ndarray} of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,)
        Positions of classes.
    rest : ndarray of shape (n_samples,), or None
        Positions of the other classes.
    k : int
        Features to name.
    n_threads : int
    """
    names, weights_of = names_of(state), state.weights.feature_weights
    bias = state.weights.intercept.astype(np.float64)
    told_of_rows: list[Explanation] = []
    for i, label in enumerate(labels):
        row = as_csr(x[i : i + 1])
        columns, values = row.indices.astype(np.int32), row.data.astype(np.float64)
        added, intercept, counts = values * weights_of(label, columns, values), bias[label], 0.0
        if rest is not None:
            added = added - values * weights_of(rest[i], columns, values)
            intercept = intercept - bias[rest[i]]
        if state.weights.mixture.is_on or len(state.weights.centre):
            scores = state.weights.scores(x[i : i + 1], n_threads)[0].astype(np.float64)
            beyond = scores[label] - (0.0 if rest is None else scores[rest[i]]) - added.sum()
            intercept, counts = (beyond, 0.0) if len(state.weights.centre) else (intercept, beyond - intercept)
        best = np.argsort(-np.abs(added), kind="stable")[:k]
        told_of_rows.append(
            Explanation(
                label=state.classes[label],
                score=float(added.sum() + intercept + counts),
                features=names[columns[best]],
                contributions=added[best],
                others=float(added.sum() - added[best].sum()),
                intercept=float(intercept),
                counts=float(counts),
            )
        )
    return told_of_rows
