"""What `fit` takes beside the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from numpy.typing import ArrayLike

from manyclass.protocols import ClassText, Encoder
from manyclass.training.checkpoint import EVERY
from manyclass.training.core_training import Callback
from manyclass.weights.tensor_file import PathLike


class SharedOptions(TypedDict, total=False):
    """The arguments of `fit` that all classifiers have; see `FitOptions`."""

    vectorizer: Encoder | None
    classes: ArrayLike | None
    max_memory: int | str | None
    callback: Callback | None
    max_seconds: float | None
    checkpoint: PathLike | None
    every: str | int
    resume: bool


@dataclass(frozen=True)
class FitOptions:
    """The arguments of `fit` beside X, y and sample_weight, as they were given.

    Attributes
    ----------
    vectorizer : Encoder or None
        What makes rows of raw inputs.
    classes : array-like or None
        All labels of a stream.
    max_memory : int, str or None
        The most bytes of the model and its training.
    callback : callable or None
        Called after each pass.
    max_seconds : float or None
        After which training stops.
    checkpoint : path-like or None
        The folder of checkpoints.
    every : str or int
        How often they are written.
    resume : bool
        Whether training goes on from one.
    class_text : mapping, pair of labels and rows, or None
        Texts of classes.
    eval_set : pair of X and y, or None
        Rows that early stopping looks at.
    candidates : array-like of shape (n_samples, n_candidates), or None
        Labels for heads.
    coef_init : array-like, "closed_form" or None
        First weights.
    intercept_init : array-like or None
        First intercepts.
    """

    vectorizer: Encoder | None = None
    classes: ArrayLike | None = None
    max_memory: int | str | None = None
    callback: Callback | None = None
    max_seconds: float | None = None
    checkpoint: PathLike | None = None
    every: str | int = EVERY
    resume: bool = False
    class_text: ClassText | None = None
    eval_set: tuple[Any, ArrayLike] | None = None
    candidates: ArrayLike | None = None
    coef_init: ArrayLike | None = None
    intercept_init: ArrayLike | None = None
