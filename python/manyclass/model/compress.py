"""From trained weights to weights in fewer bits: what is dropped, what the rest takes, and how much must go to fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_number
from manyclass.model.coded import BLOCK_NUMBERS, CodedWeights, Codes, Dtype, padded
from manyclass.model.kinds import Trained
from manyclass.model.mapped import MappedWeights
from manyclass.model.postings import HybridWeights, SparseWeights
from manyclass.model.weights import Floats, LinearWeights

MOST_SHORT_IDS = 1 << 16  # classes that two bytes tell apart
UNITS = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
LOW_BITS = 15  # magnitudes are floats of 31 bits, which are counted by the 16 high ones and then by these


def n_droppable(weights: Trained) -> int:
    """Return how many weights, pairs or embeddings can be dropped and take no memory then.

    Raises
    ------
    ValueError
        If none can, with the reason.
    """
    if isinstance(weights, LinearWeights):
        if weights.sparse:
            return weights.n_classes * len(weights.matrix)
        raise ValueError("prune: weights over dense data are read from end to end; none can be left out of memory")
    if isinstance(weights, MappedWeights):
        if weights.embeddings.size:
            return len(weights.embeddings)
        raise ValueError(
            "prune: the weights of a linear model that was trained by minibatches are read from end to end; none can "
            "be left out of memory"
        )
    return len((weights.postings if isinstance(weights, HybridWeights) else weights).values)


def coded_bytes(weights: Trained, dtype: Dtype, n_kept: int | None = None) -> int:
    """Return the bytes of `coded(weights, dtype, n_kept)` without making it."""
    item, scale, n_classes = np.dtype(dtype).itemsize, 4 * (dtype == "int8"), weights.n_classes
    if isinstance(weights, HybridWeights):
        own = coded_bytes(weights.postings, dtype, n_kept) - 4 * n_classes
        return own + coded_bytes(weights.mapped, dtype)
    if isinstance(weights, MappedWeights):
        total = n_classes * (weights.n_hidden * item + scale + 4)
        n_features = len(weights.embeddings)
        n = n_features if n_kept is None else n_kept
        return total + n * (padded(weights.n_hidden) * item + scale + 4 * (n < n_features))
    if isinstance(weights, LinearWeights) and not weights.sparse:
        return n_classes * (int(weights.matrix.shape[1]) * item + scale + 4)
    n_features = len(weights.matrix) if isinstance(weights, LinearWeights) else weights.n_features
    if isinstance(weights, LinearWeights) and n_kept is None:
        return n_features * (padded(n_classes) * item + scale) + 4 * n_classes
    n = n_kept if n_kept is not None else len(weights.values) if isinstance(weights, SparseWeights) else 0
    return n * (id_type(n_classes).itemsize + item) + 8 * (n_features + 1) + scale * n_features + 4 * n_classes


def most_kept(weights: Trained, dtype: Dtype, max_bytes: int) -> int:
    """Return how many of the droppable may stay for the rest to fit, at least 1.

    Raises
    ------
    ValueError
        If not even one may, or nothing can be dropped.
    """
    n, one, two = n_droppable(weights), coded_bytes(weights, dtype, 1), coded_bytes(weights, dtype, 2)
    if one > max_bytes:
        raise ValueError(f"what cannot be dropped takes {one} bytes as {dtype}")
    return min(n, 1 + (max_bytes - one) // (two - one))


def coded(weights: Trained, dtype: Dtype, n_kept: int | None = None) -> CodedWeights:
    """Return the weights in fewer bits.

    Parameters
    ----------
    weights : as they were trained
    dtype : {"float32", "float16", "int8"}
    n_kept : int, optional
        So many of the `n_droppable` stay, those of largest magnitude, or embeddings of largest norm; None: all.

    Raises
    ------
    ValueError
        If a weight is not finite or too large for the dtype.
    """
    if isinstance(weights, SparseWeights):
        return _of_postings(weights, dtype, n_kept)
    if isinstance(weights, MappedWeights):
        return _of_mapped(weights, dtype, n_kept)
    if isinstance(weights, HybridWeights):
        pairs, mapped = _of_postings(weights.postings, dtype, n_kept), _of_mapped(weights.mapped, dtype, None)
        return replace(
            pairs,
            kind="hybrid",
            intercept=weights.intercept.astype(np.float32),
            rows=mapped.rows,
            embeddings=mapped.embeddings,
            relu=mapped.relu,
        )
    n_features = len(weights.matrix) if weights.sparse else weights.matrix.shape[1]
    intercept = np.array(weights.intercept)
    if not weights.sparse:
        return CodedWeights("class_major", intercept, n_features, rows=Codes.of_rows(weights.matrix, dtype))
    if n_kept is None:
        return CodedWeights("feature_major", intercept, n_features, rows=Codes.of_rows(weights.matrix, dtype))
    return _of_postings(_largest_pairs(weights, n_kept), dtype, None)


def _of_mapped(weights: MappedWeights, dtype: Dtype, n_kept: int | None) -> CodedWeights:
    embeddings, features = None, None
    if weights.embeddings.size:
        table = weights.embeddings
        if n_kept is not None and n_kept < len(table):
            norms = np.einsum("ij,ij->i", table, table, dtype=np.float64)
            features = np.sort(np.argpartition(-norms, n_kept - 1)[:n_kept]).astype(np.int32)
            table = table[features]
        # The column of the intercept is not one of the embeddings: they are as long as phi, in whole sixteens.
        embeddings = Codes.of_rows(np.ascontiguousarray(table[:, : padded(weights.n_hidden)]), dtype)
    return CodedWeights(
        "mapped",
        np.array(weights.intercept),
        len(weights.embeddings) or weights.n_hidden,
        rows=Codes.of_rows(np.ascontiguousarray(weights.coef), dtype),
        embeddings=embeddings,
        features=features,
        relu=weights.relu,
    )


def _of_postings(weights: SparseWeights, dtype: Dtype, n_kept: int | None) -> CodedWeights:
    if n_kept is not None and n_kept < len(weights.values):
        bar = magnitude_bar(lambda: _pieces(weights.values), n_kept)
        weights = weights.some(_magnitudes(weights.values) >= bar)
    return CodedWeights(
        "postings",
        np.array(weights.intercept),
        weights.n_features,
        indptr=np.array(weights.indptr),
        classes=weights.classes.astype(id_type(weights.n_classes)),
        values=Codes.of_lists(np.asarray(weights.values), weights.indptr, dtype),
    )


def _largest_pairs(weights: LinearWeights, n_kept: int) -> SparseWeights:
    """The weights of largest magnitude of a feature-major matrix."""

    def blocks() -> Iterator[Floats]:
        step = max(1, BLOCK_NUMBERS // max(1, weights.n_classes))
        for first in range(0, len(weights.matrix), step):
            yield weights.matrix[first : first + step, : weights.n_classes]

    bar = magnitude_bar(blocks, n_kept)
    counts, classes, values = [], [], []
    for block in blocks():
        kept = _magnitudes(block) >= bar
        counts.append(kept.sum(axis=1))
        classes.append(np.nonzero(kept)[1].astype(np.int32))
        values.append(block[kept])
    indptr = np.concatenate(([0], np.cumsum(np.concatenate(counts)))).astype(np.int64)
    return SparseWeights(indptr, np.concatenate(classes), np.concatenate(values), weights.intercept)


def magnitude_bar(blocks: Callable[[], Iterator[Floats]], n_kept: int) -> int:
    """Return the least bits of a magnitude above 0 that at most `n_kept` numbers reach; ties with the next one fall.

    Magnitudes are in the order of their bits, which are counted in two passes: partition would need a copy of all.
    """

    def reaching(counts: NDArray[np.int64], beyond: int) -> NDArray[np.int64]:
        return np.append(np.cumsum(counts[::-1])[::-1], 0) + beyond

    counts = np.zeros(1 << 16, dtype=np.int64)
    for block in blocks():
        counts += np.bincount((_magnitudes(block) >> LOW_BITS).ravel(), minlength=len(counts))
    by_high = reaching(counts, 0)
    high = int(np.argmax(by_high <= n_kept))
    if high == 0:
        return 1
    counts = np.zeros(1 << LOW_BITS, dtype=np.int64)
    for block in blocks():
        bits = _magnitudes(block).ravel()
        counts += np.bincount(bits[bits >> LOW_BITS == high - 1] & ((1 << LOW_BITS) - 1), minlength=len(counts))
    low = int(np.argmax(reaching(counts, int(by_high[high])) <= n_kept))
    return max(1, ((high - 1) << LOW_BITS) + low)


def _magnitudes(numbers: Floats) -> NDArray[np.uint32]:
    """The bits of absolute values."""
    return np.ascontiguousarray(numbers).view(np.uint32) & np.uint32(0x7FFFFFFF)


def _pieces(values: Floats) -> Iterator[Floats]:
    for first in range(0, len(values), BLOCK_NUMBERS):
        yield values[first : first + BLOCK_NUMBERS]


def id_type(n_classes: int) -> np.dtype[np.uint16] | np.dtype[np.int32]:
    """Return the type of the classes of pairs."""
    return np.dtype(np.uint16) if n_classes <= MOST_SHORT_IDS else np.dtype(np.int32)


def bytes_of(size: Any) -> int:
    """Return a number of bytes, or a text such as "10MB" or "1.5GiB", as an integer.

    Raises
    ------
    ValueError
        If it is not one of them, or not above 0.
    """
    if not isinstance(size, str):
        check_number("max_bytes", size, low=1, integer=True)
        return int(size)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", size)
    if found is None or found[2] not in UNITS or float(found[1]) * UNITS[found[2]] < 1:
        named = ", ".join(repr(unit) for unit in UNITS if unit)
        raise ValueError(
            f"max_bytes is {size!r}; it must be a number of bytes of at least 1, or one with a unit: {named}"
        )
    return int(float(found[1]) * UNITS[found[2]])
