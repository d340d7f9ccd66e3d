"""Rows of text files in the form of the XMC repository, a block of text at a time, whatever the size of the files."""

from __future__ import annotations

import gzip
import lzma
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np
from scipy import sparse

from manyclass.checks import check_number
from manyclass.datasets.xmc import parse_xmc

Header = bool | Literal["auto"]
Part = tuple[sparse.csr_array, sparse.csr_array]

MOST_LABELS = 2**31 - 1
BLOCK = 1 << 23  # bytes of text that are parsed at once: 8 MB, some hundredths of a second
OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}


@dataclass(frozen=True)
class XmcFiles:
    """Text files with the same columns.

    Attributes
    ----------
    files : sequence of Path
    header : bool or 'auto'
        As in `load_xmc`.
    n_features, n_labels : int
    zero_based : bool
    n_threads : int
    n_rows : int or None
        None where a file has no header.
    """

    files: Sequence[Path]
    header: Header
    n_features: int
    n_labels: int
    zero_based: bool
    n_threads: int
    n_rows: int | None

    @classmethod
    def of(
        cls,
        files: Sequence[Path],
        header: Header,
        n_features: int | None,
        n_labels: int | None,
        zero_based: bool,
        n_threads: int,
        *,
        any_labels: bool = False,
    ) -> XmcFiles:
        """Find the numbers of columns; raises ValueError where nothing tells them.

        With `any_labels` their number may be unknown, and is that of all that there can be.
        """
        headers = [_first_header(file, header) for file in files]
        sizes = {"n_features": n_features, "n_labels": n_labels}
        for (name, given), told in zip(sizes.items(), (headers[0] or (0, None, None))[1:], strict=True):
            size = told if given is None else given
            if size is None and name == "n_labels" and any_labels:
                size = MOST_LABELS
            if size is None:
                raise ValueError(
                    f"{files[0]} has no header `N D L`; a stream must know its columns before it begins: set {name}"
                )
            check_number(name, size, low=0, high=2**31 - 1, integer=True)
            sizes[name] = size
        n_rows = sum(found[0] for found in headers if found) if all(headers) else None
        columns = cast(int, sizes["n_features"]), cast(int, sizes["n_labels"])
        return cls(files, header, *columns, zero_based, n_threads, n_rows)

    def blocks(self, size: int) -> Iterator[Part]:
        """Yield the rows of all files, as many at once as a block of text has; `size` is for other sources."""
        for file in self.files:
            yield from _blocks(file, self)


def _first_header(path: Path, header: Header) -> tuple[int, int, int] | None:
    with _opened(path) as file:
        return _header(file.readline(), header)


def _opened(path: Path) -> IO[bytes]:
    opener = OPENERS.get(path.suffix, open)
    file: IO[bytes] = opener(path, "rb")
    return file


def _header(line: bytes, header: Header) -> tuple[int, int, int] | None:
    """The numbers of a first line `N D L`, where it is one."""
    words = line.split()
    if header is False or len(words) != 3 or not all(word.isdigit() for word in words):
        if header is True:
            raise ValueError(f"expected the header 'N D L', three integers, found {line[:40]!r}")
        return None
    n, d, k = map(int, words)
    return n, d, k


def _blocks(path: Path, layout: XmcFiles) -> Iterator[Part]:
    """The rows of a file, as many at once as a block of text has."""
    try:
        with _opened(path) as file:
            first = file.readline()
            found = _header(first, layout.header)
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


def _parsed(text: bytes, path: Path, layout: XmcFiles, before: int, left: int | None) -> Part:
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
