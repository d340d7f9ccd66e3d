"""Print the k most probable labels of each row with their probabilities, best first.

Probabilities are those of the softmax over all classes, as natural logarithms unless --probabilities is given. Rows
without a label or a feature are predicted too: line i belongs to row i of the data. Formats: tsv, the pairs of label
and (log-)probability of a row on one line, separated by tabs; jsonl, an object a row; xmc, the score files of the XMC
repository: a first line `N L`, then `label:score` pairs, best first.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from manyclass.checks import check_number
from manyclass.cli.data import add_data_options, read
from manyclass.cli.evaluate import add_model_arguments, load_model
from manyclass.estimators.softmax import SoftmaxClassifier
from manyclass.model.tensor_file import replacing

BLOCK_CELLS = 1 << 18  # label and score pairs in memory at a time, some 50 MB as Python objects

Line = Callable[[int, list[Any], list[float]], str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_arguments(parser)
    parser.add_argument("-k", type=int, default=5, help="labels a row, from 1 to the number of classes")
    parser.add_argument("--output", metavar="FILE", help="file for the predictions, else stdout")
    parser.add_argument("--format", choices=tuple(_LINES), default="tsv", help="form of the predictions, see above")
    parser.add_argument(
        "--approximate",
        action="store_true",
        help="find the labels through an index (more than 4,096 classes), probabilities being estimates",
    )
    parser.add_argument(
        "--recall", type=float, default=0.95, help="share of the labels that --approximate is to find, default 0.95"
    )
    parser.add_argument("--probabilities", action="store_true", help="probabilities instead of their logarithms")
    add_data_options(parser, of_model=True)


def run(args: argparse.Namespace) -> int:
    """Predict block by block, so that memory does not grow with the number of rows."""
    model = load_model(args)
    check_number("k", args.k, low=1, high=len(model.classes_), integer=True)
    if args.format == "xmc" and (model.classes_.dtype.kind not in "iu" or model.classes_[0] < 0):
        raise ValueError(f"the format xmc needs labels that are integers of at least 0; {args.model} has others")
    X, _ = read(args, args.data, model.n_features_in_)
    line = _LINES[args.format]
    step = max(1, BLOCK_CELLS // args.k)
    with _output(args.output) as out:
        if args.format == "xmc":
            out.write(f"{X.shape[0]} {int(model.classes_[-1]) + 1}\n")
        for first in range(0, X.shape[0], step):
            labels, scores = model.predict_top_k(
                X[first : first + step], args.k, approximate=args.approximate, recall=args.recall
            )
            values = np.exp(scores) if args.probabilities else scores
            out.writelines(map(line, range(first, first + len(labels)), _plain(labels, model), values.tolist()))
    return 0


def _plain(labels: Any, model: SoftmaxClassifier) -> list[list[Any]]:
    # Dates have no JSON and no number of their own: written as text, as NumPy prints them.
    rows: list[list[Any]] = (labels.astype(str) if model.classes_.dtype.kind in "mM" else labels).tolist()
    return rows


def _tsv(_row: int, labels: list[Any], values: list[float]) -> str:
    return "\t".join(f"{label}\t{value:.6g}" for label, value in zip(labels, values, strict=True)) + "\n"


def _jsonl(row: int, labels: list[Any], values: list[float]) -> str:
    return json.dumps({"row": row, "labels": labels, "scores": [float(f"{value:.6g}") for value in values]}) + "\n"


def _xmc(_row: int, labels: list[Any], values: list[float]) -> str:
    return " ".join(f"{label}:{value:.6g}" for label, value in zip(labels, values, strict=True)) + "\n"


_LINES: dict[str, Line] = {"tsv": _tsv, "jsonl": _jsonl, "xmc": _xmc}


@contextlib.contextmanager
def _output(path: str | None) -> Iterator[IO[str]]:
    """stdout, or a file that appears under its name once it is complete."""
    if path is None:
        yield sys.stdout
        return
    with replacing(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
        yield text
        text.flush()
        text.detach()
