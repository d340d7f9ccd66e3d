"""Early stopping on a Dask cluster of two workers: each worker holds out rows of its own."""

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask
from reference.dask_rows import (
    KINDS_OF_WORKERS,
    N_CLASSES,
    N_FEATURES,
    N,
    by_points,
    equal,
    halves,
    made_rows,
    on_one,
    parts,
    some_workers,
)
from reference.dask_simulation import plan_of, simulate

from manyclass import SoftmaxClassifier, solvers
from manyclass.classifiers.base import planner_of
from manyclass.dask import DaskSoftmaxClassifier
from manyclass.dask.loading import divide, draw_groups, load, sizes_of_groups
from manyclass.dask.passes import Shard, Whole
from manyclass.training.passes import fork
from manyclass.training.plan import held_out

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module", params=KINDS_OF_WORKERS)
def client(request):
    with some_workers(request.param) as client:
        yield client


@pytest.fixture(scope="module")
def rows():
    return made_rows()


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
    labels = y.astype(np.int32)
    kept = np.setdiff1d(np.arange(N), np.concatenate(held))
    plan = plan_of(SoftmaxClassifier(**stopping()), X[kept], labels[kept], N_CLASSES)
    shards = halves(X, labels, held=np.concatenate(held))
    whole = Whole(np.bincount(labels[kept], minlength=N_CLASSES).astype(float), 2, N_FEATURES, len(kept), False)
    outs = [Shard(X[some], labels[some], None, at, 0) for at, some in enumerate(held)]
    weights, curve = simulate(plan, whole, shards, held=outs, n_iter_no_change=2)
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


def test_groups_of_one_worker_are_those_of_one_machine(client, rows):
    X, y, _ = rows
    groups = np.arange(N) // 5
    local = SoftmaxClassifier(**stopping()).fit(X, y, groups=groups)
    model = DaskSoftmaxClassifier(**stopping(), client=client)
    X_parts, y_parts, groups_parts = on_one(client, X, y, groups)
    model.fit(X_parts, y_parts, groups=groups_parts)
    assert equal(model.to_local(), local)


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_a_group_is_held_out_on_all_workers(kind):
    groups = np.arange(40) % 10
    labels = groups if kind == "numbers" else np.array([f"person {group}" for group in groups])
    rng, planner = np.random.default_rng(0), planner_of(SoftmaxClassifier())
    X, y = rng.normal(size=(40, 3)).astype(np.float32), np.arange(40) // 2 % 2
    halves_of_rows = [
        load(planner, None, [(X[half], y[half], None, labels[half])]) for half in (np.s_[:15], np.s_[15:])
    ]
    out = draw_groups(list(map(sizes_of_groups, halves_of_rows)), 0.3, np.random.RandomState(0))
    assert len(out) == 3
    divided = [divide(points, n, (np.random.RandomState(0), 0.3, out)) for n, points in enumerate(halves_of_rows)]
    trained, held = (np.concatenate([both[which].groups for both in divided]) for which in (0, 1))
    assert set(held) == set(out)
    assert not set(held) & set(trained)
    with pytest.raises(ValueError, match="groups has one group"):
        draw_groups([sizes_of_groups(halves_of_rows[0].some(np.array([0])))], 0.3, np.random.RandomState(0))


def test_a_cluster_may_be_given_groups(client, rows):
    X, y, _ = rows
    groups = np.array([f"person {n // 5}" for n in range(N)])
    model = DaskSoftmaxClassifier(**stopping(), client=client)
    X_parts, y_parts, groups_parts = parts(X, y, groups)
    model.fit(X_parts, y_parts, groups=groups_parts)
    assert model.best_iter_ <= model.n_iter_
    with pytest.raises(ValueError, match=r"X has 4 parts, groups has 1"):
        model.fit(X_parts, y_parts, groups=[dask.delayed(groups)])
