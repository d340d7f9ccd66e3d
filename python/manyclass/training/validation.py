"""Early stopping: points held out of training, their exact log-loss after each pass, and the best model so far."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from manyclass.checks import check_number
from manyclass.training.plan import Labels
from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix
from manyclass.weights.tensor_file import Arrays, Saved
from manyclass.weights.weights import Weights

UNUSED_SCALE = np.zeros(0, dtype=np.float32)


def held_out(labels: Ids, fraction: float, random: np.random.RandomState) -> NDArray[np.bool_]:
    """Draw which points validate: a share of all, but of every class at least one point stays for training.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Classes, in [0, n_classes).
    fraction : float
        The share of all points, in ]0, 1[. Fewer are held out where too few classes have two points.
    random : RandomState

    Returns
    -------
    ndarray of shape (n_samples,), bool

    Raises
    ------
    ValueError
        If no class has two points.
    """
    held = Labels.single(labels).spare(max(1, round(fraction * len(labels))), random)
    if not held.any():
        raise ValueError("early_stopping needs a class with at least two points, one of which can be held out")
    return held


def fork(random_state: Any) -> np.random.RandomState:
    """A generator for drawing points that leaves `random_state` as it is, so that training draws what it would."""
    generator: np.random.RandomState = check_random_state(copy.deepcopy(random_state))
    return generator


@dataclass
class Validation:
    """What early stopping knows during a fit.

    Attributes
    ----------
    x, labels : the points held out, labels in [0, n_classes)
    n_iter_no_change : int
        Training stops after this many passes in a row without a new best one.
    n_threads : int
    weights : ndarray of shape (n_points,) or None
        The weights of the points.
    curve : list of float
        Exact log-loss on these points after each pass, in nats.
    best_iter : int
        The pass, from 1, whose model is kept; 0 before there is one.
    """

    x: Matrix
    labels: Ids
    n_iter_no_change: int
    n_threads: int
    weights: Doubles | None = None
    curve: list[float] = field(default_factory=list)
    best_iter: int = 0
    _best: Weights | None = None
    _scale: Floats = field(default_factory=lambda: UNUSED_SCALE)

    def after_pass(self, model: Weights, scale: Floats, position: Ids) -> bool:
        """Evaluate what `fit` would return now, keep a copy if it is the best, and say whether to stop.

        Class k stands in place position[k] of `model`, whose rows are to be multiplied by `scale` unless it is empty.
        """
        losses, _ = model.log_losses(self.x, position[self.labels], self.n_threads, scale)
        self.curve.append(float(np.average(losses, weights=self.weights)))
        if self.curve[-1] < (self.curve[self.best_iter - 1] if self.best_iter else math.inf):
            self.best_iter = len(self.curve)
            if self._best is None:
                self._best = Weights.linear(
                    np.empty_like(model.matrix), np.empty_like(model.intercept), by_feature=model.sparse
                )
            self._best.matrix[...] = model.matrix
            self._best.intercept[...] = model.intercept
            self._scale = scale.copy()
        return len(self.curve) - self.best_iter >= self.n_iter_no_change

    def arrays(self) -> Arrays:
        """Return the best model so far, for a checkpoint."""
        if self._best is None:
            return {}
        return {"best": self._best.matrix, "best_intercept": self._best.intercept, "best_scale": self._scale}

    def numbers(self) -> dict[str, Any]:
        """Return the curve, and which pass was best."""
        return {"curve": self.curve, "best_iter": self.best_iter}

    def restore_from(self, saved: Saved, numbers: Mapping[str, Any], like: Weights) -> None:
        """Take over both, the model being stored like another one."""
        self.curve, self.best_iter = list(map(float, numbers["curve"])), numbers["best_iter"]
        check_number("best_iter", self.best_iter, low=0, high=len(self.curve), integer=True)
        if self.best_iter:
            self._best = Weights.linear(
                np.empty_like(like.matrix), np.empty_like(like.intercept), by_feature=like.sparse
            )
            self._scale = saved.array("best_scale")
            if self._scale.shape not in ((0,), (like.n_classes,)) or self._scale.dtype != np.float32:
                raise ValueError(f"best_scale has shape {self._scale.shape}; it must have one number for each class")
            saved.fill(self.arrays())

    def restore(self, weights: Weights) -> bool:
        """Write the best model into `weights`, its factors multiplied in; False if no pass has been evaluated."""
        if self._best is None:
            return False
        weights.matrix[...] = self._best.matrix
        weights.intercept[...] = self._best.intercept
        if len(self._scale):
            weights.multiply_classes(self._scale)
        self._best = None  # the memory of W
        return True
