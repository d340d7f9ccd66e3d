"""The index of approximate predictions, made and tuned before the first of them."""

from __future__ import annotations

from typing import Any

from manyclass.checks import check_number
from manyclass.classifiers.margin import MarginClassifier
from manyclass.model.weights import Data
from manyclass.search import class_index


def build_index(model: Any, X: Data, k: int, recall: float) -> None:
    """Build and tune the index that `predict_top_k(X, k, approximate=True, recall=recall)` then searches.

    Parameters
    ----------
    model : fitted classifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows like those to come, at least 128.
    k : int
    recall : float in ]0, 1]

    Raises
    ------
    ValueError
        If scoring all classes is predicted to be faster, probabilities are not those of a softmax, or rows are too few.
    """
    check_number("recall", recall, low=0, open_low=True, high=1)
    (state, x), least = model._asked(X), 2 * class_index.LEAST_TUNE_ROWS
    why = "a margin has none" if isinstance(model, MarginClassifier) else model._not_softmax(state)
    if why:
        raise ValueError(f"approximate answers need the probabilities of a softmax; {why}")
    if len(state.classes) <= class_index.EXACT_CLASSES:
        raise ValueError(
            f"the model has {len(state.classes)} classes; approximate answers are for more than "
            f"{class_index.EXACT_CLASSES}, fewer are all scored"
        )
    if x.shape[0] < least:
        raise ValueError(f"there are {x.shape[0]} rows to tune the index of approximate answers; it needs {least}")
    slower = class_index.slower(state.weights, x, None, recall)
    if not slower:
        model.predict_top_k(x, k, approximate=True, recall=recall)
        slower = class_index.slower(state.weights, x[:1], model._class_index(state).probes(k, recall), recall)
    if slower:
        raise ValueError(f"approximate answers are of no use: {slower}")
