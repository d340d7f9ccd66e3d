"""Rows of text files larger than memory: in parts, shuffled in windows, read while the part before is trained on."""

from __future__ import annotations

import glob
import gzip
import lzma
import os
import queue
import re
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np
from scipy import sparse

from manyclass.checks import check_flag, check_number, n_threads_from, seed_from
from manyclass.datasets.xmc import parse_xmc

PathLike = str | os.PathLike[str]
Part = tuple[sparse.csr_array, sparse.csr_array]

BLOCK = 1 << 23  # bytes of text that are parsed at once: 8 MB, some hundredths of a second
OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}


def stream_xmc(
    paths: PathLike | Sequence[PathLike],
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    rows: int = 65_536,
    window: int = 1,
    shuffle: bool = False,
    random_state: Any = None,
    header: bool | Literal["auto"] = "auto",
    zero_based: bool = True,
    n_jobs: int | None = None,
) -> Iterator[Part]:
    """Return the rows of one or more text files in parts, once, for `partial_fit`.

    A thread reads the next window while the parts of the one before are trained on, so that memory holds two windows of
    `window` * `rows` rows, whatever the size of the files.

    Parameters
    ----------
    paths : str, path-like or sequence of these
        A file as `load_xmc` reads it, plain, .gz or .xz; several; a folder, whose files are taken in the order of their
        names; or a pattern such as ``day-*.txt.gz``.
    n_features, n_labels : int, optional
        Columns of X and of Y; by default what the header of the first file says.
    rows : int, default=65536
        Of a part; the last one may have fewer.
    window : int, default=1
        Parts that are read at once, and
    shuffle : bool, default=False
        whether rows are shuffled in a window. Files that are sorted by label need windows of many labels.
    random_state : int, RandomState instance or None, default=None
        Of the shuffling.
    header, zero_based, n_jobs
        As in `load_xmc`.

    Returns
    -------
    iterator of (X, Y)
        X : csr_array of shape (n, n_features), float32, and Y : csr_array of shape (n, n_labels), as of `load_xmc`.

    Raises
    ------
    ValueError
        At once, if no file is there, an option is out of range, or no header tells the numbers of columns; and at the
        part where it stands if a file is malformed, with file, line and column.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from manyclass.datasets import stream_xmc
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "toy.txt"
    ...     _ = path.write_text("3 4 3\\n2,0 0:1 3:0.5\\n1 1:2\\n0 2:1\\n")
    ...     print([X.shape for X, Y in stream_xmc(path, rows=2)])
    [(2, 4), (1, 4)]
    """
    for name, value in (("rows", rows), ("window", window)):
        check_number(name, value, low=1, integer=True)
    check_flag("shuffle", shuffle)
    if not shuffle and random_state is not None:
        raise ValueError(f"random_state is {random_state!r}, which has no effect with shuffle=False; leave it None")
    files = _files(paths)
    layout = _layout(files[0], header, n_features, n_labels, zero_based, n_threads_from(n_jobs))
    rng = np.random.default_rng(seed_from(random_state)) if shuffle else None
    return _ahead(_parts(files, header, layout, int(rows), int(window), rng))


def _files(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """The files that are named, each there."""
    if not isinstance(paths, str | os.PathLike):
        listed = [file for path in paths for file in _files(path)]
        if not listed:
            raise ValueError("paths is empty; it must name a file at least")
        return listed
    path = Path(paths)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())
    elif path.exists() or not glob.has_magic(os.fspath(path)):
        path.stat()  # raises where there is none
        files = [path]
    else:
        files = [Path(file) for file in sorted(glob.glob(os.fspath(path)))]
    if not files:
        raise ValueError(f"{os.fspath(paths)}: no file is there")
    return files


@dataclass(frozen=True)
class _Layout:
    """What all files have in common."""

    n_features: int
    n_labels: int
    zero_based: bool
    n_threads: int


def _layout(
    first: Path,
    header: bool | Literal["auto"],
    n_features: int | None,
    n_labels: int | None,
    zero_based: bool,
    n_threads: int,
) -> _Layout:
    with _opened(first) as file:
        found = _header(file.readline(), header)
    sizes = {"n_features": n_features, "n_labels": n_labels}
    for (name, given), told in zip(sizes.items(), found[1:] if found else (None, None), strict=True):
        size = told if given is None else given
        if size is None:
            raise ValueError(
                f"{first} has no header `N D L`; a stream must know its columns before it begins: set {name}"
            )
        check_number(name, size, low=0, high=2**31 - 1, integer=True)
        sizes[name] = size
    return _Layout(cast(int, sizes["n_features"]), cast(int, sizes["n_labels"]), zero_based, n_threads)


def _opened(path: Path) -> IO[bytes]:
    opener = OPENERS.get(path.suffix, open)
    file: IO[bytes] = opener(path, "rb")
    return file


def _header(line: bytes, header: bool | Literal["auto"]) -> tuple[int, int, int] | None:
    """The numbers of a first line `N D L`, where it is one."""
    words = line.split()
    if header is False or len(words) != 3 or not all(word.isdigit() for word in words):
        if header is True:
            raise ValueError(f"expected the header 'N D L', three integers, found {line[:40]!r}")
        return None
    n, d, k = map(int, words)
    return n, d, k


def _parts(
    files: Sequence[Path],
    header: bool | Literal["auto"],
    layout: _Layout,
    rows: int,
    window: int,
    rng: np.random.Generator | None,
) -> Iterator[list[Part]]:
    """Windows, each as its parts."""
    held: list[Part] = []
    n_held = 0
    for file in files:
        for X, Y in _blocks(file, header, layout):
            held.append((X, Y))
            n_held += X.shape[0]
            while n_held >= rows * window:
                X, Y = _joined(held)
                yield _cut(X[: rows * window], Y[: rows * window], rows, rng)
                held, n_held = [(X[rows * window :], Y[rows * window :])], n_held - rows * window
    if n_held:
        yield _cut(*_joined(held), rows, rng)


def _joined(parts: list[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    X, Y = (sparse.csr_array(sparse.vstack([part[i] for part in parts], format="csr")) for i in (0, 1))
    return X, Y


def _cut(X: sparse.csr_array, Y: sparse.csr_array, rows: int, rng: np.random.Generator | None) -> list[Part]:
    if rng is not None:
        order = rng.permutation(X.shape[0])
        X, Y = X[order], Y[order]
    return [(X[first : first + rows], Y[first : first + rows]) for first in range(0, X.shape[0], rows)]


def _blocks(path: Path, header: bool | Literal["auto"], layout: _Layout) -> Iterator[Part]:
    """The rows of a file, as many at once as a block of text has."""
    try:
        with _opened(path) as file:
            first = file.readline()
            found = _header(first, header)
            left = found[0] if found else None  # rows that the header promises and that have not come
            before, rest = (1, b"") if found else (0, first)
            while block := file.read(BLOCK) or rest:
                last = block is rest
                text, _, rest = (block, b"", b"") if last else (rest + block).rpartition(b"\n")
                if text:
                    text += b"" if last else b"\n"
                    X, Y = _parsed(text, path, layout, before, left)
                    before, left = before + text.count(b"\n"), None if left is None else left - X.shape[0]
                    yield X, Y
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{path}: not a complete {path.suffix[1:]} file: {error}") from error
    if found and left:
        raise ValueError(f"{path}: the header promises {found[0]} rows, the file has {found[0] - left}")


def _parsed(text: bytes, path: Path, layout: _Layout, before: int, left: int | None) -> Part:
    """Parse a block that comes behind `before` lines and of which `left` lines can be rows; None: without a header.

    A blank line is a row only in a file with a header, so that there the block gets one of its own.
    """
    lines = text.splitlines() if b"#" in text or not text.strip() else None
    extra = 0
    if left is not None:
        n = text.count(b"\n") + (not text.endswith(b"\n"))
        if lines is not None:
            n = sum(not line.lstrip().startswith(b"#") for line in lines)
        text, extra = b"%d %d %d\n" % (min(n, left), layout.n_features, layout.n_labels) + text, 1
    elif lines is not None and not any(line.partition(b"#")[0].strip() for line in lines):
        return _no_rows(layout.n_features), _no_rows(layout.n_labels)
    try:
        return parse_xmc(
            np.frombuffer(text, np.uint8),
            str(path),
            left is not None,
            layout.zero_based,
            layout.n_features,
            layout.n_labels,
            layout.n_threads,
        )
    except ValueError as error:
        raise ValueError(_placed(str(error), str(path), before - extra)) from error


def _placed(told: str, name: str, before: int) -> str:
    """An error of a block as one of its file."""
    if told.startswith(f"{name}: the header promises"):
        return f"{name}: the file has more rows than its header promises"
    return re.sub(rf"^{re.escape(name)}:(\d+):", lambda at: f"{name}:{int(at[1]) + before}:", told, count=1)


def _no_rows(n_columns: int) -> sparse.csr_array:
    return sparse.csr_array(np.zeros((0, n_columns), dtype=np.float32))


# Reading ahead

_END = object()


def _ahead(windows: Iterator[list[Part]]) -> Iterator[Part]:
    """What the windows hold, the next one being read by a thread of its own; it ends with the iterator."""
    made: queue.Queue[Any] = queue.Queue(maxsize=1)
    ended = threading.Event()

    def put(thing: Any) -> bool:
        while not ended.is_set():
            try:
                made.put(thing, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        try:
            with closing(cast(Any, windows)):
                for window in windows:
                    if not put(window):
                        return
            put(_END)
        except BaseException as error:  # raised where the parts are taken
            put(error)

    reader = threading.Thread(target=read, name="manyclass stream", daemon=True)

    def parts() -> Iterator[Part]:
        reader.start()
        try:
            while (window := made.get()) is not _END:
                if isinstance(window, BaseException):
                    raise window
                yield from window
        finally:
            ended.set()
            reader.join()

    return parts()
