"""What a path stands for: a file, plain or compressed, a pipe or stdin; its bytes, lines, form and numbers."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_number
from manyclass.compressed import (
    LABEL,
    STDIN,
    decompressed,
    is_compressed,
    opened,
    shown_path,
    split_words,
    text_lines,
    without_suffix,
)

BLANKS = " \t\n\r\v\f"  # ASCII's: a no-break space, say, is a part of a label
DELIMITERS = {"csv": ",", "tsv": "\t"}
PathLike = str | os.PathLike[str]

TABLES = (*DELIMITERS, "parquet")
LINES = ("text", "fasttext")  # a text and its labels on each line
FORMS = ("xmc", "svmlight", "csr", *TABLES, *LINES)
BY_SUFFIX = {
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet", ".safetensors": "csr"},
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), "svmlight"),
}
MOST_COLUMNS = 2**31 - 1  # what an index of 32 bits can tell apart
HEAD = 1 << 16  # bytes by which the form is guessed
_XMC = re.compile(r"\s*(\d+(,\d+)*)?(\s+\d+:\S*)*\s*")
_XMC_HEADER = re.compile(r"\s*\d+\s+\d+\s+\d+\s*")
_SVMLIGHT = re.compile(r"\s*[^\s:]+(\s+\d+:[-+.\w]+)+\s*")
Header = bool | Literal["auto"]
# The most bytes of a compressed text in memory: this multiple of its size, or this number where that is more.
MOST_TIMES, FEW_BYTES = 200, 1 << 24


def parse_numbers(cells: Sequence[str], decimal: str = ".") -> NDArray[np.float64] | None:
    """Return the numbers that cells hold, NaN where one is blank; None where one is another text."""
    if "".join(cells).strip(f"+-0123456789eE{decimal}{BLANKS}"):  # such as "1_0", "nan" and digits of other scripts
        return None
    if decimal != ".":
        cells = [cell.replace(decimal, ".") for cell in cells]
    with contextlib.suppress(ValueError):
        return np.array([*map(float, cells)])
    with contextlib.suppress(ValueError):
        return np.array([float(cell) if cell.strip(BLANKS) else np.nan for cell in cells])
    return None


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
        return "<stdin>" if self.path == STDIN else shown_path(self.path)

    @contextlib.contextmanager
    def opened(self, *, bounded: bool = False) -> Iterator[Any]:
        """Give the bytes as an open file, decompressed; errors are those of `manyclass.compressed`.

        Where all of them are kept and `bounded`, it raises ValueError once a compressed text is too long.
        """
        content = self.content
        with opened(self.path) if content is None else decompressed(io.BytesIO(content), self.name) as file:
            if bounded and self.whole and (content is not None or is_compressed(self.path)):
                size = os.path.getsize(self.path) if content is None else len(content)
                yield _Bounded(file, max(FEW_BYTES, MOST_TIMES * size), self.name)
            else:
                yield file

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text, which newlines end, or carriage returns before these.

        Raises
        ------
        ValueError
            If it is not UTF-8, or too long for what it was compressed to.
        """
        with self.opened(bounded=True) as file:
            for line in text_lines(file, self.name):
                yield line.removesuffix("\n").removesuffix("\r")

    def read(self, size: int = -1) -> bytes:
        """Return the bytes, or the first of them, decompressed.

        Raises
        ------
        ValueError
            If the file is not of the compressed kind that its name tells, is damaged or ends early.
        """
        with self.opened(bounded=True) as file:
            return bytes(file.read(size))


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
    groups : str or None
        The column of the groups of rows, which is no feature.
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
    groups: str | None = None
    separator: str | None = None
    delimiter: str | None = None
    decimal: str = "."


@dataclass(frozen=True)
class RowSource:
    """What reads the rows of inputs, or of arrays.

    Attributes
    ----------
    blocks : callable
        Yields the features and the labels of some rows at once, of at most the number that it gets; the text of "xmc"
        and "svmlight" is cut by its bytes.
    n_features : int or None
        None of texts.
    n_labels : int or None
        Columns of labels; None where any label may come.
    n_rows : int or None
        None where it is not known before all rows are read.
    zero_based : bool
        Whether the first feature of a text has number 0.
    label_names : ndarray or None
        What the columns of labels stand for, where these have names.
    """

    blocks: Callable[[int], Iterator[tuple[Any, Any]]]
    n_features: int | None
    n_labels: int | None = None
    n_rows: int | None = None
    zero_based: bool = True
    label_names: NDArray[Any] | None = None


def check_columns(**sizes: int | None) -> None:
    """Check numbers of columns, of which some may be unknown; raises as `check_number` does."""
    for name, size in sizes.items():
        if size is not None:
            check_number(name, size, low=0, high=MOST_COLUMNS, integer=True)


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


# The form of files


def files_of(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """Return the files that a path, a folder, a pattern or a list of these names, each there.

    Parameters
    ----------
    paths : str, path-like or sequence of these

    Returns
    -------
    list of Path

    Raises
    ------
    ValueError
        If there is none.
    OSError
        If one that is named is not there.
    """
    if not isinstance(paths, str | os.PathLike):
        files = [file for path in paths for file in files_of(path)]
        if not files:
            raise ValueError("source is empty; it must name a file at least")
        return files
    path = Path(paths)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    elif path.exists() or not glob.has_magic(os.fspath(path)):
        path.stat()  # raises where there is none
        files = [path]
    else:
        files = [Path(file) for file in sorted(glob.glob(os.fspath(path)))]
    if not files:
        raise ValueError(f"{os.fspath(paths)}: no file is there")
    return files


def guess_form(inputs: Sequence[Input], otherwise: str | None = None) -> str:
    """Return the form of inputs that are read together.

    Parameters
    ----------
    inputs : sequence of Input
        Their names tell it; where these do not, the first line of the first one that is not blank.
    otherwise : str or None
        The form of what looks like none: that of a model's training data.

    Raises
    ------
    ValueError
        If nothing tells, or the names tell several.
    """
    forms = [form_of_name(source) for source in inputs]
    distinct = sorted({form or "xmc" for form in forms})
    if len(distinct) > 1:
        raise ValueError(f"the files are of several forms, {', '.join(distinct)}; a stream has one of them")
    first, form = inputs[0], forms[0]
    if form and not (form == "tsv" and otherwise == "text"):  # a text and its label behind a tab are .tsv, too
        return form
    head = first.read(HEAD).decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    lines = [line for line in head if line.strip() and not line.lstrip().startswith("#")]
    return form_of_line(lines[0] if lines else "", otherwise, first.name)


def form_of_name(source: Input) -> str | None:
    """Return the form that a suffix tells, that of a compression left out, or the first bytes; None: neither tells."""
    if source.content is None and is_safetensors(source.path):
        return "csr"
    return BY_SUFFIX.get(without_suffix(source.path).suffix.lower())


def form_of_line(line: str, otherwise: str | None, name: str) -> str:
    """Return the form that a line tells; see `guess_form`."""
    line = line.rstrip("\r")
    values = line.partition("#")[0]
    if any(word.startswith(LABEL) for word in split_words(line)):
        return "fasttext"
    has_numbered = re.search(r"(^|\s)\d+:\S", values) is not None
    if otherwise not in (None, "xmc", "svmlight", "csr") and not has_numbered:
        return otherwise  # because a line of text may consist of numbers
    if _XMC_HEADER.fullmatch(values) or _XMC.fullmatch(values):
        return "xmc"
    if _SVMLIGHT.fullmatch(values):
        return "svmlight"
    if otherwise in ("xmc", "svmlight"):
        return otherwise  # whose reader says what is wrong with the line
    if line.count("\t") == 1:
        return "text"
    raise ValueError(f"{name}: no form of data that is known begins with {line[:60]!r}; name it by format")
