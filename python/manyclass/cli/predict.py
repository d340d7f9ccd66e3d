"""Print the k best labels of each row with their scores, best first.

Scores are the probabilities of the model, as natural logarithms unless --probabilities is given; those of a margin
model are its own and no probabilities. Rows without a label or a feature are predicted too: line i belongs to row i of
the data. Forms of the output: tsv, the pairs of label and score of a row on one line, separated by tabs; jsonl, an
object a row; xmc, the score files of the extreme classification repository: a first line `N L`, then `label:score`
pairs, best first.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_number
from manyclass.cli.arguments import add_progress, shows_progress
from manyclass.cli.data import Data, Expected, add_data_options, features, known_labels, read, rows_of
from manyclass.cli.evaluate import add_model_arguments, load_model
from manyclass.cli.forms import lines_of
from manyclass.cli.messages import check_writable, note
from manyclass.cli.sources import Source
from manyclass.training.progress import progress_bar
from manyclass.weights.tensor_file import replacing

K = 5
BLOCK_CELLS = 1 << 18  # label and score pairs in memory at a time, some 50 MB as Python objects

Line = Callable[[int, list[Any], list[float]], str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_arguments(parser)
    parser.add_argument("-k", type=int, help=f"labels a row; default: {K}; all of them where there are fewer")
    parser.add_argument(
        "--threshold", type=float, help="of the k labels only those whose probability (a margin's score) is above this"
    )
    parser.add_argument(
        "--exclude-labels",
        action="store_true",
        help="leave out the labels that a row has in DATA, seen before",
    )
    parser.add_argument("--output", metavar="FILE", help="file for the predictions, else stdout")
    parser.add_argument(
        "--output-format", choices=tuple(_LINES), default="tsv", help="form of the predictions, see above"
    )
    parser.add_argument(
        "--approximate",
        action="store_true",
        help="find the labels through an index (more than 4,096 classes), probabilities being estimates",
    )
    parser.add_argument("--recall", type=float, help="share of the labels that --approximate is to find; default: 0.95")
    parser.add_argument("--probabilities", action="store_true", help="probabilities instead of their logarithms")
    add_progress(parser)
    add_data_options(parser, of_model=True)


def run(args: argparse.Namespace) -> int:
    """Predict block by block, so that memory does not grow with the number of rows."""
    if args.k is not None:
        check_number("k", args.k, low=1, integer=True)
    if args.output:
        check_writable(args.output)
    if args.recall is not None and not args.approximate:
        raise ValueError(f"--recall is {args.recall}, which has no effect without --approximate")
    model = load_model(args)
    names = _names(args, model)
    k = min(args.k or K, len(names))
    if k < (args.k or k):
        note(f"k is {args.k}; the model has {k} classes, and all of them are printed")
    if args.probabilities and not hasattr(model, "predict_proba"):
        raise ValueError(f"{args.model} holds a {type(model).__name__}, whose scores are no probabilities")
    _check_names(args, names)
    expected = Expected.by(model, need_label=False)
    labels_in_data, args.label_names = args.label_names, None
    data = read(args, args.data, expected)
    args.label_names = labels_in_data
    with _output(args.output) as out:
        _write(args, model, names, k, data, out)
    return 0


def _write(args: argparse.Namespace, model: Any, names: NDArray[Any], k: int, data: Data, out: IO[str]) -> None:
    line = _LINES[args.output_format]
    step = max(1, BLOCK_CELLS // k)
    n_rows = data.records.n_rows
    vectorizer = getattr(model, "vectorizer_", None)
    how: dict[str, Any] = {"approximate": True, "recall": args.recall or 0.95} if args.approximate else {}
    seen = _labels_to_exclude(model, data) if args.exclude_labels else None
    least = _least_score(args.threshold, model)
    if args.output_format == "xmc":
        out.write(f"{n_rows} {int(names.max()) + 1}\n")
    bar = progress_bar(n_rows, unit="row", shown=shows_progress(args) and bool(args.output))
    with contextlib.closing(bar):
        for first in range(0, n_rows, step):
            some = slice(first, first + step)
            rows = features(args, rows_of(data.records.X, some), vectorizer)
            labels, scores = model.predict_top_k(rows, k, **how, exclude=None if seen is None else seen[some])
            found = scores > least  # the score of a label that is missing is -inf
            shown = names[np.searchsorted(model.classes_, labels[found])].tolist()
            values = (np.exp(scores) if args.probabilities else scores)[found].tolist()
            ends = np.cumsum(found.sum(axis=1)).tolist()
            for row, (begin, end) in enumerate(pairwise([0, *ends]), start=first):
                out.write(line(row, shown[begin:end], values[begin:end]))
            bar.update(len(labels))


def _labels_to_exclude(model: Any, data: Data) -> sp.csr_array:
    if data.records.Y.nnz == 0:
        raise ValueError(f"{data.name} has no labels, so that --exclude-labels has no effect")
    seen = known_labels(model.classes_, data.records.labels, data.records.Y)
    seen.sort_indices()
    return seen


def _least_score(threshold: float | None, model: Any) -> float:
    """What a score is to be above: scores of a model with probabilities are their logarithms."""
    if threshold is None:
        return -np.inf
    if not hasattr(model, "predict_proba"):
        return threshold
    check_number("threshold", threshold, low=0, high=1)
    return float(np.log(threshold)) if threshold > 0 else -np.inf


def _names(args: argparse.Namespace, model: Any) -> NDArray[Any]:
    """What is printed for each class."""
    classes: NDArray[Any] = model.classes_
    # Dates have no JSON and no number of their own: written as text, as NumPy prints them.
    classes = classes.astype(str) if classes.dtype.kind in "mM" else classes
    if not args.label_names:
        return classes
    if classes.dtype.kind not in "iu":
        raise ValueError(f"--label-names is for labels that are numbers; {args.model} has such as {classes[0]!r}")
    names = [line.strip() for line in lines_of(Source.of(args.label_names))]
    if classes[0] < 0 or classes[-1] >= len(names):
        wrong = classes[0] if classes[0] < 0 else classes[-1]
        raise ValueError(f"{args.label_names} has {len(names)} names; {args.model} has the label {wrong}")
    named: NDArray[Any] = np.array(names, dtype=object)[classes]
    return named


def _check_names(args: argparse.Namespace, names: NDArray[Any]) -> None:
    """Raise where a form of output cannot hold the labels."""
    if args.output_format == "xmc" and (names.dtype.kind not in "iu" or names[0] < 0):
        raise ValueError(f"the form xmc needs labels that are integers of at least 0; {args.model} has others")
    if args.output_format == "tsv" and names.dtype.kind in "OU":
        broken = [name for name in names.tolist() if "\t" in name or "\n" in name]
        if broken:
            raise ValueError(f"the label {broken[0]!r} holds a tab or a newline; choose --output-format jsonl")


def _tsv(_row: int, labels: list[Any], values: list[float]) -> str:
    return "\t".join(f"{label}\t{value:.6g}" for label, value in zip(labels, values, strict=True)) + "\n"


def _jsonl(row: int, labels: list[Any], values: list[float]) -> str:
    found = {"row": row, "labels": labels, "scores": [float(f"{value:.6g}") for value in values]}
    return json.dumps(found, ensure_ascii=False) + "\n"


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
