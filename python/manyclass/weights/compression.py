"""From trained weights to weights in fewer bits: what is dropped, what the rest takes, and how much must go to fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from manyclass import _core
from manyclass.checks import bytes_of, check_choice, check_number
from manyclass.weights.arrays import DTYPES, Codes, Dtype, padded
from manyclass.weights.weights import Weights

MOST_SHORT_IDS = 1 << 16  # classes that two bytes tell apart


def check_compression(dtype: str, prune: float, max_bytes: int | str | None) -> float:
    """Check what is asked of `compress`, and return the most bytes of a file, or infinity; ValueError or TypeError."""
    check_choice("dtype", dtype, ("auto", *DTYPES))
    check_number("prune", prune, low=0)
    if prune >= 1:
        raise ValueError(f"prune is {prune!r}; it must be below 1, as something has to stay")
    return np.inf if max_bytes is None else bytes_of("max_bytes", max_bytes)


def n_droppable(weights: Weights) -> int:
    """Return how many weights, pairs or embeddings can be dropped and take no memory then.

    Raises
    ------
    ValueError
        If none can, with the reason.
    """
    if weights.has_pairs:
        return len(weights.values)
    if weights.embeddings.size:
        return len(weights.embeddings)
    if weights.by_feature:
        return weights.n_classes * weights.n_features
    raise ValueError("prune: these weights are read from end to end; none can be left out of memory")


def most_kept(weights: Weights, dtype: Dtype, max_bytes: int) -> int:
    """Return how many of the droppable may stay for the rest to fit, at least 1.

    Raises
    ------
    ValueError
        If not even one may, or nothing can be dropped.
    """
    n, bytes_of_one, bytes_of_two = n_droppable(weights), *(coded(weights, dtype, n).nbytes for n in (1, 2))
    if bytes_of_one > max_bytes:
        raise ValueError(f"what cannot be dropped takes {bytes_of_one} bytes as {dtype}")
    return min(n, 1 + (max_bytes - bytes_of_one) // max(1, bytes_of_two - bytes_of_one))


def coded(weights: Weights, dtype: Dtype, n_kept: int | None = None) -> Weights:
    """Return the weights in fewer bits.

    Parameters
    ----------
    weights : Weights
        As they were trained.
    dtype : {"float32", "float16", "int8"}
    n_kept : int, optional
        So many of the `n_droppable` stay, those of largest magnitude, or embeddings of largest norm; None: all.

    Raises
    ------
    ValueError
        If a weight is not finite or too large for the dtype.
    """
    if weights.by_feature and n_kept is not None:
        rows: dict[str, Any] = {"numbers": weights.matrix, "width": weights.n_classes}
        rows["stride"] = weights.matrix.shape[1]
        pairs = _core.reaching(**rows, bar=_core.magnitude_bar(**rows, n_kept=n_kept))  # those of largest magnitude
        return coded(Weights.on_pairs(*pairs, weights.bias), dtype)
    codes: dict[str, Codes] = {}
    arrays: dict[str, Any] = {"bias": np.array(weights.intercept), "intercept_column": False, "scales": np.ones(2)}
    if weights.has_pairs:
        if n_kept is not None and n_kept < len(weights.values):
            n = len(weights.values)
            bar = _core.magnitude_bar(numbers=weights.values, width=n, stride=n, n_kept=n_kept)
            weights = weights.some_pairs((weights.values.view(np.uint32) & np.uint32(0x7FFFFFFF)) >= bar)
        codes["values"] = Codes.of(np.asarray(weights.values), dtype, weights.indptr)
        arrays |= {"indptr": np.array(weights.indptr), "classes": weights.classes.astype(id_type(weights.n_classes))}
    if weights.embeddings.size:
        table = weights.embeddings
        if n_kept is not None and n_kept < len(table) and not weights.has_pairs:
            norms = np.einsum("ij,ij->i", table, table, dtype=np.float64)
            arrays["features"] = np.sort(np.argpartition(-norms, n_kept - 1)[:n_kept]).astype(np.int32)
            table = table[arrays["features"]]
        # The column of the intercept is not code of the embeddings: they are as long as phi, in whole sixteens.
        codes["embeddings"] = Codes.of(table[:, : padded(weights.n_hidden)], dtype)
    if weights.matrix.size:
        codes["matrix"] = Codes.of(weights.class_rows if weights.has_phi else weights.matrix, dtype)
    arrays |= {name: code.values for name, code in codes.items()}
    return replace(weights, codes={name: code.scales for name, code in codes.items()}, **arrays)


def id_type(n_classes: int) -> np.dtype[np.uint16] | np.dtype[np.int32]:
    """Return the type of the classes of pairs."""
    return np.dtype(np.uint16) if n_classes <= MOST_SHORT_IDS else np.dtype(np.int32)
