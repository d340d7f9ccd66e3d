"""A random case of a classifier: it is refused by name, or fits finite weights and predicts probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import manyclass
from drawn import data
from drawn.checks import Found, finite, forgo, observed
from drawn.parameters import parameters, positive
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier
from manyclass.classifiers.files import weight_tensors

ESTIMATORS = (SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier)
FEW = 50  # rows that are predicted
# Rows of probabilities sum to 1: those of the softmax to the rounding of K terms in double precision; those of random
# utilities to the error of a quadrature in double precision, as tests/weights/test_utilities.py has it.
SUM_OF_SOFTMAX, SUM_OF_UTILITIES = 1e-9, 1e-6


@dataclass
class Case:
    """What a number stands for."""

    made: type
    parameters: dict[str, Any]
    x: Any
    y: Any
    fit: dict[str, Any]
    rng: np.random.Generator
    several: bool
    found: Found = field(default_factory=Found)

    @classmethod
    def draw(cls, rng: np.random.Generator, made: type) -> Case:
        """Draw parameters and data; several labels a row where the estimator has them, or where it refuses them."""
        several = bool(rng.random() < (0.03 if made is AugmentReduceClassifier else 0.25))
        drawn = parameters(rng, made)
        n, d = data.sizes(rng)
        if several and rng.random() < 0.02:
            n, d = min(n, 10), min(d, 3)  # a million classes
        x = data.rows(rng, (n, d))
        y = data.indicators(rng, n, min(10**6, data.MOST_SCORES // (d + 1))) if several else data.labels(rng, n)
        fit: dict[str, Any] = {}
        if rng.random() < 0.2:
            fit["sample_weight"] = data.row_weights(rng, n)
        if "class_weight" in drawn and drawn["class_weight"] is None and not several:
            drawn["class_weight"] = {y[0]: positive(rng)}
        if made is not MarginClassifier and not several and rng.random() < 0.08:
            fit["coef_init"] = data.values(rng, (len(np.unique(y)), d))
        return cls(made, drawn, x, y, fit, rng, several)

    def __str__(self) -> str:
        kind = "CSR" if sp.issparse(self.x) else "dense"
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        shapes = f"X {kind} {self.x.dtype} {self.x.shape}, {'several' if self.several else 'one label'}"
        return f"{self.made.__name__}({given}) on {shapes}, y {np.shape(self.y)}, fit takes {sorted(self.fit)}"

    @property
    def races(self) -> bool:
        """Whether threads race on the weights, so that results vary."""
        return getattr(self.parameters.get("solver"), "parallel", "") == "hogwild"

    def run(self, folder: Path) -> Found:
        """Fit, and look at what came of it."""
        ways = self.rng.random(4)
        streamed = ways[0] < 0.06 and not self.fit
        model = self.fitted(streamed=streamed)
        while model is None and forgo(self.found, self.parameters, self.fit):
            model = self.fitted(streamed=streamed)
        if model is None:
            return self.found
        self.check(model, "after fit")
        if ways[1] < 0.2:
            self.saved(model, folder)
        if ways[2] < 0.15 and not self.races:
            self.again(model)
        if ways[3] < 0.2:
            rate = None if self.rng.random() < 0.5 else positive(self.rng)
            observed(
                self.found,
                "partial_fit",
                lambda: model.partial_fit(self.x, self.y, learning_rate=rate, n_passes=int(self.rng.integers(1, 4))),
            )
            self.check(model, f"after partial_fit(learning_rate={rate!r})")
        return self.found

    def fitted(self, *, streamed: bool) -> Any:
        """A fitted model; None where it is refused."""
        model = self.made(**self.parameters)
        if streamed:
            half = max(1, self.x.shape[0] // 2)
            parts = [(self.x[:half], self.y[:half]), (self.x[half:], self.y[half:])]
            done = observed(self.found, "fit of a stream", lambda: model.fit(parts))
        else:
            done = observed(self.found, "fit", lambda: model.fit(self.x, self.y, **self.fit))
        return model if done else None

    def check(self, model: Any, when: str) -> None:
        """Weights and predictions are finite."""
        for name, tensor in weight_tensors(model._weights).items():
            finite(self.found, f"{when}: {name}", tensor)
        if not self.found.warned:
            finite(self.found, f"{when}: loss_curve_", model.loss_curve_)
        n_classes = model._weights.n_classes
        for name in ("classes_", "class_count_"):
            if len(getattr(model, name)) != n_classes:
                self.found.fault(f"{when}: {name} has {len(getattr(model, name))}, the weights {n_classes} classes")
        few = max(1, min(FEW, data.MOST_SCORES // len(model.classes_)))
        observed(self.found, f"predictions {when}", lambda: self.predictions(model, self.x[:few], when), refuses=False)

    def predictions(self, model: Any, x: Any, when: str) -> None:
        """Probabilities are some, the best label is one of the classes, and evaluation gives a number."""
        k = len(model.classes_)
        if hasattr(model, "predict_proba"):
            p = model.predict_proba(x)
            finite(self.found, f"{when}: predict_proba", p)
            if p.min() < 0 or p.max() > 1 + 1e-9:
                self.found.fault(f"{when}: probabilities from {p.min()} to {p.max()}")
            calibrated = getattr(model, "calibration_", None) is not None
            most = SUM_OF_UTILITIES if self.made is AugmentReduceClassifier else SUM_OF_SOFTMAX
            away = np.abs(p.sum(axis=1) - 1).max()
            if away > most and not (self.several and calibrated):
                self.found.fault(f"{when}: probabilities sum to 1 but for {away}")
        labels, best = model.predict_top_k(x, min(3, k))
        held = np.maximum(best, -np.finfo(np.float32).max).astype(float)  # NaN stays
        if np.isnan(best).any() or (np.diff(held, axis=1) > 1e-5 * np.abs(held[:, 1:])).any():
            self.found.fault(f"{when}: predict_top_k gives {best[np.isnan(best).any(axis=1)][:2]}")
        if not np.isin(labels, model.classes_).all():
            self.found.fault(f"{when}: labels that are no classes")
        model.predict(x)
        y = self.y[: x.shape[0]]
        # Labels of rows of weight 0 are no classes, and `evaluate` refuses rows that have no others.
        known = self.several or np.isin(y, model.classes_).any()
        scores = model.evaluate(x, y) if known and hasattr(model, "predict_proba") else {}
        wrong = {name: value for name, value in scores.items() if np.isnan(value) or value < -1e-9}
        if wrong:
            self.found.fault(f"{when}: evaluate gives {wrong}")

    def saved(self, model: Any, folder: Path) -> None:
        """A file holds the same model."""
        x = self.x[: max(1, min(FEW, data.MOST_SCORES // len(model.classes_)))]

        def look() -> None:
            model.save(folder / "model")
            other = manyclass.load(folder / "model")
            if not np.array_equal(model.decision_function(x), other.decision_function(x), equal_nan=True):
                self.found.fault("a model that was saved and loaded scores otherwise")

        observed(self.found, "save and load", look, refuses=False)

    def again(self, model: Any) -> None:
        """A second fit gives the same model."""

        def look() -> None:
            other = self.made(**self.parameters).fit(self.x, self.y, **self.fit)
            one, two = weight_tensors(model._weights), weight_tensors(other._weights)
            if any(not np.array_equal(one[name], two[name], equal_nan=True) for name in one):
                self.found.fault("a second fit gives other weights")

        if "fit of a stream" not in self.found.done:
            observed(self.found, "second fit", look, refuses=False)
