"""What a model remembers of the data that it was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_number
from manyclass.model.scaling import FeatureScaling


@dataclass(frozen=True)
class Features:
    """How many features a fit saw, and their names where X has some."""

    n: int
    names: NDArray[Any] | None

    @classmethod
    def of(cls, checked: Any) -> Features:
        """What scikit-learn's check has noted on an estimator."""
        return cls(int(checked.n_features_in_), getattr(checked, "feature_names_in_", None))

    def wider(self, other: Features) -> Features:
        """Return those that are more, of features that are hashed by their places; a ValueError for other names."""
        if self.names is not None and other.names is not None:
            n = min(self.n, other.n)
            differ = np.flatnonzero(self.names[:n] != other.names[:n])
            if len(differ):
                at = differ[0]
                raise ValueError(
                    f"feature {at} is {other.names[at]!r}; the model has {self.names[at]!r} there, and its features "
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
        Those of its last `fit`; 0 of a stream that began without one.
    scaling : FeatureScaling or None
        That of the features which training sees, where it scales them.
    n_labels : float
        Labels a row in the first training, by which a hybrid has the loss of its embeddings; 0: unknown.
    """

    n_points: int = 0
    n_fit: int = 0
    n_counting: float = 0.0
    scaling: FeatureScaling | None = None
    n_labels: float = 0.0

    @property
    def has_gone_on(self) -> bool:
        """Whether the model was trained by more than a fit: then it is likely to go on again."""
        return self.n_points > self.n_fit

    def without_scaling(self) -> History:
        """Return it for a model that does not go on."""
        return replace(self, scaling=None)

    def encoded(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """As a file holds it: what JSON has, and arrays by their names; a scale that all features share is a number."""
        numbers = ("n_points", "n_fit", "n_counting", "n_labels")
        found: dict[str, Any] = {name: getattr(self, name) for name in numbers}
        if self.scaling is None:
            return found, {}
        shift, scale = self.scaling.shift, self.scaling.scale
        if not shift.any() and np.all(scale == scale[0]) and np.isfinite(scale[0]):
            return {**found, "scale": float(scale[0])}, {}
        return found, {"scaling.shift": shift, "scaling.scale": scale}

    @classmethod
    def decoded(cls, found: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_features: int) -> History:
        """Return what `encoded` was; of a file without it, which is an older one, that nothing was seen."""
        numbers = {name: found.get(name, 0) for name in ("n_points", "n_fit")}
        for name, value in numbers.items():
            check_number(name, value, low=0, integer=True)
        reals = {"n_counting": found.get("n_counting", numbers["n_points"]), "n_labels": found.get("n_labels", 0.0)}
        for name, value in reals.items():
            check_number(name, value, low=0)
            reals[name] = float(value)
        scaling = None
        if "scale" in found:
            check_number("scale", found["scale"], low=0, open_low=True)
            shared = (np.broadcast_to(np.float64(value), n_features) for value in (0.0, found["scale"]))
            scaling = FeatureScaling(*shared)
        elif "scaling.scale" in arrays:
            scaling = FeatureScaling(arrays["scaling.shift"], arrays["scaling.scale"])
        return cls(**numbers, **reals, scaling=scaling)

    @classmethod
    def of_fit(cls, n_points: int, scaling: FeatureScaling | None = None, n_labels: float = 0.0) -> History:
        """That of a model after a fit of so many rows."""
        return cls(n_points, n_points, float(n_points), scaling, n_labels)

    def faded(self, factor: float) -> History:
        """The same, rows seen so far counting so much of what they did."""
        return replace(self, n_counting=self.n_counting * factor)

    def gone_on(self, n_points: int, scaling: FeatureScaling | None, n_labels: float) -> History:
        """That after a call with so many rows; the number of labels is kept from the first training."""
        return replace(
            self,
            n_points=self.n_points + n_points,
            n_counting=self.n_counting + n_points,
            scaling=scaling,
            n_labels=self.n_labels or n_labels,
        )
