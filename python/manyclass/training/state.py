"""The state of a model, which a training gives. All of it is frozen.

A fit begins a state and trains it, `partial_fit` trains the one that is there, a model file is one written to disk, and
growth, forgetting, calibration and means of several runs are functions from states to states. An estimator holds one
state; whatever fails leaves it with the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass.blending.calibration import Calibration
from manyclass.checks import check_number
from manyclass.training.data import Features, Points, Squares
from manyclass.weights.arrays import Doubles, Floats
from manyclass.weights.hashing import FeatureHash
from manyclass.weights.weights import FeatureScaling, Weights

Starts = Mapping[Any, ArrayLike]  # the weights at which new classes begin, by label


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
        n_points = described.get("n_points", 0)
        numbers = {"n_points": n_points, "n_fit": 0, "n_counting": n_points, "n_labels": 0.0}
        numbers |= {name: described[name] for name in numbers if name in described}
        for name, value in numbers.items():
            check_number(name, value, low=0, integer=name in ("n_points", "n_fit"))
        numbers |= {name: float(numbers[name]) for name in ("n_counting", "n_labels")}
        scaling = None
        if "scale" in described:
            check_number("scale", described["scale"], low=0, open_low=True)
            shared = (np.broadcast_to(np.float64(value), n_features) for value in (0.0, described["scale"]))
            scaling = FeatureScaling(*shared)
        elif "scaling.scale" in arrays:
            scaling = FeatureScaling(arrays["scaling.shift"], arrays["scaling.scale"])
        return cls(**numbers, scaling=scaling)

    @classmethod
    def of_fit(cls, n_points: int, scaling: FeatureScaling | None = None, n_labels: float = 0.0) -> History:
        """Return the history of a model after a fit to this number of rows."""
        return cls(n_points, n_points, float(n_points), scaling, n_labels)

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
        fit_report: FitReport,
        *,
        scaling: FeatureScaling | None = None,
        **fields: Any,
    ) -> State:
        """Return what a fit to these points has found; `fields` are others of the state, such as `squares`."""
        return cls(
            classes=points.classes,
            counts=np.bincount(points.labels.ids, minlength=points.n_classes).astype(np.float64),
            features=points.features,
            weights=weights,
            history=History.of_fit(len(points.labels), scaling, points.labels.mean),
            curve=np.array(curve),
            hashing=points.hashing,
            several=points.several,
            sparse_labels=points.sparse_labels,
            fit_report=fit_report,
            **fields,
        )

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    def with_report(self, **fields: Any) -> State:
        """Return it with other fields of its report."""
        return replace(self, fit_report=replace(self.fit_report, **fields))
