"""What Adagrad keeps beside weights: sums of squared gradients, which grow with the model as training goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.model.kinds import Weights
from manyclass.model.mapped import MappedWeights
from manyclass.model.postings import SparseWeights, mapped_part, postings_part
from manyclass.model.weights import Floats


@dataclass(frozen=True)
class MappedSquares:
    """Those of weights over a feature map, one number a row; empty where the solver is not Adagrad.

    Attributes
    ----------
    embeddings : ndarray of shape (n_features,) or (0,), float32
    classes : ndarray of shape (n_classes,) or (0,), float32
    """

    embeddings: Floats
    classes: Floats

    @classmethod
    def zeros(cls, weights: MappedWeights, adagrad: bool) -> MappedSquares:
        """Before the first step."""
        n_embeddings, n_classes = (len(weights.embeddings), weights.n_classes) if adagrad else (0, 0)
        return cls(np.zeros(n_embeddings, dtype=np.float32), np.zeros(n_classes, dtype=np.float32))

    def grown(self, n_classes: int, position: NDArray[np.intp]) -> MappedSquares:
        """Return a copy with more classes, those of before in places `position`; 0 for new ones."""
        return MappedSquares(self.embeddings.copy(), _grown(self.classes, n_classes, position))

    def widened(self, n_features: int) -> MappedSquares:
        """Return those of more features, 0 for new ones."""
        n_more = n_features - len(self.embeddings) if len(self.embeddings) else 0
        return MappedSquares(np.append(self.embeddings, np.zeros(n_more, dtype=np.float32)), self.classes)


@dataclass(frozen=True)
class PostingSquares:
    """Those of weights on pairs, one number a pair, and of their intercepts.

    Attributes
    ----------
    values : ndarray of shape (n_pairs,), float32
    intercept : ndarray of shape (n_classes,) or (0,), float32
        Empty where none are learned.
    offset : float
        What is added to the sums, by the length of the first rows.
    """

    values: Floats
    intercept: Floats
    offset: float

    @classmethod
    def zeros(cls, weights: SparseWeights, fit_intercept: bool, offset: float) -> PostingSquares:
        """Before the first step."""
        n_intercepts = weights.n_classes if fit_intercept else 0
        return cls(np.zeros_like(weights.values), np.zeros(n_intercepts, dtype=np.float32), offset)

    def grown(self, places: NDArray[np.intp], n_classes: int, position: NDArray[np.intp]) -> PostingSquares:
        """Return a copy with new pairs before those at `places`, and more classes; 0 for new ones."""
        values = np.insert(self.values, places, 0)
        return PostingSquares(values, _grown(self.intercept, n_classes, position), self.offset)

    def widened(self, n_features: int) -> PostingSquares:
        """Return them: a new feature has no pairs yet."""
        return self

    def some(self, kept: NDArray[np.bool_]) -> PostingSquares:
        """Return those of some pairs."""
        return PostingSquares(self.values[kept], self.intercept, self.offset)


@dataclass(frozen=True)
class HybridSquares:
    """Those of both parts."""

    postings: PostingSquares
    mapped: MappedSquares

    def of_more_pairs(self, own: SparseWeights, all_: SparseWeights) -> HybridSquares:
        """Return those of weights whose pairs are more than one's own; 0 for the others."""
        n_classes = own.n_classes
        _, places = own.grown(n_classes, np.arange(n_classes), all_.indptr, all_.classes)
        return HybridSquares(self.postings.grown(places, n_classes, np.arange(n_classes)), self.mapped)

    def widened(self, n_features: int) -> HybridSquares:
        """Return those of more features; a new one has no pairs yet."""
        return HybridSquares(self.postings, self.mapped.widened(n_features))


Squares = MappedSquares | PostingSquares | HybridSquares


def saved_squares(squares: Squares | None) -> dict[str, NDArray[Any]]:
    """Those that a file holds, by their names, so that a model that is read learns on as the one that was written."""
    mapped = squares.mapped if isinstance(squares, HybridSquares) else squares
    postings = squares.postings if isinstance(squares, HybridSquares) else squares
    found: dict[str, NDArray[Any]] = {}
    if isinstance(mapped, MappedSquares):
        found |= {"squares.embeddings": mapped.embeddings, "squares.classes": mapped.classes}
    if isinstance(postings, PostingSquares):
        found |= {"squares.values": postings.values, "squares.intercept": postings.intercept}
        found["squares.offset"] = np.array([postings.offset])
    return {name: array for name, array in found.items() if len(array)}


def shapes_of_squares(weights: Weights) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Dtypes and shapes of what a file may hold of the squares of a model."""
    found: dict[str, tuple[Any, tuple[int, ...]]] = {"squares.classes": (np.float32, (weights.n_classes,))}
    mapped, postings = mapped_part(weights), postings_part(weights)
    if mapped is not None:
        found["squares.embeddings"] = (np.float32, (len(mapped.embeddings),))
    if postings is not None:
        found["squares.values"] = (np.float32, postings.values.shape)
        found["squares.intercept"] = (np.float32, (weights.n_classes,))
        found["squares.offset"] = (np.float64, (1,))
    return found


def read_squares(arrays: Mapping[str, NDArray[Any]]) -> Squares | None:
    """Return what `saved_squares` gave, where it is there."""
    none, mapped = np.zeros(0, dtype=np.float32), None
    if "squares.classes" in arrays:
        mapped = MappedSquares(arrays.get("squares.embeddings", none), arrays["squares.classes"])
    if "squares.offset" not in arrays:
        return mapped
    offset = float(arrays["squares.offset"][0])
    postings = PostingSquares(arrays.get("squares.values", none), arrays.get("squares.intercept", none), offset)
    return postings if mapped is None else HybridSquares(postings, mapped)


def _grown(squares: Floats, n_classes: int, position: NDArray[np.intp]) -> Floats:
    if not len(squares):
        return squares.copy()
    more = np.zeros(n_classes, dtype=np.float32)
    more[position] = squares
    return more
