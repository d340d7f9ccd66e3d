"""Reading data for the commands: text or binary cache, one label a row, rows dropped and told."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_number
from manyclass.datasets import first_label, l2_normalize, load_csr, load_xmc

FORM = (
    "text in the XMC repository's form (lines `l1,l2,... j:v j:v ...`, optional first line `N D L`), plain, .gz or "
    ".xz; or a binary file of manyclass.datasets.save_csr"
)


def note(text: str) -> None:
    """Tell the user something on stderr, where it does not mix with results."""
    print(f"manyclass: {text}", file=sys.stderr)


def add_data_options(parser: argparse.ArgumentParser, *, of_model: bool) -> None:
    """Add the options that say how a data file is read; with `of_model`, a model file tells their defaults."""
    group = parser.add_argument_group("reading of the data")
    group.add_argument(
        "--header",
        choices=("auto", "yes", "no"),
        default="auto",
        help="whether the first line of a text is `N D L`; auto: if it holds three integers",
    )
    told = "; default: as in the fit of the model" if of_model else ""
    group.add_argument(
        "--one-based",
        action=argparse.BooleanOptionalAction,
        default=None if of_model else False,
        help="the first feature of a text has number 1" + told,
    )
    group.add_argument(
        "--normalize",
        action=argparse.BooleanOptionalAction,
        default=None if of_model else False,
        help="divide each row by its Euclidean norm" + (told or "; kept with the model, for evaluate and predict"),
    )
    if not of_model:
        group.add_argument(
            "--n-features",
            type=int,
            help="number of features D, instead of the header's or the largest one found; a larger one is an error",
        )
    group.add_argument(
        "--cache",
        action="store_true",
        help="keep a text in binary beside it, as DATA.csr.safetensors, and map that the next time",
    )


def is_safetensors(path: str) -> bool:
    """Whether the file looks like a safetensors file: a length that fits, then a JSON object."""
    with open(path, "rb") as file:
        start = file.read(9)
    return start[8:] == b"{" and 8 + int.from_bytes(start[:8], "little") <= os.path.getsize(path)


def apply_notes(args: argparse.Namespace, notes: Mapping[str, Any]) -> None:
    """Fill the reading options that were not given with those of the fit."""
    for name in ("one_based", "normalize"):
        if getattr(args, name) is None:
            setattr(args, name, bool(notes.get(name, False)))


def read(args: argparse.Namespace, path: str, n_features: int | None) -> tuple[sp.csr_array, sp.csr_array]:
    """Return features, normalized where asked for, and labels."""
    if n_features is not None:
        check_number("n_features", n_features, low=1, integer=True)
    if is_safetensors(path):
        X, labels = load_csr(path)
        Y = sp.csr_array(np.zeros((X.shape[0], 0), np.float32)) if labels is None else labels
        if n_features is not None:
            X = _widened(X, n_features, path)
    else:
        header: bool | Literal["auto"] = "auto" if args.header == "auto" else args.header == "yes"
        n_jobs = getattr(args, "n_jobs", None)
        X, Y = load_xmc(
            path, header=header, zero_based=not args.one_based, n_features=n_features, n_jobs=n_jobs, cache=args.cache
        )
    return (l2_normalize(X) if args.normalize else X), Y


def _widened(X: sp.csr_array, n_features: int, path: str) -> sp.csr_array:
    largest = int(X.indices.max(initial=-1))
    if largest >= n_features:
        raise ValueError(f"{path}: feature {largest} is outside [0, {n_features})")
    return sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))


@dataclass(frozen=True)
class Labelled:
    """Rows that have a label and a feature, with the first label of each, and what was dropped.

    Attributes
    ----------
    X : csr_array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,), int64
    dropped : dict
        Number of rows "without_label" and "without_feature" (and with a label).
    """

    X: sp.csr_array
    y: NDArray[np.int64]
    dropped: dict[str, int]


def read_labelled(args: argparse.Namespace, path: str, n_features: int | None) -> Labelled:
    """Read rows with one label each; tell on stderr what was dropped or has further labels."""
    X, Y = read(args, path, n_features)
    y = first_label(Y)
    several = int(np.sum(np.diff(Y.indptr) > 1))
    if several and not getattr(args, "first_label", True):
        raise ValueError(f"{path}: {several} rows have several labels; --first-label takes the first one of each")
    if several:
        note(f"{path}: {several} rows have several labels; the first one counts")
    labelled, filled = y >= 0, X.count_nonzero(axis=1) > 0
    dropped = {"without_label": int(np.sum(~labelled)), "without_feature": int(np.sum(labelled & ~filled))}
    for what, count in dropped.items():
        if count:
            note(f"{path}: dropped {count} rows {what.replace('_', ' ')}")
    if any(dropped.values()):
        rows = np.flatnonzero(labelled & filled)
        X, y = X[rows], y[rows]
    if X.shape[0] == 0:
        raise ValueError(f"{path}: no row has a label and a feature")
    return Labelled(X, y, dropped)


def check_writable(path: str) -> None:
    """Raise unless a file can be written there."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder; it must be a file")
    if not os.access(folder, os.W_OK):
        raise FileNotFoundError(f"{path} cannot be written: {folder} is not a folder that this user may write to")


def print_table(rows: Mapping[str, Any]) -> None:
    """Print names and values in two columns."""
    width = max(len(name) for name in rows)
    for name, value in rows.items():
        print(f"{name:<{width}}  {value}")
