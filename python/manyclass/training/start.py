"""Weights that a training of single points starts from, other than 0.

Those in closed form are found by `manyclass.training.closed_forms`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from manyclass.weights.arrays import Doubles, Floats, Ids, Matrix
from manyclass.weights.weights import Weights

# The square of more, times 32 features, is beyond single precision.
LARGEST = 2.0**60
ClosedForm = Literal["closed_form"]
CLOSED_FORM: ClosedForm = "closed_form"


@dataclass(frozen=True)
class Start:
    """Weights and intercepts of all classes, in the order of the labels.

    Attributes
    ----------
    coef : ndarray or csr_array of shape (n_classes, n_features), float32
    intercept : ndarray of shape (n_classes,), float32
    """

    coef: Floats | sp.csr_array
    intercept: Floats

    @classmethod
    def of(
        cls,
        coef: ArrayLike | None,
        intercept: ArrayLike | None,
        n_classes: int,
        n_features: int,
        *,
        fit_intercept: bool,
    ) -> Start | None:
        """Check what `fit` was given; None where that is nothing.

        Raises
        ------
        ValueError
            For another shape, numbers that are not finite in float32, or intercepts of a model without.
        """
        if coef is None and intercept is None:
            return None
        if intercept is not None and not fit_intercept:
            raise ValueError("intercept_init is given, which has no effect with fit_intercept=False; leave it None")
        return cls(
            _checked("coef_init", coef, (n_classes, n_features)), _checked("intercept_init", intercept, (n_classes,))
        )

    @classmethod
    def from_model(cls, weights: Weights, place: Ids) -> Start:
        """Return those of classes with these places in a model, -1 standing for new ones, which begin at 0."""
        there = place >= 0
        coef = np.zeros((len(place), weights.coef.shape[1]), dtype=np.float32)
        intercept = np.zeros(len(place), dtype=np.float32)
        coef[there], intercept[there] = weights.coef[place[there]], weights.intercept[place[there]]
        return cls(coef, intercept)

    def weights(self, *, sparse: bool) -> Weights:
        """Return them as weights of data of a kind."""
        made = Weights.zeros(*self.coef.shape, by_feature=sparse)
        self.put(made, np.arange(len(self.intercept), dtype=np.int32))
        return made

    def weights_of_scores(self) -> Weights:
        """Return weights that have their scores, on pairs where few are stored."""
        if not isinstance(self.coef, sp.csr_array):
            return Weights.linear(self.coef, self.intercept, by_feature=False)
        pairs = sp.csc_array(self.coef)
        pairs.sort_indices()
        of_pairs = pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32), pairs.data
        return Weights.on_pairs(*of_pairs, self.intercept)

    def put(self, weights: Weights, position: Ids) -> None:
        """Write the start into weights in which class k stands in place position[k]."""
        if isinstance(self.coef, sp.csr_array):
            weights.coef[position[self._rows(self.coef)], self.coef.indices] = self.coef.data
        else:
            weights.coef[position] = self.coef
        weights.intercept[position] = self.intercept

    def norms_sq(self, position: Ids) -> Doubles:
        """Squared norms of the rows, by place."""
        norms, coef = np.empty(len(position)), self.coef
        if isinstance(coef, sp.csr_array):
            norms[position] = np.bincount(self._rows(coef), np.square(coef.data, dtype=np.float64), len(position))
        else:
            norms[position] = np.einsum("kj,kj->k", coef, coef, dtype=np.float64)
        return norms

    @staticmethod
    def _rows(coef: sp.csr_array) -> Ids:
        return np.repeat(np.arange(coef.shape[0], dtype=np.int32), np.diff(coef.indptr))


def asked_start(
    coef: ArrayLike | None, intercept: ArrayLike | None, n_classes: int, n_features: int, *, fit_intercept: bool
) -> Start | ClosedForm | None:
    """As `Start.of`, but for a `coef` that asks for a closed form, whose intercepts go with it."""
    if not (isinstance(coef, str) and coef == CLOSED_FORM):
        return Start.of(coef, intercept, n_classes, n_features, fit_intercept=fit_intercept)
    if intercept is not None:
        raise ValueError(f"coef_init is {coef!r} and intercept_init is given; leave it None, or give arrays of both")
    if not fit_intercept:
        raise ValueError(f"coef_init is {coef!r}, which has intercepts; fit_intercept must be True, or give an array")
    return CLOSED_FORM


def carried_at(weights: Weights, x: Matrix, labels: Ids, *, carry: float, n_threads: int) -> Doubles:
    """What each point carries where it is exact: u + carry z_y with u = log A, the log-loss.

    It takes one exact evaluation of all points or, where carry is neither 0 nor 1, two.
    """
    if carry == 1:
        return weights.log_normalizers(x, n_threads)
    losses, _ = weights.log_losses(x, labels, n_threads)
    if carry == 0:
        return losses
    return (1 - carry) * losses + carry * weights.log_normalizers(x, n_threads)


def finite_floats(name: str, given: ArrayLike, shape: tuple[int, ...], as_what: str = "") -> Floats:
    """Return numbers in float32; raise ValueError for another shape, or where they are not finite."""
    with np.errstate(over="ignore"):
        array = np.asarray(given, dtype=np.float32)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; it must be {shape}{as_what}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} has entries that are not finite in float32")
    return array


def _checked(name: str, given: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    if given is None:
        return np.zeros(shape, dtype=np.float32)
    if isinstance(given, str):
        raise ValueError(
            f"{name} is {given!r}; it must be an array of shape {shape} or, as coef_init of a SoftmaxClassifier, "
            f"{CLOSED_FORM!r}"
        )
    array = finite_floats(name, given, shape)
    if np.abs(array).max(initial=0) > LARGEST:
        raise ValueError(
            f"{name} has an entry of {np.abs(array).max():.4g} in absolute value; the largest is {LARGEST:.4g}, beyond "
            "which scores are no numbers"
        )
    return array
