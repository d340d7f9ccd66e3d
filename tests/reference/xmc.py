"""A few lines that read the XMC repository's text form: `l1,l2 j:v j:v ...` after a header `N D L`."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def first_labels(path: Path) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Unit rows and the first label of each point that has a label and a feature."""
    rows: list[dict[int, float]] = []
    labels: list[int] = []
    with lzma.open(path, "rt") as lines:
        n_features = int(next(lines).split()[1])
        for line in lines:
            head, *pairs = line.rstrip("\n").split(" ")
            if head and ":" not in head and pairs:
                labels.append(int(head.split(",")[0]))
                rows.append({int(j): float(v) for j, v in (pair.split(":") for pair in pairs if pair)})
    indptr = np.cumsum([0] + [len(row) for row in rows])
    indices = np.array([j for row in rows for j in row])
    data = np.array([v / np.sqrt(sum(w * w for w in row.values())) for row in rows for v in row.values()])
    return sp.csr_array((data, indices, indptr), shape=(len(rows), n_features)), np.array(labels)
