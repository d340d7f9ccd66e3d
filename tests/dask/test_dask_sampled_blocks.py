"""Sampled steps on blocks of classes, without a cluster: a visit is the proximal step of its objective."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp

pytest.importorskip("distributed")

from reference import dask_simulation
from reference.dask_simulation import simulate_blocks

from manyclass import SoftmaxClassifier, samplers, solvers
from manyclass.dask.blocks import (
    StoredPiece,
    block_in,
    bounds_of,
    buffer_at_zero,
    cuts_of,
    give_piece,
    log_sums_at_zero,
    lost_log_sums,
    n_pieces,
    place_in_block,
    plan_on_block,
    size_of,
    take_piece,
    turn,
)
from manyclass.dask.passes import Shard, Stretch, Whole

N_FEATURES, N_CLASSES = 6, 11


def plan_of(X, labels, n_classes, **more):
    own = {
        "solver": solvers.Implicit(decay=0.8, averaging="none", formulation="raman"),
        "sampler": samplers.Uniform(),
        "n_negatives": 4,
        "learning_rate": 0.5,
        "max_iter": 3,
        "random_state": 0,
    }
    return dask_simulation.plan_of(SoftmaxClassifier(**{**own, **more}), X, labels, n_classes)


def problem(seed, *, sparse, n=1, label=None, weights=None):
    """A random W in two buffers, and rows with random parts of v."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, N_FEATURES)).astype(np.float32)
    labels = rng.integers(0, N_CLASSES, n).astype(np.int32) if label is None else np.full(n, label, dtype=np.int32)
    counts = rng.integers(1, 9, N_CLASSES).astype(float)
    whole = Whole(counts, 2, N_FEATURES, int(counts.sum()), sparse)
    given = sp.csr_array(x) if sparse else x
    shard = Shard(given, labels, weights, 0, 0)
    buffers = [buffer_at_zero(whole, number) for number in range(2)]
    for number, buffer in enumerate(buffers):
        weights_of = block_in(whole, buffer, number).weights
        weights_of.coef[:] = rng.normal(size=weights_of.coef.shape)
        weights_of.intercept[:] = rng.normal(size=weights_of.n_classes)
    return whole, shard, buffers, rng.normal(size=(n, 2))


def proximal(x, label, W, b, *, elsewhere, v, eta, eta_u, alpha, weight):
    """The visit from its definition, W and b being those of the block and v the old one: new W, b and v.

    Minimises the objective of the visit with all classes of the block, and the squared ways over 2 eta and 2 eta_u, by
    a general tool over all numbers at once.
    """
    k, d = W.shape

    def taken(flat):
        return flat[: k * d].reshape(k, d), flat[k * d : -1], flat[-1]

    def objective(flat):
        w, c, at = taken(flat)
        z = w @ x + c
        p = np.exp(z - at)
        value = at + np.exp(elsewhere - at) + p.sum()
        slope_z, slope_v = p.copy(), 1 - np.exp(elsewhere - at) - p.sum()
        if label is not None:
            value -= z[label]
            slope_z[label] -= 1
        ways = np.sum((w - W) ** 2) + np.sum((c - b) ** 2) + eta * alpha * np.sum(w**2)
        # u moves as with weight 1: see the core's train/common/trainer.hpp.
        total = eta * weight * value + ways / 2 + eta * weight * (at - v) ** 2 / (2 * eta_u)
        g_w = eta * weight * slope_z[:, np.newaxis] * x + (w - W) + eta * alpha * w
        g_c = eta * weight * slope_z + (c - b)
        g_v = eta * weight * slope_v + eta * weight * (at - v) / eta_u
        return total, np.concatenate([g_w.ravel(), g_c, [g_v]])

    start = np.concatenate([W.ravel(), b, [v]])
    found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    return taken(found.x)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize(("alpha", "weight"), [(0.0, None), (0.1, 2.5)])
def test_a_visit_is_the_proximal_step_of_its_objective(seed, sparse, here, alpha, weight):
    number = 1
    first, last = 5, N_CLASSES
    weights = None if weight is None else np.array([weight])
    whole, shard, buffers, sums = problem(seed, sparse=sparse, label=first + 2 if here else 1, weights=weights)
    assert cuts_of(whole)[1] == first
    plan = plan_of(shard.x, shard.labels, N_CLASSES, sampler=samplers.All(), n_negatives="auto", alpha=alpha)
    block = block_in(whole, buffers[number], number)
    W, b = block.weights.coef.astype(float), block.weights.intercept.astype(float)
    # Steps have the classes of a block in an order of their own; here W is as it lies.
    label = int(place_in_block(plan, whole, number)[2]) if here else None
    eta, eta_u = plan.schedule.at(0)
    x = np.asarray(shard.x.toarray() if sparse else shard.x, dtype=float)[0]
    known = {"elsewhere": sums[0, 0], "v": logsumexp(sums[0]), "alpha": alpha, "weight": weight or 1.0}
    expected = proximal(x, label, W, b, eta=eta, eta_u=eta_u, **known)
    made = turn(plan, whole, shard, buffers[number], number, sums, Stretch(0))
    factors = block.scale[:, np.newaxis]
    # Scores are float32: the step carries some 1e-6 of them.
    np.testing.assert_allclose(block.weights.coef * factors, expected[0], atol=2e-5, rtol=2e-5)
    np.testing.assert_allclose(block.weights.intercept, expected[1], atol=2e-5, rtol=2e-5)
    assert logsumexp(made.log_sums[0]) == pytest.approx(expected[2], abs=1e-5)
    assert made.log_sums[0, 0] == sums[0, 0]
    assert made.report.class_updates == last - first + here
    assert made.report.loss == 0 if not here else made.report.loss > 0


def test_the_gradient_that_is_drawn_is_unbiased_given_v(seed):
    """Every draw that can be, enumerated: a class moves by K_b / m times its gradient or not at all."""
    whole, shard, buffers, sums = problem(seed, sparse=False, label=1)
    number, eta = 1, 1e-4
    plan = plan_of(shard.x, shard.labels, N_CLASSES, learning_rate=eta, n_negatives=2)
    plan = replace(plan, schedule=replace(plan.schedule, u_learning_rate=1e-9, decay=1.0))
    drawn = plan_on_block(plan, whole, number).n_negatives
    block = block_in(whole, buffers[number], number)
    before, n_block = block.weights.intercept.copy(), len(block)
    x = shard.x[0].astype(float)
    z = block.weights.coef.astype(float) @ x + before
    gradient = np.exp(z - logsumexp(sums[0]))
    seen = set()
    for n_pass in range(200):
        buffer = buffers[number].copy()
        turn(plan, whole, shard, buffer, number, sums, Stretch(n_pass))
        move = block_in(whole, buffer, number).weights.intercept - before
        [moved] = np.nonzero(move)
        assert len(moved) == drawn
        seen.add(tuple(moved))
        # An implicit step of eta falls short of the explicit one by eta p |x|^2; float32 adds 1e-7 of the intercept.
        expected = -eta * n_block / drawn * gradient[moved]
        np.testing.assert_allclose(move[moved], expected, rtol=0.01 + eta * 100, atol=3e-7)
    assert seen == {(k,) for k in range(n_block)}


def rows_of(seed, n=240, sparse=True):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(n, N_FEATURES)) * (rng.random((n, N_FEATURES)) < 0.6)).astype(np.float32)
    labels = np.argmax(x @ (2 * rng.normal(size=(N_FEATURES, N_CLASSES))) + rng.gumbel(size=(n, N_CLASSES)), axis=1)
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    return (sp.csr_array(x) if sparse else x), labels


def shards_of(X, labels, n, weights=None):
    cuts = np.linspace(0, X.shape[0], n + 1).astype(int)
    return [
        Shard(X[a:b], labels[a:b], None if weights is None else weights[a:b], at, int(a))
        for at, (a, b) in enumerate(itertools.pairwise(cuts))
    ]


def whole_of(X, labels, n):
    return Whole(np.bincount(labels).astype(float), n, X.shape[1], X.shape[0], sp.issparse(X))


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("sampler", ["uniform", "frequency", "frequency_block", "block"])
def test_one_block_is_the_local_fit_in_ramans_form_bit_for_bit(sampler, sparse):
    X, labels = rows_of(0, sparse=sparse)
    plan = plan_of(X, labels, labels.max() + 1, sampler=sampler, alpha=1e-3)
    found, _ = simulate_blocks(plan, whole_of(X, labels, 1), shards_of(X, labels, 1))
    own = solvers.Implicit(decay=0.8, averaging="none", formulation="raman")
    local = SoftmaxClassifier(
        solver=own, sampler=sampler, n_negatives=4, learning_rate=0.5, alpha=1e-3, max_iter=3, random_state=0
    ).fit(X, labels)
    np.testing.assert_array_equal(found.coef, local.coef_)
    np.testing.assert_array_equal(found.intercept, local.intercept_)


@pytest.mark.parametrize("weighted", [False, True])
def test_threads_change_nothing(weighted):
    X, labels = rows_of(1)
    weights = np.linspace(0.5, 1.5, len(labels)) if weighted else None
    plan = replace(plan_of(X, labels, labels.max() + 1, alpha=1e-3), batch_size=8)
    made = [
        simulate_blocks(replace(plan, n_threads=t), whole_of(X, labels, 3), shards_of(X, labels, 3, weights))[0]
        for t in (1, 2)
    ]
    np.testing.assert_array_equal(made[0].coef, made[1].coef)
    np.testing.assert_array_equal(made[0].intercept, made[1].intercept)


@pytest.mark.parametrize("solver", ["exact", "implicit"])
def test_rounds_of_a_pass_divide_its_rows(solver):
    X, labels = rows_of(2)
    own = {} if solver == "implicit" else {"solver": solvers.Exact(), "sampler": "auto", "n_negatives": "auto"}
    plan = plan_of(X, labels, labels.max() + 1, **own)
    # With one block nothing comes between the rounds: they are the pass, bit for bit.
    one, three = (simulate_blocks(plan, whole_of(X, labels, 1), shards_of(X, labels, 1), n) for n in (1, 3))
    np.testing.assert_array_equal(one[0].coef, three[0].coef)
    np.testing.assert_allclose(one[1], three[1], rtol=1e-12)  # sums in another order
    # Rows in the order of their labels: what a block learns of the first it forgets over the others, but in rounds.
    X, labels = rows_of(3, n=1200)
    order = np.argsort(labels, kind="stable")
    X, labels = X[order], labels[order]
    whole, shards = whole_of(X, labels, 4), shards_of(X, labels, 4)
    plan = replace(plan_of(X, labels, labels.max() + 1, **own), max_iter=6)
    few, many = (simulate_blocks(plan, whole, shards, n)[0].log_losses(X, labels, 1)[0].mean() for n in (1, 8))
    assert many < few


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_optimum_of_the_ridged_loss_is_reached(n):
    X, labels = rows_of(0, n=600)
    alpha = 1e-2
    exact = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-6), alpha=alpha, max_iter=1000).fit(X, labels)
    best = exact.certificate(X, labels)
    plan = plan_of(X, labels, labels.max() + 1, alpha=alpha)
    plan = replace(plan, max_iter=40, schedule=replace(plan.schedule, decay=0.88))
    weights, _ = simulate_blocks(plan, whole_of(X, labels, n), shards_of(X, labels, n))
    losses, _ = weights.log_losses(X, labels, 1)
    found = losses.mean() + alpha / 2 * float(np.sum(np.square(weights.coef)))
    assert best["dual"] - 1e-6 < found < best["primal"] + 0.01  # nats, of the issue


def test_a_part_is_never_more_than_v_and_rows_keep_those_of_other_blocks(seed):
    X, labels = rows_of(seed)
    whole, shards = whole_of(X, labels, 3), shards_of(X, labels, 3)
    plan = plan_of(X, labels, labels.max() + 1, learning_rate=5.0)
    buffers = [buffer_at_zero(whole, at) for at in range(3)]
    sums = log_sums_at_zero(whole, shards[0])
    for number in range(3):
        made = turn(plan, whole, shards[0], buffers[number], number, sums, Stretch(0))
        others = [at for at in range(3) if at != number]
        np.testing.assert_array_equal(made.log_sums[:, others], sums[:, others])
        assert np.all(logsumexp(made.log_sums, axis=1) >= made.log_sums.max(axis=1) - 1e-12)
        sums = made.log_sums


@pytest.mark.parametrize("sparse", [True, False])
def test_blocks_change_seats_in_pieces(monkeypatch, seed, sparse):
    monkeypatch.setattr("manyclass.dask.blocks.PIECE_BYTES", 64)
    whole = Whole(np.ones(50), 3, 7, 50, sparse)
    assert n_pieces(whole) > 1
    rng = np.random.default_rng(seed)
    buffers = [buffer_at_zero(whole, number) for number in range(3)]
    for number, buffer in enumerate(buffers):
        buffer[: size_of(whole, number)] = rng.normal(size=size_of(whole, number))
    were = [buffer[: size_of(whole, at)].copy() for at, buffer in enumerate(buffers)]
    for piece in range(n_pieces(whole)):
        given = [give_piece(whole, buffer, piece) for buffer in buffers]
        for at, buffer in enumerate(buffers):
            take_piece(whole, buffer, piece, given[(at + 1) % 3])
    for at, buffer in enumerate(buffers):
        np.testing.assert_array_equal(buffer[: len(were[(at + 1) % 3])], were[(at + 1) % 3])


def test_a_copy_on_disk_has_what_was_written_and_goes_away(tmp_path):
    whole = Whole(np.ones(50), 3, 7, 50, False)
    numbers = np.arange(len(buffer_at_zero(whole, 1)), dtype=np.float32)
    kept = [StoredPiece(numbers[bounds_of(whole, piece)], str(tmp_path)) for piece in range(n_pieces(whole))]
    np.testing.assert_array_equal(np.concatenate([piece.read() for piece in kept]), numbers)
    del kept
    assert not list(tmp_path.iterdir())


# Rows whose parts of v were lost


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("solver", [solvers.Exact(), solvers.Implicit(formulation="raman", averaging="none")])
def test_rows_that_lost_their_parts_look_at_each_block_and_move_nothing(solver, sparse):
    whole, shard, buffers, _ = problem(0, sparse=sparse, n=70)
    plan = plan_of(shard.x, shard.labels, N_CLASSES, solver=solver, sampler="auto", n_negatives="auto")
    rng = np.random.default_rng(1)
    sums, found = lost_log_sums(whole, shard), []
    for number, buffer in enumerate(buffers):
        block = block_in(whole, buffer, number)
        block.scale[:] = rng.uniform(0.5, 1, len(block))  # as a ridge leaves it
        before = buffer.copy()
        made = turn(plan, whole, shard, buffer, number, sums, Stretch(3))
        assert np.isnan(made.log_sums).sum() == np.isnan(sums).sum() - len(shard)
        assert (made.report.n_visits, made.report.loss) == (0, 0.0)
        np.testing.assert_array_equal(buffer, before)
        sums = made.log_sums
        z = shard.x @ (block.weights.coef * block.scale[:, np.newaxis]).T + block.weights.intercept
        found.append(logsumexp(z.astype(np.float64), axis=1))
    # Blocks have fewer classes than are looked at, so that nothing is estimated: scores in single precision differ.
    np.testing.assert_allclose(sums, np.transpose(found), rtol=0, atol=1e-5)
    assert turn(plan, whole, shard, buffers[0], 0, sums, Stretch(4)).report.n_visits == len(
        shard
    )  # and then they go on


def test_what_rows_look_at_stands_for_all_classes_of_a_block():
    n_classes, rng = 3000, np.random.default_rng(0)
    counts = rng.integers(1, 50, n_classes).astype(float)
    whole = Whole(counts, 2, N_FEATURES, int(counts.sum()), False)
    x = rng.normal(size=(40, N_FEATURES)).astype(np.float32)
    labels = np.arange(40, dtype=np.int32) * 30
    shard, buffer = Shard(x, labels, None, 0, 0), buffer_at_zero(whole, 0)
    plan = plan_of(x, labels, n_classes, sampler="frequency_block", n_negatives=64)
    block, place = block_in(whole, buffer, 0), place_in_block(plan, whole, 0)
    block.weights.coef[:] = 0.5 * rng.normal(size=block.weights.coef.shape)
    block.weights.intercept[place[labels]] = 6  # a label counts by itself, whether it is drawn or not
    lost, n_passes = lost_log_sums(whole, shard), 400
    seen = [turn(plan, whole, shard, buffer, 0, lost, Stretch(n_pass)).log_sums[:, 0] for n_pass in range(n_passes)]
    z = (x @ block.weights.coef.T + block.weights.intercept).astype(np.float64)
    exact, own = np.exp(z).sum(axis=1), np.exp(z[np.arange(40), place[labels]])
    errors = np.exp(seen) - exact
    assert (np.exp(seen) >= own * (1 - 1e-6)).all()
    # The label's own term replaces that of its draw; the others stand for n - 128 classes in place of n - 129.
    bias = exact / (len(block) - 128)
    assert (np.abs(errors.mean(axis=0)) < 5 * errors.std(axis=0) / np.sqrt(n_passes) + bias).all()
