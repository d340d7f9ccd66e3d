"""Data sets of the experiments by name, where MANYCLASS_DATA says or `fetch` put them: XMC text, or images in .npz."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.datasets import Multiclass, fetch, load_multiclass
from manyclass.datasets.sources import SOURCES, TEXTS, fetched_root
from manyclass.papers.engine import Note

IMAGES = {"mnist": "mnist.npz", "omniglot": "omniglot28.npz"}  # x_train, y_train, x_test, y_test; values 0 to 255

Scale = Literal["l2", "max"] | None


class Problem(Multiclass):
    """Training and test data with one class a row; every class of the test data occurs in training."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Classes K, features D, training rows N."""
        return self.n_classes, self.X_train.shape[1], self.X_train.shape[0]

    @property
    def sizes(self) -> list[int]:
        """Features, classes, training rows and test rows, as papers have them."""
        n_classes, n_features, n_train = self.shape
        return [n_features, n_classes, n_train, len(self.y_test)]


def find_data(name: str, path: str | None = None) -> Path:
    """Return the folder of a data set, or the file at `path`, where MANYCLASS_DATA names its root or it was fetched.

    A name with a separator is the folder or the file itself. Raises FileNotFoundError if it is in neither place.
    """
    if os.sep in name:
        if not Path(name).exists():
            raise FileNotFoundError(f"{name} does not exist")
        return Path(name)
    root = os.environ.get("MANYCLASS_DATA")
    tried = [Path(place) / (path or name) for place in (root, fetched_root()) if place]
    for path_tried in tried:
        if path_tried.exists():
            return path_tried
    unset = "" if root else "the environment variable MANYCLASS_DATA is not set, and "
    hint = "; --fetch downloads it" if name in SOURCES else "; it cannot be fetched"
    raise FileNotFoundError(f"{unset}{' and '.join(map(str, tried))} {'do' if root else 'does'} not exist{hint}")


def fetch_missing(names: Sequence[str], *, note: Note, progress: bool) -> None:
    """Fetch those of the data sets that are not there and can be had; say which could not."""
    for name in names:
        if name not in SOURCES:
            continue
        try:
            find_data(name, f"{TEXTS}/{name}.txt.xz" if SOURCES[name].text else None)
        except FileNotFoundError:
            note(f"fetching {name}: {SOURCES[name].about}")
            try:
                fetch(name, progress=progress)
            # Whatever one data set fails of, the experiment goes on with the others.
            except (OSError, ValueError, ImportError) as error:
                note(f"{name} could not be fetched: {error}")


def load_problem(
    name: str, *, scale: Scale, max_rows: int | None, n_features: int | None = None, n_jobs: int = 1
) -> Problem:
    """Return the data set of a name or in a folder; images are divided by 255, and by their norm with scale "l2".

    Raises FileNotFoundError if it is not there.
    """
    folder = find_data(name)
    if folder.name in IMAGES:
        return _images(folder / IMAGES[folder.name], scale, max_rows)
    data = load_multiclass(folder, scale=scale, n_features=n_features, n_train=max_rows, n_jobs=n_jobs)
    return Problem(data.X_train, data.y_train, data.X_test[:max_rows], data.y_test[:max_rows])


def _images(file: Path, scale: Scale, max_rows: int | None) -> Problem:
    parts: list[Any] = []
    with np.load(file) as arrays:
        for part in ("train", "test"):
            images, y = (arrays[f"{name}_{part}"][:max_rows] for name in "xy")
            X = images.reshape(len(images), -1).astype(np.float32) / np.float32(255)
            if scale == "l2":
                X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(np.float32).tiny)
            parts += [X, y.astype(np.int64)]
    X_train, y_train, X_test, y_test = parts
    in_training = np.isin(y_test, y_train)
    return Problem(X_train, y_train, X_test[in_training], y_test[in_training])


def draw_counts(seed: int, n_points: int, scale: float) -> NDArray[np.int64]:
    """Draw counts of 10^4 classes, p proportional to squares of uniform numbers; those that are 0 are left out."""
    n, n_classes = (max(20, round(scale * size)) for size in (n_points, 10_000))
    rng = np.random.default_rng(seed)
    p = rng.random(n_classes) ** 2
    counts: NDArray[np.int64] = rng.multinomial(n, p / p.sum())
    return counts[counts > 0]


def biases_alone(counts: NDArray[np.int64]) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Return points whose only feature is 1, `counts[k]` of them with class k."""
    y = np.repeat(np.arange(len(counts)), counts)
    return sp.csr_array(np.ones((len(y), 1), dtype=np.float32)), y
