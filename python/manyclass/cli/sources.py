"""Where data come from: a file, plain or compressed, a pipe or stdin; and what form they are in."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from manyclass.compressed import decompressed, opened, without_suffix

STDIN = "-"
FORMS = ("xmc", "svmlight", "csv", "tsv", "text", "fasttext", "binary")
BY_SUFFIX = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
}
HEAD = 1 << 16  # bytes by which the form is guessed
LABEL = "__label__"  # before a label in fastText's form
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
            return cls(path, sys.stdin.buffer.read())
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            with open(path, "rb") as pipe:
                return cls(path, pipe.read())
        with open(path, "rb"):
            return cls(path, None)

    @property
    def name(self) -> str:
        """What messages call it."""
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
            return bytes(file.read(size))

    def text(self) -> str:
        """Return all of it as text.

        Raises
        ------
        ValueError
            If it is not UTF-8, with the line of the first byte that is not.
        """
        raw = self.read()
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise ValueError(f"{self.name}:{line}: byte {raw[error.start]:#04x} is not UTF-8 text") from error

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
        suffix = without_suffix(self.path).suffix.lower()
        if self.content is None and is_safetensors(self.path):
            return "binary"
        if suffix in BY_SUFFIX:
            return BY_SUFFIX[suffix]
        head = self.read(HEAD).decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
        lines = [line for line in head if line.strip() and not line.lstrip().startswith("#")]
        return form_of_line(lines[0] if lines else "", otherwise, self.name)


def form_of_line(line: str, otherwise: str | None, name: str) -> str:
    """Tell the form from a line; see `Source.form`."""
    line = line.rstrip("\r")
    data = line.partition("#")[0]
    if any(word.startswith(LABEL) for word in line.split()):
        return "fasttext"
    numbered = re.search(r"(^|\s)\d+:\S", data) is not None
    if otherwise not in (None, "xmc", "svmlight", "binary") and not numbered:
        return otherwise  # a text may be a number or three
    if _XMC_HEADER.fullmatch(data) or _XMC.fullmatch(data):
        return "xmc"
    if _SVMLIGHT.fullmatch(data):
        return "svmlight"
    if otherwise in ("xmc", "svmlight"):
        return otherwise  # which says what is wrong with the line
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
