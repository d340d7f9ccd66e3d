"""Reading of text files of sparse data with several labels a row, in the XMC repository's form or svmlight's."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import stat
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from manyclass import _core
from manyclass.checks import n_threads_from
from manyclass.datasets.binary_csr import _load, _save
from manyclass.datasets.csr import csr_from_core

_CACHE_SUFFIX = ".csr.safetensors"


def load_xmc(
    path: str | os.PathLike[str],
    *,
    header: bool | Literal["auto"] = "auto",
    zero_based: bool = True,
    n_features: int | None = None,
    n_labels: int | None = None,
    n_jobs: int | None = None,
    cache: str | os.PathLike[str] | bool | None = None,
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Read a text file in the form of the XMC repository.

    Its lines are ``l1,l2,... j:v j:v ...``, after an optional first line ``N D L``.

    A line is a row: its labels, separated by commas, then its features, separated by blanks. Both may be
    missing; a line that begins with a blank or with a feature has no labels. Rows are sorted by feature;
    a feature or a label that occurs twice in a row is refused, and so is svmlight's ``qid:``. Text behind
    ``#`` is a comment, and a line with nothing else is skipped. A blank line is an empty row in a file with a
    header, and is skipped in one without, as in svmlight files.

    Values become the nearest float32, explicit zeros included. Plain files are mapped and parsed in place;
    files named ``*.gz`` and ``*.xz`` are decompressed in memory first.

    Parameters
    ----------
    path : str or path-like
        The file.
    header : bool or 'auto', default='auto'
        Whether the first line is ``N D L``: the numbers of rows, features and labels. With 'auto' it is if it
        holds three integers; no row looks like that.
    zero_based : bool, default=True
        Whether the first feature has number 0 in the file, or 1. Labels are always taken as they are.
    n_features, n_labels : int, optional
        Columns of X and of Y, in place of the header's D and L. Without either they are the largest number
        found + 1.
    n_jobs : int, optional
        Threads, as in scikit-learn: None is 1, -1 is all processors that this process may use. The result
        does not depend on it.
    cache : str, path-like or bool, optional
        A file to keep the result in (see `save_csr`), or True for one beside `path`, named
        ``<path>.csr.safetensors``. It is mapped instead of parsing if it was made from a file of this name,
        size and time of modification with the same options; else it is replaced.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features), float32
        Features, with sorted indices.
    Y : csr_array of shape (n_samples, n_labels), float32
        Ones. The indices of a row keep the order of the file, so that the first one is the first label
        (`first_label`); SciPy's in-place methods that sort indices would lose it.

    Raises
    ------
    ValueError
        If the file is malformed, with file, line and column of the first bad line; if it has more or fewer
        rows than its header promises; if it is not a complete gzip or xz file although its name says so; if
        an option is out of range; or if the file at `cache` is not such a cache.
    OSError
        If a file cannot be read or written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from manyclass.datasets import load_xmc
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "toy.txt"
    ...     _ = path.write_text("2 4 3\\n2,0 0:1 3:0.5\\n 1:2\\n")
    ...     X, Y = load_xmc(path)
    >>> X.shape, Y.shape, Y.indices.tolist()
    ((2, 4), (2, 3), [2, 0])
    """
    if header not in (True, False, "auto"):
        raise ValueError(f"header is {header!r}; it must be one of True, False, 'auto'")
    for what, columns in (("n_features", n_features), ("n_labels", n_labels)):
        if columns is not None and not 0 <= columns < 2**31:
            raise ValueError(f"{what} is {columns}; it must be in [0, {2**31 - 1}]")
    n_threads = n_threads_from(n_jobs)
    source = Path(path)
    if cache is None or cache is False:
        return _parse(source, header, zero_based, n_features, n_labels, n_threads)

    kept = Path(os.fspath(path) + _CACHE_SUFFIX) if cache is True else Path(cache)
    status = source.stat()
    stamp = json.dumps(
        {
            "file": source.name,
            "size": status.st_size,
            "mtime_ns": status.st_mtime_ns,
            "options": [header, zero_based, n_features, n_labels],
        }
    )
    if kept.exists():
        X, Y, metadata = _load(kept)
        if metadata.get("source") == stamp and Y is not None:
            return X, Y
    X, Y = _parse(source, header, zero_based, n_features, n_labels, n_threads)
    _save(kept, X, Y, {"source": stamp})
    return X, Y


def _parse(
    path: Path,
    header: bool | Literal["auto"],
    zero_based: bool,
    n_features: int | None,
    n_labels: int | None,
    n_threads: int,
) -> tuple[sparse.csr_array, sparse.csr_array]:
    return parse_xmc(_text(path), str(path), header, zero_based, n_features, n_labels, n_threads)


def parse_xmc(
    text: NDArray[np.uint8],
    name: str,
    header: bool | Literal["auto"] = "auto",
    zero_based: bool = True,
    n_features: int | None = None,
    n_labels: int | None = None,
    n_threads: int = 1,
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Read what `load_xmc` reads from memory.

    Parameters
    ----------
    text : ndarray of uint8
        The bytes of the text.
    name : str
        What messages call it.
    header, zero_based, n_features, n_labels
        As in `load_xmc`.
    n_threads : int
        At least 1.

    Returns
    -------
    X, Y : csr_array
        As `load_xmc` gives them.

    Raises
    ------
    ValueError
        As `load_xmc` does for a malformed text.
    """
    width, n_classes, x_indptr, x_indices, x_data, y_indptr, y_indices = _core.read_xmc(
        text, name, None if header == "auto" else header, zero_based, n_features, n_labels, n_threads
    )
    n_samples = len(x_indptr) - 1
    X = csr_from_core(x_data, x_indices, x_indptr, (n_samples, width))
    X.has_canonical_format = True
    ones = np.ones(len(y_indices), np.float32)
    Y = csr_from_core(ones, y_indices, y_indptr, (n_samples, n_classes))
    return X, Y


def _text(path: Path) -> NDArray[np.uint8]:
    """Return the bytes of a file: a map of it, or what it decompresses to."""
    if path.suffix in (".gz", ".xz"):
        opener = gzip.open if path.suffix == ".gz" else lzma.open
        try:
            with opener(path, "rb") as file:
                return np.frombuffer(file.read(), np.uint8)
        except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
            raise ValueError(f"{path}: not a complete {path.suffix[1:]} file: {error}") from error
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # a pipe: it cannot be mapped
        return np.frombuffer(path.read_bytes(), np.uint8)
    if status.st_size == 0:
        return np.empty(0, np.uint8)  # an empty map does not exist
    return np.asarray(np.memmap(path, np.uint8, "r"))
