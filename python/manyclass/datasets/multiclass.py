"""A folder of XMC text files as the papers use it: one label a row."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from manyclass.compressed import SUFFIXES
from manyclass.datasets.preprocessing import (
    drop_empty_rows,
    drop_unseen_classes,
    first_label,
    l2_normalize,
    scale_by_max,
    truncate_features,
)
from manyclass.datasets.xmc import load_xmc

_VARIABLE = "MANYCLASS_DATA"
_ENDINGS = ("", *SUFFIXES)


@dataclass(frozen=True)
class Multiclass:
    """Training and test data with one class a row.

    Attributes
    ----------
    X_train : csr_array of shape (n_train, n_features), float32
    y_train : ndarray of shape (n_train,), int64
        Classes, by their numbers in the file; not every number need occur.
    X_test : csr_array of shape (n_test, n_features), float32
    y_test : ndarray of shape (n_test,), int64
        Classes, all of which occur in `y_train`.
    """

    X_train: sparse.csr_array
    y_train: NDArray[np.int64]
    X_test: sparse.csr_array
    y_test: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        """The number of classes that occur in `y_train`."""
        return len(np.unique(self.y_train))


def load_multiclass(
    directory_or_name: str | os.PathLike[str],
    *,
    scale: Literal["l2", "max"] | None = "l2",
    n_features: int | None = None,
    n_train: int | None = None,
    n_jobs: int | None = None,
    cache: bool = False,
) -> Multiclass:
    """Read ``train.txt`` and ``test.txt`` (or with the suffix .xz, .gz, .bz2 or .zst) as multiclass data.

    The files may have a name before it, as the extreme classification repository's ``eurlex_train.txt``.

    A row's class is its first label. Then, in this order: features beyond `n_features` are cut off, training
    rows beyond `n_train`, rows without a label or without a non-zero feature are dropped, values are scaled,
    and test rows whose class has no training row are dropped.

    Parameters
    ----------
    directory_or_name : str or path-like
        A folder, if it is path-like or holds a path separator; else the name of a folder in the one that the
        environment variable MANYCLASS_DATA names.
    scale : 'l2', 'max' or None, default='l2'
        Rows divided by their norm (Fagan & Iyengar), features divided by their largest training value
        (Ruiz et al.), or nothing.
    n_features : int, optional
        Use at most that many features (10,000 in Fagan & Iyengar).
    n_train : int, optional
        Use at most that many training rows of the file (100,000 in Fagan & Iyengar).
    n_jobs : int, optional
        As in `load_xmc`.
    cache : bool, default=False
        As in `load_xmc`.

    Returns
    -------
    data : Multiclass

    Raises
    ------
    ValueError
        If the variable is not set, the name is not among its folders, an option is not among its choices, or
        a file is malformed.
    FileNotFoundError
        If the folder has no train.txt or test.txt.
    """
    if scale not in ("l2", "max", None):
        raise ValueError(f"scale is {scale!r}; it must be one of 'l2', 'max', None")
    if n_train is not None and n_train < 1:
        raise ValueError(f"n_train is {n_train}; it must be at least 1")
    folder = _folder(directory_or_name)

    def read(split: str, n_rows: int | None) -> tuple[Any, ...]:
        path = split_file(folder, split)
        X, Y = load_xmc(path, n_jobs=n_jobs, cache=cache)
        y = first_label(Y)
        if n_features is not None:
            X = truncate_features(X, n_features)
        if n_rows is not None:
            X, y = X[:n_rows], y[:n_rows]
        labelled = np.flatnonzero(y >= 0)
        return drop_empty_rows(X[labelled], y[labelled])

    X_train, y_train = read("train", n_train)
    X_test, y_test = read("test", None)
    if X_train.shape[1] != X_test.shape[1]:
        raise ValueError(f"{folder}: train.txt has {X_train.shape[1]} features, test.txt has {X_test.shape[1]}")
    if scale == "l2":
        X_train, X_test = l2_normalize(X_train), l2_normalize(X_test)
    elif scale == "max":
        X_train, X_test = scale_by_max(X_train, X_test)
    X_test, y_test = drop_unseen_classes(y_train, X_test, y_test)
    return Multiclass(X_train, y_train, X_test, y_test)


def _folder(directory_or_name: str | os.PathLike[str]) -> Path:
    name = os.fspath(directory_or_name)
    if not isinstance(directory_or_name, str) or os.path.dirname(name):
        return Path(name)
    root = os.environ.get(_VARIABLE)
    if not root:
        raise ValueError(
            f"the environment variable {_VARIABLE} is not set; it must name the folder that holds {name!r} "
            f"(a folder elsewhere is written with a separator: {os.path.join('.', name)!r})"
        )
    if not Path(root).is_dir():
        raise ValueError(f"the environment variable {_VARIABLE} is {root!r}, which is not a folder")
    choices = sorted(f.parent.name for ending in _ENDINGS for f in Path(root).glob(f"*/train.txt{ending}"))
    if name not in choices:
        raise ValueError(
            f"{name!r} is not a data set in {root} ({_VARIABLE}); it must be one of "
            + ", ".join(map(repr, dict.fromkeys(choices)))
        )
    return Path(root) / name


def split_file(folder: Path, split: str) -> Path:
    """Return the file "train.txt" or "test.txt" of a folder, or the one of another name before it, as in "a_train.txt".

    Raises FileNotFoundError if there is none, ValueError if several have names before it.
    """
    plain, named = (
        [path for ending in _ENDINGS for path in sorted(folder.glob(f"{pattern}.txt{ending}"))]
        for pattern in (split, f"*_{split}")
    )
    if len(named) > 1 and not plain:
        raise ValueError(f"{folder} holds {', '.join(p.name for p in named)}; it must hold one *_{split}.txt")
    if plain or named:
        return [*plain, *named][0]
    raise FileNotFoundError(f"{folder} holds none of " + ", ".join(f"{split}.txt{e}" for e in _ENDINGS))
