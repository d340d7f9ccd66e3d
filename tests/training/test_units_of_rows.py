"""Embeddings know no unit of X: rows times any number train to the same model."""

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier


def planted(n=1500, n_classes=40, n_features=300, seed=0):
    """Rows of ten features, of which some tell the class, of unit length."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    of_class = rng.integers(0, n_features, (n_classes, 6))
    columns = np.concatenate([of_class[y][:, :3], rng.integers(0, n_features, (n, 7))], axis=1)
    X = sp.csr_array((np.full(n * 10, 10**-0.5, np.float32), (np.repeat(np.arange(n), 10), columns.ravel())))
    return X, y


@pytest.mark.parametrize("parameters", [{}, {"model": "embedding"}, {"model": "hybrid"}], ids=str)
@pytest.mark.parametrize("scale", [2.0**-8, 8.0])
def test_rows_times_a_power_of_two_have_the_same_loss(parameters, scale):
    X, y = planted()
    losses = []
    for by in (1.0, scale):
        model = SoftmaxClassifier(random_state=0, **parameters).fit(X * np.float32(by), y)
        losses.append(model.evaluate(X * np.float32(by), y)["log_loss"])
    # Nothing but what the float of an Adagrad sum or a ridge loses or gains may differ: seeds differ by some .02.
    assert losses[1] == pytest.approx(losses[0], abs=0.02)
