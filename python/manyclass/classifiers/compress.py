"""Small models: `compress` makes a copy for predictions, with weights in fewer bits and, if asked for, fewer of them.

``model.compress(dtype="auto", *, prune=0.0, max_bytes=None)`` returns a fitted model of the same class with the same
methods; the one that it is called on stays as it is. Scores are computed from the small weights as they stand in
memory or in a mapped file.

Parameters of the call:

dtype : {"auto", "float32", "float16", "int8"}
    "float16" has 11 bits of precision, so that a weight is off by 1/2048 of itself at most (or by 3e-8 below 6e-5).
    "int8" has 127 steps between 0 and the largest magnitude in a row of the storage: a weight is off by half a step. A
    row is that of a feature where weights stand by feature (sparse data) or on pairs, that of a class over dense data
    and over embeddings, that of a feature in a table of embeddings. "float32" leaves weights as they are, for pruning
    alone. "auto" is "float16", or with `max_bytes` the first of float16, int8 and int8 with pruning that fits.
prune : float in [0, 1[
    The share of the weights that is dropped, those of least magnitude: of the weights on pairs, in hybrids too; of all
    weights of a linear model of sparse data, which then are pairs, too; or of the embeddings, those of least norm, as
    fastText's quantize does. A linear model of dense data has nothing that could be left out of memory: a ValueError.
max_bytes : int, or text such as "10MB" or "1GiB"
    Most bytes of the file that `save` then writes, labels and a `vectorizer_` included. More is pruned than `prune`
    says where that is needed; a ValueError if nothing fits.

Intercepts stay float32. What trains on does not work from such weights: `partial_fit` and `warm_start=True` say so,
`fit` trains anew. Keep the original for them. `coef_` and `embedding_` are float32 copies, made at each call.

The file is as that of any model, in version 3 of the format, which writes "coded" as the layout: arrays
"coded.rows", "coded.embeddings" and "coded.values" are F32, F16 or I8, with float32 "....scales" beside those that are
I8; "coded.features" are the features that have embeddings, "coded.indptr" and "coded.classes" the pairs by feature.
How much is lost, and how fast it is, stands in bench/figures/small_models.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np
from sklearn.base import clone

from manyclass.classifiers.files import file_bytes
from manyclass.training.state import State
from manyclass.weights.arrays import Dtype
from manyclass.weights.compression import check_compression, coded, most_kept, n_droppable
from manyclass.weights.files import weight_tensors
from manyclass.weights.weights import Weights

Fitted = TypeVar("Fitted")
HEADER_BYTES = 1024  # by which names and numbers in the header of a file may differ


def compress(
    model: Fitted,
    dtype: Literal["auto", "float32", "float16", "int8"] = "auto",
    *,
    prune: float = 0.0,
    max_bytes: int | str | None = None,
) -> Fitted:
    """Return a copy for predictions whose weights take fewer bytes; see `manyclass.classifiers.compress`."""
    most = check_compression(dtype, prune, max_bytes)
    estimator: Any = model
    state: State = estimator._fitted
    weights = state.weights
    weights.refuse_compressed("compress")
    if state.variances is not None:
        raise ValueError(
            "posterior is 'gaussian', whose variances take as much as the weights and cannot be compressed; fit with "
            "posterior='point'"
        )
    dtypes: tuple[Dtype, ...] = ("float16", "int8") if dtype == "auto" else (dtype,)
    # Without what only training needs.
    state = replace(state, squares=None, history=replace(state.history, scaling=None), sets=(), calls=())
    beside = 0
    if most < np.inf:
        beside = file_bytes(estimator._model(state)) + HEADER_BYTES
        beside -= sum(array.nbytes for array in weight_tensors(weights).values())
    small = _fitting(weights, dtypes, float(prune), most, beside)
    copied: Any = clone(estimator)
    copied.__dict__.update(
        {name: value for name, value in estimator.__getstate__().items() if name not in estimator.get_params()}
    )
    return copied._taken(replace(state, weights=small))  # type: ignore[no-any-return]


def _kept_share(weights: Weights, prune: float) -> int | None:
    """How many weights `prune` leaves; None: all. Weights of 0 are no pairs."""
    if prune == 0:
        return None
    n = n_droppable(weights)
    n_kept = n - int(prune * n)
    if n_kept < 1:
        raise ValueError(f"prune is {prune!r}, which leaves none of {n}; it must be less")
    return min(n_kept, int(np.count_nonzero(weights.matrix))) if weights.by_feature else n_kept


def _smaller(weights: Weights, dtype: Dtype, n_kept: int | None, prune: float) -> Weights:
    """Return weights in fewer bits: as pairs where most are 0 and that takes less, or where some are dropped."""
    small = coded(weights, dtype, n_kept)
    if not weights.by_feature:
        return small
    other = coded(weights, dtype, int(np.count_nonzero(weights.matrix)) if n_kept is None else None)
    if n_kept is not None and small.nbytes >= other.nbytes:
        raise ValueError(
            f"prune is {prune!r}; what it leaves would take {small.nbytes} bytes as pairs of a feature and a class, "
            f"and all weights take {other.nbytes}: leave it 0, or let it be more"
        )
    return min(small, other, key=lambda form: form.nbytes)


def _fitting(weights: Weights, dtypes: Sequence[Dtype], prune: float, most: float, beside: int) -> Weights:
    """Return the least compressed weights whose file takes `most` bytes, `beside` of them for what is not weights."""
    n_kept = _kept_share(weights, prune)
    for dtype in dtypes:
        small = _smaller(weights, dtype, n_kept, prune)
        if small.nbytes + beside <= most:
            return small
    try:
        return coded(weights, dtype, most_kept(weights, dtype, int(most) - beside))
    except ValueError as error:
        raise ValueError(
            f"max_bytes is {most}; nothing fits: as {dtype} the file takes {small.nbytes + beside} bytes, {beside} of "
            f"them for labels and all that is not weights, and {str(error).removeprefix('prune: ')}"
        ) from error
