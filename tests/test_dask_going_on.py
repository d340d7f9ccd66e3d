"""partial_fit and early stopping on a Dask cluster of two processes."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("distributed")

import dask
from distributed import Client
from planned import by_points as planned_by_points
from reference.dask_rows import N_CLASSES, N_FEATURES, N, equal, halves, made_rows, on_one, parts, two_workers

from manyclass import MarginClassifier, SoftmaxClassifier, solvers
from manyclass.dask import DaskMarginClassifier, DaskSoftmaxClassifier
from manyclass.dask.checking import couplings, size_of
from manyclass.dask.shards import Shard, Whole
from manyclass.dask.simulation import simulate
from manyclass.training.validation import fork, held_out

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

LOCAL = {DaskMarginClassifier: MarginClassifier, DaskSoftmaxClassifier: SoftmaxClassifier}


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


@pytest.fixture(scope="module")
def rows():
    return made_rows()


# partial_fit


def by_points(**more):
    solver = solvers.Implicit(decay=0.8, averaging="none")
    return {"solver": solver, "learning_rate": 0.5, "alpha": 1e-3, "n_negatives": 8, "random_state": 0, **more}


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


# Early stopping


def stopping(**more):
    return by_points(max_iter=30, early_stopping=True, validation_fraction=0.2, n_iter_no_change=2, **more)


@pytest.mark.parametrize("averaging", [pytest.param("none", marks=pytest.mark.long), "suffix"])
def test_early_stopping_of_one_worker_is_that_of_one_machine(client, rows, averaging):
    X, y, _ = rows
    given = stopping(solver=solvers.Implicit(decay=0.8, averaging=averaging))
    local = SoftmaxClassifier(**given).fit(X, y)
    found = DaskSoftmaxClassifier(**given, client=client).fit(*on_one(client, X, y))
    assert found.n_iter_ == local.n_iter_
    assert found.best_iter_ == local.best_iter_
    assert equal(found.to_local(), local)
    # Log-sums of the core go through the classes in another order: single precision.
    np.testing.assert_allclose(found.validation_curve_, local.validation_curve_, rtol=1e-5)


def test_early_stopping_of_two_workers_is_what_one_process_makes_that_simulates_them(client, rows):
    X, y, _ = rows
    found = DaskSoftmaxClassifier(**stopping(), client=client).fit(*parts(X, y))
    held, random = [], np.random.RandomState(0)
    for number, some in enumerate(np.split(np.arange(N), 2)):
        own = random if number == 0 else np.random.RandomState([fork(random).randint(2**31 - 1), number])
        held.append(some[held_out(y[some], 0.2, fork(own))])
    local = SoftmaxClassifier(**stopping())
    labels = y.astype(np.int32)
    kept = np.setdiff1d(np.arange(N), np.concatenate(held))
    plan = planned_by_points(local, X[kept], labels[kept], N_CLASSES).plan
    shards = halves(X, labels, held=np.concatenate(held))
    whole = Whole(np.bincount(labels[kept], minlength=N_CLASSES).astype(float), 2, N_FEATURES, len(kept), False)
    outs = [Shard(X[some], labels[some], None, at, 0) for at, some in enumerate(held)]
    coupling = couplings([size_of(shard) for shard in shards], fit_intercept=True)
    weights, curve = simulate(plan, whole, shards, coupling, held=outs, n_iter_no_change=2)
    np.testing.assert_array_equal(found.loss_curve_, curve)
    np.testing.assert_array_equal(found.to_local().coef_, weights.coef)
    assert found.n_iter_ < 30
    assert found.best_iter_ == found.n_iter_ - 2


def test_a_worker_may_hold_no_rows_out_but_one_must(client, rows):
    X, y, _ = rows
    # The second worker has a row of each of its classes.
    first, second = np.arange(200), 200 + np.unique(y[200:], return_index=True)[1]
    dX, dy = ([dask.delayed(one[first]), dask.delayed(one[second])] for one in (X, y))
    found = DaskSoftmaxClassifier(**stopping(), client=client).fit(dX, dy)
    assert len(found.work_) == 2
    assert len(found.validation_curve_) == found.n_iter_
    dX, dy = ([dask.delayed(one[some]) for some in (second[:8], second[8:])] for one in (X, y))
    with pytest.raises(ValueError, match="early_stopping needs a class with at least two points"):
        DaskSoftmaxClassifier(**stopping(), client=client).fit(dX, dy)
