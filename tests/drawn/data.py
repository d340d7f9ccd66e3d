"""Random data with extreme numbers: rows of features, labels, weights of rows, texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from drawn.parameters import LEAST, TINY, log_uniform, positive

MOST_VISITS = 8_000_000  # classes of all rows that a pass over all classes sees
MOST_SCORES = 4_000_000  # numbers of W, and scores of all rows


def sizes(rng: np.random.Generator) -> tuple[int, int]:
    """Rows and columns, few as a rule."""
    n = int(rng.integers(2, 40)) if rng.random() < 0.9 else int(log_uniform(rng, 40, 400))
    d = int(rng.integers(1, 12)) if rng.random() < 0.9 else int(log_uniform(rng, 12, 2000))
    return n, d


def values(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Finite numbers of single precision: ordinary, of one extreme scale, of a scale for each column, or of any."""
    plain = rng.standard_normal(shape) if rng.random() < 0.7 else rng.integers(-3, 4, shape).astype(float)
    kind = rng.random()
    if kind < 0.3:
        found = plain
    elif kind < 0.5:
        found = plain * log_uniform(rng, 1e-38, 1e38)
    elif kind < 0.6:
        found = plain * LEAST * rng.integers(1, 1000)
    elif kind < 0.75:
        found = plain * 10.0 ** rng.uniform(-38, 38, shape[-1])
    elif kind < 0.85:
        found = plain * 10.0 ** rng.uniform(-38, 38, shape)
    else:
        extreme = np.array([0.0, LEAST, TINY, 1e-20, 1.0, 1e19, 1e38, np.finfo(np.float32).max])
        found = rng.choice([-1, 1], shape) * rng.choice(
            extreme[rng.random(len(extreme)) < 0.6].tolist() or [1.0], shape
        )
    most = float(np.finfo(np.float32).max)
    return np.clip(found, -most, most).astype(np.float32 if rng.random() < 0.7 else np.float64)


def rows(rng: np.random.Generator, shape: tuple[int, int]) -> Any:
    """Features, dense or CSR; now and then a column of zeros or an equal row."""
    x = values(rng, shape)
    if rng.random() < 0.15:
        x[:, int(rng.integers(shape[1]))] = 0
    if rng.random() < 0.1:
        x[int(rng.integers(shape[0]))] = 0
    if rng.random() < 0.1:
        x[:] = x[:1]
    if rng.random() < 0.45:
        density = rng.uniform(0.05, 1)
        return sp.csr_array(np.where(rng.random(shape) < density, x, 0))
    return x


def labels(rng: np.random.Generator, n: int) -> np.ndarray:
    """One label for each of n rows, of two classes or more as a rule."""
    k = 2 if rng.random() < 0.15 else int(rng.integers(2, max(3, n)))
    y = rng.integers(0, k, n)
    y[: min(k, n)] = np.arange(min(k, n))
    return np.array([f"c{one}" for one in y]) if rng.random() < 0.1 else y


def indicators(rng: np.random.Generator, n: int, most: int) -> Any:
    """Several labels a row, of as many as a million classes, few of which occur."""
    k = int(rng.integers(2, 30)) if rng.random() < 0.8 else int(log_uniform(rng, 30, max(31, most)))
    k = max(2, min(k, MOST_VISITS // n))
    per_row = rng.integers(0 if rng.random() < 0.2 else 1, min(k, 5) + 1, n)
    ids = [rng.choice(k, m, replace=False) if k < 1000 else np.unique(rng.integers(0, k, m)) for m in per_row]
    indptr = np.append(0, np.cumsum([len(one) for one in ids]))
    y = sp.csr_array((np.ones(indptr[-1]), np.concatenate(ids).astype(np.int32), indptr), shape=(n, k))
    return y.toarray().astype(int) if k < 100 and rng.random() < 0.5 else y


def row_weights(rng: np.random.Generator, n: int) -> np.ndarray:
    """Weights of rows: ordinary, extreme, some 0, rarely all."""
    weights = np.array([positive(rng) for _ in range(n)]) if rng.random() < 0.6 else rng.uniform(0.1, 3, n)
    if rng.random() < 0.4:
        weights[rng.random(n) < 0.4] = 0
    return weights


def text(rng: np.random.Generator) -> list[list[str]]:
    """Sentences of few or many words, frequent ones and rare ones."""
    n_words = int(rng.integers(2, 12)) if rng.random() < 0.6 else int(log_uniform(rng, 12, 300))
    n, length = int(rng.integers(1, 60)), int(rng.integers(1, 14))
    drawn = rng.integers(0, n_words, (n, length)) if rng.random() < 0.5 else rng.zipf(1.4, (n, length)) % n_words
    return [[f"w{word}" for word in sentence] for sentence in drawn]
