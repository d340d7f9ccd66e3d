"""What a path stands for: a file, plain or compressed, a pipe or stdin; its bytes and lines, and how they are read."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Literal

from manyclass.compressed import STDIN, decompressed, is_compressed, opened, text_lines

DELIMITERS = {"csv": ",", "tsv": "\t"}
Header = bool | Literal["auto"]
# The most bytes of a compressed text in memory: this multiple of its size, or this number where that is more.
MOST_TIMES, FEW_BYTES = 200, 1 << 24


@dataclass(frozen=True)
class Input:
    """A source of bytes.

    Attributes
    ----------
    path : str
    content : bytes or None
        What was read from stdin or a pipe, which can be read once; None of a file.
    whole : bool
        Whether all of it is kept in memory, so that a compressed text must not become longer than is believable.
    """

    path: str
    content: bytes | None = None
    whole: bool = False

    @classmethod
    def of(cls, path: str) -> Input:
        """Return an input that is kept in memory; what can be read only once is read now.

        Raises
        ------
        OSError
            If there is no such file.
        """
        if path == STDIN:
            if sys.stdin is None:  # the shell's `<&-`
                raise OSError("stdin is closed, and cannot be read as -")
            return cls(path, sys.stdin.buffer.read(), whole=True)
        with open(path, "rb") as file:
            is_pipe = not os.path.isfile(path)
            return cls(path, file.read() if is_pipe else None, whole=True)

    @property
    def name(self) -> str:
        """The name in messages."""
        return "<stdin>" if self.path == STDIN else self.path

    @contextlib.contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Give the bytes as an open file, decompressed; errors are those of `manyclass.compressed`."""
        with opened(self.path) if self.content is None else decompressed(io.BytesIO(self.content), self.name) as file:
            yield file

    @contextlib.contextmanager
    def bounded(self) -> Iterator[Any]:
        """Give the open file; where all of it is kept, it raises ValueError once a compressed text is too long."""
        size = None
        if self.whole and self.content is not None:
            size = len(self.content)
        elif self.whole and is_compressed(self.path):
            size = os.path.getsize(self.path)
        with self.opened() as file:
            yield file if size is None else _Bounded(file, max(FEW_BYTES, MOST_TIMES * size), self.name)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text, which newlines end, or carriage returns before these.

        Raises
        ------
        ValueError
            If it is not UTF-8, or too long for what it was compressed to.
        """
        with self.bounded() as file:
            for line in text_lines(file, self.name):
                yield line.removesuffix("\n").removesuffix("\r")

    def read(self, size: int = -1) -> bytes:
        """Return the bytes, or the first of them, decompressed.

        Raises
        ------
        ValueError
            If the file is not of the compressed kind that its name tells, is damaged or ends early.
        """
        with self.bounded() as file:
            return bytes(file.read(size))

    @property
    def is_safetensors(self) -> bool:
        """Whether it looks like a safetensors file."""
        return self.content is None and is_safetensors(self.path)


@dataclass(frozen=True)
class Layout:
    """How files are read; each form uses what it has.

    Attributes
    ----------
    header : bool or "auto"
        Of "xmc".
    zero_based : bool or None
        Whether the first feature has number 0. None: yes in "xmc"; in "svmlight" if there is a feature 0.
    n_features : int or None
        None: what the files tell.
    n_labels : int or None
        Likewise.
    n_threads : int
    label : str or None
        The column of labels of a table; None: "label".
    need_label : bool
        Whether a table must have it.
    text : tuple of str
        Columns of a table that are joined to texts; empty: it has numeric features.
    features : tuple of str
        The features of a table; empty: all columns but that of labels.
    separator : str or None
        What stands between labels; None: a comma in "text", and in a table a cell is a label.
    delimiter : str or None
        What stands between the cells of a table; None: a comma, in "tsv" a tab.
    decimal : str
        What stands before the fraction of a number in a table.
    """

    header: Header = "auto"
    zero_based: bool | None = None
    n_features: int | None = None
    n_labels: int | None = None
    n_threads: int = 1
    label: str | None = None
    need_label: bool = True
    text: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    separator: str | None = None
    delimiter: str | None = None
    decimal: str = "."


class _Bounded:
    """What a compressed file becomes, as long as that is believable: 156 kB of xz may be 1 GB of blanks."""

    def __init__(self, file: IO[bytes], most: int, name: str) -> None:
        self._file, self._n_left, self._most, self._name = file, most, most, name

    def _counted(self, piece: bytes) -> bytes:
        self._n_left -= len(piece)
        if self._n_left < 0:
            raise ValueError(
                f"{self._name}: decompressed it has more than {self._most} bytes, {MOST_TIMES} times its size; if that "
                "is right, decompress it before"
            )
        return piece

    def readline(self, size: int) -> bytes:
        return self._counted(self._file.readline(min(size, self._n_left + 1)))

    def read(self, size: int) -> bytes:
        return self._counted(self._file.read(self._n_left + 1 if size < 0 else min(size, self._n_left + 1)))


def is_safetensors(path: str | os.PathLike[str]) -> bool:
    """Whether the file looks like a safetensors file: a length that fits, then a JSON object."""
    with open(path, "rb") as file:
        start = file.read(9)
    return start[8:] == b"{" and 8 + int.from_bytes(start[:8], "little") <= os.path.getsize(path)
