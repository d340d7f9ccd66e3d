"""Twin of search/spherical_kmeans.cpp: Lloyd's iteration for cosines, in NumPy and double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.rng import VISIT_ORDER, Rng, shuffled


def directions(W: NDArray[Any], radius: float = 0.0) -> NDArray[np.float64]:
    """Rows of unit length, with the augmenting coordinate where there is a radius; zero rows stay zero without one."""
    norms = np.linalg.norm(W.astype(np.float64), axis=1)
    units = np.maximum(norms, radius)
    out = W / np.where(units > 0, units, 1)[:, None]
    if radius > 0:
        out = np.hstack([out, np.sqrt(1 - np.minimum(norms / radius, 1) ** 2)[:, None]])
    return out


def repair(labels: NDArray[Any], cosines: NDArray[Any], n_clusters: int) -> int:
    """Give each empty cluster the worst row of those whose cluster keeps another one; return how many got one."""
    sizes = np.bincount(labels, minlength=n_clusters)
    worst = list(np.argsort(cosines, kind="stable"))
    repaired = 0
    for c in np.flatnonzero(sizes == 0):
        while worst and sizes[labels[worst[0]]] < 2:
            worst.pop(0)
        if not worst:
            break
        i = worst.pop(0)
        sizes[labels[i]] -= 1
        labels[i], sizes[c] = c, 1
        repaired += 1
    return repaired


def spherical_kmeans(
    W: NDArray[Any], n_clusters: int, n_iter: int, sample_per_cluster: int, radius: float, seed: int
) -> tuple[NDArray[np.float64], list[dict[str, Any]]]:
    """Return the unit centroids and what each iteration saw after its assignment."""
    X = directions(W, radius)
    rows = np.flatnonzero(X.any(axis=1))
    order = rows[shuffled(len(rows), Rng(seed, 0, VISIT_ORDER))]
    centroids = np.zeros((n_clusters, X.shape[1]))
    for c in range(n_clusters):
        centroids[c] = X[order[c]] if c < len(order) else np.eye(X.shape[1])[c % X.shape[1]]
    most = sample_per_cluster * n_clusters
    X = X[np.sort(order[:most] if most else order)]
    history: list[dict[str, Any]] = []
    before = np.full(len(X), -1)
    for _ in range(n_iter):
        scores = X @ centroids.T
        labels = scores.argmax(axis=1)
        cosines = scores.max(axis=1)
        repaired = repair(labels, cosines, n_clusters)
        moved = int((labels != before).sum())
        sizes = np.bincount(labels, minlength=n_clusters)
        history.append({"mean_cosine": cosines.mean(), "moved": moved, "repaired": repaired, "sizes": sizes})
        if moved == 0:
            break
        before = labels
        for c in range(n_clusters):
            total = X[labels == c].sum(axis=0)
            if total.any():
                centroids[c] = total / np.linalg.norm(total)
    return centroids, history
