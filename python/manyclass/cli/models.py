"""The model that a command works on: its arguments, how it is loaded and described, and its evaluation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from manyclass import metrics
from manyclass.classifiers.base import LabelClassifier
from manyclass.classifiers.predictions import (
    has_probabilities,
    ranked_set,
    state_of,
    uncalibrated_confidence,
    vectorizer_of,
)
from manyclass.classifiers.saving import Classifier, load_classifier, load_notes
from manyclass.cli.data import Expected, Reading, features, labelled_rows, read
from manyclass.cli.messages import note, print_table, waiting
from manyclass.cli.options import flag, set_options
from manyclass.datasets import SequenceEncoder, first_label
from manyclass.datasets.csr import rows_of
from manyclass.datasets.records import Records, as_classes, known_labels
from manyclass.weights.tensor_file import open_tensors

K, RECALL = 5, 0.95  # labels a row, and the share of them that an index is to find, where a user does not say
PLACES = (1, 3, 5)  # k of P@k, nDCG@k and PSP@k
LOSSES = ("log_loss", "label_log_loss", "error")  # what only the model can compute
TITLES = {"precision": "P", "ndcg": "nDCG", "psp": "PSP"}
# Options that have an effect only with another one, and those that have none beside another one.
NEEDS = {"recall": "approximate", "calibration": "coverage", "min_probability": "parents"}
UNUSED = ("k", "threshold", "exclude_labels", "approximate")
WITHOUT = {"coverage": ("parents", *UNUSED), "parents": UNUSED}


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
    """

    coverage: float | None = None
    calibration: str | None = None

    def prepare(self, reading: Reading, model: Classifier) -> None:
        """Make the model ready for its sets; raises ValueError where rows are too few, or it can have none."""
        if self.coverage is None:
            return
        if self.calibration is not None:
            rows = labelled_rows(reading, self.calibration, expected_by(model, need_label=True))
            with waiting(f"calibrating sets by {rows.X.shape[0]} rows"):
                model.calibrate_sets(rows.X, labels_of(model, rows), self.coverage)
        elif all(rule.coverage != self.coverage for rule in state_of(model).sets):
            raise ValueError(
                f"--coverage is {self.coverage}, for which the model has no sets; give labelled rows by --calibration"
            )


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
    kind = "text" if classes.dtype.kind in "UT" or isinstance(classes[0], str) else str(classes.dtype)
    raw = {"texts": "not read"}
    if isinstance(vectorizer, SequenceEncoder):
        items = f"{len(vectorizer.items_)} items, decay {vectorizer.decay_:g}"
        raw = {"histories": f"{items}, {changed_parameters(vectorizer)}"}
    elif vectorizer is not None:
        terms = "hashed" if vectorizer.n_hash else f"{len(vectorizer.vocabulary_)} terms"
        raw = {"texts": f"{terms}, {changed_parameters(vectorizer)}"}
    return {
        "kind": f"model, {type(model).__name__}",
        "written_by": f"manyclass {open_tensors(path).metadata['package_version']}",
        "features": model.n_features_in_,
        "classes": len(classes),
        "labels": f"{kind}, {classes[0]} ... {classes[-1]}",
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


def listed(values: Mapping[str, Any]) -> str:
    """Return names and values as code has them."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


# Evaluation


def print_evaluation(heading: Mapping[str, str], result: Mapping[str, Any]) -> None:
    """Print a blank line, and a table of results that begins with a heading."""
    print()
    print_table({**heading, **as_text(result)})


def evaluated(
    model: Classifier, data: Records, *, propensities: NDArray[np.float64] | None = None, n_bins: int = 15
) -> dict[str, Any]:
    """Return what there is to measure, the rows that count and those that were dropped.

    Parameters
    ----------
    model : a fitted classifier
    data : Records
    propensities : ndarray of shape (n_classes,), optional
        Then PSP is among the results.
    n_bins : int
        Of the expected calibration error.

    Raises
    ------
    ValueError
        If no row has a label that the model has seen.
    """
    Y = known_labels(model.classes_, data.labels, data.Y)
    known_rows = np.flatnonzero(np.diff(Y.indptr) > 0)
    dropped = {**data.dropped, "with_unseen_label": Y.shape[0] - len(known_rows)}
    if dropped["with_unseen_label"]:
        note(f"dropped {dropped['with_unseen_label']} rows whose label the model has not seen")
    if len(known_rows) == 0:
        label, other = model.classes_.tolist()[0], data.labels[data.Y.indices[:1]].tolist()[0]
        why = "no row has a label that the model has seen: its labels are such as"
        raise ValueError(f"{why} {label!r}, those of the data such as {other!r}")
    if lost := int((np.diff(data.Y.indptr) - np.diff(Y.indptr))[known_rows].sum()):
        dropped["unseen_labels_of_other_rows"] = lost
    with waiting(f"evaluating {len(known_rows)} rows on {len(model.classes_)} classes"):
        measures = _measured(model, rows_of(data.X, known_rows), Y[known_rows], propensities, n_bins)
    return {**measures, "n_rows": len(known_rows), "dropped_rows": dropped}


def _measured(
    model: Classifier, X: Any, Y: sp.csr_array, propensities: NDArray[np.float64] | None, n_bins: int
) -> dict[str, Any]:
    """Return the measures of rows, each of which has a label among the model's classes."""
    several, one_label = takes_several(model), int(np.diff(Y.indptr).max()) == 1
    ks = tuple(k for k in PLACES if k <= len(model.classes_))
    best, scores = model.predict_top_k(X, ks[-1])
    places = np.searchsorted(model.classes_, best)
    losses: Mapping[str, Any] = {}
    if several or one_label:  # estimators want labels sorted within rows
        losses = model.evaluate(X, Y.sorted_indices() if several else model.classes_[first_label(Y)])
    result = {name: value for name, value in losses.items() if name in LOSSES}
    result.setdefault("error", 1 - metrics.precision_at_k(Y, places, 1))
    if one_label:
        shares = np.atleast_1d(metrics.top_k_accuracy(first_label(Y), places, ks))
        result |= {f"top{k}_error": 1 - float(share) for k, share in zip(ks[1:], shares[1:], strict=True)}
    measures = {"precision": metrics.precision_at_k(Y, places, ks), "ndcg": metrics.ndcg_at_k(Y, places, ks)}
    if propensities is not None:
        measures["psp"] = metrics.psp_at_k(Y, places, propensities, ks)
    for name, values in measures.items():
        result |= {f"{name}_at_{k}": float(v) for k, v in zip(ks, np.atleast_1d(values), strict=True)}
    if has_probabilities(model):
        k, log_p = ks[-1] if several else 1, scores.astype(np.float64)
        stated = {"ece": np.exp(log_p)}
        if (calibration := model.calibration_) is not None:
            first = best[:, 0]
            p = np.exp(calibration.uncalibrated(log_p)) if several else uncalibrated_confidence(model, X, first)
            stated["ece_uncalibrated"] = p.reshape(len(best), -1)
        for name, p in stated.items():  # rounding can leave the logarithm of a probability of one above zero
            shown = np.minimum(p[:, :k], 1)
            result[name] = metrics.expected_calibration_error(Y, places[:, :k], shown, n_bins)
    return result


def coverage_of_sets(model: Classifier, rows: Records, coverage: float) -> dict[str, float]:
    """Return the share of rows whose label is in their set, and the mean number of labels of a set."""
    with waiting(f"making the sets of {rows.X.shape[0]} rows"):
        indptr, labels, _ = ranked_set(model, rows.X, coverage)
    right = labels == np.repeat(labels_of(model, rows), np.diff(indptr))
    return {"set_coverage": float(right.sum() / rows.X.shape[0]), "labels_a_set": float(np.diff(indptr).mean())}


def as_text(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the results as rows of a table."""
    shown: dict[str, str] = {}
    for name, value in result.items():
        measure, separator, k = name.partition("_at_")
        if name == "n_rows":
            shown["rows"] = str(value)
        elif name == "dropped_rows":
            shown["dropped rows"] = ", ".join(f"{count} {lack.replace('_', ' ')}" for lack, count in value.items())
        else:
            unit = " nats" if name.endswith("log_loss") else ""
            shown[f"{TITLES[measure]}@{k}" if separator else name] = f"{value:.6f}{unit}"
    return shown
