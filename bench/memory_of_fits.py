"""Does `max_memory` hold: what do fits add to the process at their peak, beside what is predicted before they begin?

Ten shapes and each model: sparse rows of one label and of several, and dense rows. Predicted are the megabytes that
`fit(max_memory=)` compares with its limit, added those that a fit had at its peak beyond what the process held before,
the data included. A share above 1.1 breaks the promise.

    python bench/memory_of_fits.py
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from bench_cost import forget_peak, memory, zipf_labels
from scipy import sparse

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier
from manyclass.choosing import costs

BENCH = Path(__file__).resolve().parent
# Rows, features, classes, values stored a row (0: dense), labels a row.
SHAPES = {
    "few rows, W wide": (2_000, 200_000, 500, 20, 1),
    "words and classes": (20_000, 20_000, 2_000, 30, 1),
    "many classes": (60_000, 5_000, 20_000, 10, 1),
    "many rows": (400_000, 5_000, 100, 10, 1),
    "long rows": (5_000, 50_000, 500, 400, 1),
    "tags": (20_000, 20_000, 1_000, 30, 3),
    "many tags": (30_000, 10_000, 10_000, 15, 5),
    "dense": (20_000, 300, 300, 0, 1),
    "dense, many classes": (30_000, 128, 10_000, 0, 1),
    "dense tags": (10_000, 200, 500, 0, 3),
}
MODELS = {
    "auto": SoftmaxClassifier(),
    "implicit": SoftmaxClassifier(model="linear", solver="implicit", max_iter=2),
    "lbfgs": SoftmaxClassifier(model="linear", solver="lbfgs", max_iter=3),
    "pairs": SoftmaxClassifier(model="pairs", max_iter=2),
    "embedding": SoftmaxClassifier(model="embedding", max_iter=2),
    "hybrid": SoftmaxClassifier(model="hybrid", max_iter=2),
    "margins": MarginClassifier(max_iter=2),
    "augment and reduce": AugmentReduceClassifier(max_iter=2),
}
MOST_PREDICTED = 2500  # megabytes of what is run


def problem(rng, n, d, k, nnz, n_labels):
    """Random rows, and labels by Zipf's law, each class once at least."""
    if nnz:
        columns = np.minimum((d ** rng.random((n, nnz))).astype(np.int32), d - 1)
        X = sparse.csr_array((np.ones(n * nnz, np.float32), columns.ravel(), np.arange(0, n * nnz + 1, nnz)), (n, d))
        X.sum_duplicates()
    else:
        X = rng.standard_normal((n, d), dtype=np.float32)
    if n_labels == 1:
        return X, rng.permutation(zipf_labels(rng, n, k))
    labels = rng.permutation(zipf_labels(rng, n * n_labels, k))
    Y = sparse.csr_array((np.ones(len(labels), np.int8), labels, np.arange(0, len(labels) + 1, n_labels)), (n, k))
    Y.sum_duplicates()
    Y.data[:] = 1
    return X, Y


def measure(model, X, y):
    """Megabytes that are predicted and that a fit adds; None where it is refused or too large to run."""
    predictions = []
    check = costs.check_memory

    def noting(facts, plan, most_bytes=np.inf):
        predictions.append(costs.model_bytes(facts, plan) / 1e6)
        if predictions[-1] > MOST_PREDICTED:
            raise MemoryError
        check(facts, plan, most_bytes)

    costs.check_memory = noting
    try:
        forget_peak()
        before = memory("VmRSS")
        model.set_params(random_state=0, n_jobs=1).fit(X, y, max_memory=int(MOST_PREDICTED * 1e6))
    except (MemoryError, ValueError) as error:
        return str(error)[:60]
    finally:
        costs.check_memory = check
    return predictions[-1], memory("VmHWM") - before


def main(names):
    """Print a table, and write the figures beside others."""
    warnings.simplefilter("ignore")
    path, figures = BENCH / "results/memory.json", {}
    for shape, numbers in SHAPES.items():
        X, y = problem(np.random.default_rng(0), *numbers)
        for name, model in MODELS.items():
            if names and name not in names:
                continue
            megabytes = measure(type(model)(**model.get_params()), X, y)
            if isinstance(megabytes, str):
                print(f"{shape:22} {name:20} {megabytes}", flush=True)
                continue
            predicted, added = figures[f"{shape}, {name}"] = megabytes
            print(f"{shape:22} {name:20} {predicted:9.1f} {added:9.1f} {added / predicted:6.2f}", flush=True)
    path.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
