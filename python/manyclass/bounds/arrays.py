"""What all bounds share: their results, and the checks on scores and classes."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass.weights.arrays import Ids

Array = NDArray[np.float64]
Classes = NDArray[np.intp]
T = TypeVar("T", bound=np.generic)


class Bound(NamedTuple):
    """A bound and its gradient.

    Attributes
    ----------
    value : ndarray of shape (...), float64
        The bound of log p(y = k), in nats.
    gradient : ndarray of shape (..., K), float64
        Its derivatives with respect to the scores.
    """

    value: Array
    gradient: Array


class VariationalBound(NamedTuple):
    """A bound with variational parameters, and its gradients.

    Attributes
    ----------
    value : ndarray of shape (...), float64
        The bound of log p(y = k), in nats.
    gradient : ndarray of shape (..., K), float64
        Its derivatives with respect to the scores, at fixed variational parameters. Where the parameters are the best
        ones for the scores, this is also the gradient of the bound maximised over them (the envelope theorem).
    parameter_gradient : ndarray of shape (...) for one parameter, (..., 2) for two, float64
        Its derivatives with respect to the variational parameters.
    """

    value: Array
    gradient: Array
    parameter_gradient: Array


class ScoredPoints(NamedTuple):
    """Scores and classes of points that were checked, as the core takes them.

    Attributes
    ----------
    f : ndarray of shape (n_points, K), float64
    labels : ndarray of shape (n_points,), int32
    shape : tuple of int
        The leading shape of what the caller gets.
    """

    f: Array
    labels: Ids
    shape: tuple[int, ...]

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.f.shape[1])

    def bound(self, value: Array, gradient: Array) -> Bound:
        """Return what the core says of the points, in their shape."""
        return Bound(value.reshape(self.shape)[()], gradient.reshape(*self.shape, self.n_classes))

    def spread(self, name: str, array: NDArray[T], width: int) -> NDArray[T]:
        """Return a row of an array for each point; ValueError unless its leading shape fits theirs."""
        try:
            return np.ascontiguousarray(np.broadcast_to(array, (*self.shape, width)))
        except ValueError:
            raise ValueError(f"{name} has shape {array.shape}; it must fit {(*self.shape, width)}") from None


def real_array(name: str, value: ArrayLike) -> Array:
    """Return `value` as float64; ValueError unless it holds real and finite numbers."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}; it must hold real numbers")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains {array[~np.isfinite(array)][0]}; it must be finite")
    return array


def class_array(name: str, value: ArrayLike, n_classes: int) -> Classes:
    """Return `value` as class numbers; ValueError unless it holds integers in [0, n_classes), or nothing."""
    array = np.asarray(value)
    if array.size and array.dtype.kind not in "iu":  # NumPy takes an empty list for one of floats
        raise ValueError(f"{name} has dtype {array.dtype}; it must hold integers")
    outside = (array < 0) | (array >= n_classes)
    if outside.any():
        raise ValueError(f"{name} contains {array[outside][0]}; classes are in [0, {n_classes})")
    return array.astype(np.intp, copy=False)


def checked(f: ArrayLike, k: ArrayLike, **parameters: ArrayLike) -> tuple[ScoredPoints, list[Array]]:
    """Return points, and a value of each parameter for each; ValueError for what no bound takes."""
    F = real_array("f", f)
    if F.ndim == 0 or F.shape[-1] < 2:
        raise ValueError(f"f has shape {F.shape}; its last axis must hold the scores of at least 2 classes")
    with np.errstate(over="ignore"):
        spread = np.ptp(F, axis=-1)
    if not np.isfinite(spread).all():
        raise ValueError(f"f spans [{F.min():g}, {F.max():g}]; the differences of a point's scores must be finite")
    labels = class_array("k", k, F.shape[-1])
    arrays = {name: real_array(name, value) for name, value in parameters.items()}
    shapes = {"f without its last axis": F.shape[:-1], "k": labels.shape} | {n: p.shape for n, p in arrays.items()}
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{shape} of {name}" for name, shape in shapes.items())
        raise ValueError(f"the shapes {listed} differ; they must broadcast to one") from None
    rows = np.ascontiguousarray(np.broadcast_to(F, (*shape, F.shape[-1]))).reshape(-1, F.shape[-1])
    labels_of_rows, *values = (np.broadcast_to(array, shape).ravel() for array in (labels, *arrays.values()))
    return ScoredPoints(rows, labels_of_rows.astype(np.int32), shape), values
