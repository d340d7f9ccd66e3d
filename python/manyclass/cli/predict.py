"""Predictions of saved models: best labels, sets and nodes above classes, in three forms."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_number
from manyclass.choice.model import ChoiceClassifier
from manyclass.classifiers.predictions import has_probabilities, ranked_set, vectorizer_of
from manyclass.classifiers.saving import Classifier
from manyclass.cli.choices import ChoiceColumns, choice_model
from manyclass.cli.data import LabelNames, features, read, read_pairs, text_output
from manyclass.cli.messages import check_writable
from manyclass.cli.models import RECALL, K, OnMappedModel, SetOptions, check_options, expected_by
from manyclass.cli.options import WithProgress
from manyclass.datasets.csr import rows_of
from manyclass.datasets.logs import Histories
from manyclass.datasets.records import Records, known_labels
from manyclass.labels import readable
from manyclass.training.passes import progress_bar

BLOCK_CELLS = 1 << 18  # label and score pairs in memory at a time, some 50 MB as Python objects
ROWS = 1024  # at a time, where a row may have many labels

# Labels of some rows and their scores, one row after the other, and where each row ends.
Answers = tuple[NDArray[Any], NDArray[np.floating[Any]], NDArray[np.integer[Any]]]


@dataclass(kw_only=True)
class AncestorOptions:
    """Nodes above classes.

    Attributes
    ----------
    parents : FILE
        the hierarchy above the classes: on each line a class or a node, a tab, and its parent
    min_probability : float
        with --parents: what the classes below a node must have together
    """

    parents: str | None = None
    min_probability: float = 0.5

    def read(self, name_of: Mapping[Any, Any]) -> dict[Any, Any] | None:
        """Return the parent of each node that has one, None without a file.

        Parameters
        ----------
        name_of : mapping of label to name
            What stands in the file for each class, whose label is returned.

        Raises
        ------
        ValueError
            If a line is no pair, or a node has two parents.
        """
        if self.parents is None:
            return None
        label_of = {str(name): label for label, name in name_of.items()}
        pairs = read_pairs(self.parents, "node", "parent").items()
        parents = {label_of.get(node, node): label_of.get(parent, parent) for node, parent in pairs}
        if parents.keys().isdisjoint(name_of):
            raise ValueError(f"{self.parents} has none of the model's classes, such as {next(iter(label_of))!r}")
        return parents


@dataclass
class PredictArguments(OnMappedModel, WithProgress):
    """Arguments of the command.

    Attributes
    ----------
    data : DATA
        rows, in one of the forms below; - reads stdin
    k : int
        number of labels a row, or all where there are fewer
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
        share of the labels that --approximate is to find
    probabilities : bool
        probabilities instead of their logarithms
    """

    data: str
    _: KW_ONLY
    k: int = K
    threshold: float | None = None
    exclude_labels: bool = False
    output: str | None = None
    output_format: Literal["tsv", "jsonl", "xmc"] = "tsv"
    approximate: bool = False
    recall: float = RECALL
    probabilities: bool = False
    sets: SetOptions
    ancestors: AncestorOptions
    columns: ChoiceColumns


def predict(args: PredictArguments) -> int:
    """Print the k best labels of each row with their scores, best first.

    Scores are natural logarithms of probabilities or, with --probabilities, the probabilities themselves; a margin
    model has scores that are no probabilities. Rows without a label or a feature are predicted too: line i belongs to
    row i of the data. Forms of the output: tsv, labels and scores of a row in turn on one line, between tabs; jsonl, a
    JSON object a row; xmc, score files of the extreme classification repository: a first line `N L`, then `label:score`
    pairs.

    Of a log (--sequences) a row is the history of a user. Rows are in the order of users, whose names stand before the
    labels, or as "user" in jsonl; --exclude-labels leaves out the items of a history.

    With --coverage a row has as many labels as its set: those that hold the right one with this probability. With
    --parents a row has one label, the most specific class or node above classes whose probability is at least
    --min-probability; its line is empty where there is none.

    Of a choice model DATA are a long table. A row is a chooser, whose name stands before the labels, which are the most
    probable of the alternatives that the table lists for this chooser.
    """
    check_number("k", args.k, low=1, integer=True)
    check_options(args)
    if args.output:
        check_writable(args.output)
    if choices := choice_model(args, args.columns):
        _predict_choices(args, *choices)
    else:
        _predict(args, args.opened())
    return 0


def _predict(args: PredictArguments, model: Classifier) -> None:
    """Print the labels of rows: the best ones, those of their sets, or their most specific probable nodes."""
    name_of, is_probability = _names(args, model.classes_), has_probabilities(model)
    if args.probabilities and not is_probability:
        raise ValueError(f"{args.model} holds a {type(model).__name__}, whose scores are no probabilities")
    parents, least = args.ancestors.read(name_of), _least_score(args.threshold, is_probability=is_probability)
    args.reading.label_names = None  # they are for what is printed; the labels of the data are the model's
    if (options := args.reading.set_options("last", "since")) and args.sets.calibration is None:
        raise ValueError(f"--{options[0]} is for fit, learn and evaluate; predict takes whole histories")
    args.sets.prepare(args.reading, model)
    data = read(args.reading, args.data, expected_by(model, need_label=False))
    who, X, exclude = dict[str, list[Any]](), data.X, None
    if isinstance(X, Histories):
        X = X.of_users()
        who = {"user": readable(X.users).tolist()}
    if args.exclude_labels:
        exclude = X if isinstance(X, Histories) else _labels_in(data, model.classes_)

    def ask(block: slice) -> Answers:
        rows = features(args.reading, rows_of(X, block), vectorizer_of(model))
        if args.sets.coverage is not None:
            indptr, labels, log_p = ranked_set(model, rows, args.sets.coverage)
            return labels, log_p, indptr[1:]
        if parents is not None:
            nodes, p = model.predict_ancestor(rows, parents, min_probability=args.ancestors.min_probability)
            has_node = np.array([node is not None for node in nodes.tolist()], dtype=bool)
            return nodes[has_node], np.log(p[has_node]), np.cumsum(has_node)
        how: dict[str, Any] = {"approximate": True, "recall": args.recall} if args.approximate else {}
        how["exclude"] = None if exclude is None else exclude[block]
        return _above(least, *model.predict_top_k(rows, min(args.k, len(name_of)), **how))

    is_best = args.sets.coverage is None and parents is None
    step = max(1, BLOCK_CELLS // min(args.k, len(name_of))) if is_best else ROWS
    _write(args, ask, step, X.shape[0] if hasattr(X, "shape") else len(X), who, name_of)


def _labels_in(data: Records, classes: NDArray[Any]) -> sp.csr_array:
    if data.Y.nnz == 0:
        raise ValueError(f"{data.name} has no labels, so that --exclude-labels has no effect")
    return known_labels(classes, data.labels, data.Y).sorted_indices()


def _predict_choices(args: PredictArguments, model: ChoiceClassifier, notes: dict[str, Any]) -> None:
    """Print the most probable alternatives of each chooser."""
    least = np.exp(_least_score(args.threshold, is_probability=True))
    sets, choosers = args.columns.read(args.data, args.reading, model, notes, chosen=False)
    name_of, k = _names(args, sets.alternatives), min(args.k, sets.n_alternatives)

    def ask(block: slice) -> Answers:
        labels, p, ends = _above(least, *model.predict_top_k(sets.take(np.arange(sets.n_rows)[block]), k))
        return labels, np.log(p), ends

    who = {"chooser": readable(choosers).tolist()}
    _write(args, ask, max(1, BLOCK_CELLS // k), sets.n_rows, who, name_of)


def _above(least: float, labels: NDArray[Any], scores: NDArray[np.floating[Any]]) -> Answers:
    """Return the labels whose score exceeds the least one, which that of a label that is missing, -inf, never does."""
    is_shown = scores > least
    return labels[is_shown], scores[is_shown], np.cumsum(is_shown.sum(axis=1))


def _least_score(threshold: float | None, *, is_probability: bool) -> float:
    """Return what a score must exceed: scores of a model with probabilities are their logarithms."""
    if threshold is None or not is_probability:
        return -np.inf if threshold is None else threshold
    check_number("threshold", threshold, low=0, high=1)
    return float(np.log(threshold)) if threshold > 0 else -np.inf


def _names(args: PredictArguments, classes: NDArray[Any]) -> dict[Any, Any]:
    """Return what is printed for each class; raises ValueError where the form of output cannot hold it."""
    names = readable(classes)
    if args.reading.label_names:
        names = LabelNames(args.reading.label_names, distinct=False).of(classes, args.model)
    if args.output_format == "xmc" and (args.ancestors.parents or names.dtype.kind not in "iu" or names[0] < 0):
        raise ValueError("--output-format is xmc, whose labels are integers of at least 0; choose tsv or jsonl")
    return dict(zip(classes.tolist(), names.tolist(), strict=True))


def _write(
    args: PredictArguments,
    ask: Callable[[slice], Answers],
    step: int,
    n_rows: int,
    who: dict[str, list[Any]],
    name_of: dict[Any, Any],
) -> None:
    """Write the answers for all rows, `step` at a time; `who` has what stands before the labels of each."""
    for title, names in ({"label": [*name_of.values()]} | who).items() if args.output_format == "tsv" else ():
        for name in names:
            if isinstance(name, str) and ("\t" in name or "\n" in name):
                raise ValueError(f"the {title} {name!r} holds a tab or a newline; choose --output-format jsonl")
    bar = progress_bar(n_rows, unit="row", shown=args.progress and bool(args.output))
    with text_output(args.output) as out, contextlib.closing(bar):
        if args.output_format == "xmc":
            out.write(f"{n_rows} {max(name_of.values()) + 1}\n")
        for first in range(0, n_rows, step):
            labels, scores, ends = ask(slice(first, first + step))
            shown = [name_of.get(label, label) for label in labels.tolist()]
            values = (np.exp(scores) if args.probabilities else scores).tolist()
            for row, (begin, end) in enumerate(pairwise([0, *ends.tolist()]), start=first):
                row_who = {title: row_names[row] for title, row_names in who.items()}
                out.write(_line(args.output_format, row, row_who, shown[begin:end], values[begin:end]) + "\n")
            bar.update(len(ends))


def _line(form: str, row: int, who: dict[str, Any], labels: list[Any], values: list[float]) -> str:
    """Return a line of the output, with six digits of each score, and the user or chooser of a row."""
    if form == "jsonl":
        answer = {"row": row, **who, "labels": labels, "scores": [float(f"{value:.6g}") for value in values]}
        return json.dumps(answer, ensure_ascii=False)
    between, behind = (":", " ") if form == "xmc" else ("\t", "\t")
    pairs = [f"{label}{between}{value:.6g}" for label, value in zip(labels, values, strict=True)]
    return behind.join([*(map(str, who.values()) if form == "tsv" else ()), *pairs])
