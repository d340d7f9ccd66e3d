"""What a callback sees of the current iterate is the model that training would return there."""

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, solvers


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"solver": "exact", "alpha": 0.01},
        {"solver": "implicit", "alpha": 0.01},
        {"solver": solvers.Implicit(max_norm=0.5), "sampler": "uniform"},
    ],
    ids=str,
)
@pytest.mark.parametrize("sparse", [True, False])
def test_scores_norm_and_evaluation_after_the_last_pass_are_those_of_the_model(parameters, sparse, seed):
    rng = np.random.default_rng(seed)
    dense = (rng.random((90, 7)) * (rng.random((90, 7)) < 0.5)).astype(np.float32)
    X = sp.csr_array(dense) if sparse else dense
    y = np.concatenate([np.arange(20), rng.integers(0, 20, 70)])
    seen = {}

    def note(state):
        seen["scores"], seen["norm"], seen["found"] = state.scores(X), state.squared_norm(), state.evaluate(X, y)

    model = SoftmaxClassifier(**{"solver": "exact", "max_iter": 3, "random_state": seed} | parameters)
    model.fit(X, y, callback=note)
    # Factors of rows are multiplied in at the end, which rounds each weight once more.
    np.testing.assert_allclose(seen["scores"], model.decision_function(X), rtol=1e-5, atol=1e-6)
    assert seen["norm"] == pytest.approx(float(np.square(model.coef_.astype(np.float64)).sum()), rel=1e-6)
    assert seen["found"]["log_loss"] == pytest.approx(model.evaluate(X, y)["log_loss"], rel=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_array, sp.csr_matrix, lambda X: X.tolist()])
def test_a_state_takes_the_data_that_fit_takes(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 5)).round(3)  # float64
    y = np.arange(60) % 4
    seen = []

    def note(state):
        plain = X.astype(np.float32)
        found, wanted = state.evaluate(kind(X), y), state.evaluate(plain, y)
        seen.append(found == pytest.approx(wanted) and np.allclose(state.scores(kind(X)), state.scores(plain)))

    SoftmaxClassifier(solver="exact", max_iter=1).fit(X, y, callback=note)
    assert seen == [True]
