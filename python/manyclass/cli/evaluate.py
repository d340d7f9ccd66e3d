"""Evaluate a model on data, exactly, over all classes.

Told are the log-loss in nats, the error and the shares of rows whose label is not among the first 3 and 5, precision
(P), nDCG and propensity-scored precision (PSP, with --propensities) of the first 1, 3 and 5 labels, and the expected
calibration error (ECE) of the most probable label; of a model of several labels that of the first five (ECE@5), and the
log-loss per label. A calibrated model has the ECE without its calibration, too; of a margin, that of a softmax of its
scores. Other margin models have no probabilities, hence neither log-loss nor ECE.

Rows without a label, without a feature, or with a label that the model has not seen are dropped, and it is said how
many.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import metrics
from manyclass.classifiers.base import LinearClassifier, uncalibrated_confidence
from manyclass.classifiers.saving import load, load_notes
from manyclass.cli.data import (
    DATA,
    Expected,
    Labelled,
    add_data_options,
    among,
    apply_notes,
    features,
    known_labels,
    labelled,
    read,
    rows_of,
)
from manyclass.cli.messages import note, print_table, waiting
from manyclass.datasets import first_label

PLACES = (1, 3, 5)  # k of P@k and its kin
LOSSES = ("log_loss", "label_log_loss", "error")  # of several labels, what only the model can tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument(
        "--labels",
        choices=("auto", "first", "all"),
        default="auto",
        help="which labels of a row are right: its first or all; auto: all if the model was fitted on all",
    )
    parser.add_argument(
        "--propensities", metavar="FILE", help="training data, by whose frequencies of labels PSP weighs them"
    )
    parser.add_argument("--n-bins", type=int, default=15, help="bins of the expected calibration error")
    add_data_options(parser, of_model=True)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare a model and data for it."""
    parser.add_argument("model", metavar="MODEL", help="model file of `manyclass fit` or an estimator's save")
    parser.add_argument("data", metavar="DATA", help=DATA)
    parser.add_argument("--mmap", action="store_true", help="map the weights instead of reading them")
    parser.add_argument("--n-jobs", type=int, default=-1, help="threads; -1: all cores")


def load_model(args: argparse.Namespace) -> Any:
    """Load the model and take the reading options from it that were not given."""
    with waiting(f"loading {args.model}"):
        model = load(args.model, mmap=args.mmap)
    apply_notes(args, load_notes(args.model))
    model.n_jobs = args.n_jobs
    return model


def run(args: argparse.Namespace) -> int:
    """Evaluate, tell."""
    model = load_model(args)
    several = bool(getattr(model, "multilabel_", False))
    which = args.labels if args.labels != "auto" else "all" if several else "first"
    expected = Expected.by(model, need_label=True)
    data = read(args, args.data, expected)
    rows = labelled(data, features(args, data.records.X, expected.vectorizer), which)
    weights = _propensities(args, model, expected, which) if args.propensities else None
    result = evaluated(model, rows, propensities=weights, n_bins=args.n_bins)
    if args.json:
        print(json.dumps(result))
    else:
        print_table(as_text(result))
    return 0


def _propensities(args: argparse.Namespace, model: Any, expected: Expected, which: str) -> NDArray[np.float64]:
    """Propensities of the model's classes by their frequencies in training data; Jain et al. 2016."""
    records = read(args, args.propensities, expected).records
    Y = records.Y
    if which != "all":
        y = first_label(Y)
        y = y[y >= 0]
        Y = sp.csr_array((np.ones(len(y)), y, np.arange(len(y) + 1)), shape=(len(y), Y.shape[1]))
    by_label = metrics.propensities(Y)
    # A class that these data lack is one of frequency 0, as the rarest there is.
    unseen = metrics.propensities(sp.csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], Y.shape[1] + 1)))[-1]
    found = among(model.classes_, records.labels)
    weights = np.full(len(model.classes_), unseen)
    weights[found[found >= 0]] = by_label[found >= 0]
    return weights


@dataclass(frozen=True)
class _Rows:
    """Rows with a label that the model knows, labels as positions among its classes, and what was dropped."""

    X: Any
    Y: sp.csr_array
    dropped: dict[str, int]

    @classmethod
    def of(cls, model: LinearClassifier, data: Labelled) -> _Rows:
        Y = known_labels(model.classes_, data.labels, data.Y)
        kept = np.diff(Y.indptr) > 0
        dropped = {**data.dropped, "with_unseen_label": int(np.sum(~kept))}
        if dropped["with_unseen_label"]:
            note(f"dropped {dropped['with_unseen_label']} rows whose label the model has not seen")
        if not kept.any():
            raise ValueError(_nothing_known(model, data))
        lost = int((np.diff(data.Y.indptr) - np.diff(Y.indptr))[kept].sum())
        if lost:
            dropped["unseen_labels_of_other_rows"] = lost
        if kept.all():
            return cls(data.X, Y, dropped)
        rows = np.flatnonzero(kept)
        return cls(rows_of(data.X, rows), Y[rows], dropped)


def _nothing_known(model: LinearClassifier, data: Labelled) -> str:
    text = "no row has a label that the model has seen"
    if (model.classes_.dtype.kind in "OU") != (data.labels.dtype.kind in "OU"):
        own, other = model.classes_[:1].tolist()[0], data.labels[:1].tolist()[0]
        text += f": its labels are such as {own!r}, those of the data such as {other!r}"
        text += "; name them by --label-names" if data.labels.dtype.kind in "iu" else ""
    return text


def evaluated(
    model: Any, data: Labelled, *, propensities: NDArray[np.float64] | None = None, n_bins: int = 15
) -> dict[str, Any]:
    """Return what there is to measure, the rows that count and those that were dropped.

    Parameters
    ----------
    model : a fitted classifier
    data : Labelled
    propensities : ndarray of shape (n_classes,), optional
        Then PSP is among the results.
    n_bins : int
        Of the expected calibration error.

    Raises
    ------
    ValueError
        If no row has a label that the model has seen.
    """
    rows = _Rows.of(model, data)
    with waiting(f"evaluating {rows.Y.shape[0]} rows on {len(model.classes_)} classes"):
        return _measured(model, rows, propensities, n_bins)


def _measured(model: Any, rows: _Rows, propensities: NDArray[np.float64] | None, n_bins: int) -> dict[str, Any]:
    several = bool(getattr(model, "multilabel_", False))
    one_label = int(np.diff(rows.Y.indptr).max()) == 1
    ks = tuple(k for k in PLACES if k <= len(model.classes_))
    best, scores = model.predict_top_k(rows.X, ks[-1])
    found = np.searchsorted(model.classes_, best)
    result: dict[str, Any] = {}
    if several:
        result = dict(model.evaluate(rows.X, _ones(rows.Y)))
        result = {name: value for name, value in result.items() if name in LOSSES}
    elif one_label:
        result = dict(model.evaluate(rows.X, model.classes_[first_label(rows.Y)]))
        del result["n_unseen"]  # none, as rows are what remains
    result.setdefault("error", 1 - metrics.precision_at_k(rows.Y, found, 1))
    if one_label:
        shares = metrics.top_k_accuracy(first_label(rows.Y), found, ks)
        result |= {
            f"top{k}_error": 1 - float(share) for k, share in zip(ks, np.atleast_1d(shares), strict=True) if k > 1
        }
    for name, value in (
        ("precision", metrics.precision_at_k(rows.Y, found, ks)),
        ("ndcg", metrics.ndcg_at_k(rows.Y, found, ks)),
        ("psp", None if propensities is None else metrics.psp_at_k(rows.Y, found, propensities, ks)),
    ):
        if value is not None:
            result |= {f"{name}_at_{k}": float(v) for k, v in zip(ks, np.atleast_1d(value), strict=True)}
    if hasattr(model, "predict_proba"):
        result |= _calibration_errors(model, rows, found, scores.astype(np.float64), n_bins)
    return {**result, "n_rows": int(rows.Y.shape[0]), "dropped_rows": rows.dropped}


def _calibration_errors(
    model: Any, rows: _Rows, found: NDArray[Any], log_p: NDArray[np.float64], n_bins: int
) -> dict[str, float]:
    """ECE of the first label, of several labels of the first five; and without the model's calibration, if any."""
    calibration, several = model.calibration_, bool(getattr(model, "multilabel_", False))
    k = found.shape[1] if several else 1
    stated = {"ece": np.exp(log_p[:, :k])}
    if calibration is not None and several:
        stated["ece_uncalibrated"] = np.exp(calibration.uncalibrated(log_p))
    elif calibration is not None:
        stated["ece_uncalibrated"] = uncalibrated_confidence(model, rows.X, model.classes_[found[:, 0]])[:, np.newaxis]
    # Rounding can leave the logarithm of a probability of one above zero.
    return {
        name: metrics.expected_calibration_error(rows.Y, found[:, :k], np.minimum(p, 1), n_bins)
        for name, p in stated.items()
    }


def _ones(Y: sp.csr_array) -> sp.csr_array:
    """The same indicator in the order that estimators want: sorted within rows."""
    Z = Y.copy()
    Z.sort_indices()
    return Z


def as_text(result: Mapping[str, Any]) -> dict[str, str]:
    """The results as rows of a table."""
    shown: dict[str, str] = {}
    titles = {"precision": "P", "ndcg": "nDCG", "psp": "PSP"}
    for name, value in result.items():
        measure, at, k = name.partition("_at_")
        if name.endswith("log_loss"):
            shown[name] = f"{value:.6f} nats"
        elif name == "n_rows":
            shown["rows"] = str(value)
        elif name == "dropped_rows":
            shown["dropped rows"] = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in value.items())
        else:
            shown[f"{titles[measure]}@{k}" if at else name] = f"{value:.6f}"
    return shown
