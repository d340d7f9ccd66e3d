"""Print the k best labels of each row with their scores, best first.

Scores are natural logarithms of probabilities or, with --probabilities, the probabilities themselves; a margin model
has scores that are no probabilities. Rows without a label or a feature are predicted too: line i belongs to row i of
the data. Forms of the output: tsv, labels and scores of a row in turn on one line, between tabs; jsonl, a JSON object a
row; xmc, score files of the extreme classification repository: a first line `N L`, then `label:score` pairs.

Of a log (--sequences) a row is the history of a user. Rows are in the order of users, whose names stand before the
labels, or as "user" in jsonl; --exclude-labels leaves out the items of a history.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from typing import IO, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_number
from manyclass.classifiers.answers import has_probabilities, vectorizer_of
from manyclass.classifiers.saving import Classifier
from manyclass.cli.messages import note
from manyclass.cli.models import RECALL, K, OnMappedModel, check_recall, expected_by
from manyclass.cli.options import WithProgress
from manyclass.cli.output import check_writable, text_output
from manyclass.cli.reading import features, indicator, read
from manyclass.cli.records import Histories, Records
from manyclass.datasets.csr import rows_of
from manyclass.labels import readable
from manyclass.training.progress import progress_bar

BLOCK_CELLS = 1 << 18  # label and score pairs in memory at a time, some 50 MB as Python objects


@dataclass
class Arguments(OnMappedModel, WithProgress):
    """Arguments of the command.

    Attributes
    ----------
    data : DATA
        rows, in one of the forms below; - reads stdin
    k : int
        number of labels a row; default: 5, or all where there are fewer
    threshold : float
        print only those of the k labels whose probability (of a margin model: score) is above this
    exclude_labels : bool
        leave out labels that the row already has in DATA
    output : FILE
        file for the predictions, else stdout
    output_format : {"tsv", "jsonl", "xmc"}
        form of the predictions, see above
    approximate : bool
        find the labels through an index (more than 4,096 classes), probabilities being estimates
    recall : float
        share of the labels that --approximate is to find; default: 0.95
    probabilities : bool
        probabilities instead of their logarithms
    """

    data: str
    _: KW_ONLY
    k: int | None = None
    threshold: float | None = None
    exclude_labels: bool = False
    output: str | None = None
    output_format: Literal["tsv", "jsonl", "xmc"] = "tsv"
    approximate: bool = False
    recall: float | None = None
    probabilities: bool = False


def run(args: Arguments) -> int:
    """Predict block by block, so that memory does not grow with the number of rows."""
    if args.k is not None:
        check_number("k", args.k, low=1, integer=True)
    if args.output:
        check_writable(args.output)
    check_recall(args.recall, args.approximate)
    model = args.opened()
    names = _names(args, model.classes_)
    k = min(args.k or K, len(names))
    if k < (args.k or k):
        note(f"k is {args.k}; the model has {k} classes, and all of them are printed")
    if args.probabilities and not has_probabilities(model):
        raise ValueError(f"{args.model} holds a {type(model).__name__}, whose scores are no probabilities")
    args.reading.label_names = None  # they are for what is printed; the labels of the data are the model's
    if told := args.reading.given("last", "since"):
        raise ValueError(f"--{told[0]} is for fit, learn and evaluate; predict takes whole histories")
    data = read(args.reading, args.data, expected_by(model, need_label=False))
    if isinstance(data.X, Histories):
        data = replace(data, X=data.X.of_users())
    with text_output(args.output) as out:
        _write(args, model, names, k, data, out)
    return 0


def _write(args: Arguments, model: Classifier, names: NDArray[Any], k: int, data: Records, out: IO[str]) -> None:
    step = max(1, BLOCK_CELLS // k)
    n_rows, users = data.X.shape[0] if hasattr(data.X, "shape") else len(data.X), None
    if isinstance(data.X, Histories):
        users = readable(data.X.users).tolist()
        if args.output_format == "tsv" and (
            broken := [name for name in map(str, users) if "\t" in name or "\n" in name]
        ):
            raise ValueError(f"the user {broken[0]!r} holds a tab or a newline; choose --output-format jsonl")
    how: dict[str, Any] = {"approximate": True, "recall": args.recall or RECALL} if args.approximate else {}
    seen: Any = None
    if args.exclude_labels:
        seen = "seen" if users is not None else _labels_to_exclude(model.classes_, data)
    least = _least_score(args.threshold, is_probability=has_probabilities(model))
    if args.output_format == "xmc":
        out.write(f"{n_rows} {int(names.max()) + 1}\n")
    bar = progress_bar(n_rows, unit="row", shown=args.progress and bool(args.output))
    with contextlib.closing(bar):
        for first in range(0, n_rows, step):
            some = slice(first, first + step)
            rows = features(args.reading, rows_of(data.X, some), vectorizer_of(model))
            labels, scores = model.predict_top_k(
                rows, k, **how, exclude=seen if seen is None or users is not None else seen[some]
            )
            found = scores > least  # the score of a label that is missing is -inf
            shown = names[np.searchsorted(model.classes_, labels[found])].tolist()
            values = (np.exp(scores) if args.probabilities else scores)[found].tolist()
            ends = np.cumsum(found.sum(axis=1)).tolist()
            for row, (begin, end) in enumerate(pairwise([0, *ends]), start=first):
                user = () if users is None else (users[row],)
                out.write(_line(args.output_format, row, user, shown[begin:end], values[begin:end]) + "\n")
            bar.update(len(labels))


def _labels_to_exclude(classes: NDArray[Any], data: Records) -> sp.csr_array:
    if data.Y.nnz == 0:
        raise ValueError(f"{data.name} has no labels, so that --exclude-labels has no effect")
    return indicator(classes, data.labels, data.Y)


def _least_score(threshold: float | None, *, is_probability: bool) -> float:
    """Return what a score must exceed: scores of a model with probabilities are their logarithms."""
    if threshold is None or not is_probability:
        return -np.inf if threshold is None else threshold
    check_number("threshold", threshold, low=0, high=1)
    return float(np.log(threshold)) if threshold > 0 else -np.inf


def _names(args: Arguments, classes: NDArray[Any]) -> NDArray[Any]:
    """Return what is printed for each class; raises ValueError where the form of output cannot hold it."""
    names = readable(classes)
    if args.reading.label_names:
        if classes.dtype.kind not in "iu":
            raise ValueError(f"--label-names is for labels that are numbers; {args.model} has such as {classes[0]!r}")
        lines = args.reading.names()
        if classes[0] < 0 or classes[-1] >= len(lines):
            wrong = classes[0] if classes[0] < 0 else classes[-1]
            raise ValueError(f"{args.reading.label_names} has {len(lines)} names; {args.model} has the label {wrong}")
        names = np.array(lines, dtype=object)[classes]
    if args.output_format == "xmc" and (names.dtype.kind not in "iu" or names[0] < 0):
        raise ValueError(f"the form xmc needs labels that are integers of at least 0; {args.model} has others")
    if args.output_format == "tsv" and names.dtype.kind in "OU":
        broken = [name for name in names.tolist() if "\t" in name or "\n" in name]
        if broken:
            raise ValueError(f"the label {broken[0]!r} holds a tab or a newline; choose --output-format jsonl")
    return names


def _line(form: str, row: int, user: tuple[Any, ...], labels: list[Any], values: list[float]) -> str:
    """Return a line of the output, with six digits of each score, and the user of a history."""
    if form == "jsonl":
        found = {
            "row": row,
            **dict(zip(("user",), user, strict=False)),
            "labels": labels,
            "scores": [float(f"{value:.6g}") for value in values],
        }
        return json.dumps(found, ensure_ascii=False)
    between, behind = (":", " ") if form == "xmc" else ("\t", "\t")
    pairs = [f"{label}{between}{value:.6g}" for label, value in zip(labels, values, strict=True)]
    return behind.join([*(map(str, user) if form == "tsv" else ()), *pairs])
