"""Kernels of bench_isa.py and house/test_instructions.py: those of roofline_kernels.py, and others without a bound.

As a program it times one of them in turns, for another program that starts several of them and gives the turns:

    python bench/isa_kernels.py NAME small|full ROUNDS

It writes "ready" once the kernel is made. For each line that it reads it runs a round and writes its processor seconds.
"""

import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from roofline_kernels import KERNELS as WITH_BOUNDS
from roofline_kernels import Calls, Kernel, Passes, dense, labels, linear_model, passes_of, sparse

from manyclass import MarginClassifier, SoftmaxClassifier
from manyclass.weights.arrays import Mixture
from manyclass.weights.weights import Weights


def pairs(small, _):
    """A pass over weights of pairs of a feature and a class that occur together."""
    n, d, k = (2000, 300, 400) if small else (20_000, 3000, 4000)
    X, y = sparse(n, d, 20), labels(n, k)
    given = {"model": "pairs", "learning_rate": 1.0, "n_jobs": 1, "random_state": 0}
    return Passes(passes_of(lambda max_iter: SoftmaxClassifier(max_iter=max_iter, **given), X, y), {})


def pairs_of_few_rows(small, _):
    """A pass over pairs whose features came with few rows, so that most classes are met by none of a row's features."""
    n, d, k = (2000, 4000, 500) if small else (20_000, 40_000, 5000)
    X, y = sparse(n, d, 10), labels(n, k)
    given = {"model": "pairs", "learning_rate": 1.0, "n_jobs": 1, "random_state": 0}
    return Passes(passes_of(lambda max_iter: SoftmaxClassifier(max_iter=max_iter, **given), X, y), {})


def margins(small, _):
    """A pass of margins of all classes over embeddings, most of whose gradients are zero."""
    n, d, k, dim = (1000, 500, 600, 64) if small else (10_000, 5000, 3000, 192)
    X, y = sparse(n, d, 10), labels(n, k)
    given = {"model": "embedding", "dim": dim, "n_jobs": 1, "random_state": 0, "learning_rate": 0.1}
    return Passes(passes_of(lambda max_iter: MarginClassifier(max_iter=max_iter, **given), X, y), {})


def margins_by_features(small, _):
    """A pass of margins over sparse rows, whose weights are rows of features."""
    n, d, k = (1000, 500, 600) if small else (10_000, 5000, 3000)
    X, y = sparse(n, d, 10), labels(n, k)
    given = {"model": "linear", "n_jobs": 1, "random_state": 0, "learning_rate": 0.1}
    return Passes(passes_of(lambda max_iter: MarginClassifier(max_iter=max_iter, **given), X, y), {})


def stream(small, _):
    """A call of `partial_fit` with few new rows beside those before, whose steps fall by curvature."""
    n, d, k, m = (6000, 200, 2048, 64) if small else (50_000, 20_000, 16_400, 64)
    X, y = sparse(n, d, 20), labels(n, k)
    given = {"model": "linear", "sampler": "block", "n_negatives": m, "alpha": 0.0, "n_jobs": 1, "random_state": 0}
    model = SoftmaxClassifier(solver="implicit", **given).partial_fit(X, y)
    return Calls(lambda: model.partial_fit(X[: n // 20], y[: n // 20]), {})


def mixed(question):
    """A question to a hybrid that mixes counts in: a row meets up to 400 classes by its 20 features."""

    def make(small, _):
        n, d, k, each = (200, 1000, 2000, 20) if small else (2000, 10_000, 50_000, 20)
        rng = np.random.default_rng(4)
        at = (rng.integers(0, k // each, (d, each)) + np.arange(each) * (k // each)).astype(np.int32)
        values, indptr = rng.normal(size=d * each).astype(np.float32), np.arange(d + 1, dtype=np.int64) * each
        pairs = Weights.on_pairs(indptr, at.ravel(), values, rng.normal(size=k).astype(np.float32))
        rows = Weights.start_over_phi(k, d, embedding_dim=32, intercept=True, relu=False, rng=rng)
        rows.matrix[:, :32] = rng.normal(size=(k, 32))
        counts, totals = np.ones(d * each, np.float32), np.full(d, each, np.float32)
        weights = replace(pairs.beside(rows), counts=counts, totals=totals, mixture=Mixture(0.3, 3.0))
        X, y = sparse(n, d, 20), labels(k, k)[:n].astype(np.int32)
        return Calls(lambda: question(weights, X, y), {})

    return make


def implicit_embeddings(small, _):
    """Batches whose points share 1,024 drawn classes, embeddings of 192: the default's model of sparse data."""
    n, d, k, dim, m = (1000, 500, 600, 192, 128) if small else (10_000, 10_000, 10_000, 192, 1024)
    X, y = sparse(n, d, 10), labels(n, k)
    given = {"model": "embedding", "dim": dim, "sampler": "frequency", "n_negatives": m, "learning_rate": 0.1}
    given |= {"n_jobs": 1, "random_state": 0}
    return Passes(passes_of(lambda max_iter: SoftmaxClassifier(max_iter=max_iter, **given), X, y), {})


def coded(form, is_sparse):
    """The 5 best classes by weights in fewer bits."""

    def make(small, _):
        n, k, d = (200, 2048, 1000 if is_sparse else 64) if small else (2000, 16_384, 5000 if is_sparse else 256)
        model = linear_model(k, d, is_sparse).compress(form)
        X = sparse(n, d, 20) if is_sparse else dense(n, d, seed=3)
        return Calls(lambda: model.predict_top_k(X, 5), {})

    return make


KERNELS = WITH_BOUNDS | {
    "pairs": Kernel(pairs),
    "pairs, most classes unmet": Kernel(pairs_of_few_rows),
    "margins over embeddings": Kernel(margins),
    "margins by features": Kernel(margins_by_features),
    "embeddings of 192": Kernel(implicit_embeddings),
    "top 5, sparse, halves": Kernel(coded("float16", True)),
    "top 5, sparse, bytes": Kernel(coded("int8", True)),
    "top 5, dense, halves": Kernel(coded("float16", False)),
    "top 5, dense, bytes": Kernel(coded("int8", False)),
    "steps by curvature, 64 classes": Kernel(stream),
    "top 5, counts mixed": Kernel(mixed(lambda weights, X, _: weights.top_k(X, 5, 1))),
    "log-losses, counts mixed": Kernel(mixed(lambda weights, X, y: weights.log_losses(X, y, 1))),
}


def take_turns(name, small, n_rounds):
    """Run rounds of a kernel, one for each line of the standard input."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = KERNELS[name].make(small, Path(folder))
        taken = []
        told = 0

        def tell():
            nonlocal told
            print(taken[-1] if taken else "ready", flush=True)
            told += 1
            sys.stdin.readline()

        if isinstance(kernel, Calls):
            kernel.call()  # what is made once
        kernel.rounds(n_rounds, tell, taken)
        if told <= n_rounds:  # a pass is told after it, a call before the next
            tell()


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few passes do not converge
        take_turns(sys.argv[1], sys.argv[2] == "small", int(sys.argv[3]))
