"""`max_memory` of a stream: what a training takes, and how many rows and features it has room for.

The bytes that `fit` or `partial_fit` adds to those that the process has, whatever the number of rows:

    bytes = copies * 4 * (features * row of W, and of embeddings) + 64 * features + 64 * classes       the model
          + rows * (3 * window * row of X * 1.5 + 64 * stored values of a row + 128)                   the windows
          + 8 * rows of the stream, in a `fit`                                                          what rows carry
          + 128 MiB                                                                                     all else

copies
    2: a part trains a copy, so that an error leaves the model as it was. 3 where iterates are averaged over passes.
row of W
    Classes, rounded up to 16, of sparse data; with embeddings their length, for features and for classes.
features, classes
    Means and scales of features, counts and orders of classes, in double precision, with what is made to find them.
windows
    One is trained on and one is made, which takes twice its size for a moment. Rows differ in length: their mean is
    that of the first thousand, and half as much is added.
stored values
    What training makes of those of a part: scaled or hashed copies, and the intermediates, in double precision.
what rows carry
    u of the double sum, or two numbers of augment and reduce, in single precision, kept where their number is known and
    they take at most an eighth of the memory, else predicted.
all else
    8 MB of text with its lines, tiles of scores, and what the allocator keeps.

With `max_memory` a stream is read in parts of as many rows as there is room for, up to 2**20, and no more than its own
where these were set. Where the model leaves no room for parts of 16,384 rows, features are hashed (`FeatureHash`) onto
as many rows of W as leave a quarter of what is not "all else" to the windows.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyclass.checks import check_number
from manyclass.datasets.csr import is_sparse
from manyclass.weights.arrays import LINE

UNITS = {"": 1, "B": 1}
UNITS |= {f"{letter}B": 1000**n for n, letter in enumerate("KMGT", 1)}
UNITS |= {f"{letter}IB": 1024**n for n, letter in enumerate("KMGT", 1)}

BESIDE = 128 << 20
AT_ONCE, LONGER = 3, 1.5  # windows in memory; rows against the mean of the first ones
OF_VALUE, OF_ROW, OF_FEATURE, OF_CLASS = 64, 128, 64, 64
MOST_ROWS, ENOUGH_ROWS, LEAST_ROWS = 1 << 20, 1 << 14, 1 << 8
LEAST_FEATURES = 64  # of hashed ones: with fewer nothing is told apart
CARRIED, FOR_CARRIED = 8, 0.125
FOR_WINDOWS = 0.25  # of the memory, where features are hashed


def bytes_from(given: int | str) -> int:
    """Return a number of bytes, of text such as "2GiB" or "500 MB".

    Raises
    ------
    ValueError
        If it is no positive number of bytes.
    TypeError
        If it is neither a whole number nor text.
    """
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        check_number("max_memory", given)
        found = float(given)
    elif isinstance(given, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*", given)
        if not match or match[2].upper() not in UNITS:
            raise ValueError(f"max_memory is {given!r}; it must be bytes, such as 2147483648, '2GiB' or '500 MB'")
        found = float(match[1]) * UNITS[match[2].upper()]
    else:
        raise TypeError(f"max_memory is {given!r}; it must be a number of bytes, or text such as '2GiB'")
    if not 1 <= found < math.inf:
        raise ValueError(f"max_memory is {given!r:.80}; it must be at least a byte, and some number")
    return int(found)


@dataclass(frozen=True)
class Footprint:
    """What the bytes of a training depend on.

    Attributes
    ----------
    n_features, n_classes : int
    copies : int
        Of the model.
    dim : int or None
        Length of embeddings; None: a linear model.
    row, stored : float
        Bytes and stored values of a row of X and its labels, in the mean.
    window : int
        Parts that are read at once.
    """

    n_features: int
    n_classes: int
    copies: int
    dim: int | None
    row: float
    stored: float
    window: int

    def of_model(self) -> float:
        """Return the bytes of the model."""
        if self.dim is None:
            matrices = max(self.n_features * _padded(self.n_classes), self.n_classes * _padded(self.n_features + 1))
        else:
            matrices = (self.n_features + self.n_classes) * _padded(self.dim + 1)
        return 4.0 * self.copies * matrices + OF_FEATURE * self.n_features + OF_CLASS * self.n_classes

    def of_rows(self) -> float:
        """Return the bytes that each row of a part takes."""
        return AT_ONCE * self.window * self.row * LONGER + OF_VALUE * self.stored + OF_ROW

    def total(self, rows: int) -> float:
        """Return all bytes, of parts of so many rows."""
        return self.of_model() + rows * self.of_rows() + BESIDE

    def with_features(self, n_features: int) -> Footprint:
        """Return it with another number of features."""
        return replace(self, n_features=n_features)

    def least(self, rows: int = LEAST_ROWS) -> float:
        """Return the bytes below which nothing can be trained: few hashed features, and parts of so many rows."""
        model = self.with_features(min(self.n_features, LEAST_FEATURES)).of_model()
        return BESIDE + max(model + rows * self.of_rows(), model / (1 - FOR_WINDOWS))

    def rows_within(self, n_bytes: float) -> int:
        """Return the rows of a part that there is room for; none or less: the model alone is too large."""
        return int((n_bytes - self.of_model() - BESIDE) // self.of_rows())

    def features_within(self, n_bytes: float, rows: int = LEAST_ROWS) -> int:
        """Return how many hashed features there is room for beside windows, of parts of so many rows at least."""
        room = n_bytes - BESIDE
        room -= max(FOR_WINDOWS * room, rows * self.of_rows())
        low, high = 0, self.n_features  # by bisection, since `of_model` has steps
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.with_features(middle).of_model() <= room else (low, middle - 1)
        return low


def _padded(n: int) -> int:
    return -(-n // LINE) * LINE


def measured(X: Any, y: Any) -> tuple[float, float]:
    """Return bytes and stored values of a row, in the mean over the rows of a part."""
    n = max(1, X.shape[0])
    n_bytes, stored = _measured(X)
    of_labels = _measured(y)[0] if is_sparse(y) else 8.0 * n
    return (n_bytes + of_labels) / n, stored / n


def _measured(X: Any) -> tuple[float, float]:
    if is_sparse(X):
        return 8.0 * X.nnz + 8.0 * X.shape[0], float(X.nnz)
    return 4.0 * X.shape[0] * X.shape[1], float(X.shape[0] * X.shape[1])


def fitted_in(
    found: Footprint, n_bytes: float, rows: int, given: int | str, *, may_hash: bool
) -> tuple[int, int | None]:
    """Return the rows of a part, at most `rows`, and how many features there are to be after hashing; None: all.

    Raises
    ------
    ValueError
        If there is too little memory, with what was `given` and the least that works.
    """
    fit, least_rows = min(found.rows_within(n_bytes), rows), min(LEAST_ROWS, rows)
    if fit >= min(ENOUGH_ROWS, rows) or (not may_hash and fit >= least_rows):
        return fit, None
    least = found.least(least_rows) if may_hash else found.total(least_rows)
    if n_bytes < least:
        raise ValueError(
            f"max_memory is {given!r}; {found.n_classes} classes"
            f"{'' if may_hash else f' and {found.n_features} features'} need at least {math.ceil(least / 2**20)}MiB "
            "(help(manyclass.classifiers.memory) has the formula)"
        )
    features = found.features_within(n_bytes, least_rows)
    if features == found.n_features:
        return fit, None
    return min(found.with_features(features).rows_within(n_bytes), rows), features
