"""Commands that ask a model: its arguments, how it is loaded, read for and described, and its answers."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from manyclass import metrics
from manyclass.checks import check_number
from manyclass.choice.files import FORMAT as CHOICE_FORMAT
from manyclass.choice.model import ChoiceClassifier
from manyclass.classifiers import predictions
from manyclass.classifiers.base import LabelClassifier
from manyclass.classifiers.label_sets import By, least_score
from manyclass.classifiers.predictions import has_probabilities, ranked_set, vectorizer_of
from manyclass.classifiers.saving import Classifier, load_classifier, load_notes
from manyclass.cli import data as files
from manyclass.cli.choices import ChoiceColumns, choice_model
from manyclass.cli.data import Expected, Reading, features, file_format, labelled_rows, read, text_output
from manyclass.cli.messages import as_lines, as_text, check_writable, listed, note, print_facts, waiting
from manyclass.cli.options import WithProgress, flag, set_options
from manyclass.datasets import SequenceEncoder, first_label
from manyclass.datasets.csr import rows_of
from manyclass.datasets.inputs import BLANKS, Input
from manyclass.datasets.logs import Histories
from manyclass.datasets.stream import Records, as_classes, first_labels, known_labels, places_among
from manyclass.labels import as_labels, find_positions, readable
from manyclass.metrics.ranking import with_wrong
from manyclass.training.passes import progress_bar
from manyclass.weights.tensor_file import open_tensors

K, RECALL = 5, 0.95  # labels a row, and the share of them that an index is to find, where a user does not say
PLACES = (1, 3, 5)  # k of P@k, nDCG@k and PSP@k
LOSSES = ("log_loss", "label_log_loss", "error")  # what only the model can compute
# Options that have an effect only with another one, and those that have none beside another one.
NEEDS = {
    "recall": "approximate",
    "exclude_seen": "k",
    "calibration": "coverage",
    "by": "calibration",
    "min_probability": "parents",
}
UNUSED = ("k", "threshold", "exclude_labels", "among", "approximate")
WITHOUT = {"coverage": ("parents", *UNUSED), "parents": UNUSED}
NONE_KNOWN = "{} has none of the model's classes, such as {!r}"
BLOCK_CELLS = 1 << 18  # label and score pairs in memory at a time, some 50 MB as Python objects
ROWS = 1024  # at a time, where a row may have many labels

# Labels of some rows and their scores, one row after the other, and where each row ends.
Answers = tuple[NDArray[Any], NDArray[np.floating[Any]], NDArray[np.integer[Any]]]
Ask = Callable[[slice], Answers]


@dataclass
class OnModel:
    """Arguments of commands that work on a model.

    Attributes
    ----------
    model : MODEL
        model file of `manyclass fit` or an estimator's save
    n_jobs : int
        threads; -1: all cores
    """

    model: str
    _: KW_ONLY
    n_jobs: int = -1
    reading: Reading

    def load(self, *, mmap: bool = False) -> Classifier:
        """Load the model, and take over how its training data were read where the user does not say."""
        with waiting(f"loading {self.model}"):
            model = load_classifier(self.model, mmap=mmap)
        self.reading.take(load_notes(self.model))
        if self.reading.form is None and vectorizer_of(model) is not None:
            self.reading.form = "text"  # of a model that Python fitted on texts
        return model


@dataclass
class OnMappedModel(OnModel):
    """Arguments of commands that ask a model, which may be mapped.

    Attributes
    ----------
    mmap : bool
        map the weights instead of reading them
    """

    _: KW_ONLY
    mmap: bool = False

    def opened(self) -> Classifier:
        """Load or map the model, and let it use the threads that are asked for."""
        model = self.load(mmap=self.mmap)
        model.n_jobs = self.n_jobs
        return model

    def features_of(self, model: Classifier, path: str) -> Any:
        """Read rows, with or without labels, and return what the model takes of them."""
        data = read(self.reading, path, expected_by(model, need_label=False))
        return features(self.reading, data.X, vectorizer_of(model))


@dataclass(kw_only=True)
class SetOptions:
    """Sets of labels.

    For models with probabilities and one label a row: the set of a row holds its label with a chosen probability,
    however wrong the model's probabilities are, if the row is of the same kind as those of --calibration.

    Attributes
    ----------
    coverage : float
        the probability that a set holds the label of its row, such as 0.9
    calibration : FILE
        labelled rows that the model has not learnt, a hundred or more; default: those of the model's `calibrate_sets`
    by : {"class", "cluster", "prevalence"}
        cover rows of each class, or of each cluster of like classes, so often; or rare classes more often; default: all
        rows together
    """

    coverage: float | None = None
    calibration: str | None = None
    by: By | None = None

    def prepare(self, reading: Reading, model: Classifier) -> None:
        """Make the model ready for its sets, if it is to have others than those of its file."""
        if self.coverage is not None and self.calibration is not None:
            rows = labelled_rows(reading, self.calibration, expected_by(model, need_label=True))
            with waiting(f"calibrating sets by {rows.X.shape[0]} rows"):
                model.calibrate_sets(rows.X, labels_of(model, rows), self.coverage, by=self.by)


def check_options(arguments: Any) -> None:
    """Raise ValueError for an option that has no effect without another one, or beside it."""
    names = [*set_options(arguments)]
    for name in names:
        if name in NEEDS and NEEDS[name] not in names:
            raise ValueError(f"{flag(name)} has no effect without {flag(NEEDS[name])}")
        for other in WITHOUT.get(name, ()):
            if other in names:
                raise ValueError(f"{flag(other)} has no effect with {flag(name)}; leave it out")


def labels_of(model: Classifier, rows: Records) -> NDArray[Any]:
    """Return the label of each row, in the type of the model's labels; raises ValueError where it cannot be one."""
    return as_classes(model.classes_, rows.labels)[first_label(rows.Y)]


def takes_several(model: Classifier) -> bool:
    """Whether the model was fitted on several labels a row."""
    return isinstance(model, LabelClassifier) and model.multilabel_


def expected_by(model: Classifier, *, need_label: bool) -> Expected:
    """Return what the model wants of data."""
    names, vectorizer = getattr(model, "feature_names_in_", None), vectorizer_of(model)
    return Expected(model.n_features_in_, True, names, vectorizer, takes_several(model), need_label, model.n_jobs)


def describe_model(path: str, model: Classifier) -> dict[str, Any]:
    """Return facts of a model that was loaded from a file."""
    curve, classes, vectorizer = model.loss_curve_, model.classes_, vectorizer_of(model)
    raw = {"texts": "not read"}
    if isinstance(vectorizer, SequenceEncoder):
        memory = f"decay {vectorizer.decay_:g} of the last {vectorizer.n_last_}"
        raw = {"histories": f"{len(vectorizer.items_)} items, {memory}, {changed_parameters(vectorizer)}"}
    elif vectorizer is not None:
        terms = "hashed" if vectorizer.n_hash else f"{len(vectorizer.vocabulary_)} terms"
        raw = {"texts": f"{terms}, {changed_parameters(vectorizer)}"}
    return {
        "kind": f"model, {type(model).__name__}",
        "written_by": f"manyclass {open_tensors(path).metadata['package_version']}",
        "features": model.n_features_in_,
        "classes": len(classes),
        "labels": f"{classes[0]} ... {classes[-1]}",
        "labels_of_a_row": f"several, {model.n_labels_} on average" if takes_several(model) else "one",
        **raw,
        **model.storage(),
        "file_bytes": os.path.getsize(path),
        "passes": model.n_iter_,
        "running_loss": round(float(curve[-1]), 6) if len(curve) else None,
        "parameters": changed_parameters(model),
        "chosen_in_fit": listed(getattr(model, "resolved_params_", {})) or "nothing",
        "reading": ", ".join(f"{name}={value}" for name, value in load_notes(path).items()) or "not recorded",
    }


def changed_parameters(fitted: BaseEstimator) -> str:
    """Return the parameters that are not at their defaults."""
    defaults, parameters = type(fitted)().get_params(), fitted.get_params(deep=False)
    return listed({k: v for k, v in parameters.items() if repr(v) != repr(defaults[k])}) or "all at their defaults"


# Evaluation


@dataclass(kw_only=True)
class RankOptions:
    """Measures of ranks.

    Attributes
    ----------
    k : K
        numbers of labels, such as -k 5 10 20: then the measures of the first k labels are hit, P, R, MRR, nDCG, the
        share of all labels that are shown (coverage), and how rare these are, in bits (novelty)
    exclude_seen : bool
        in these measures, leave out what a row has: all items of a history (--sequences)
    unseen : {"drop", "wrong"}
        rows whose label, or next item, the model has not seen: drop them, or count them as wrong, but in the log-loss
    """

    k: tuple[int, ...] = ()
    exclude_seen: bool = False
    unseen: Literal["drop", "wrong"] = "drop"


SHORT = RankOptions()  # measures of `PLACES`


def evaluated(
    model: Classifier, data: Records, propensities: NDArray[np.float64] | None = None, ranks: RankOptions = SHORT
) -> dict[str, Any]:
    """Return what there is to measure, the rows that count and those that were dropped.

    Parameters
    ----------
    model : a fitted classifier
    data : Records
    propensities : ndarray of shape (n_classes,), optional
        Then PSP is among the results.
    ranks : RankOptions

    Raises
    ------
    ValueError
        If no row has a label that the model has seen.
    """
    Y = known_labels(model.classes_, data.labels, data.Y)
    known_rows = np.flatnonzero(np.diff(Y.indptr) > 0)
    n_unseen, are_wrong = Y.shape[0] - len(known_rows), ranks.unseen == "wrong"
    dropped = {**data.dropped, "with_unseen_label": n_unseen}
    if n_unseen and not are_wrong:
        note(f"dropped {n_unseen} rows whose label the model has not seen")
    if len(known_rows) == 0:
        label, other = model.classes_.tolist()[0], data.labels[data.Y.indices[:1]].tolist()[0]
        why = "no row has a label that the model has seen: its labels are such as"
        raise ValueError(f"{why} {label!r}, those of the data such as {other!r}")
    if lost := int((np.diff(data.Y.indptr) - np.diff(Y.indptr))[known_rows].sum()):
        dropped["unseen_labels_of_other_rows"] = lost
    with waiting(f"evaluating {len(known_rows)} rows on {len(model.classes_)} classes"):
        exclude: Any = "seen" if ranks.exclude_seen else None
        if data.seen is not None:
            exclude = known_labels(model.classes_, data.labels, data.seen)[known_rows]
        rows = rows_of(data.X, known_rows)
        measures = _measured(model, rows, Y[known_rows], propensities, ranks.k, exclude)
    n_rows = Y.shape[0] + dropped.get("next_items", 0) if are_wrong else len(known_rows)
    return {**with_wrong(measures, len(known_rows) / n_rows), "n_rows": n_rows, "dropped_rows": dropped}


def _measured(
    model: Classifier, X: Any, Y: sp.csr_array, propensities: Any, places: tuple[int, ...], exclude: Any
) -> dict[str, Any]:
    """Return the measures of rows, each of which has a label among the model's classes."""
    several, one_label = takes_several(model), int(np.diff(Y.indptr).max()) == 1
    ks = places or tuple(k for k in PLACES if k <= len(model.classes_))
    labels, scores = model.predict_top_k(X, max(ks), exclude=exclude)
    best = np.where(scores > -np.inf, find_positions(labels, model.classes_, "labels"), -1)
    losses: Mapping[str, Any] = {}
    if several or one_label:  # estimators want labels sorted within rows
        losses = model.evaluate(X, Y.sorted_indices() if several else model.classes_[first_label(Y)])
    result = {name: value for name, value in losses.items() if name in LOSSES}
    result.setdefault("error", 1 - metrics.precision_at_k(Y, best, 1))
    report = metrics.ranking_report(Y, best, ks, counts=model.class_count_)
    if one_label and not places:
        result |= {f"top{k}_error": 1 - report[f"hit_at_{k}"] for k in ks[1:]}
    result |= {name: value for name, value in report.items() if places or name.startswith(("precision", "ndcg"))}
    if propensities is not None:
        shares = metrics.psp_at_k(Y, best, propensities, ks)
        result |= {f"psp_at_{k}": float(share) for k, share in zip(ks, np.atleast_1d(shares), strict=True)}
    return result if exclude is not None else result | _calibration_errors(model, X, Y, labels, best, scores)


def _calibration_errors(
    model: Classifier, X: Any, Y: sp.csr_array, labels: NDArray[Any], best: NDArray[Any], scores: NDArray[Any]
) -> dict[str, float]:
    """Return the ECE of the best labels, and that without the model's calibration, where there are such numbers."""
    if not has_probabilities(model):
        return {}
    several, log_p = takes_several(model), scores.astype(np.float64)
    stated = {"ece": np.exp(log_p)}
    if (calibration := model.calibration_) is not None:
        if several:
            p = np.exp(calibration.uncalibrated(log_p))
        else:
            p = predictions.uncalibrated_confidence(model, X, labels[:, 0])
        stated["ece_uncalibrated"] = p.reshape(len(best), -1)
    k = best.shape[1] if several else 1
    # Rounding can leave the logarithm of a probability of one above zero.
    return {
        name: metrics.expected_calibration_error(Y, best[:, :k], np.minimum(p[:, :k], 1)) for name, p in stated.items()
    }


def coverage_of_sets(model: Classifier, rows: Records, coverage: float) -> dict[str, float]:
    """Return the share of rows whose label is in their set, of all and as a mean over classes, the share of classes of
    which more than half are not, and the mean number of labels of a set.
    """
    with waiting(f"making the sets of {rows.X.shape[0]} rows"):
        indptr, labels, _ = ranked_set(model, rows.X, coverage)
    wanted, sizes = labels_of(model, rows), np.diff(indptr)
    row_of_right = np.repeat(np.arange(len(wanted)), sizes)[labels == np.repeat(wanted, sizes)]
    is_covered, (_, classes) = np.bincount(row_of_right, minlength=len(wanted)), np.unique(wanted, return_inverse=True)
    shares = np.bincount(classes, is_covered) / np.bincount(classes)
    return {
        "set_coverage": float(is_covered.mean()),
        "class_coverage": float(shares.mean()),
        "classes_below_half": float((shares < 0.5).mean()),
        "labels_a_set": float(sizes.mean()),
    }


@dataclass
class EvaluateArguments(OnMappedModel):
    """Arguments of the command.

    Attributes
    ----------
    data : DATA
        labelled rows, in one of the forms below; - reads stdin
    json : bool
        print one JSON object instead of a table
    labels : {"auto", "first", "all"}
        which labels of a row are right: its first or all; auto: all if the model was fitted on all
    propensities : FILE
        training data, whose frequencies of labels give the weights of PSP
    """

    data: str
    _: KW_ONLY
    json: bool = False
    labels: Literal["auto", "first", "all"] = "auto"
    propensities: str | None = None
    ranks: RankOptions
    sets: SetOptions
    columns: ChoiceColumns


def evaluate(args: EvaluateArguments) -> int:
    """Evaluate a model on data, exactly, over all classes.

    The table has the log-loss in nats, the error and the shares of rows whose label is not among the first 3 and 5,
    precision (P), nDCG and propensity-scored precision (PSP, with --propensities) of the first 1, 3 and 5 labels, and
    the expected calibration error (ECE) of the most probable label. A model of several labels has the ECE of the first
    five labels, and a log-loss per label. A calibrated model also has the ECE without its calibration, which for a
    margin is that of a softmax of its scores. Other margin models have no probabilities, hence neither log-loss nor
    ECE. With --coverage the table has the share of rows whose label is in their set, and the mean number of labels of a
    set.

    Rows without a label, without a feature, or, but for --unseen wrong, with a label that the model has not seen are
    dropped; a note says how many. In the share of sets, labels that the model has not seen count as missed.

    A choice model has the log-loss and the error of a table of choices.
    """
    check_options(args)
    for k in args.ranks.k:
        check_number("k", k, low=1, integer=True)
    if choices := choice_model(args, args.columns):
        sets, _ = args.columns.read(args.data, args.reading, *choices)
        result = {**choices[0].evaluate(sets), "n_rows": sets.n_rows}
    else:
        result = _evaluate_rows(args, args.opened())
    return print_facts(result if args.json else None, as_text(result))


def _evaluate_rows(args: EvaluateArguments, model: Classifier) -> dict[str, Any]:
    """Return the measures of a model of classes."""
    expected = expected_by(model, need_label=True)
    expected = replace(expected, several=args.labels == "all" or expected.several, excludes=args.ranks.exclude_seen)
    which = args.labels if args.labels != "auto" else None
    rows = labelled_rows(args.reading, args.data, expected, which)
    weights = None
    if args.propensities:
        records = read(args.reading, args.propensities, expected)
        is_first = which == "first" or not expected.several
        Y = first_labels(records.Y) if is_first else records.Y
        weights = _propensities(model.classes_, records.labels, Y)
    args.sets.prepare(args.reading, model)
    result = evaluated(model, rows, weights, args.ranks)
    coverage = args.sets.coverage
    return result if coverage is None else result | coverage_of_sets(model, rows, coverage)


def _propensities(classes: NDArray[Any], labels: NDArray[Any], Y: sp.csr_array) -> NDArray[np.float64]:
    """Return the propensities of a model's classes by the frequencies of labels in training data; Jain et al. 2016."""
    # A class that these data lack is one of frequency 0, as the rarest there is: that of one more column.
    by_label = metrics.propensities(sp.csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], Y.shape[1] + 1)))
    places, weights = places_among(classes, labels), np.full(len(classes), by_label[-1])
    weights[places[places >= 0]] = by_label[:-1][places >= 0]
    return weights


@dataclass
class ExplainArguments(OnMappedModel):
    """Arguments of the command.

    Attributes
    ----------
    data : DATA
        rows, in one of the forms below; - reads stdin
    label : NAME
        explain the score of this label
    against : NAME
        explain the log-odds of the label to this one
    k : int
        features a row, or of the label
    """

    data: str | None = None
    _: KW_ONLY
    label: str | None = None
    against: str | None = None
    k: int = 10


def explain(args: ExplainArguments) -> int:
    """Print what drives a class, or what each feature of a row adds to the score of its label.

    With DATA each row gets a line: its most probable label, or the one of --label, and the features (words, of a model
    of texts) that add most to the label's score or take most from it, each with what it adds. "others" are the other
    features of the row together, "intercept" is the score of a row without features, and "counts" is what counts of
    classes by features add, where the model mixes some in. All of them sum to the score. Without DATA the features of
    largest weight for --label are printed, a line each.
    """
    if file_format(args.model) == CHOICE_FORMAT:
        if (args.data, args.label, args.against) != (None, None, None):
            raise ValueError(f"{args.model} is a choice model, whose coefficients are printed; give no DATA and labels")
        print(ChoiceClassifier.load(args.model).summary())
        return 0
    if args.data is None and (args.label is None or args.against is not None):
        raise ValueError("give DATA, or a --label whose features are to be printed, and that without --against")
    model = args.opened()
    asked = {"labels": args.label, "against": args.against}
    labels = {k: as_classes(model.classes_, as_labels([label])) for k, label in asked.items() if label is not None}
    if args.data is None:
        features, weights = model.top_features(labels["labels"][0], args.k)
        sys.stdout.write(as_lines(zip(features.tolist(), weights.tolist(), strict=True)))
        return 0
    X = args.features_of(model, args.data)
    with waiting(f"explaining {X.shape[0]} rows"):
        explanations = model.explain(X, args.k, **{k: label.repeat(X.shape[0]) for k, label in labels.items()})
    names = readable(as_labels([explanation.label for explanation in explanations]))
    for name, explanation in zip(names.tolist(), explanations, strict=True):
        parts = [*zip(explanation.features.tolist(), explanation.contributions.tolist(), strict=True)]
        rest = {"others": explanation.others, "intercept": explanation.intercept, "counts": explanation.counts}
        parts += [(part, value) for part, value in rest.items() if value or part == "intercept"]
        sys.stdout.write(as_lines([[name, explanation.score, *chain.from_iterable(parts)]]))
    return 0


# Predictions


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
        pairs = files.read_pairs(self.parents, "node", "parent").items()
        parents = {label_of.get(node, node): label_of.get(parent, parent) for node, parent in pairs}
        if parents.keys().isdisjoint(name_of):
            raise ValueError(NONE_KNOWN.format(self.parents, next(iter(label_of))))
        return parents


def _candidates(path: str, name_of: Mapping[Any, Any]) -> list[Any]:
    """Return the labels whose names stand in a file, one a line."""
    label_of = {str(name): label for label, name in name_of.items()}
    names = [name for line in Input.of(path).lines() if (name := line.strip(BLANKS))]
    labels = [label_of[name] for name in names if name in label_of]
    if not labels:
        raise ValueError(NONE_KNOWN.format(path, next(iter(label_of))))
    if len(labels) < len(names):
        note(f"{path}: {len(names) - len(labels)} of {len(names)} labels are none of the model's")
    return labels


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
    among : FILE
        the only labels that rows may get, such as those in stock, one a line
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
    among: str | None = None
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
    parents, least = args.ancestors.read(name_of), least_score(args.threshold, is_probability=is_probability)
    among = {} if args.among is None else {"among": as_labels(_candidates(args.among, name_of))}
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
        how: dict[str, Any] = among | ({"approximate": True, "recall": args.recall} if args.approximate else {})
        how["exclude"] = None if exclude is None else exclude[block]
        return _above(least, *model.predict_top_k(rows, min(args.k, len(name_of)), **how))

    _write(args, ask, X.shape[0] if hasattr(X, "shape") else len(X), who, name_of)


def _labels_in(data: Records, classes: NDArray[Any]) -> sp.csr_array:
    if data.Y.nnz == 0:
        raise ValueError(f"{data.name} has no labels, so that --exclude-labels has no effect")
    return known_labels(classes, data.labels, data.Y).sorted_indices()


def _predict_choices(args: PredictArguments, model: ChoiceClassifier, notes: dict[str, Any]) -> None:
    """Print the most probable alternatives of each chooser."""
    least = np.exp(least_score(args.threshold, is_probability=True))
    sets, choosers = args.columns.read(args.data, args.reading, model, notes, chosen=False)
    name_of, k = _names(args, sets.alternatives), min(args.k, sets.n_alternatives)

    def ask(block: slice) -> Answers:
        labels, p, ends = _above(least, *model.predict_top_k(sets.take(np.arange(sets.n_rows)[block]), k))
        return labels, np.log(p), ends

    who = {"chooser": readable(choosers).tolist()}
    _write(args, ask, sets.n_rows, who, name_of)


def _above(least: float, labels: NDArray[Any], scores: NDArray[np.floating[Any]]) -> Answers:
    """Return the labels whose score exceeds the least one, which that of a label that is missing, -inf, never does."""
    is_shown = scores > least
    return labels[is_shown], scores[is_shown], np.cumsum(is_shown.sum(axis=1))


def _names(args: PredictArguments, classes: NDArray[Any]) -> dict[Any, Any]:
    """Return what is printed for each class; raises ValueError where the form of output cannot hold it."""
    names = readable(classes)
    if args.reading.label_names:
        names = files.LabelNames(args.reading.label_names, distinct=False).of(classes, args.model)
    if args.output_format == "xmc" and (args.ancestors.parents or names.dtype.kind not in "iu" or names[0] < 0):
        raise ValueError("--output-format is xmc, whose labels are integers of at least 0; choose tsv or jsonl")
    return dict(zip(classes.tolist(), names.tolist(), strict=True))


def _write(args: PredictArguments, ask: Ask, n_rows: int, who: dict[str, list[Any]], name_of: dict[Any, Any]) -> None:
    """Write the answers for all rows; `who` has what stands before the labels of each."""
    form, is_set = args.output_format, args.sets.coverage is not None
    texts = [name for names in ([*name_of.values()], *who.values()) for name in names if isinstance(name, str)]
    if form == "tsv" and (broken := [text for text in texts if "\t" in text or "\n" in text]):
        raise ValueError(f"the name {broken[0]!r} holds a tab or a newline; choose --output-format jsonl")
    step = ROWS if is_set else max(1, BLOCK_CELLS // min(args.k, len(name_of)))
    bar = progress_bar(n_rows, unit="row", shown=args.progress and bool(args.output))
    with text_output(args.output) as out, contextlib.closing(bar):
        if form == "xmc":
            out.write(f"{n_rows} {max(name_of.values()) + 1}\n")
        for first in range(0, n_rows, step):
            labels, scores, ends = ask(slice(first, first + step))
            shown = [name_of.get(label, label) for label in labels.tolist()]
            values = [f"{value:.6g}" for value in (np.exp(scores) if args.probabilities else scores).tolist()]
            for row, (begin, end) in enumerate(pairwise([0, *ends.tolist()]), start=first):
                facts = {"row": row} | {title: names[row] for title, names in who.items()}
                out.write(_line(form, facts, shown[begin:end], values[begin:end]) + "\n")
            bar.update(len(ends))


def _line(form: str, facts: dict[str, Any], labels: list[Any], values: list[str]) -> str:
    """Return a line of the output, with the user or chooser of a row."""
    if form == "jsonl":
        return json.dumps(facts | {"labels": labels, "scores": [*map(float, values)]}, ensure_ascii=False)
    if form == "xmc":
        return " ".join(map("{}:{}".format, labels, values))
    return "\t".join(map(str, [*facts.values(), *chain.from_iterable(zip(labels, values, strict=True))][1:]))
