"""Word vectors in fewer bits: a table that gives float32 rows where they are asked for, and files of it.

``vectors.compress(dtype="auto", *, prune=0.0, max_bytes=None)`` returns `WordVectors` that answer the same questions
from float16, or from int8 with a float32 scale a word; `prune` is the share of the words that is dropped, the last
ones, which are the rarest of vectors that are sorted by frequency, as files of word vectors and those of `SkipGram` are
(``WordVectors.from_keyed_vectors(model)`` takes over the latter). `max_bytes` is the most that the file of `save` may
take: float16, then int8, then int8 with so many of the first words as fit. ``vectors[word]`` is float32; cosines are
computed from the codes.

``save(path)`` and ``WordVectors.load(path, mmap=False)`` keep types and bytes: a safetensors file with the words as
text ("words.text", "words.offsets") and the rows ("rows", with "rows.scales" for int8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_choice, check_number
from manyclass.weights.arrays import BLOCK_NUMBERS, NO_FLOATS, Floats
from manyclass.weights.codes import DTYPES, Codes, Dtype
from manyclass.weights.compression import bytes_of
from manyclass.weights.file_parts import (
    check_version,
    checked,
    decode_text,
    encode_text,
    finite,
    reading,
    warn_of_unread,
)
from manyclass.weights.tensor_file import PathLike, TensorFile, open_tensors, write_tensors
from manyclass.weights.weights import core_rows

FORMAT = "manyclass word vectors"
FORMAT_VERSION = 1
HEADER_BYTES = 1024  # the header of a file takes less


@dataclass
class CodedTable:
    """Rows in fewer bits that are indexed, multiplied and measured as an array of float32 is.

    Attributes
    ----------
    codes : Codes of shape (n_words, dim)
    """

    codes: Codes

    dtype = np.dtype(np.float32)
    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """(n_words, dim)."""
        n_words, dim = self.codes.values.shape
        return n_words, dim

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        return self.codes.nbytes

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.codes.values)

    def __getitem__(self, rows: Any) -> Any:
        """Float32 rows, a copy; of a slice a table that shares the codes."""
        scales = self.codes.scales
        if isinstance(rows, slice):
            return CodedTable(Codes(self.codes.values[rows], scales[rows]))
        found = self.codes.values[rows].astype(np.float32)
        return found if not len(scales) else found * scales[rows][..., np.newaxis]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All rows as float32, for what needs an array."""
        plain = self.codes.plain()
        return plain if dtype is None else plain.astype(dtype)

    def __matmul__(self, query: Floats) -> Floats:
        """Products of all rows with a vector, by the core, from the codes."""
        own = core_rows(Codes(np.ascontiguousarray(self.codes.values), np.ascontiguousarray(self.codes.scales)))
        phi = np.ascontiguousarray(query, dtype=np.float32).reshape(1, -1)
        products: Floats = own.scores(None, phi, NO_FLOATS, 1)[0]
        return products

    def norms(self) -> Floats:
        """Euclidean norms of rows."""
        step = max(1, BLOCK_NUMBERS // max(1, self.shape[1]))
        parts = [np.linalg.norm(np.asarray(self[i : i + step]), axis=1) for i in range(0, len(self), step)]
        return np.concatenate(parts) if parts else NO_FLOATS


def compressed(
    words: Sequence[str],
    vectors: Floats,
    dtype: Literal["auto", "float32", "float16", "int8"],
    prune: float,
    max_bytes: int | str | None,
) -> tuple[Sequence[str], Codes]:
    """Return the first words and their vectors in fewer bits, as the module's docstring says.

    Raises
    ------
    ValueError
        If an argument is not one that can be, a number is too large for float16, or not one word fits.
    """
    check_choice("dtype", dtype, ("auto", *DTYPES))
    check_number("prune", prune, low=0)
    if prune >= 1:
        raise ValueError(f"prune is {prune!r}; it must be below 1, as some words have to stay")
    most = None if max_bytes is None else bytes_of(max_bytes)
    n = max(1, len(words) - int(prune * len(words)))
    own: Dtype = "float16" if dtype == "auto" else dtype
    if most is not None:
        tried: list[Dtype] = ["float16", "int8"] if dtype == "auto" else [own]
        own = next((each for each in tried if _most_words(words, vectors, each, most) >= n), tried[-1])
        fit = _most_words(words, vectors, own, most)
        if fit < 1:
            raise ValueError(f"max_bytes is {most}; not even one word fits as {own} beside the header of the file")
        n = min(n, fit)
    return words[:n], Codes.of_rows(np.ascontiguousarray(vectors[:n]), own)


def _most_words(words: Sequence[str], vectors: Floats, dtype: Dtype, max_bytes: int) -> int:
    """How many of the first words a file of so many bytes holds."""
    lengths = np.array([len(word.encode("utf-8", "surrogatepass")) for word in words], dtype=np.int64)
    of_row = vectors.shape[1] * np.dtype(dtype).itemsize + (4 if dtype == "int8" else 0) + 8  # 8: where a word begins
    return int(np.searchsorted(np.cumsum(lengths + of_row) + 8 + HEADER_BYTES, max_bytes, side="right"))


def save_words(path: PathLike, words: Sequence[str], codes: Codes) -> None:
    """Write a file of words with their vectors."""
    tensors: dict[str, NDArray[Any]] = {"rows": codes.values}
    if len(codes.scales):
        tensors["rows.scales"] = codes.scales
    tensors |= {f"words.{part}": array for part, array in encode_text(words).items()}
    tensors = dict(sorted(tensors.items(), key=lambda item: -item[1].itemsize))  # each is aligned
    write_tensors(path, tensors, {"format": FORMAT, "format_version": str(FORMAT_VERSION)})


def load_words(path: PathLike, mmap: bool) -> tuple[list[str], Codes]:
    """Read such a file.

    Raises
    ------
    ValueError
        If it is none, damaged, or of a newer format; the message names it.
    OSError
        If it cannot be read.
    """
    file = open_tensors(path)
    found = file.metadata.get("format")
    if found != FORMAT:
        raise ValueError(f"{file.path} has no word vectors of manyclass: its header has the format {found!r}")
    check_version(file, FORMAT_VERSION)
    with reading(file):
        words, codes = _read(file, mmap)
    warn_of_unread(file)
    return words, codes


def _read(file: TensorFile, mmap: bool) -> tuple[list[str], Codes]:
    if "rows" not in file.entries:
        raise ValueError("it has no array 'rows'")
    dtype, shape, _ = file.entries["rows"]
    if dtype.name not in DTYPES or len(shape) != 2:
        raise ValueError(f"'rows' is {dtype.name} of shape {shape}")
    scales = NO_FLOATS
    if dtype.name == "int8":
        scales = finite(file, "rows.scales", file.read(checked(file, "rows.scales", np.float32, shape[:1])))
    words = decode_text(file, "words", shape[0]).tolist()
    if len(set(words)) != len(words):
        raise ValueError("words occur twice")
    rows = file.map("rows") if mmap else finite(file, "rows", file.read("rows"))
    return words, Codes(rows, scales)
