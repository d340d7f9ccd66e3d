"""Twins of select/: which wrong classes a step sees, and with what weights.

Each entry of SELECTIONS is draw(rng, n_classes, n_negatives, label) -> (classes, alpha), classes increasing, with
E sum alpha_k g(k) = sum over k != label of g(k); alpha = 0 for a label that stands in its own block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Selection = tuple[NDArray[np.int64], NDArray[np.float64]]


def all_classes(rng: Any, n_classes: int, n_negatives: int, label: int) -> Selection:
    """Every class."""
    classes = np.arange(n_classes)
    return classes, np.where(classes == label, 0.0, 1.0)


def block(rng: Any, n_classes: int, n_negatives: int, label: int) -> Selection:
    """One of the blocks of neighbouring classes; each wrong class is in one of them."""
    blocks = [range(a, min(a + n_negatives, n_classes)) for a in range(0, n_classes, n_negatives)]
    classes = np.array(blocks[rng.below(len(blocks))])
    return classes, np.where(classes == label, 0.0, float(len(blocks)))


def uniform(rng: Any, n_classes: int, n_negatives: int, label: int) -> Selection:
    """Distinct wrong classes by Floyd's algorithm, numbered without the label."""
    size = min(n_negatives, n_classes - 1)
    chosen: set[int] = set()
    for j in range(n_classes - 1 - size, n_classes - 1):
        k = rng.below(j + 1)
        chosen.add(j if k in chosen else k)
    wrong = [k for k in range(n_classes) if k != label]
    classes = np.array([wrong[k] for k in sorted(chosen)])
    return classes, np.full(size, (n_classes - 1) / size)


SELECTIONS: dict[str, Callable[[Any, int, int, int], Selection]] = {
    "block": block,
    "uniform": uniform,
    "all": all_classes,
}
