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


def held_out(labels: Ids | Labels, fraction: float, random: np.random.RandomState) -> NDArray[np.bool_]:
    """Draw which points validate: a share of all, but of every class at least one point stays for training.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,), or Labels
        Classes, in [0, n_classes): one of each point, or several.
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
    lists = labels if isinstance(labels, Labels) else Labels.single(labels)
    held = lists.spare(max(1, round(fraction * len(labels))), random)
    if not held.any():
        raise ValueError("early_stopping needs a class with at least two points, one of which can be held out")
    return held


def fork(random_state: Any) -> np.random.RandomState:
    """A generator for drawing points that leaves `random_state` as it is, so that training draws what it would."""
    generator: np.random.RandomState = check_random_state(copy.deepcopy(random_state))
    return generator


@dataclass
class Patience:
    """How long early stopping waits, and the losses that it has seen.

    Attributes
    ----------
    n_iter_no_change : int
        Training stops after this many passes in a row without a new best one.
    curve : list of float
        The loss of points held out after each pass.
    best_iter : int
        The pass, from 1, whose model is kept; 0 before there is one.
    """

    n_iter_no_change: int
    curve: list[float] = field(default_factory=list, kw_only=True)
    best_iter: int = field(default=0, kw_only=True)

    def note(self, loss: float) -> bool:
        """Note the loss after a pass; return whether it is the least so far."""
        self.curve.append(loss)
        is_best = loss < (self.curve[self.best_iter - 1] if self.best_iter else math.inf)
        if is_best:
            self.best_iter = len(self.curve)
        return is_best

    @property
    def is_over(self) -> bool:
        """Whether training is to stop."""
        return len(self.curve) - self.best_iter >= self.n_iter_no_change

    def numbers(self) -> dict[str, Any]:
        """Return the curve, and which pass was best, for a checkpoint."""
        return {"curve": self.curve, "best_iter": self.best_iter}

    def take(self, numbers: Mapping[str, Any]) -> None:
        """Take over the numbers of a checkpoint."""
        self.curve, self.best_iter = list(map(float, numbers["curve"])), numbers["best_iter"]
        check_number("best_iter", self.best_iter, low=0, high=len(self.curve), integer=True)


@dataclass
class LabelValidation(Patience):
    """What early stopping knows while weights on pairs or rows over phi are trained.

    Attributes
    ----------
    x, labels : the points held out, of one or several labels
    weights : ndarray of shape (n_points,) or None
        The weights of the points.
    is_scaled : bool
        Whether scores are multiplied by the best factor before a look, because what joins them will find one.
    """

    x: Matrix
    labels: Labels
    weights: Doubles | None = None
    is_scaled: bool = False
    _best: Arrays = field(default_factory=dict)

    def anew(self, *, is_scaled: bool) -> LabelValidation:
        """Return it for the next training, which has seen nothing yet."""
        return LabelValidation(self.n_iter_no_change, self.x, self.labels, self.weights, is_scaled)

    def after_pass(self, loss: float, arrays: Arrays) -> bool:
        """Note the loss of these points, keep copies of a training's arrays if it is the least; say whether to stop."""
        if self.note(loss):
            self._best = {name: array.copy() for name, array in arrays.items()}
        return self.is_over

    def arrays(self) -> Arrays:
        """Return the arrays of the best pass, for a checkpoint."""
        return {f"best_{name}": array for name, array in self._best.items()}

    def restore_from(self, numbers: Mapping[str, Any], arrays: Arrays) -> None:
        """Take over the numbers of a checkpoint, and make room for the best arrays, which are shaped like these."""
        self.take(numbers)
        if self.best_iter:
            self._best = {name: np.empty_like(array) for name, array in arrays.items()}

    def restore(self, arrays: Arrays) -> None:
        """Write what the best pass has left, if any was evaluated, into a training's arrays."""
        for name, array in self._best.items():
            arrays[name][...] = array
        self._best = {}


@dataclass
class Validation(Patience):
    """What early stopping knows during a fit of a linear model of one label a row.

    Attributes
    ----------
    x, labels : the points held out, labels in [0, n_classes)
    n_threads : int
    weights : ndarray of shape (n_points,) or None
        The weights of the points, by which `curve` is their mean log-loss, in nats.
    """

    x: Matrix
    labels: Ids
    n_threads: int
    weights: Doubles | None = None
    _best: Weights | None = None
    _scale: Floats = field(default_factory=lambda: UNUSED_SCALE)

    def after_pass(self, model: Weights, scale: Floats, position: Ids) -> bool:
        """Evaluate what `fit` would return now, keep a copy if it is the best, and say whether to stop.

        Class k stands in place position[k] of `model`, whose rows are to be multiplied by `scale` unless it is empty.
        """
        losses, _ = model.log_losses(self.x, position[self.labels], self.n_threads, scale)
        if self.note(float(np.average(losses, weights=self.weights))):
            if self._best is None:
                self._best = Weights.linear(
                    np.empty_like(model.matrix), np.empty_like(model.intercept), by_feature=model.sparse
                )
            self._best.matrix[...] = model.matrix
            self._best.intercept[...] = model.intercept
            self._scale = scale.copy()
        return self.is_over

    def arrays(self) -> Arrays:
        """Return the best model so far, for a checkpoint."""
        if self._best is None:
            return {}
        return {"best": self._best.matrix, "best_intercept": self._best.intercept, "best_scale": self._scale}

    def restore_from(self, saved: Saved, numbers: Mapping[str, Any], like: Weights) -> None:
        """Take over curve and model, which is stored like another one."""
        self.take(numbers)
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
