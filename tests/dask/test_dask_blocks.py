"""Training by rows and classes on a Dask cluster of three workers: no worker has all of W, the loss is as good."""

import sys
import threading
import time
import weakref
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("distributed")

import dask.array as da
from distributed import Client, LocalCluster, get_worker
from reference import dask_simulation
from reference.dask_rows import KINDS_OF_WORKERS, some_workers
from reference.dask_simulation import simulate_blocks
from scipy.special import logsumexp

from manyclass import SoftmaxClassifier, _core, solvers
from manyclass.checks import csr_parts
from manyclass.dask import DaskSoftmaxClassifier
from manyclass.dask import blocks as dask_blocks
from manyclass.dask.blocks import Block, best_of, look
from manyclass.dask.costs import takes_exact_steps
from manyclass.dask.passes import Shard, Whole
from manyclass.training.plan import Schedule
from manyclass.weights.weights import Weights

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

N, N_FEATURES, N_CLASSES, CHUNK, N_WIDE = 600, 12, 20, 100, 5000


@pytest.fixture(scope="module", params=KINDS_OF_WORKERS)
def client(request):
    with some_workers(request.param, 3, "2GiB") as client:
        yield client


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(N, N_FEATURES)) * (rng.random((N, N_FEATURES)) < 0.5)).astype(np.float32)
    y = np.argmax(X @ (2 * rng.normal(size=(N_FEATURES, N_CLASSES))) + rng.gumbel(size=(N, N_CLASSES)), axis=1)
    return X, y


def arrays(X, y):
    return da.from_array(X, chunks=(CHUNK, -1)), da.from_array(y, chunks=CHUNK)


def model(**more):
    own = {"solver": solvers.Exact(decay=0.8), "learning_rate": 0.5, "alpha": 1e-3, "max_iter": 8, "random_state": 0}
    return {**own, **more}


@pytest.fixture(scope="module")
def fitted(client, data):
    return DaskSoftmaxClassifier(**model(), division="rows and classes", client=client).fit(*arrays(*data))


def thirds(X, labels):
    return [Shard(X[at : at + 200], labels[at : at + 200], None, at // 200, at) for at in range(0, N, 200)]


def plan_of(X, labels, **more):
    return dask_simulation.plan_of(SoftmaxClassifier(**model(**more)), X, labels, N_CLASSES)


def test_three_workers_make_what_one_process_makes_that_simulates_them(fitted, data):
    X, labels = data[0], data[1].astype(np.int32)
    whole = Whole(np.bincount(labels).astype(float), 3, N_FEATURES, N, False)
    weights, curve = simulate_blocks(plan_of(X, labels), whole, thirds(X, labels))
    np.testing.assert_array_equal(fitted.to_local().coef_, weights.coef)
    np.testing.assert_array_equal(fitted.to_local().intercept_, weights.intercept)
    np.testing.assert_allclose(fitted.loss_curve_, curve, rtol=1e-12)  # sums in another order


@pytest.mark.parametrize(("sparse", "alpha", "n_merges"), [(False, 1e-3, 1), (True, 0.0, 3), (True, 1e-3, 1)])
def test_sampled_steps_of_three_workers_are_those_of_one_process(client, data, sparse, alpha, n_merges):
    own = {"solver": solvers.Implicit(decay=0.8), "sampler": "uniform", "n_negatives": 9, "alpha": alpha, "max_iter": 4}
    X, labels = sp.csr_array(data[0]) if sparse else data[0], data[1].astype(np.int32)
    dX, dy = arrays(*data)
    if sparse:
        dX = dX.map_blocks(sp.csr_matrix, meta=sp.csr_matrix((0, 0)))
    client.run(pieces_of, 512)  # bytes; as it is, blocks of less than 64 MB move whole
    try:
        given = {**model(**own), "division": "rows and classes", "n_merges": n_merges}
        found = DaskSoftmaxClassifier(**given, client=client).fit(dX, dy)
    finally:
        client.run(pieces_of, 64 << 20)
    shards = thirds(X, labels)
    whole = Whole(np.bincount(labels).astype(float), 3, N_FEATURES, N, sparse)
    weights, curve = simulate_blocks(plan_of(X, labels, **own), whole, shards, n_merges)
    np.testing.assert_array_equal(found.to_local().coef_, weights.coef)
    np.testing.assert_array_equal(found.to_local().intercept_, weights.intercept)
    np.testing.assert_allclose(found.loss_curve_, curve, rtol=1e-12)  # sums in another order
    # Of 3 classes drawn in each of 3 blocks, labels once: 20 classes are met less often than all are.
    assert sum(counts["class_updates"] for counts in found.work_) == 4 * N * (3 * 3 + 1)
    assert [counts["n_visits"] for counts in found.work_] == [4 * N // 3] * 3


def pieces_of(n_bytes):
    dask_blocks.PIECE_BYTES = n_bytes


def test_solver_auto_takes_exact_steps_where_classes_are_few_and_samples_where_they_are_many(client, data):
    assert takes_exact_steps(20, 6)
    assert not takes_exact_steps(10_000, 6)
    found = DaskSoftmaxClassifier(division="rows and classes", max_iter=1, random_state=0, client=client)
    assert found.fit(*arrays(*data)).work_[0]["class_updates"] == N / 3 * N_CLASSES


def test_the_optimum_of_the_ridged_loss_is_reached(data):
    X, labels = data[0], data[1].astype(np.int32)
    exact = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-6), alpha=1e-3, max_iter=1000).fit(X, labels)
    best = exact.certificate(X, labels)
    assert best["gap"] < 1e-4
    plan = replace(plan_of(X, labels), max_iter=60, schedule=Schedule("exponential", 0.5, 0.5, 0.95))
    whole = Whole(np.bincount(labels).astype(float), 3, N_FEATURES, N, False)
    weights, _ = simulate_blocks(plan, whole, thirds(X, labels))
    losses, _ = weights.log_losses(X, labels, 1)
    assert losses.mean() + 5e-4 * float(np.sum(np.square(weights.coef))) < best["primal"] + 0.01  # nats, of the issue


def test_every_worker_visits_its_rows_once_a_pass_and_sends_w_once(fitted):
    block = 4 * (N_FEATURES + 2) * N_CLASSES  # intercepts, and factors of rows
    for counts in fitted.work_:
        assert counts["n_visits"] == 8 * N / 3
        assert counts["class_updates"] == 8 * N / 3 * N_CLASSES
        assert counts["bytes_in"] == counts["bytes_out"] == 8 * block


def test_answers_of_blocks_are_those_of_the_whole(fitted, data):
    X, y = data
    dX, _ = arrays(X, y)
    local = fitted.to_local()
    np.testing.assert_array_equal(fitted.predict(dX).compute(), local.predict(X))
    np.testing.assert_allclose(fitted.predict_proba(dX).compute(), local.predict_proba(X), rtol=1e-4)  # float32 scores
    labels, log_p = fitted.predict_top_k(dX, 3)
    np.testing.assert_array_equal(labels.compute(), local.predict_top_k(X, 3)[0])
    np.testing.assert_allclose(log_p.compute(), local.predict_top_k(X, 3)[1], rtol=1e-4, atol=1e-5)
    weights = np.linspace(0, 2, N)
    with pytest.raises(ValueError, match="X has 3 features, but"):
        fitted.predict(dX[:, :3]).compute()
    found = fitted.evaluate(dX, da.from_array(np.where(np.arange(N) % 50, y, 99), chunks=CHUNK), da.from_array(weights))
    expected = local.evaluate(X, np.where(np.arange(N) % 50, y, 99), weights)
    assert found == pytest.approx(expected, rel=1e-5)


def test_division_is_chosen_by_sizes(client, data):
    X, y = data
    assert "solver is 'umax'" in refused(client, data, solver="umax")
    assert "averaging is 'suffix'" in refused(client, data, solver=solvers.Implicit(averaging="suffix"))
    assert "formulation is 'proposed'" in refused(client, data, solver=solvers.Implicit(formulation="proposed"))
    small = DaskSoftmaxClassifier(**model(max_iter=1), client=client).fit(*arrays(X, y))
    assert small.division_ == "rows"
    # 20 classes of 4 million features: 320 MB, of which a worker of 2 GiB would have four copies.
    wide = da.from_array(X, chunks=(CHUNK, -1)).map_blocks(widened, 4_000_000, meta=sp.csr_matrix((0, 0)))
    large = DaskSoftmaxClassifier(**model(max_iter=1), client=client)
    assert large.fit(wide, da.from_array(y, chunks=CHUNK)).division_ == "rows and classes"


def widened(x, n_features=N_WIDE):
    rows, columns = np.nonzero(x)
    return sp.csr_matrix((x[rows, columns], (rows, columns)), shape=(len(x), n_features))


def refused(client, data, **more):
    with pytest.raises(ValueError, match="division='rows and classes'") as told:
        DaskSoftmaxClassifier(**more, division="rows and classes", client=client).fit(*arrays(*data))
    return str(told.value)


def test_a_block_of_a_random_model_agrees_with_all_scores(seed):
    rng = np.random.default_rng(seed)
    X, W, b = rng.normal(size=(150, 5)), rng.normal(size=(5, 11)), rng.normal(size=11)
    X, W, b = (one.astype(np.float32) for one in (X, W, b))
    labels = rng.integers(0, 11, 150).astype(np.int32)
    blocks = [
        Block(at.start, Weights.linear(W.T[at].copy(), b[at], by_feature=False), np.ones_like(b[at]))
        for at in (slice(0, 4), slice(4, 11))
    ]
    best, log_p, losses = best_of([look(block, X, 3, labels) for block in blocks], 3)
    z = (X @ W + b).astype(np.float64)
    exact = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    order = np.argsort(-exact, axis=1)[:, :3]
    np.testing.assert_array_equal(best, order)
    np.testing.assert_allclose(log_p, np.take_along_axis(exact, order, axis=1), atol=1e-5)
    np.testing.assert_allclose(losses, -exact[np.arange(150), labels], atol=1e-5)


def block_of(rng, sparse):
    """Rows, some of whose labels are in a block of 21 classes, and its weights, which the layout for them holds."""
    x = (rng.normal(size=(50, 7)) * (rng.random((50, 7)) < 0.6)).astype(np.float32)
    w, b = rng.normal(size=(21, 7)).astype(np.float32), rng.normal(size=21).astype(np.float32)
    matrix = np.pad(w.T, ((0, 0), (0, 11))).copy() if sparse else w.copy()
    labels = rng.integers(-10, 40, 50).astype(np.int32)
    given = {
        "x": csr_parts(sp.csr_array(x)) if sparse else x,
        "matrix": matrix,
        "intercept": b.copy(),
        "labels": labels,
    }
    return x.astype(float), w.astype(float), b.astype(float), given


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.01])
def test_exact_steps_are_those_of_numpy(seed, sparse, alpha):
    rng = np.random.default_rng(seed)
    x, w, b, given = block_of(rng, sparse)
    r, parts, order, eta = rng.uniform(0.5, 2, 50), rng.normal(size=(50, 3)), rng.permutation(50)[:40], 0.7
    log_sums, total = parts.copy(), 0.0
    for rows in np.array_split(order, 5):
        z = x[rows] @ w.T + b
        parts[rows, 1] = logsumexp(z, axis=1)
        v = logsumexp(parts[rows], axis=1)
        p, own = np.exp(z - v[:, np.newaxis]), given["labels"][rows][:, np.newaxis] == np.arange(21)
        total += r[rows] @ np.sum(own * (v[:, np.newaxis] - z), axis=1)
        step = eta / (1 + eta * ((np.sum(x[rows] ** 2, axis=1) + 1) * r[rows]) @ (p + own / 4))
        g = (p - own) * r[rows][:, np.newaxis]
        w = w / (1 + 8 * alpha * step[:, np.newaxis]) - step[:, np.newaxis] * (g.T @ x[rows])
        b = b - step * g.sum(axis=0)
    how = {"number": 1, "together": 8, "eta": eta, "alpha": alpha, "fit_intercept": True}
    found = _core.exact_block_steps(
        **given, **how, sample_weight=r, log_sums=log_sums, order=order.astype(np.int32), isa="auto"
    )
    # Five steps in single precision.
    np.testing.assert_allclose(given["matrix"][:, :21].T if sparse else given["matrix"], w, atol=2e-5)
    np.testing.assert_allclose(given["intercept"], b, atol=2e-5)
    np.testing.assert_allclose(log_sums, parts, atol=2e-5)
    assert found == (pytest.approx(total, rel=1e-5), True)
    assert not sparse or not given["matrix"][:, 21:].any()


def test_exact_steps_tell_of_numbers_that_are_not_finite():
    given = {"matrix": np.full((3, 2), np.inf, dtype=np.float32), "intercept": np.zeros(3, dtype=np.float32)}
    given |= {"x": np.ones((1, 2), dtype=np.float32), "labels": np.array([-1], dtype=np.int32), "number": 0}
    given |= {"log_sums": np.zeros((1, 1)), "order": np.zeros(1, dtype=np.int32), "together": 1, "alpha": 0.0}
    assert not _core.exact_block_steps(**given, eta=1.0, fit_intercept=False)[1]
    with pytest.raises(ValueError, match="not those of the points"):
        _core.exact_block_steps(**given | {"number": 1}, eta=1.0, fit_intercept=False)


@pytest.mark.parametrize("sparse", [False, True])
def test_log_sums_are_estimated_from_some_classes_and_the_label(seed, sparse):
    rng = np.random.default_rng(seed)
    x, w, b, given = block_of(rng, sparse)
    scale, classes = rng.uniform(0.5, 1, 21).astype(np.float32), rng.permutation(21)[:9]
    weights = np.full(21, -np.inf)
    weights[classes] = rng.normal(size=9)
    of_row = np.tile(weights, (50, 1))
    own = np.flatnonzero((given["labels"] >= 0) & (given["labels"] < 21))
    of_row[own, given["labels"][own]] = 0
    found = _core.estimated_log_sums(
        **given, scale=scale, classes=classes.astype(np.int32), log_weights=weights[classes]
    )
    np.testing.assert_allclose(found, logsumexp(x @ w.T * scale + b + of_row, axis=1), atol=1e-5)  # single precision


ALIVE, MOST, LOCK = {}, {}, threading.Lock()  # bytes of arrays with weights, by worker
# As one of some MB takes: tiny ones are made faster than the scheduler lets go of others, on a busy machine above all.
PIECE_SECONDS = 0.01
BUFFER_AT_ZERO, GIVE_PIECE = dask_blocks.buffer_at_zero, dask_blocks.give_piece


def counted(made):
    place = get_worker().address
    count(place, made.nbytes)
    weakref.finalize(made, count, place, -made.nbytes)
    return made


def count(place, n_bytes):
    with LOCK:
        ALIVE[place] = ALIVE.get(place, 0) + n_bytes
        MOST[place] = max(MOST.get(place, 0), ALIVE[place])


def counted_buffer(*given):
    return counted(BUFFER_AT_ZERO(*given))


def counted_piece(*given):
    time.sleep(PIECE_SECONDS)
    return counted(GIVE_PIECE(*given))


def test_a_worker_never_holds_two_blocks(data, monkeypatch):
    """By a counter of the arrays that hold weights, not by what the process takes."""
    monkeypatch.setattr(dask_blocks, "PIECE_BYTES", 1 << 12)
    monkeypatch.setattr(dask_blocks, "buffer_at_zero", counted_buffer)
    monkeypatch.setattr(dask_blocks, "give_piece", counted_piece)
    wide = da.from_array(data[0], chunks=(CHUNK, -1)).map_blocks(widened, meta=sp.csr_matrix((0, 0)))
    own = model(solver="implicit", n_negatives=9, max_iter=2)
    given = {"threads_per_worker": 1, "dashboard_address": ":0"}
    block = 4 * (N_WIDE * 16 + 2 * 7)
    for seconds in (0.01, 0.1, 0.5):
        monkeypatch.setattr(sys.modules[__name__], "PIECE_SECONDS", seconds)
        MOST.clear()
        with LocalCluster(n_workers=3, processes=False, **given) as cluster, Client(cluster) as client:
            made = DaskSoftmaxClassifier(**own, division="rows and classes", client=client)
            made.fit(wide, da.from_array(data[1], chunks=CHUNK))
        assert len(MOST) == 3
        # Two pieces that move, and those that the scheduler has not let go of yet: one or two on a quiet machine, up to
        # ten were seen at a load of 8 on two cores, 39 once at 12. A second block would be all sixteen.
        pieces = [(most / block - 1) * dask_blocks.MOST_PIECES for most in MOST.values()]
        if max(pieces) < dask_blocks.MOST_PIECES - 0.1:
            break
    else:
        pytest.fail(f"pieces beside a block: {pieces}")
