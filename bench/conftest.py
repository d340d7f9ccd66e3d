"""Data for the benchmarks, and the machine that a row was measured on."""

import os
import platform
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from manyclass import _core
from manyclass.datasets import load_multiclass


def machine():
    """What every row must say."""
    names = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in names if line.startswith("model name")), platform.processor())
    load = [round(x, 1) for x in os.getloadavg()]
    return {"cpu": model, "cores": os.cpu_count(), "isa": _core.best_isa(), "load": load}


def dense_planted(n_classes, n_features, n_train, n_test, *, noise, seed=0):
    """Gaussian points around class means, so that the best classifier is a linear softmax: W_true and b_true.

    Means stand in a thousand clusters (one per ten classes where there are fewer than 10,000), with norms that vary by
    a factor of 1.35; classes are equally frequent. The smaller `noise`, the fewer classes a point may belong to.
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((min(1000, n_classes // 10), n_features)) / np.sqrt(n_features)
    means = centres[rng.integers(0, len(centres), n_classes)]
    means = means + 0.7 * rng.standard_normal((n_classes, n_features)) / np.sqrt(n_features)
    means *= np.exp(0.3 * rng.standard_normal((n_classes, 1)))
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_train + n_test - n_classes)])
    X = means[y].astype(np.float32)
    X += np.float32(noise) * rng.standard_normal(X.shape, dtype=np.float32)
    order = rng.permutation(n_train)  # each class is among the training points
    return SimpleNamespace(
        X_train=X[order],
        y_train=y[order],
        X_test=X[n_train:],
        y_test=y[n_train:],
        W_true=(means / noise**2).astype(np.float32),
        b_true=(-np.square(means).sum(axis=1) / (2 * noise**2)).astype(np.float32),
    )


@pytest.fixture(scope="session")
def dataset():
    """A function from a name to its first-label data: unit rows, unseen classes dropped."""
    if "MANYCLASS_DATA" not in os.environ:
        pytest.skip("MANYCLASS_DATA does not name a folder of data sets")
    return load_multiclass


@pytest.fixture(scope="session")
def data_folder():
    """The folder that MANYCLASS_DATA names."""
    if "MANYCLASS_DATA" not in os.environ:
        pytest.skip("MANYCLASS_DATA does not name a folder of data sets")
    return Path(os.environ["MANYCLASS_DATA"])


def pytest_addoption(parser):
    parser.addoption("--again", action="store_true", help="measure anew what results/quality.jsonl has a record of")
