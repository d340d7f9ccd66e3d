"""The forms of files, and how a file's form is guessed: by its name, its first bytes or its first line."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from manyclass.compressed import LABEL, split_words, without_suffix
from manyclass.datasets.inputs import DELIMITERS, Input

PathLike = str | os.PathLike[str]

TABLES = (*DELIMITERS, "parquet")
LINES = ("text", "fasttext")  # a text and its labels on each line
FORMS = ("xmc", "svmlight", "csr", *TABLES, *LINES)
BY_SUFFIX = {
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet", ".safetensors": "csr"},
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), "svmlight"),
}
HEAD = 1 << 16  # bytes by which the form is guessed
_XMC = re.compile(r"\s*(\d+(,\d+)*)?(\s+\d+:\S*)*\s*")
_XMC_HEADER = re.compile(r"\s*\d+\s+\d+\s+\d+\s*")
_SVMLIGHT = re.compile(r"\s*[^\s:]+(\s+\d+:[-+.\w]+)+\s*")


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
    forms = sorted({form_of_name(source) or "xmc" for source in inputs})
    if len(forms) > 1:
        raise ValueError(f"the files are of several forms, {', '.join(forms)}; a stream has one of them")
    first = inputs[0]
    form = form_of_name(first)
    if form and not (form == "tsv" and otherwise == "text"):  # a text and its label behind a tab are .tsv, too
        return form
    head = first.read(HEAD).decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    lines = [line for line in head if line.strip() and not line.lstrip().startswith("#")]
    return form_of_line(lines[0] if lines else "", otherwise, first.name)


def form_of_name(source: Input) -> str | None:
    """Return the form that a suffix tells, that of a compression left out, or the first bytes; None: neither tells."""
    if source.is_safetensors:
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
