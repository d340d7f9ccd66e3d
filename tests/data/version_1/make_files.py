"""Write the files of this folder: models saved in format version 1, and what they predict.

Needs manyclass 0.1, the one version that writes this format: `python make_files.py`. The files stay as they are.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier

FOLDER = Path(__file__).parent
N, D, K = 80, 9, 7


def problem():
    """Points, half of whose entries are 0, a label for each, and an indicator matrix of one to three labels."""
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.5)).astype(np.float32)
    y = np.append(np.arange(K), rng.integers(0, K, N - K))
    Y = np.zeros((N, K), dtype=np.int64)
    Y[np.arange(N), y] = 1
    Y[np.arange(N), rng.integers(0, K, N)] = 1
    return X, y, Y


def models():
    """Fitted models by name."""
    X, y, Y = problem()
    sparse, common = sp.csr_array(X), {"max_iter": 3, "random_state": 5}
    yield "linear_sparse", SoftmaxClassifier(
        solver="umax", delta=2.0, selection="frequency", frequency_power=0.5, n_negatives=3, learning_rate=0.2,
        u_init="zero", averaging="polyak", decay=0.8, alpha=1e-3, **common,
    ).fit(sparse, np.array([f"class {k}" for k in y]))  # fmt: skip
    yield "linear_dense", SoftmaxClassifier(**common).fit(X, y)
    yield "embedding", SoftmaxClassifier(
        embedding_dim=4, activation="relu", search="sampled", n_negatives=3, batch_size=8, log_q=False, **common
    ).fit(sparse, Y)  # fmt: skip
    yield "margin", MarginClassifier(
        smoothing=2.0, search="mips", budget=4, n_negatives=5, decay=0.7, **common
    ).fit(X, y)  # fmt: skip
    yield "probit", AugmentReduceClassifier(
        noise="normal", local_family="normal", n_nodes=4, selection="head_tail", n_head=2, n_negatives=3,
        schedule="inverse", **common,
    ).fit(sparse, y)  # fmt: skip
    yield "posterior", AugmentReduceClassifier(
        noise="logistic", posterior="gaussian", alpha=0.02, n_draws=16, n_negatives=4, **common
    ).fit(X, y)  # fmt: skip


def main():
    """Write all files."""
    assert manyclass.__version__.startswith("0.1")
    X, expected = problem()[0], {}
    for name, model in models():
        model.save(FOLDER / f"{name}.safetensors")
        predicted = model.predict_proba(X[:6]) if hasattr(model, "predict_proba") else model.decision_function(X[:6])
        expected[name] = {"predicted": predicted.tolist(), "coef": model.coef_.ravel().tolist()}
    (FOLDER / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
