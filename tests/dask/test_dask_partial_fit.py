"""partial_fit on a Dask cluster of two workers."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("distributed")

from distributed import Client
from reference.dask_rows import KINDS_OF_WORKERS, N, by_points, equal, made_rows, on_one, parts, some_workers

from manyclass import MarginClassifier, SoftmaxClassifier, solvers
from manyclass.dask import DaskMarginClassifier, DaskSoftmaxClassifier

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

LOCAL = {DaskMarginClassifier: MarginClassifier, DaskSoftmaxClassifier: SoftmaxClassifier}


@pytest.fixture(scope="module", params=KINDS_OF_WORKERS)
def client(request):
    with some_workers(request.param) as client:
        yield client


@pytest.fixture(scope="module")
def rows():
    return made_rows()


CALLS = (
    (DaskSoftmaxClassifier, by_points(max_iter=4), False),
    pytest.param(
        DaskSoftmaxClassifier,
        by_points(max_iter=4, solver=solvers.UMax(formulation="raman"), learning_rate=0.1),
        False,
        marks=pytest.mark.long,
    ),
    (DaskSoftmaxClassifier, {"solver": "umax", "model": "linear", "learning_rate": 0.3, "random_state": 0}, True),
    (DaskMarginClassifier, {"max_iter": 4, "random_state": 0}, False),
)


@pytest.mark.parametrize(("kind", "given", "several"), CALLS)
@pytest.mark.parametrize("begins", ["fit", pytest.param("partial_fit", marks=pytest.mark.long)])
def test_partial_fit_of_one_worker_is_that_of_one_machine_bit_for_bit(client, rows, kind, given, several, begins):
    X, y, Y = rows
    y = Y if several else np.minimum(y, 20)
    later = Y if several else rows[1]  # with new classes
    more = {} if several else {"classes": np.arange(30)}
    found, local = kind(**given, client=client), LOCAL[kind](**given)
    first, second = slice(0, 200), slice(200, N)
    getattr(found, begins)(*on_one(client, X[first], y[first]))
    getattr(local, begins)(X[first], y[first])
    for passes in (1, 2):
        found.partial_fit(*on_one(client, X[second], later[second]), n_passes=passes, **more)
        local.partial_fit(X[second], later[second], n_passes=passes, **more)
    there = found.to_local()
    assert equal(there, local)
    np.testing.assert_array_equal(found.classes_, local.classes_)
    np.testing.assert_array_equal(there.class_count_, local.class_count_)
    np.testing.assert_array_equal(found.loss_curve_, local.loss_curve_)
    assert there._fitted.history == local._fitted.history
    assert repr(there.resolved_params_) == repr(local.resolved_params_)
    assert there.resolved_params_
    # It goes on on one machine, too.
    there.partial_fit(X[first], y[first])
    local.partial_fit(X[first], y[first])
    assert equal(there, local)


def test_a_first_call_with_all_but_steps_open_is_that_of_one_machine_bit_for_bit(client, rows):
    X, y, _ = rows
    first, second = slice(0, 200), slice(200, N)
    given = {"learning_rate": 0.5, "random_state": 0}  # which is open on one machine alone falls by curvature
    found, local = DaskSoftmaxClassifier(**given, client=client), SoftmaxClassifier(**given)
    for some in (first, second):
        found.partial_fit(*on_one(client, X[some], y[some]), classes=np.arange(24))
        local.partial_fit(X[some], y[some], classes=np.arange(24))
        assert equal(found.to_local(), local)
    assert repr(found.resolved_params_) == repr(local.resolved_params_)
    np.testing.assert_array_equal(found.class_count_, local.class_count_)


def test_partial_fit_on_two_workers_keeps_what_was_learnt_and_w_on_the_workers(client, rows):
    X, y, _ = rows
    dX, dy = parts(X, y)
    found = DaskSoftmaxClassifier(**by_points(max_iter=6), client=client).fit(dX, dy)
    before = found.evaluate(dX, dy)["log_loss"]
    moved = []
    original = Client.gather
    try:
        Client.gather = lambda self, futures, *a, **k: moved.append(original(self, futures, *a, **k)) or moved[-1]
        found.partial_fit(dX, dy)
    finally:
        Client.gather = original
    assert max(len(pickle.dumps(one)) for one in moved) < 16_000  # W is not among them; classes and facts are
    assert found.n_iter_ == 7
    assert len(found.work_) == 2
    assert found.evaluate(dX, dy)["log_loss"] < before + 0.05
    copy = pickle.loads(pickle.dumps(found))  # whose W is in its own memory
    assert equal(copy.partial_fit(dX, dy).to_local(), found.partial_fit(dX, dy).to_local())


def test_partial_fit_refuses_what_one_machine_refuses(client, rows):
    X, y, Y = rows
    found = DaskSoftmaxClassifier(**by_points(max_iter=1), client=client).fit(*parts(X, y))
    for change, data, told in (
        ({"early_stopping": True}, parts(X, y), "early_stopping is True"),
        ({"class_weight": "balanced"}, parts(X, y), "class_weight"),
        ({}, parts(X[:, :5], y), "X has 5 features"),
        ({}, parts(X, sp.csr_array(Y)), "an indicator matrix of labels"),
        ({"solver": "adagrad", "alpha": "auto"}, parts(X, y), "trained otherwise"),
        ({"division": "rows and classes", "solver": "exact"}, parts(X, y), "division"),
    ):
        own = found.get_params()
        with pytest.raises(ValueError, match=told):
            found.set_params(**change).partial_fit(*data)
        found.set_params(**own)
