"""Rows as the weights see them, checked and in the types of the core; where features are hashed, of any width."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from manyclass.checks import as_they_are, canonical_csr, validated_data
from manyclass.estimators.history import Features
from manyclass.model.hashing import FeatureHash
from manyclass.model.weights import Data, Matrix


def as_matrix(X: Any) -> Matrix:
    """Checked data in the types of the core."""
    return canonical_csr(X) if isinstance(X, sp.csr_matrix | sp.csr_array) else np.asarray(X)


def as_rows(X: Data) -> Any:
    """X, or of a sparse row, which is what `X[0]` is of a `csr_array`, the matrix of one row.

    A dense vector is left to scikit-learn's check, which asks whether it is a row or a column.
    """
    given: Any = X
    return sp.csr_array(given.reshape(1, -1)) if _is_sparse_row(given) else given


def _is_sparse_row(X: Any) -> bool:
    return bool(sp.issparse(X)) and X.ndim == 1


def some_rows(x: Matrix, rows: NDArray[np.intp]) -> Matrix:
    """Sorted rows of x; x itself, which may be large, where they are all of them."""
    return x if len(rows) == x.shape[0] else x[rows]


def validated(model: Any, X: Any) -> Matrix:
    """Check rows for predictions of a fitted model, and hash their features where the model's are."""
    hashing: FeatureHash | None = model._hashing
    if hashing is None and not hasattr(model, "feature_names_in_"):  # else a warning of names may be due
        rows = as_they_are(X, model.n_features_in_)
        if rows is not None:
            return rows
    shadow = model if hashing is None else clone(model)
    x = as_matrix(
        validated_data(shadow, X, accept_sparse="csr", dtype=np.float32, order="C", reset=shadow is not model)
    )
    if hashing is None:
        return x
    Features.of(model).wider(Features.of(shadow))  # which compares names
    return hashing.apply(x)


def hashed(
    model: Any, x: Matrix, shadow: Any, known: NDArray[Any] | None
) -> tuple[Matrix, Features, FeatureHash | None]:
    """Return checked rows of a training, what is known of their features, and what hashes those of a stream.

    `shadow` is what scikit-learn's check has noted features on; classes that are `known` before are those of a stream.
    """
    features, hashing = Features.of(shadow), model._hashing
    if known is None or hashing is None:
        return x, features, None
    before = Features.of(model) if hasattr(model, "_weights") else features
    return hashing.apply(x), before.wider(features), hashing
