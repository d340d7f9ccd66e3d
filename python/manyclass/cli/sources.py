"""Where data come from: a file, plain or compressed, a pipe or stdin; and what form they are in."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Literal, get_args

from manyclass.compressed import LABEL, decompressed, is_compressed, opened, split_words, text_lines, without_suffix

STDIN = "-"
Form = Literal["xmc", "svmlight", "csv", "tsv", "text", "fasttext", "binary"]
FORMS: tuple[str, ...] = get_args(Form)
BY_SUFFIX = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv"} | dict.fromkeys((".svm", ".svmlight", ".libsvm"), "svmlight")
HEAD = 1 << 16  # bytes by which the form is guessed
# The most bytes of a compressed text in memory: this multiple of its size, or this number where that is more.
MOST_TIMES, FEW_BYTES = 200, 1 << 24
_XMC = re.compile(r"\s*(\d+(,\d+)*)?(\s+\d+:\S*)*\s*")
_XMC_HEADER = re.compile(r"\s*\d+\s+\d+\s+\d+\s*")
_SVMLIGHT = re.compile(r"\s*[^\s:]+(\s+\d+:[-+.\w]+)+\s*")


@dataclass(frozen=True)
class Source:
    """What a path on the command line stands for.

    Attributes
    ----------
    path : str
    content : bytes or None
        What was read from stdin or a pipe, which can be read once; None of an ordinary file.
    """

    path: str
    content: bytes | None

    @classmethod
    def of(cls, path: str) -> Source:
        """Read what can be read only once.

        Raises
        ------
        OSError
            If there is no such file.
        """
        if path == STDIN:
            if sys.stdin is None:  # the shell's `<&-`
                raise OSError("stdin is closed, and cannot be read as -")
            return cls(path, sys.stdin.buffer.read())
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            with open(path, "rb") as pipe:
                return cls(path, pipe.read())
        with open(path, "rb"):
            return cls(path, None)

    def lines(self) -> list[str]:
        """Return the lines of the text, which newlines end, or carriage returns before these.

        Raises
        ------
        ValueError
            If it is not UTF-8, or is compressed and becomes so long that it cannot be what it says it is.
        """
        with self.opened() as file:
            return [line.removesuffix("\n").removesuffix("\r") for line in text_lines(self._bounded(file), self.name)]

    def _bounded(self, file: IO[bytes]) -> Any:
        """The file, which raises ValueError where it becomes too long."""
        if self.content is None:
            size = os.path.getsize(self.path) if is_compressed(self.path) else None
        else:
            size = len(self.content)
        return file if size is None else _Bounded(file, max(FEW_BYTES, MOST_TIMES * size), self.name)

    @property
    def name(self) -> str:
        """The name in messages."""
        return "<stdin>" if self.path == STDIN else self.path

    @contextlib.contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Give the bytes as an open file, decompressed; errors are those of `manyclass.compressed`."""
        with opened(self.path) if self.content is None else decompressed(io.BytesIO(self.content), self.name) as file:
            yield file

    def read(self, size: int = -1) -> bytes:
        """Return the bytes, or the first of them, decompressed.

        Raises
        ------
        ValueError
            If the file is not of the compressed kind that its name tells, is damaged or ends early.
        """
        with self.opened() as file:
            return bytes(self._bounded(file).read(size))

    def form(self, otherwise: str | None = None) -> str:
        """Guess the form from the name, then from the first line that is not blank.

        Parameters
        ----------
        otherwise : str or None
            The form of what looks like none of them: that of the model's training data.

        Raises
        ------
        ValueError
            If nothing tells.
        """
        if self.content is None and is_safetensors(self.path):
            return "binary"
        named = form_of_name(self.path)
        if named and not (named == "tsv" and otherwise == "text"):  # a text and its label behind a tab are .tsv, too
            return named
        head = self.read(HEAD).decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
        lines = [line for line in head if line.strip() and not line.lstrip().startswith("#")]
        return form_of_line(lines[0] if lines else "", otherwise, self.name)


class _Bounded:
    """What a compressed file becomes, as long as that is believable: 156 kB of xz may be 1 GB of blanks."""

    def __init__(self, file: IO[bytes], most: int, name: str) -> None:
        self._file, self._left, self._most, self._name = file, most, most, name

    def _counted(self, some: bytes) -> bytes:
        self._left -= len(some)
        if self._left < 0:
            raise ValueError(
                f"{self._name}: decompressed it has more than {self._most} bytes, {MOST_TIMES} times its size; if that "
                "is right, decompress it before"
            )
        return some

    def readline(self, size: int) -> bytes:
        return self._counted(self._file.readline(min(size, self._left + 1)))

    def read(self, size: int) -> bytes:
        return self._counted(self._file.read(self._left + 1 if size < 0 else min(size, self._left + 1)))


def form_of_name(path: str | os.PathLike[str]) -> str | None:
    """Tell the form from a file's suffix, that of a compression left out; None where it tells nothing."""
    return BY_SUFFIX.get(without_suffix(path).suffix.lower())


def form_of_line(line: str, otherwise: str | None, name: str) -> str:
    """Tell the form from a line; see `Source.form`."""
    line = line.rstrip("\r")
    data = line.partition("#")[0]
    if any(word.startswith(LABEL) for word in split_words(line)):
        return "fasttext"
    numbered = re.search(r"(^|\s)\d+:\S", data) is not None
    if otherwise not in (None, "xmc", "svmlight", "binary") and not numbered:
        return otherwise  # because a line of text may consist of numbers
    if _XMC_HEADER.fullmatch(data) or _XMC.fullmatch(data):
        return "xmc"
    if _SVMLIGHT.fullmatch(data):
        return "svmlight"
    if otherwise in ("xmc", "svmlight"):
        return otherwise  # whose reader says what is wrong with the line
    if line.count("\t") == 1:
        return "text"
    raise ValueError(
        f"{name}: no form of data that is known begins with {line[:60]!r}; name it by --format, one of "
        f"{', '.join(FORMS)} (--text is short for --format text)"
    )


def header_width(head: bytes) -> int | None:
    """Return D of a first line `N D L` of the form xmc; None where there is none."""
    line = head.partition(b"\n")[0].decode("utf-8", "replace")
    return int(line.split()[1]) if _XMC_HEADER.fullmatch(line) else None


def is_safetensors(path: str) -> bool:
    """Whether the file looks like a safetensors file: a length that fits, then a JSON object."""
    with open(path, "rb") as file:
        start = file.read(9)
    return start[8:] == b"{" and 8 + int.from_bytes(start[:8], "little") <= os.path.getsize(path)
