"""A model of the subjects of documents: an estimator made from text parameters, and scores between 0 and 1."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state

from manyclass.checks import check_choice
from manyclass.classifiers.margin import MarginClassifier
from manyclass.classifiers.predictions import with_classes
from manyclass.classifiers.saving import load_classifier, load_notes, save_model
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.solvers import SOLVERS
from manyclass.weights.arrays import Doubles, Ids

Estimator = SoftmaxClassifier | MarginClassifier
ESTIMATORS: dict[str, type[Any]] = {"margin": MarginClassifier, "softmax": SoftmaxClassifier}

# What a configuration may set, and of what type; "auto" is allowed wherever the estimator has it.
PARAMETERS: dict[str, type] = {
    **dict.fromkeys(("estimator", "model", "solver", "sampler"), str),
    **dict.fromkeys(("dim", "n_negatives", "max_iter", "random_state"), int),
    **dict.fromkeys(("decay", "learning_rate", "smoothing"), float),
}

_EMBEDDED = {"model": "embedding", "dim": 512, "solver": "adagrad", "decay": 0.5, "max_iter": 4}
# The best of a few by F1@5 on 5,000 held-out titles of yso-en (bench/decisions.md).
DEFAULTS: dict[str, dict[str, Any]] = {
    "margin": {**_EMBEDDED, "sampler": "uniform", "n_negatives": 2048, "smoothing": 5.0},
    "softmax": {**_EMBEDDED, "sampler": "frequency", "n_negatives": 1024},
}
# Documents that the scale of scores is fitted on, and how many of the best subjects of each: 20,000 scores determine
# two numbers to some per cent.
MOST_HELD = 1000
RANKS = 20
LEAST_SLOPE = 0.1  # few documents may have a slope below 0, which would turn the ranks around

# A default goes with the choice that it was found for: who sets another model is given no dim that it would refuse.
GOES_WITH = {"dim": "model", "decay": "solver", "n_negatives": "sampler"}


def estimator_from(params: Mapping[str, Any], n_jobs: int) -> Estimator:
    """Make the estimator that a configuration describes.

    Parameters
    ----------
    params : mapping of str to str or number
        Of its entries those in `PARAMETERS` are used; ones that are absent have the values of `DEFAULTS`.
    n_jobs : int
        Threads; -1 all cores.

    Returns
    -------
    SoftmaxClassifier or MarginClassifier
        Not fitted.

    Raises
    ------
    ValueError or TypeError
        For a parameter that is out of its range, or that the estimator or its solver does not have.
    """
    chosen = {name: _converted(name, params[name]) for name in PARAMETERS if name in params}
    kind = chosen.pop("estimator", "margin")
    check_choice("estimator", kind, tuple(ESTIMATORS))
    defaults = {name: value for name, value in DEFAULTS[kind].items() if GOES_WITH.get(name) not in chosen}
    settings = {**defaults, **chosen}
    decay = settings.pop("decay", None)
    for name in settings.keys() - ESTIMATORS[kind]().get_params(deep=False).keys():
        raise ValueError(f"{name} is {settings[name]!r}, which estimator={kind!r} does not have; leave it out")
    if decay is not None:
        with_decay = [name for name, part in SOLVERS.items() if any(s.name == "decay" for s in part.settings)]
        check_choice("solver", settings["solver"], with_decay)
        settings["solver"] = SOLVERS[settings["solver"]](decay=decay)
    estimator: Estimator = ESTIMATORS[kind](**settings, n_jobs=n_jobs)
    estimator.check_parameters()
    return estimator


def _converted(name: str, value: Any) -> Any:
    """Return a parameter in its type; projects.cfg has text, TOML has numbers as well."""
    kind, text = PARAMETERS[name], str(value).strip()
    if kind is str or (text == "auto" and name != "random_state"):
        return text
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}; it must be {'an integer' if kind is int else 'a number'}") from None


@dataclass(frozen=True)
class SubjectModel:
    r"""A fitted estimator, and the logistic function that makes probabilities of its scores.

    A subject's score is :math:`1 / (1 + e^{-(a z + b)})`, the estimated probability that the document has the subject,
    whichever others it has; so scores sum to an expected number of subjects, not to one. z is the estimator's score
    (softmax: the log-probability), and a and b are fitted on documents that the estimator has not seen (Platt's
    scaling, as in scikit-learn's `CalibratedClassifierCV`).

    Attributes
    ----------
    estimator : SoftmaxClassifier or MarginClassifier
        Its `classes_` are the numbers of the subjects that occur in training.
    slope : float
        a, above 0.
    offset : float
        b.
    """

    estimator: Estimator
    slope: float
    offset: float

    @classmethod
    def fit(cls, estimator: Estimator, X: sp.csr_array, Y: sp.csr_array) -> Self:
        """Train an estimator on most documents, and the scale of its scores on the others.

        Parameters
        ----------
        estimator : SoftmaxClassifier or MarginClassifier
            Not fitted.
        X : csr_array of shape (n_documents, n_features)
        Y : csr_array of shape (n_documents, n_subjects)
            Ones where a document has a subject. Documents without features or without subjects are left out.

        Returns
        -------
        SubjectModel

        Raises
        ------
        ValueError
            If fewer than two subjects remain, or a parameter of the estimator is out of its range or without effect.
        """
        X, Y = _usable(X, Y)
        is_held_out, subjects = held_out(Y, estimator.random_state), np.unique(Y.indices)
        if len(subjects) < 2:
            raise ValueError(f"the documents have {len(subjects)} subjects beside words; at least two are needed")
        estimator.fit(X[~is_held_out], Y[~is_held_out][:, subjects])
        with_classes(estimator, subjects)
        unseen = is_held_out if is_held_out.any() else ~is_held_out
        return cls(estimator, *_logistic(estimator, X[unseen], Y[unseen]))

    def learn(self, X: sp.csr_array, Y: sp.csr_array) -> Self:
        """Train the estimator on with further documents; subjects that it has not seen become classes.

        The scale of the scores stays, since these documents are all trained on.

        Parameters
        ----------
        X : csr_array, as in `fit`
        Y : csr_array, as in `fit`

        Returns
        -------
        SubjectModel
            Itself; raises ValueError, and is as it was, if no document has features and subjects.
        """
        X, Y = _usable(X, Y)
        if not X.shape[0]:
            raise ValueError("no document has words that the model knows, and subjects")
        subjects = np.union1d(self.estimator.classes_, Y.indices)
        self.estimator.partial_fit(X, Y[:, subjects], classes=subjects)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which `manyclass.load` reads too; raises as `SoftmaxClassifier.save` does."""
        save_model(self.estimator, path, {"slope": self.slope, "offset": self.offset})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Map the file of a model, for predictions with one thread.

        The program that asks has threads and processes of its own.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        SubjectModel

        Raises
        ------
        ValueError
            If the file is not one that `save` has written.
        OSError
            If it cannot be read.
        """
        notes = load_notes(path)
        if not {"slope", "offset"} <= notes.keys():
            raise ValueError(f"{os.fspath(path)} has a model without the scale of its scores; train it anew")
        return cls(load_classifier(path, mmap=True).set_params(n_jobs=1), float(notes["slope"]), float(notes["offset"]))

    def suggest(self, X: sp.csr_array, limit: int) -> tuple[Ids, Doubles]:
        """Return the best subjects of each document with their scores, best first.

        Parameters
        ----------
        X : csr_array of shape (n_documents, n_features)
        limit : int
            How many, at least 1; fewer where the model has fewer.

        Returns
        -------
        subjects : ndarray of shape (n_documents, min(limit, n_classes)), int
            Numbers of subjects, columns of the Y of `fit`.
        scores : ndarray of the same shape, float64
            In ]0, 1[.
        """
        subjects, z = self.estimator.predict_top_k(X, min(limit, len(self.estimator.classes_)))
        return subjects, expit(self.slope * z.astype(np.float64) + self.offset)


def _usable(X: sp.csr_array, Y: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the documents with features and subjects."""
    rows = np.flatnonzero((np.diff(X.indptr) > 0) & (np.diff(Y.indptr) > 0))
    return X[rows], Y[rows]


def write_together(folder: str, files: Mapping[str, Callable[[str], Any]]) -> None:
    """Write files beside each other, and put them in the places of older ones only once all of them are written.

    Parameters
    ----------
    folder : str
    files : mapping of str to callable
        What writes the file of a name to a path. Where one raises, all older files stay as they were.
    """
    with tempfile.TemporaryDirectory(dir=folder) as new:
        for name, write in files.items():
            write(os.path.join(new, name))
        for name in files:
            os.replace(os.path.join(new, name), os.path.join(folder, name))


def held_out(Y: sp.csr_array, random_state: Any) -> NDArray[np.bool_]:
    """Choose the documents for the scale of scores: a tenth, at most 1,000, of which training needs none.

    Parameters
    ----------
    Y : csr_array of shape (n_documents, n_subjects)
    random_state : int, RandomState instance or None

    Returns
    -------
    ndarray of shape (n_documents,), bool
        Each subject is left with a document that is not held out.
    """
    chosen = check_random_state(random_state).permutation(Y.shape[0])[: min(MOST_HELD, Y.shape[0] // 10)]
    is_chosen = np.isin(np.arange(Y.shape[0]), chosen)
    lost = np.setdiff1d(Y.indices, Y[~is_chosen].indices)  # subjects of held-out documents alone
    keeps: NDArray[np.bool_] = Y[:, lost].count_nonzero(axis=1) == 0
    return is_chosen & keeps


def _logistic(estimator: Estimator, X: sp.csr_array, Y: sp.csr_array) -> tuple[float, float]:
    """Slope and offset of the logistic regression of "is a subject of it" on the scores of the best subjects.

    Platt's targets, (hits + 1) / (hits + 2) and 1 / (misses + 2), keep both finite where all are hits, or none.
    """
    best, z = estimator.predict_top_k(X, min(RANKS, len(estimator.classes_)))
    cells: Any = Y[np.arange(len(best))[:, np.newaxis], best]
    is_hit = cells.toarray().ravel() > 0
    target = np.where(is_hit, (is_hit.sum() + 1) / (is_hit.sum() + 2), 1 / ((~is_hit).sum() + 2))
    scores_twice = np.tile(z.ravel().astype(np.float64), 2)[:, np.newaxis]
    side = np.repeat([1, 0], len(target))
    fitted = LogisticRegression(C=np.inf).fit(scores_twice, side, sample_weight=np.concatenate([target, 1 - target]))
    return max(float(fitted.coef_[0, 0]), LEAST_SLOPE), float(fitted.intercept_[0])
