"""Files that may be compressed, which their first bytes tell (gzip, xz, bzip2, Zstandard); their lines and words."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import importlib
import io
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

STDIN = "-"  # the path of standard input on the command line
SUFFIXES = (".xz", ".gz", ".bz2", ".zst")
# A bzip2 stream goes on with the number of its first block, or of its end: "BZh" alone begins texts, too.
_BEGINS = {
    ".gz": re.compile(rb"\x1f\x8b"),
    ".xz": re.compile(rb"\xfd7zXZ\x00"),
    ".bz2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    ".zst": re.compile(rb"\x28\xb5\x2f\xfd"),
}
_LONGEST_BEGIN = 10
LABEL = "__label__"  # before a label in a text of fastText's form
# No row of data is as long; what a small compressed file holds without a newline would otherwise fill the memory.
LONGEST_LINE = 1 << 27
# More blank lines than this, one after the other, are refused: a compressed file of a megabyte may hold a thousand
# million of them, which take minutes to read.
MOST_BLANK_LINES = 1_000_000


def without_suffix(path: str | os.PathLike[str]) -> Path:
    """Return the path without the ending that names its compression, such as .gz or .GZ, if it has one."""
    plain = Path(path)
    return plain.with_suffix("") if plain.suffix.lower() in SUFFIXES else plain


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path as messages have it: bytes that are no UTF-8 by their numbers."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    """Return a text as a terminal is to have it: escapes by their numbers; halves of pairs are bytes of a path."""
    return "".join(a if a.isprintable() or a == "\n" or "\ud800" <= a <= "\udfff" else ascii(a)[1:-1] for a in text)


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for reading its bytes, decompressed where it is compressed.

    Raises
    ------
    ValueError
        Here or inside of the block, if the file is damaged, ends early or is not compressed as its name says.
    ImportError
        If nothing is installed that decompresses Zstandard.
    OSError
        If it cannot be read.
    """
    with open(path, "rb") as raw, decompressed(raw, os.fspath(path)) as file:
        yield file


@contextlib.contextmanager
def decompressed(raw: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """Give what an open file holds, as `opened` does; messages call it `name`."""
    buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(Any, raw))
    kind, promised = _kind_of(buffered.peek(_LONGEST_BEGIN)), Path(name).suffix.lower()
    if not kind and promised in SUFFIXES:
        raise ValueError(f"{name}: not a complete {promised[1:]} file: its first bytes are those of another")
    if not kind:
        yield buffered
        return
    try:
        with _DECOMPRESSORS[kind](buffered) as file:
            yield file
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if getattr(error, "errno", None) is not None:  # the system's, not a decompressor's
            raise
        raise ValueError(f"{name}: not a complete {kind[1:]} file: {error}") from error


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file is compressed, or its name says so."""
    with open(path, "rb") as file:
        return Path(path).suffix.lower() in SUFFIXES or bool(_kind_of(file.read(_LONGEST_BEGIN)))


def lines_of(file: Any, name: str) -> Iterator[Any]:
    """Yield the lines of an open file, of bytes or of text; a ValueError for what is no data.

    That is a line that is longer than any row, or a million blank lines one after the other.
    """
    number = blank = 0
    while line := file.readline(LONGEST_LINE):
        number += 1
        if len(line) == LONGEST_LINE:
            raise ValueError(f"{name}:{number}: this line is longer than {LONGEST_LINE} characters")
        blank = blank + 1 if len(line) < 3 and not line.strip() else 0
        if blank > MOST_BLANK_LINES:
            raise ValueError(f"{name}:{number}: more than {MOST_BLANK_LINES} lines before this one are blank")
        yield line


def text_lines(file: Any, name: str) -> Iterator[str]:
    """Yield the lines of an open file of bytes as text, without a byte order mark.

    Raises
    ------
    ValueError
        For a line that is not UTF-8, and as `lines_of`.
    """
    for number, line in enumerate(lines_of(file, name), start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            message = f"{name}:{number}: byte {error.object[error.start]:#04x} is not UTF-8 text"
            encoding = "UTF-16" if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")) else "LATIN1"
            raise ValueError(f"{message}; if it is {encoding}, convert it: iconv -f {encoding} -t UTF-8") from error


def split_words(text: str) -> list[str]:
    """Split at ASCII's blanks, as the core reads a text: a no-break space, say, is a part of a word."""
    return [word.decode("utf-8", "surrogatepass") for word in text.encode("utf-8", "surrogatepass").split()]


def _kind_of(begin: bytes) -> str:
    return next((kind for kind, pattern in _BEGINS.items() if pattern.match(begin)), "")


def _zstandard(raw: IO[bytes]) -> Any:
    """Open a Zstandard stream by Python 3.14's standard library or by pyarrow."""
    for module in ("compression.zstd", "pyarrow"):
        with contextlib.suppress(ImportError):
            library = importlib.import_module(module)
            if module == "pyarrow":
                return io.BufferedReader(library.CompressedInputStream(library.PythonFile(raw), "zstd"))
            return library.open(raw, "rb")
    raise ImportError("Zstandard (.zst) is read by pyarrow: pip install 'manyclass[tables]'; Python 3.14 needs nothing")


_DECOMPRESSORS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open, ".zst": _zstandard}
