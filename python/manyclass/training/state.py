"""What a training takes and gives: points, and the state of a model. All of it is frozen.

A fit begins a state and trains it, `partial_fit` trains the one that is there, a model file is one written to disk, and
growth, forgetting, calibration and means of several runs are functions from states to states. An estimator holds one
state; whatever fails leaves it with the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.blending.calibration import Calibration
from manyclass.checks import as_csr, check_number, core_data
from manyclass.labels import find_positions
from manyclass.training.plan import GroupIds, Labels, join_groups
from manyclass.training.squares import Squares
from manyclass.training.weighting import mean_of, normalized, some_of, taken
from manyclass.weights.arrays import NO_DOUBLES, Doubles, Floats, Matrix
from manyclass.weights.hashing import FeatureHash
from manyclass.weights.weights import FeatureScaling, Weights

Starts = Mapping[Any, ArrayLike]  # the weights at which new classes begin, by label


@dataclass(frozen=True)
class Features:
    """How many features a fit saw, and their names where X has some."""

    n: int
    names: NDArray[Any] | None

    @classmethod
    def of(cls, checked: Any) -> Features:
        """Return what scikit-learn's check has noted on an estimator."""
        return cls(int(checked.n_features_in_), getattr(checked, "feature_names_in_", None))

    def wider(self, other: Features) -> Features:
        """Return those that are more, of features that are hashed by their places; a ValueError for other names."""
        if self.names is not None and other.names is not None:
            n = min(self.n, other.n)
            differ = np.flatnonzero(self.names[:n] != other.names[:n])
            if len(differ):
                j = differ[0]
                raise ValueError(
                    f"feature {j} is {other.names[j]!r}; the model has {self.names[j]!r} there, and its features "
                    "are hashed by their places: new ones must come behind the others"
                )
        return other if other.n > self.n else self


@dataclass(frozen=True)
class History:
    """How much a model has seen.

    Attributes
    ----------
    n_points : int
        Rows that it was trained on, each counted once a call.
    n_counting : float
        What they count now that old ones have faded; without half_life, as many.
    n_fit : int
        The rows of its last `fit`; 0 of a stream that began without one.
    scaling : FeatureScaling or None
        The scaling of the features which training sees, where it scales them.
    n_labels : float
        Labels a row in the first training, by which a hybrid has the loss of its embeddings; 0: unknown.
    """

    n_points: int = 0
    n_fit: int = 0
    n_counting: float = 0.0
    scaling: FeatureScaling | None = None
    n_labels: float = 0.0

    def without_scaling(self) -> History:
        """Return it for a model that does not go on."""
        return replace(self, scaling=None)

    def encoded(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what a file holds of it: what JSON has, and arrays; a scale that all features share is a number."""
        numbers = ("n_points", "n_fit", "n_counting", "n_labels")
        described: dict[str, Any] = {name: getattr(self, name) for name in numbers}
        if self.scaling is None:
            return described, {}
        shift, scale = self.scaling.shift, self.scaling.scale
        if not shift.any() and np.all(scale == scale[0]) and np.isfinite(scale[0]):
            return {**described, "scale": float(scale[0])}, {}
        return described, {"scaling.shift": shift, "scaling.scale": scale}

    @classmethod
    def decoded(cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_features: int) -> History:
        """Return what `encoded` was; of a file without it, which is an older one, that nothing was seen."""
        numbers = {name: described.get(name, 0) for name in ("n_points", "n_fit")}
        for name, value in numbers.items():
            check_number(name, value, low=0, integer=True)
        reals = {
            "n_counting": described.get("n_counting", numbers["n_points"]),
            "n_labels": described.get("n_labels", 0.0),
        }
        for name, value in reals.items():
            check_number(name, value, low=0)
            reals[name] = float(value)
        scaling = None
        if "scale" in described:
            check_number("scale", described["scale"], low=0, open_low=True)
            shared = (np.broadcast_to(np.float64(value), n_features) for value in (0.0, described["scale"]))
            scaling = FeatureScaling(*shared)
        elif "scaling.scale" in arrays:
            scaling = FeatureScaling(arrays["scaling.shift"], arrays["scaling.scale"])
        return cls(**numbers, **reals, scaling=scaling)

    @classmethod
    def of_fit(cls, n_points: int, scaling: FeatureScaling | None = None, n_labels: float = 0.0) -> History:
        """Return the history of a model after a fit to this number of rows."""
        return cls(n_points, n_points, float(n_points), scaling, n_labels)

    def faded(self, factor: float) -> History:
        """Return it with rows seen so far counting so much of what they did."""
        return replace(self, n_counting=self.n_counting * factor)

    def gone_on(self, n_points: int, scaling: FeatureScaling | None, n_labels: float) -> History:
        """Return the history after a call with more rows; the number of labels is kept from the first training."""
        return replace(
            self,
            n_points=self.n_points + n_points,
            n_counting=self.n_counting + n_points,
            scaling=scaling,
            n_labels=self.n_labels or n_labels,
        )


@dataclass(frozen=True)
class Points:
    """The checked data of a training.

    Attributes
    ----------
    x : csr_array or ndarray of shape (n_samples, n_features), float32
    labels : Labels
        Positions among `classes`.
    classes : ndarray of shape (n_classes,)
    features : Features
    several : bool
        Whether y was an indicator matrix.
    sparse_labels : bool
        Whether it was a sparse one.
    weights : ndarray of shape (n_samples,), float64, or None
        The weights of the points, positive with mean 1, or as they are in a part of a stream; None where all are equal.
    rows : ndarray of int or None
        Which rows of X the points are; None: all.
    mean_weight : float
        What the weights were divided by.
    n_given : int
        Rows of X.
    hashing : FeatureHash or None
        What x was hashed by.
    column_labels : ndarray of shape (n_features,) or None
        Labels or names of classes that columns may be.
    n_texts : int
        How many points, the last ones, are texts of classes, which tell no scales.
    groups : ndarray of shape (n_samples,), int64, or None
        The number of each point's group: points of one group are held out together.
    """

    x: Matrix
    labels: Labels
    classes: NDArray[Any]
    features: Features
    several: bool = False
    sparse_labels: bool = False
    weights: Doubles | None = None
    rows: NDArray[np.int64] | None = None
    mean_weight: float = 1.0
    n_given: int = 0
    hashing: FeatureHash | None = None
    column_labels: NDArray[Any] | None = None
    n_texts: int = 0
    groups: GroupIds | None = None

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @property
    def feature_squares(self) -> Doubles:
        """Sums of the features' squares, and the number of points, see `Squares.features`: (n_features + 1,)."""
        weights = NO_DOUBLES if self.weights is None else self.weights
        return _core.squares_of_features(core_data(self.x), self.x.shape[1], weights)

    @property
    def n_bytes(self) -> int:
        """Bytes of the values of x, and of the places of sparse ones."""
        if isinstance(self.x, np.ndarray):
            return self.x.nbytes
        return int(self.x.data.nbytes + self.x.indices.nbytes + self.x.indptr.nbytes)

    def some(self, rows: NDArray[np.int64]) -> Points:
        """Return some of the points, with increasing numbers where some are texts of classes."""
        return replace(
            self,
            x=self.x[rows],
            labels=self.labels.of(rows),
            weights=some_of(self.weights, rows),
            rows=rows if self.rows is None else self.rows[rows],
            n_texts=int(np.sum(rows >= len(self.labels) - self.n_texts)) if self.n_texts else 0,
            groups=taken(self.groups, rows),
        )

    def spread(self, most: int) -> Points:
        """Return points up to a number of them, from the first to the last: files may be sorted."""
        n = len(self.labels)
        return self.some(np.linspace(0, n - 1, min(n, most)).astype(np.int64))

    @classmethod
    def joined(cls, parts: tuple[Points, ...]) -> Points:
        """Return the points of several calls, the last of which knows all classes and features."""
        last = parts[-1]
        n_features, classes = last.x.shape[1], last.classes
        ids = [find_positions(part.classes, classes, "y")[part.labels.ids] for part in parts]
        n_labels = np.concatenate([np.diff(part.labels.indptr) for part in parts])
        weights = None
        if any(part.weights is not None for part in parts):
            weights = np.concatenate(
                [np.ones(len(part.labels)) if part.weights is None else part.weights for part in parts]
            )
        return replace(
            last,
            x=_stacked([part.x for part in parts], n_features),
            labels=Labels(np.append(0, np.cumsum(n_labels)), np.concatenate(ids).astype(np.int32)),
            weights=weights,
            rows=None,
            n_given=len(n_labels),
            groups=join_groups([part.groups for part in parts]),
        )

    @property
    def as_of_fit(self) -> Points:
        """Return them with weights of mean 1."""
        return replace(self, weights=normalized(self.weights), mean_weight=mean_of(self.weights))


def _stacked(parts: list[Matrix], n_features: int) -> Matrix:
    """Return rows below each other, features that some do not have being 0; sparse ones if some are sparse."""
    dense = [part for part in parts if isinstance(part, np.ndarray)]
    if len(dense) == len(parts):
        return np.concatenate([np.pad(part, ((0, 0), (0, n_features - part.shape[1]))) for part in dense])
    wide = [as_csr(part) for part in parts]
    wide = [sp.csr_array((x.data, x.indices, x.indptr), shape=(x.shape[0], n_features)) for x in wide]
    return wide[0] if len(wide) == 1 else as_csr(sp.vstack(wide, format="csr"))


@dataclass(frozen=True)
class FitReport:
    """How a model came to be, beside what it is.

    Attributes
    ----------
    params : mapping of str to object
        What parameters that were left open became.
    rules : mapping of str to str
        The recipe, and what each open parameter became, in words.
    report : list of dict
        A line for each trial.
    alpha_path : mapping of float to float
        Held-out log-losses by ridge.
    rates : mapping of float to float
        Held-out log-losses by learning rate.
    validation_curve : ndarray of shape (n_passes,), float64
        The log-losses on held-out points after each pass, of early stopping.
    best_iter : int
        The pass, from 1, whose weights were kept.
    makes_runs : bool
        Whether the plan made the runs that n_models asks for.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    report: list[dict[str, Any]] = field(default_factory=list)
    alpha_path: Mapping[float, float] = field(default_factory=dict)
    rates: Mapping[float, float] = field(default_factory=dict)
    validation_curve: Doubles = field(default_factory=lambda: np.zeros(0))
    best_iter: int = 0
    makes_runs: bool = False


@dataclass(frozen=True)
class SetRule:
    """Which labels are in the set of a row; see `manyclass.classifiers.label_sets`.

    Attributes
    ----------
    coverage : float
        How probable the right label is in the set.
    penalty : float
        What the score of a label has for each rank beyond the free one.
    free_rank : int
        The last rank without a penalty.
    threshold : float
        The largest score in a set.
    """

    coverage: float
    penalty: float
    free_rank: int
    threshold: float

    def __post_init__(self) -> None:
        """Check what a file may have."""
        check_number("coverage", self.coverage, low=0, open_low=True, high=1)
        check_number("penalty", self.penalty, low=0)
        check_number("free_rank", self.free_rank, low=1, integer=True)
        if not self.threshold >= 0:
            raise ValueError(f"threshold is {self.threshold!r}; it must be at least 0")


@dataclass(frozen=True)
class State:
    """A model, with all that a training needs to go on from it.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Distinct labels, sorted.
    counts : ndarray of shape (n_classes,), float64
        Rows of each so far, faded where there is a half-life.
    features : Features
    weights : Weights
    history : History
        Rows seen, and the scaling of features that training sees.
    curve : ndarray of shape (n_passes,), float64
        The loss of each pass.
    squares : Squares or None
        Adagrad's sums.
    variances : ndarray or None
        The variances of a Gaussian posterior, stored as its means are.
    hashing : FeatureHash or None
        The hash of the features, where W would not fit into memory.
    calibration : Calibration or None
    several : bool
        Whether rows have several labels.
    sparse_labels : bool
        Whether their indicator matrix was sparse.
    n_labels : int
        The rounded mean number of labels a row.
    threshold : float or None
        The probability, or score, above which labels are predicted; None: `n_labels` are.
    fit_report : FitReport
        What the fit chose and tried.
    encoder : object or None
        What makes rows of raw inputs, such as texts, where the model was fitted on those.
    sets : tuple of SetRule
        Of each coverage that was asked for, which labels are in the set of a row.
    calls : tuple of Points
        The rows of a stream so far, by call, where the model is fitted to them anew as they become more.
    """

    classes: NDArray[Any]
    counts: Doubles
    features: Features
    weights: Weights
    history: History = field(default_factory=History)
    curve: Doubles = field(default_factory=lambda: np.zeros(0))
    squares: Squares | None = None
    variances: Floats | None = None
    hashing: FeatureHash | None = None
    calibration: Calibration | None = None
    several: bool = False
    sparse_labels: bool = False
    n_labels: int = 1
    threshold: float | None = None
    fit_report: FitReport = field(default_factory=FitReport)
    encoder: Any = None
    sets: tuple[SetRule, ...] = ()
    calls: tuple[Points, ...] = ()

    @property
    def column_labels(self) -> NDArray[Any] | None:
        """Labels or names of classes that columns may be, (n_features,), where columns have any."""
        return self.features.names if self.encoder is None else self.encoder.column_labels

    @classmethod
    def of_fit(
        cls,
        points: Points,
        weights: Weights,
        curve: list[float],
        *,
        scaling: FeatureScaling | None = None,
        squares: Squares | None = None,
        variances: Floats | None = None,
        fit_report: FitReport | None = None,
    ) -> State:
        """Return what a fit to these points has found."""
        return cls(
            classes=points.classes,
            counts=np.bincount(points.labels.ids, minlength=points.n_classes).astype(np.float64),
            features=points.features,
            weights=weights,
            history=History.of_fit(len(points.labels), scaling, points.labels.mean),
            curve=np.array(curve),
            squares=squares,
            variances=variances,
            hashing=points.hashing,
            several=points.several,
            sparse_labels=points.sparse_labels,
            fit_report=FitReport(best_iter=len(curve)) if fit_report is None else fit_report,
        )

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    def with_report(self, **fields: Any) -> State:
        """Return it with other fields of its report."""
        return replace(self, fit_report=replace(self.fit_report, **fields))
