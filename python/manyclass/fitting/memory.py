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
from typing import Any

import numpy as np

from manyclass import _core
from manyclass.checks import check_number
from manyclass.datasets.csr import is_sparse

UNITS = {"": 1, "B": 1}
UNITS |= {f"{letter}B": 1000**n for n, letter in enumerate("KMGT", 1)}
UNITS |= {f"{letter}IB": 1024**n for n, letter in enumerate("KMGT", 1)}


def bytes_from(max_memory: int | str) -> int:
    """Return a number of bytes, of text such as "2GiB" or "500 MB".

    Raises
    ------
    ValueError
        If it is no positive number of bytes.
    TypeError
        If it is neither a whole number nor text.
    """
    if isinstance(max_memory, int | np.integer) and not isinstance(max_memory, bool):
        check_number("max_memory", max_memory)
        n_bytes = float(max_memory)
    elif isinstance(max_memory, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*", max_memory)
        if not match or match[2].upper() not in UNITS:
            raise ValueError(f"max_memory is {max_memory!r}; it must be bytes, such as 2147483648, '2GiB' or '500 MB'")
        n_bytes = float(match[1]) * UNITS[match[2].upper()]
    else:
        raise TypeError(f"max_memory is {max_memory!r}; it must be a number of bytes, or text such as '2GiB'")
    if not 1 <= n_bytes < math.inf:
        raise ValueError(f"max_memory is {max_memory!r:.80}; it must be at least a byte, and some number")
    return int(n_bytes)


def measured(X: Any, y: Any) -> tuple[float, float]:
    """Return bytes and stored values of a row, in the mean over the rows of a part."""
    n = max(1, X.shape[0])
    n_bytes, stored = _measured(X)
    label_bytes = _measured(y)[0] if is_sparse(y) else 8.0 * n
    return (n_bytes + label_bytes) / n, stored / n


def _measured(X: Any) -> tuple[float, float]:
    if is_sparse(X):
        return 8.0 * X.nnz + 8.0 * X.shape[0], float(X.nnz)
    return 4.0 * X.shape[0] * X.shape[1], float(X.shape[0] * X.shape[1])


def fitted_in(
    footprint: _core.Footprint, n_bytes: float, rows: int, max_memory: int | str, *, may_hash: bool
) -> tuple[int, int | None]:
    """Return the rows of a part, at most `rows`, and how many features there are to be after hashing; None: all.

    Raises
    ------
    ValueError
        If there is too little memory, with `max_memory` and the least that works.
    """
    fit = footprint.within(n_bytes, rows, may_hash)
    if fit is None:
        least = math.ceil(footprint.needed(rows, may_hash) / 2**20)
        raise ValueError(
            f"max_memory is {max_memory!r}; {footprint.n_classes} classes"
            f"{'' if may_hash else f' and {footprint.n_features} features'} need at least {least}MiB "
            "(help(manyclass.fitting.memory) has the formula)"
        )
    return fit
