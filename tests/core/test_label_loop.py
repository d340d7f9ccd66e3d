"""The loop over points with labels: limits of its searches, its gradients, implicit steps, threads, how it stops."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from reference import losses as twin_losses
from reference.flat import margin, softmax
from reference.label_training import LabelTwin
from scipy.optimize import linprog, minimize
from sklearn.exceptions import ConvergenceWarning
from test_label_training import ROUNDING_OF_A_VISIT, D, K, N, model_of, some_problem

from manyclass import DecomposedIndex, MarginClassifier, SphericalClusterIndex, _core, samplers, solvers
from manyclass.checks import core_data
from manyclass.papers.loss_decomposition import faces

STRATEGIES = {
    "exact": "exact",
    "sampled": "sampled",
    "mips": "mips",
    "decomposed": "decomposed",
    "messages": "messages",
    "few clusters": SphericalClusterIndex(n_clusters=5, n_probe=2),
    "few blocks": DecomposedIndex(n_blocks=2, n_clusters=5, n_probe=2),
}
WHOLE_INDEXES = {
    "mips": SphericalClusterIndex(n_clusters=3, n_probe=3),
    "decomposed": DecomposedIndex(n_blocks=3, n_clusters=3, n_probe=3),
}


def blobs(rng, *, n_classes=50, n_features=16, n=1500):
    """Points near the vertices that are their labels."""
    centers = rng.normal(size=(n_classes, n_features))
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, n - n_classes))
    return (centers[y] + 0.2 * rng.normal(size=(n, n_features))).astype(np.float32), y


def weights_of(model):
    parts = [model.coef_, model.intercept_]
    return [*parts, model.embedding_] if hasattr(model, "embedding_") else parts


@pytest.mark.parametrize("strategy", WHOLE_INDEXES)
@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("loss", ["cross_entropy", "margin", "triplet"])
def test_a_search_that_returns_all_classes_is_the_exact_source(loss, multilabel, strategy, seed):
    X, y, _ = some_problem(seed, multilabel=multilabel)
    exact = model_of(loss, embedding_dim=6).fit(X, y)
    search = WHOLE_INDEXES[strategy]
    found = model_of(loss, embedding_dim=6, search=search, budget=K, warm_up=0).fit(X, y)
    for a, b in zip(weights_of(found), weights_of(exact), strict=True):
        # Only the order of sums differs, so both are as far from the twin as test_label_training.py allows.
        assert np.abs(a - b).max() < 2 * N * 2 * ROUNDING_OF_A_VISIT * np.abs(b).max()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("loss", ["cross_entropy", "margin"])
@pytest.mark.parametrize("embedding_dim", [None, 9])
def test_results_do_not_depend_on_the_number_of_threads(loss, strategy, embedding_dim, seed):
    X, y = blobs(np.random.default_rng(seed), n=300)
    options = {"search": STRATEGIES[strategy], "embedding_dim": embedding_dim, "max_iter": 3, "random_state": seed}
    estimator = softmax if loss == "cross_entropy" else margin
    one, two = (estimator(n_jobs=n_jobs, **options).fit(X, y) for n_jobs in (1, 2))
    for a, b in zip(weights_of(one), weights_of(two), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.loss_curve_, two.loss_curve_)


@pytest.mark.parametrize("batch_size", [1, 2, 7])
@pytest.mark.parametrize("strategy", ["exact", "sampled"])
def test_threads_without_points_of_a_batch_do_their_part(strategy, batch_size, seed):
    X, y = blobs(np.random.default_rng(seed), n=100)
    options = {"search": strategy, "batch_size": batch_size, "n_negatives": 20, "random_state": seed, "max_iter": 2}
    one, four = (softmax(n_jobs=n_jobs, **options).fit(X, y) for n_jobs in (1, 4))
    np.testing.assert_array_equal(one.coef_, four.coef_)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("loss", ["cross_entropy", "margin", "triplet"])
def test_blobs_are_learned_whatever_the_source(loss, strategy, seed):
    X, y = blobs(np.random.default_rng(seed))
    options = {"search": STRATEGIES[strategy], "n_negatives": 20, "random_state": seed, "max_iter": 10}
    model = softmax(**options) if loss == "cross_entropy" else margin(loss=loss, **options)
    assert np.mean(model.fit(X, y).predict(X) != y) < 0.05


@pytest.mark.parametrize("schedule", ["adaptive", "inverse"])
@pytest.mark.parametrize("loss", ["cross_entropy", "margin", "triplet"])
def test_the_step_size_left_open_fits_any_scale_of_the_data(loss, schedule, seed):
    X, y = blobs(np.random.default_rng(seed), n=300)
    options = {"schedule": schedule, "learning_rate": "auto", "fit_intercept": False}
    model = model_of(loss, **options).fit(X, y)
    larger = model_of(loss, **options).fit(1024 * X, y)  # a power of 4: its root rounds nothing either
    np.testing.assert_array_equal(1024 * larger.coef_, model.coef_)


# What a single call of the core does.


def bare_trainer(
    X,
    lists,
    W,
    embeddings,
    *,
    batch,
    relu=False,
    loss="cross_entropy",
    smoothing=0.0,
    implicit=False,
    of_arrays=None,
    **changes,
):
    """A trainer by plain steps in the order of the data on the arrays given, of which it moves the last two."""
    arrays = _core.LabelArrays(
        labels_indptr=np.cumsum([0, *map(len, lists)]).astype(np.int64),
        labels=np.concatenate(lists).astype(np.int32),
        embeddings=embeddings,
        embedding_squares=np.zeros(0, dtype=np.float32),
        classes=W,
        class_squares=np.zeros(0, dtype=np.float32),
        intercept=True,
        relu=relu,
        **({"x": X, "n_features": X.shape[1], "n_hidden": 5 if len(embeddings) else X.shape[1]} | (of_arrays or {})),
    )
    options = {
        "source": "exact",
        "selection": "uniform",
        "n_negatives": 1,
        "options": {},
        "log_alpha": False,
        "share_classes": False,
        "index": None,
        "budget": 1,
    }
    options |= {"n_probe": 1, "seed": 0, "n_threads": 1, "shuffle": False, "isa": "auto"}
    given = {"loss": loss, "smoothing": smoothing, "implicit": implicit, "batch": batch} | options | changes
    return _core.Trainer.labels(arrays, **given)


def rows(values):
    """Rows of 16 floats, as the core has them."""
    out = np.zeros((len(values), 16), dtype=np.float32)
    out[:, : values.shape[1]] = values
    return out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "mips"}, r"source is 'mips'; rows of features need 'exact' or 'sampled'"),
        ({"X": "dense"}, r"rows of features need sparse points and no embeddings"),
        ({"rows": D + 1}, r"the rows of features do not fit the features, the classes or the squares"),
    ],
    ids=str,
)
def test_rows_of_features_that_do_not_fit_are_refused(changes, message, seed):
    X, _, lists = some_problem(seed)
    given = dict(changes)
    x = X if given.pop("X", "") == "dense" else sp.csr_array(X)
    W = np.zeros((given.pop("rows", D), 16), dtype=np.float32)
    of_features = {"x": core_data(x), "feature_intercept": np.zeros(K, dtype=np.float32)}
    with pytest.raises(ValueError, match=message):
        bare_trainer(X, lists, W, np.zeros((0, 0), dtype=np.float32), batch=1, of_arrays=of_features, **given)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("loss", "smoothing"), [("cross_entropy", 0.0), ("margin", 1.0), ("triplet", 0.0)])
def test_a_step_of_one_batch_is_the_gradient_by_finite_differences(loss, smoothing, relu, seed):
    X, _, lists = some_problem(seed, multilabel=True)
    rng = np.random.default_rng(seed)
    W, E = rows(rng.normal(size=(K, 6))), rows(rng.normal(size=(X.shape[1], 5)))
    start = np.concatenate([W[:, :6].ravel(), E[:, :5].ravel()]).astype(np.float64)

    def total(flat):
        embeddings = flat[6 * K :].reshape(-1, 5)
        twin = LabelTwin(X.astype(np.float64), lists, K, 0, embeddings, loss=loss, smoothing=smoothing)
        twin.activation, twin.W = "relu" if relu else "linear", flat[: 6 * K].reshape(K, 6)
        return sum(twin.look(0, i, 1.0).loss for i in range(N))

    trainer = bare_trainer(X, lists, W, E, batch=N, relu=relu, loss=loss, smoothing=smoothing)
    # All points see the start, so that a step of any size is the gradient times it: with 1 no digits are lost.
    progress = trainer.run(epoch=0, eta=1.0, eta_u=1.0, first=0, last=N, loss=0.0)
    assert progress.loss == pytest.approx(total(start), rel=1e-5)
    gradient = start - np.concatenate([W[:, :6].ravel(), E[:, :5].ravel()])
    h = 1e-8
    for _ in range(12):
        direction = rng.normal(size=len(start))
        slope = (total(start + h * direction) - total(start - h * direction)) / (2 * h)
        # Floats of N gradients and of the moved rows; doubles lose 1e-6 to the small h, which kinks ask for.
        assert gradient @ direction == pytest.approx(slope, abs=2e-5 * np.abs(gradient) @ np.abs(direction))


@pytest.mark.parametrize(
    "messages",
    [
        {},
        {"n_iter": 0},
        {"n_iter": 4},
        {"n_iter": 3, "step": "frank_wolfe"},
        {"n_iter": 2, "tolerance": 0.3},
        {"rule": "printed"},
        {"rule": "printed", "step": "frank_wolfe", "tolerance": 0.3},
        {"fill": True},
    ],
    ids=str,
)
@pytest.mark.parametrize(("loss", "smoothing"), [("cross_entropy", 0.0), ("margin", 1.0)])
def test_a_step_by_messages_is_the_gradient_of_the_index(loss, smoothing, messages, seed):
    # DecomposedIndex.loss_and_gradient has a twin of its own, of Algorithm 2 as printed (test_message_passing.py).
    X, _, lists = some_problem(seed, multilabel=True)
    width = X.shape[1] + 1
    W = rows(np.random.default_rng(seed).normal(size=(K, width)))
    index = DecomposedIndex(n_blocks=3, n_clusters=2, n_probe=2, random_state=0).fit(W[:, :width])
    phi = np.column_stack([X, np.ones(N, dtype=np.float32)])
    _, expected = index.loss_and_gradient(phi, lists, loss=loss, smoothing=smoothing, budget=4, **messages)
    search = {"source": "messages", "index": index.core, "budget": 4, "n_probe": 2, **messages}
    if rule := search.pop("rule", None):
        search["message_rule"] = rule
    before = W.copy()
    trainer = bare_trainer(X, lists, W, rows(np.zeros((0, 1))), batch=N, loss=loss, smoothing=smoothing, **search)
    trainer.run(epoch=0, eta=1.0, eta_u=1.0, first=0, last=N, loss=0.0)
    # N floats of size 1 are summed.
    np.testing.assert_allclose((before - W)[:, :width], expected.T @ phi, atol=N * 2.0**-21)


@pytest.mark.parametrize("rule", ["exact_scores", "printed"])
def test_a_step_by_messages_finds_all_scores_above_a_threshold(rule, seed):
    X, _, lists = some_problem(seed, multilabel=True)
    width = X.shape[1] + 1
    W = rows(np.random.default_rng(seed).normal(size=(K, width)))
    index = DecomposedIndex(n_blocks=3, n_clusters=2, n_probe=2, random_state=0).fit(W[:, :width])
    phi = np.column_stack([X, np.ones(N, dtype=np.float32)])
    _, expected = index.loss_and_gradient(phi, lists, loss="margin", threshold=0.4, rule=rule)
    search = {"source": "messages", "index": index.core, "budget": 4, "n_probe": 2, "threshold": 0.4}
    search["message_rule"] = rule
    before = W.copy()
    trainer = bare_trainer(X, lists, W, rows(np.zeros((0, 1))), batch=N, loss="margin", smoothing=1.0, **search)
    trainer.run(epoch=0, eta=1.0, eta_u=1.0, first=0, last=N, loss=0.0)
    np.testing.assert_allclose((before - W)[:, :width], expected.T @ phi, atol=N * 2.0**-21)


@pytest.mark.parametrize("every", [1, 3])
def test_a_step_size_that_falls_by_batches_is_that_of_the_batches_one_by_one(every, seed):
    """Batch t of all passes has the step size eta / (1 + t // every) (Yen et al. 2018, section 5, with every = 1)."""
    X, _, lists = some_problem(seed, multilabel=True)
    batch, passes = 4, 3
    n_batches = -(-N // batch)
    found = []
    for by_core in (True, False):
        W, E = rows(np.ones((K, 6))), rows(np.random.default_rng(seed).normal(size=(X.shape[1], 5)))
        trainer = bare_trainer(X, lists, W, E, batch=batch, **({"inverse_every": every} if by_core else {}))
        for t in range(passes):
            given = {"epoch": t, "loss": 0.0}
            if by_core:
                trainer.run(eta=0.1, eta_u=0.3, first=0, last=N, **given)
                continue
            for b in range(n_batches):
                share = 1 / (1 + (t * n_batches + b) // every)
                ends = {"first": b * batch, "last": min(N, (b + 1) * batch)}
                trainer.run(eta=0.1 * share, eta_u=0.3 * share, **ends, **given)
        found.append((W, E))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_a_fit_with_a_step_size_by_iterations_ends_before_one_by_passes(seed):
    X, y = blobs(np.random.default_rng(seed), n=300)
    given = {"learning_rate": 0.1, "max_iter": 3, "sampler": "all", "random_state": 0}
    by = {
        every: MarginClassifier(solver=solvers.SGD(schedule="inverse", batch_size=10, decay_every=every), **given)
        for every in (None, 1)
    }
    moved = {every: np.abs(model.fit(X, y).coef_).max() for every, model in by.items()}
    # The sum of the step sizes is 30 (1 + 1/2 + 1/3) = 55 by passes, and 1 + 1/2 + ... + 1/90 = 5.1 by batches.
    assert moved[1] < moved[None]
    with pytest.raises(ValueError, match="decay_every is 1, which counts the batches of one fit"):
        by[1].partial_fit(X, y)


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
@pytest.mark.parametrize("eta", [0.1, 10.0, 1e3])
def test_an_implicit_step_attains_the_proximal_minimum_that_it_reports(eta, smoothing, seed):
    X, _, lists = some_problem(seed, multilabel=True)
    W = rows(np.random.default_rng(seed).normal(size=(K, X.shape[1] + 1)))
    trainer = bare_trainer(X, lists, W, rows(np.zeros((0, 1))), batch=1, loss="margin", smoothing=smoothing, implicit=1)
    for i, P in enumerate(lists):
        phi, old = np.append(X[i], 1.0), W[:, : X.shape[1] + 1].astype(np.float64)
        reported = trainer.run(epoch=0, eta=eta, eta_u=1.0, first=i, last=i + 1, loss=0.0).loss
        new = W[:, : X.shape[1] + 1].astype(np.float64)

        def loss(W, P=P, phi=phi):
            z = W @ phi
            return twin_losses.smoothed_margin(z, P, smoothing)[0] if smoothing else twin_losses.max_margin(z, P)[0]

        minimum = loss(new) + np.sum((new - old) ** 2) / (2 * eta)
        # Rows are rounded to floats, and the square of the move, smaller by eta, is of differences of such.
        assert minimum == pytest.approx(reported, rel=1e-4, abs=1e-5)
        assert minimum <= loss(old) + 1e-5


def test_implicit_steps_survive_a_huge_learning_rate(seed):
    X, y = blobs(np.random.default_rng(seed), n=600)
    model = MarginClassifier(
        solver=solvers.Implicit(schedule="constant", batch_size=1), learning_rate=1e3, random_state=0
    )
    model.fit(X, y)
    assert np.abs(model.coef_).max() < 10  # a step goes no farther than the margin asks for
    assert np.mean(model.predict(X) != y) < 0.05


def test_where_stretches_end_changes_no_bit(seed):
    X, _, lists = some_problem(seed, multilabel=True)
    found = []
    for ends in ([0, N], [0, 8, 12, N]):
        W, E = rows(np.ones((K, 6))), rows(np.random.default_rng(seed).normal(size=(X.shape[1], 5)))
        trainer, loss = bare_trainer(X, lists, W, E, batch=4), 0.0
        for first, last in itertools.pairwise(ends):
            loss = trainer.run(epoch=0, eta=0.1, eta_u=0.1, first=first, last=last, loss=loss).loss
        found.append((W, E, loss))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert found[0][2] == found[1][2]


@pytest.mark.parametrize(
    ("lists", "message"),
    [([[0], []], "a point has no label"), ([[0], [K]], "in range"), ([[0], [2, 2]], "not distinct")],
)
def test_the_core_refuses_labels_that_are_none(lists, message):
    X = np.ones((2, 3), dtype=np.float32)
    with pytest.raises(ValueError, match=message):
        bare_trainer(X, lists, rows(np.zeros((K, 4))), rows(np.zeros((0, 1))), batch=1)


# How training stops.


@pytest.mark.parametrize("embedding_dim", [None, 6])
@pytest.mark.parametrize("loss", ["cross_entropy", "margin", "triplet"])
@pytest.mark.parametrize("learning_rate", [1e5, 1e12, 1e38])
def test_divergence_is_said_and_leaves_finite_weights(loss, embedding_dim, learning_rate, seed):
    X, y, _ = some_problem(seed)
    model = model_of(loss, learning_rate=learning_rate, schedule="constant", embedding_dim=embedding_dim, max_iter=5)
    with pytest.warns(ConvergenceWarning, match="training diverged"):
        model.fit(X, y)
    assert all(np.isfinite(part).all() for part in weights_of(model))
    assert np.isfinite(model.decision_function(X)).all()


def test_a_callback_stops_training(seed):
    X, y, _ = some_problem(seed)
    states = []
    model = model_of("margin", max_iter=9).fit(X, y, callback=lambda state: states.append(state) or state.n_iter == 2)
    assert (model.n_iter_, len(model.loss_curve_)) == (2, 2)
    np.testing.assert_array_equal(states[-1].scores(X), model.decision_function(X))


def test_an_interrupt_leaves_the_model_reached_so_far(seed):
    def interrupt(state):
        if state.n_iter == 2:
            raise KeyboardInterrupt

    X, y, _ = some_problem(seed)
    model = model_of("cross_entropy", max_iter=5)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X, y, callback=interrupt, keep="best")
    np.testing.assert_array_equal(model.coef_, model_of("cross_entropy", max_iter=2).fit(X, y).coef_)


def test_training_stops_within_a_pass_when_its_time_is_over(seed):
    X, y = blobs(np.random.default_rng(seed), n=3000)
    with pytest.warns(ConvergenceWarning, match="training stopped after .* s in pass 1 of 10"):
        model = MarginClassifier(random_state=0).fit(X, y, max_seconds=0)
    assert (model.n_iter_, len(model.loss_curve_)) == (0, 0)
    assert np.any(model.coef_)


def smallest_violation(x, lists, *, of_all_pairs):
    """Mean over points of sum_{k, j} [1 + z_j - z_k]_+, or of the largest such term, at its minimum over W (z = W x).

    A linear program: the least slacks, one for each pair or each point, that are at least the terms and 0.
    """
    n, K = len(x), 1 + max(max(P) for P in lists)
    pairs = [(i, k, j) for i, P in enumerate(lists) for k in P for j in range(K) if j not in P]
    n_slacks = len(pairs) if of_all_pairs else n
    rows = sp.lil_array((len(pairs), K * x.shape[1] + n_slacks))
    for row, (i, k, j) in enumerate(pairs):
        rows[row, j * x.shape[1] : (j + 1) * x.shape[1]] = x[i]
        rows[row, k * x.shape[1] : (k + 1) * x.shape[1]] = -x[i]
        rows[row, K * x.shape[1] + (row if of_all_pairs else i)] = -1
    costs = np.append(np.zeros(K * x.shape[1]), np.full(n_slacks, 1 / n))
    bounds = [(None, None)] * (K * x.shape[1]) + [(0, None)] * n_slacks
    return linprog(costs, A_ub=rows.tocsr(), b_ub=-np.ones(len(pairs)), bounds=bounds, method="highs").fun


@pytest.mark.parametrize("loss", ["cross_entropy", "margin", "triplet"])
def test_sparse_points_of_several_labels_end_at_the_minimum_of_their_loss(loss, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = 0
    utility = 2 * X @ rng.normal(size=(3, 6)) + rng.gumbel(size=(150, 6))  # the labels are the best or the best two
    lists = [np.sort(np.argsort(-u)[: rng.integers(1, 3)]).tolist() for u in utility]
    Y = sp.csr_array(np.array([np.isin(np.arange(6), P) for P in lists], dtype=np.int64))
    steps = {"schedule": "inverse"} if loss == "cross_entropy" else {"smoothing": 0.0} if loss == "margin" else {}
    model = model_of(loss, max_iter=100, decay=0.95, learning_rate=1.0, **steps).fit(sp.csr_array(X), Y)
    x, size = np.column_stack([X.astype(float), np.ones(len(X))]), (6, 4)
    of_point = {"cross_entropy": twin_losses.cross_entropy, "margin": twin_losses.max_margin}
    of_point = of_point.get(loss, twin_losses.triplet)

    def value(flat):
        found = [of_point(z, P) for z, P in zip(x @ flat.reshape(size).T, lists, strict=True)]
        return np.mean([v for v, _ in found]), (np.array([g for _, g in found]).T @ x / len(x)).ravel()

    at_zero, reached = value(np.zeros(24))[0], value(np.column_stack([model.coef_, model.intercept_]).ravel())[0]
    if loss == "cross_entropy":
        best = minimize(value, np.zeros(24), jac=True, method="L-BFGS-B", options={"maxiter": 300}).fun
    else:
        best = smallest_violation(x, lists, of_all_pairs=loss == "triplet")
    # The rate falls to 0.95^100 = 0.006 of the first, that of cross-entropy to 0.01.
    assert -1e-5 < reached - best < 0.02 * (at_zero - best)
    assert model.loss_curve_[-1] == pytest.approx(reached, abs=0.02 * (at_zero - best))


@pytest.mark.long
def test_672_000_identities_are_learned_by_a_sample_and_a_search():
    # As many as MegaFace has (Yen et al. 2018, section 5.1). By chance one of 672,000 points is right.
    (X, Y), (X_test, _) = faces(672_000, noise=0.7)
    index = SphericalClusterIndex(n_clusters=1640, n_probe=4, random_state=0)
    sampler, solver = samplers.Search(index=index, warm_up=2), solvers.Adagrad(decay=1.0)
    model = MarginClassifier(solver=solver, sampler=sampler, n_negatives=1000, max_iter=3, n_jobs=2)
    model.set_params(random_state=0).fit(X, Y.indices)
    assert np.isfinite(model.loss_curve_).all()
    assert model.loss_curve_[1] < model.loss_curve_[0]
    assert np.mean(model.predict(X_test[:1000]) == np.arange(1000)) > 0.5
