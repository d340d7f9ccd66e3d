"""Prequential evaluation: each part of a stream is predicted, and learnt afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass.checks import check_choice
from manyclass.datasets.csr import rows_of
from manyclass.labels import as_labels, find_positions
from manyclass.protocols import Classifier, has_probabilities

COLUMNS = ("log_loss", "accuracy", "n_rows", "n_unseen", "n_classes", "seconds")
COUNTS = ("n_rows", "n_unseen", "n_classes")


def prequential(
    model: Classifier,
    parts: Iterable[tuple[Any, Any]],
    *,
    classes: ArrayLike | None = None,
    unseen: Literal["drop", "log_k"] = "drop",
    **partial_fit_params: Any,
) -> dict[str, NDArray[Any]]:
    """Score each part of a stream before `partial_fit` learns it: loss over time, on rows that the model has not seen.

    Parameters
    ----------
    model : classifier with partial_fit
        Of this package, or another with `predict_proba` and `classes_`, such as scikit-learn's, whose probabilities
        count as a float's rounding at least, as in its `log_loss`. It is trained in place. One that is not fitted
        begins with the first part, which then has no score.
    parts : iterable of (X, y)
        In their order in time, one part in memory at once. A y of several labels a row is an indicator matrix of all
        the model's classes.
    classes : array-like, optional
        Labels that are to come, for the first call of `partial_fit`; scikit-learn's classifiers need all of them.
    unseen : {"drop", "log_k"}, default="drop"
        What a row costs whose label is not yet a class: "drop" leaves it out of both means; "log_k" charges the
        logarithm of the number of the model's classes, and counts it as wrong. Either way `n_unseen` counts it.
    **partial_fit_params : dict
        For each call of `partial_fit`: n_passes=2, half_life=10_000, ...

    Returns
    -------
    dict of str to ndarray of shape (n_parts,)
        "log_loss" in nats, NaN of a part that nothing predicts and of models without probabilities; "accuracy", the
        share of rows whose best label is right; "n_rows", all of the part; "n_unseen"; "n_classes" of the model that
        was scored; and "seconds" of `partial_fit`. `manyclass.plot.loss_over_time({"model": table["log_loss"]})` draws
        it, `pandas.DataFrame(table)` makes a table of it.

    Raises
    ------
    TypeError
        If the model has no `partial_fit`.
    ValueError
        If there are no parts or one has no rows, or for what `partial_fit` raises one.

    Examples
    --------
    >>> import numpy as np
    >>> from manyclass import SoftmaxClassifier
    >>> from manyclass.metrics import prequential
    >>> X, y = np.eye(3, dtype=np.float32)[[0, 1, 2] * 20], np.array(["ant", "bee", "cow"] * 20)
    >>> table = prequential(SoftmaxClassifier(solver="implicit", random_state=0), [(X, y)] * 4)
    >>> bool(np.isnan(table["log_loss"][0])), bool(table["log_loss"][3] < table["log_loss"][1])
    (True, True)
    """
    check_choice("unseen", unseen, ("drop", "log_k"))
    if not hasattr(model, "partial_fit"):
        raise TypeError(f"model is a {type(model).__name__}, which has no partial_fit")
    rows: list[dict[str, float]] = []
    for X, labels in parts:
        y: Any = labels if sp.issparse(labels) else as_labels(labels)
        if y.shape[0] == 0:
            raise ValueError(f"part {len(rows)} has no rows; leave it out")
        scores = _scores(model, X, y, unseen)
        begin = time.perf_counter()
        model.partial_fit(X, y, **({} if classes is None else {"classes": classes}), **partial_fit_params)
        rows.append({**scores, "seconds": time.perf_counter() - begin})
        classes = None if y.ndim == 1 else classes  # a part of several labels names the columns of its matrix
    if not rows:
        raise ValueError("there are no parts; there must be one at least")
    return {name: np.array([row[name] for row in rows], dtype=int if name in COUNTS else float) for name in COLUMNS}


def _scores(model: Classifier, X: Any, y: Any, unseen: str) -> dict[str, float]:
    """What a part scores before it is learnt."""
    n_rows, known = y.shape[0], np.asarray(getattr(model, "classes_", ()))  # of a fitted one
    scores = {"log_loss": np.nan, "accuracy": np.nan, "n_rows": n_rows, "n_unseen": 0, "n_classes": len(known)}
    if y.ndim > 1:
        return {**scores, **_evaluated(model, X, y)} if len(known) else scores
    is_known = find_positions(y, known, "y") >= 0
    n_unseen = n_rows - int(np.count_nonzero(is_known))
    scores["n_unseen"] = n_unseen
    if n_unseen < n_rows:
        rows = np.flatnonzero(is_known)
        matrix = X.tocsr() if hasattr(X, "tocsr") else X if hasattr(X, "iloc") else np.asarray(X)
        scores |= _evaluated(model, rows_of(matrix, rows) if n_unseen else X, y[rows])
    if unseen == "log_k" and n_unseen and len(known):
        # A model without probabilities has no loss to add to.
        charged = {"accuracy": 0.0} | ({"log_loss": np.log(len(known))} if has_probabilities(model) else {})
        for name, charge in charged.items():
            # 0 and not NaN where there is nothing to weigh in; NaN stays NaN where a model has no probabilities.
            total = scores[name] * (n_rows - n_unseen) if n_unseen < n_rows else 0.0
            scores[name] = (total + charge * n_unseen) / n_rows
    return scores


def _evaluated(model: Classifier, X: Any, y: Any) -> dict[str, float]:
    """Log-loss and accuracy of rows whose labels are all known."""
    if hasattr(model, "evaluate"):
        measures = model.evaluate(X, y)
        return {"log_loss": measures.get("log_loss", np.nan), "accuracy": 1 - measures["error"]}
    p = np.asarray(model.predict_proba(X))
    labels = find_positions(y, np.asarray(model.classes_), "y")
    label_probabilities = np.maximum(p[np.arange(len(p)), labels], np.finfo(p.dtype).eps)
    return {
        "log_loss": float(-np.log(label_probabilities).mean()),
        "accuracy": float(np.mean(p.argmax(axis=1) == labels)),
    }
