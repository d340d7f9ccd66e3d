"""Predictions of saved models: best labels, sets and nodes above classes, in three forms."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
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
from manyclass.cli.messages import check_writable, note
from manyclass.cli.models import RECALL, K, OnMappedModel, SetOptions, check_recall, expected_by
from manyclass.cli.options import WithProgress, flag, set_options
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
        with --parents: what the classes below a node must have together; default: 0.5
    """

    parents: str | None = None
    min_probability: float | None = None

    def read(self, names: NDArray[Any], classes: NDArray[Any]) -> dict[Any, Any] | None:
        """Return the parent of each node that has one, None without a file; a class stands there as its label.

        Parameters
        ----------
        names : ndarray of shape (n_classes,)
            What is printed for each class, as which it stands in the file.
        classes : ndarray of shape (n_classes,)
            Their labels.

        Raises
        ------
        ValueError
            If a line is no pair, or a node has two parents.
        """
        if self.parents is None:
            if self.min_probability is not None:
                raise ValueError("--min-probability is for nodes above classes; name these by --parents")
            return None
        label_of = dict(zip(map(str, names.tolist()), classes.tolist(), strict=True))
        pairs = read_pairs(self.parents, "node", "parent").items()
        parents = {label_of.get(node, node): label_of.get(parent, parent) for node, parent in pairs}
        if not any(label in parents for label in classes.tolist()):
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
    if args.k is not None:
        check_number("k", args.k, low=1, integer=True)
    _check_one_answer(args)
    if args.output:
        check_writable(args.output)
    check_recall(args.recall, args.approximate)
    if choices := choice_model(args, args.columns):
        _predict_choices(args, *choices)
    else:
        _predict(args, args.opened())
    return 0


def _predict(args: PredictArguments, model: Classifier) -> None:
    """Print the labels of rows: the best ones, those of their sets, or their most specific probable nodes."""
    names = _names(args, model.classes_)
    if (args.k or 0) > len(names):
        note(f"k is {args.k}; the model has {len(names)} classes, and all of them are printed")
    if args.probabilities and not has_probabilities(model):
        raise ValueError(f"{args.model} holds a {type(model).__name__}, whose scores are no probabilities")
    parents = args.ancestors.read(names, model.classes_)
    args.reading.label_names = None  # they are for what is printed; the labels of the data are the model's
    if (options := args.reading.set_options("last", "since")) and args.sets.calibration is None:
        raise ValueError(f"--{options[0]} is for fit, learn and evaluate; predict takes whole histories")
    coverage = args.sets.prepare(args.reading, model)
    _least_score(args.threshold, is_probability=has_probabilities(model))  # raises before the data are read
    data = read(args.reading, args.data, expected_by(model, need_label=False))
    who, X, excluded = dict[str, list[Any]](), data.X, None
    if isinstance(X, Histories):
        X = X.of_users()
        who = {"user": readable(X.users).tolist()}
    if args.exclude_labels:
        excluded = X if isinstance(X, Histories) else _labels_to_exclude(model.classes_, data)

    def ask(block: slice) -> Answers:
        rows = features(args.reading, rows_of(X, block), vectorizer_of(model))
        return _answers(args, model, rows, None if excluded is None else excluded[block], coverage, parents)

    step = max(1, BLOCK_CELLS // min(args.k or K, len(names))) if coverage is None and parents is None else ROWS
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    _write(args, ask, step, n_rows, who, dict(zip(model.classes_.tolist(), names.tolist(), strict=True)))


def _answers(
    args: PredictArguments, model: Classifier, rows: Any, exclude: Any, coverage: float | None, parents: Any
) -> Answers:
    """Return the sets of rows, their most specific probable nodes, or their best labels."""
    if coverage is not None:
        indptr, labels, log_p = ranked_set(model, rows, coverage)
        return labels, log_p, indptr[1:]
    if parents is not None:
        least = args.ancestors.min_probability
        nodes, p = model.predict_ancestor(rows, parents, **({} if least is None else {"min_probability": least}))
        has_node = np.array([node is not None for node in nodes.tolist()], dtype=bool)
        return nodes[has_node], np.log(p[has_node]), np.cumsum(has_node)
    how: dict[str, Any] = {"approximate": True, "recall": args.recall or RECALL} if args.approximate else {}
    best = model.predict_top_k(rows, min(args.k or K, len(model.classes_)), **how, exclude=exclude)
    return _above(_least_score(args.threshold, is_probability=has_probabilities(model)), *best)


def _check_one_answer(args: PredictArguments) -> None:
    """Raise ValueError for options of one kind of answer beside another, where they would have no effect."""
    names = [*set_options(args)]
    kinds = [kind for kind in ("coverage", "parents") if kind in names]
    if len(kinds) > 1:
        raise ValueError("--coverage and --parents are two kinds of predictions; give one of them")
    for name in ("k", "threshold", "exclude_labels", "approximate"):
        if kinds and name in names:
            raise ValueError(f"{flag(name)} has no effect with --{kinds[0]}; leave it out")
    if kinds == ["parents"] and args.output_format == "xmc":
        raise ValueError("--output-format is xmc, which has no nodes above classes; choose tsv or jsonl")


def _above(least: float, labels: NDArray[Any], scores: NDArray[np.floating[Any]]) -> Answers:
    """Return the labels whose score exceeds the least one, which that of a label that is missing, -inf, never does."""
    is_shown = scores > least
    return labels[is_shown], scores[is_shown], np.cumsum(is_shown.sum(axis=1))


def _labels_to_exclude(classes: NDArray[Any], data: Records) -> sp.csr_array:
    if data.Y.nnz == 0:
        raise ValueError(f"{data.name} has no labels, so that --exclude-labels has no effect")
    return known_labels(classes, data.labels, data.Y).sorted_indices()


def _predict_choices(args: PredictArguments, model: ChoiceClassifier, notes: dict[str, Any]) -> None:
    """Print the most probable alternatives of each chooser."""
    if args.output_format == "xmc":
        raise ValueError("--output-format xmc is not for choice models; leave it out")
    least = np.exp(_least_score(args.threshold, is_probability=True))
    sets, choosers = args.columns.read(args.data, args.reading, model, notes, chosen=False)
    names, k = _names(args, sets.alternatives), min(args.k or K, sets.n_alternatives)

    def ask(block: slice) -> Answers:
        labels, p, ends = _above(least, *model.predict_top_k(sets.take(np.arange(sets.n_rows)[block]), k))
        return labels, np.log(p), ends

    who = {"chooser": readable(choosers).tolist()}
    name_of = dict(zip(sets.alternatives.tolist(), names.tolist(), strict=True))
    _write(args, ask, max(1, BLOCK_CELLS // k), sets.n_rows, who, name_of)


def _write(
    args: PredictArguments,
    ask: Callable[[slice], Answers],
    step: int,
    n_rows: int,
    who: dict[str, list[Any]],
    name_of: dict[Any, Any],
) -> None:
    """Write the answers for all rows, `step` at a time; `who` has what stands before the labels of each."""
    for title, row_names in who.items():
        _check_names(args, title, np.array(row_names, dtype=object))
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


def _check_names(args: PredictArguments, title: str, names: NDArray[Any]) -> None:
    """Raise ValueError for a name that lines with tabs cannot hold, where such are asked for."""
    if args.output_format == "tsv" and names.dtype.kind in "OU":
        broken = [name for name in map(str, names.tolist()) if "\t" in name or "\n" in name]
        if broken:
            raise ValueError(f"the {title} {broken[0]!r} holds a tab or a newline; choose --output-format jsonl")


def _least_score(threshold: float | None, *, is_probability: bool) -> float:
    """Return what a score must exceed: scores of a model with probabilities are their logarithms."""
    if threshold is None or not is_probability:
        return -np.inf if threshold is None else threshold
    check_number("threshold", threshold, low=0, high=1)
    return float(np.log(threshold)) if threshold > 0 else -np.inf


def _names(args: PredictArguments, classes: NDArray[Any]) -> NDArray[Any]:
    """Return what is printed for each class; raises ValueError where the form of output cannot hold it."""
    names = readable(classes)
    if args.reading.label_names:
        names = LabelNames(args.reading.label_names, distinct=False).of(classes, args.model)
    if args.output_format == "xmc" and (names.dtype.kind not in "iu" or names[0] < 0):
        raise ValueError(f"the form xmc needs labels that are integers of at least 0; {args.model} has others")
    _check_names(args, "label", names)
    return names


def _line(form: str, row: int, who: dict[str, Any], labels: list[Any], values: list[float]) -> str:
    """Return a line of the output, with six digits of each score, and the user or chooser of a row."""
    if form == "jsonl":
        answer = {"row": row, **who, "labels": labels, "scores": [float(f"{value:.6g}") for value in values]}
        return json.dumps(answer, ensure_ascii=False)
    between, behind = (":", " ") if form == "xmc" else ("\t", "\t")
    pairs = [f"{label}{between}{value:.6g}" for label, value in zip(labels, values, strict=True)]
    return behind.join([*(map(str, who.values()) if form == "tsv" else ()), *pairs])
