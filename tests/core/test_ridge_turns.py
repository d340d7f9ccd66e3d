"""The ridge of embeddings, of several labels by steps and of weights on pairs: its twin, its optimum and its proof."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from reference import losses
from reference.label_training import centred
from reference.pairs import PairsTwin, support
from reference.problems import as_storage
from reference.ridge_turns import turns
from scipy.optimize import minimize
from scipy.special import logsumexp
from test_label_training import ROUNDING_OF_A_VISIT, D, K, N, largest_error, model_of, options_of, some_problem, twin_of
from test_pairs import REDUCTIONS, dense_of, indicator, some_rows
from test_pairs import K as PAIRS_K

from manyclass import SoftmaxClassifier, models, solvers
from manyclass.blending import blend
from manyclass.checks import seed_from
from manyclass.figures import FIGURES

ALPHA = 0.05


# Which rows have their turn


@pytest.mark.parametrize(("n_rows", "moved", "n"), [(7, 7, 28), (1000, 3, 28), (5, 5, 2), (3, 1, 400)])
def test_every_row_has_its_turn_once_a_round(n_rows, moved, n):
    ((_, period),) = turns(n_rows, moved, n, range(1))
    had = [row for rows, _ in turns(n_rows, moved, n, range(3 * period, 4 * period)) for row in rows]
    assert had == list(range(n_rows))


# Against the twins

CASES = {
    "all classes": {},
    "one point a batch": {"batch_size": 1},
    "a batch of all": {"batch_size": 1000},
    "several passes": {"max_iter": 5, "batch_size": 5},
    "draws in common": {"search": "sampled", "n_negatives": 4},
    "draws of each": {"search": "sampled", "n_negatives": 4, "share_classes": False},
    "embeddings": {"embedding_dim": 5},
    "embeddings, drawn": {"embedding_dim": 5, "search": "sampled", "n_negatives": 4},
    "relu": {"embedding_dim": 17, "activation": "relu"},
    "embeddings, plain steps": {"schedule": "inverse", "learning_rate": 0.1, "max_iter": 3, "embedding_dim": 5},
    "without intercepts": {"fit_intercept": False},
}


def fitted_pair(seed, multilabel, storage, *, by_feature=False, **parameters):
    """A fit with a ridge, and its twin."""
    X, y, lists = some_problem(seed, multilabel=multilabel)
    model = model_of("cross_entropy", **parameters).set_params(alpha=ALPHA).fit(as_storage(X, storage), y)
    options = options_of("cross_entropy", **parameters)
    if storage == "dense" and not multilabel and parameters.get("activation") == "relu":  # a hidden layer
        options |= {"length": np.sqrt(np.mean(np.sum(centred(X) ** 2, axis=1))), "hidden": True}
    slow = twin_of(options, "cross_entropy", X, lists, K, storage=storage)
    slow.learning_rate = model.resolved_params_.get("learning_rate", slow.learning_rate)
    slow.alpha, slow.by_feature = ALPHA, by_feature
    return model, slow.train()


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_fit_by_minibatches_equals_its_twin(case, multilabel, storage, seed):
    by_feature = storage == "sparse" and "embedding_dim" not in CASES[case]
    model, twin = fitted_pair(seed, multilabel, storage, by_feature=by_feature, **CASES[case])
    assert largest_error(model, twin) < N * twin.max_iter * ROUNDING_OF_A_VISIT


def test_the_comparison_sees_rows_that_shrink_in_another_order(seed):
    model, wrong = fitted_pair(seed, True, "sparse")
    assert largest_error(model, wrong) > 100 * N * 2 * ROUNDING_OF_A_VISIT


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_plain_steps_of_several_labels_equal_their_twin(storage, seed):  # of one label they are made point by point
    plain = {"schedule": "constant", "learning_rate": 0.1}
    model, twin = fitted_pair(seed, True, storage, by_feature=storage == "sparse", **plain)
    assert largest_error(model, twin) < N * twin.max_iter * ROUNDING_OF_A_VISIT


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_training_on_pairs_equals_its_twin(reduction, batch, seed, monkeypatch):
    monkeypatch.setattr(blend, "FIGURES", replace(FIGURES, FEWEST_TO_HOLD_OUT=1000))  # none is held out
    X, P = some_rows(seed)
    solver = solvers.Adagrad(reduction=reduction, batch_size=batch, decay=0.4)
    given = {"learning_rate": 3.0, "max_iter": 2, "alpha": ALPHA, "random_state": seed}
    model = SoftmaxClassifier(model="pairs", solver=solver, **given).fit(sp.csr_array(X), indicator(P))
    square = float(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1)))
    twin = PairsTwin(
        X.astype(np.float64), [list(p) for p in P], PAIRS_K, seed_from(seed), reduction, batch=batch, alpha=ALPHA,
        intercept_rate=0.05 * 3 * square**0.5, offset=0.1 * square,
    ).train()  # fmt: skip
    scale = float(model._weights.scales[0])  # of a margin, by rows held out
    # As without a ridge in test_pairs.py: 80 visits, an error of some ulp of the rate in each.
    np.testing.assert_allclose(dense_of(model) / scale, twin.S, rtol=0, atol=80 * 3 * 8 * 2**-23)


@pytest.mark.parametrize("kind", ["linear", "embedding", "pairs"])
def test_the_result_does_not_depend_on_the_number_of_threads(kind, seed):
    X, Y, _ = some_problem(seed, multilabel=True)
    x = as_storage(X, "sparse")
    fits = [
        SoftmaxClassifier(
            model=kind, solver=solvers.Adagrad(batch_size=4), alpha=ALPHA, max_iter=3, n_jobs=n, random_state=0
        ).fit(x, Y)
        for n in (1, 2)
    ]
    np.testing.assert_array_equal(*(model.decision_function(x) for model in fits))
    plain = SoftmaxClassifier(model=kind, solver=solvers.Adagrad(batch_size=4), max_iter=3, random_state=0).fit(x, Y)
    assert np.abs(fits[0].decision_function(x)).max() < np.abs(plain.decision_function(x)).max()


# The optimum is that of the ridged objective


def convex_optimum(x, Y, alpha, allowed, loss=losses.cross_entropy):
    """The least mean loss + alpha/2 |W|^2 by a general tool, W being 0 but where it is `allowed`."""
    n, n_classes = len(x), allowed.shape[1]
    lists = [np.flatnonzero(row).tolist() for row in Y]

    def value(theta):
        W, b = np.zeros(allowed.shape), theta[-n_classes:]
        W[allowed] = theta[:-n_classes]
        found = [loss(z, P) for z, P in zip(x @ W + b, lists, strict=True)]
        G = np.array([g for _, g in found])
        gradient = (x.T @ G / n + alpha * W)[allowed]
        return sum(v for v, _ in found) / n + alpha / 2 * np.sum(W**2), np.append(gradient, G.mean(axis=0))

    start = np.zeros(allowed.sum() + n_classes)
    best = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-14, "gtol": 1e-9})
    return best.fun, lambda W, b: value(np.append(W[allowed], b))[0]


def trained(X, Y, **parameters):
    """A fit of many passes whose steps fall to nothing."""
    solver = solvers.Adagrad(reduction=parameters.pop("reduction", "pick_all"), batch_size=4, decay=0.98)
    given = {"max_iter": 250, "learning_rate": 2.0, "random_state": 0, "alpha": 0.02} | parameters
    return SoftmaxClassifier(solver=solver, **given).fit(X, Y)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_steps_of_several_labels_end_at_the_ridged_optimum(storage, seed):
    X, Y, _ = some_problem(seed, multilabel=True)
    best, value = convex_optimum(X.astype(np.float64), Y, 0.02, np.ones((D, K), bool))
    model = trained(as_storage(X, storage), Y, model="linear", sampler="all")
    found = value(model.coef_.T.astype(np.float64), model.intercept_.astype(np.float64))
    assert best - 1e-6 < found < best + 1e-3  # of the second order in the last steps, .01
    plain = trained(as_storage(X, storage), Y, model="linear", sampler="all", alpha=0.0, max_iter=60)
    assert value(plain.coef_.T.astype(np.float64), plain.intercept_.astype(np.float64)) > best + 0.1
    # The proof needs no reference.
    proof = model.certificate(as_storage(X, storage), Y)
    assert proof["primal"] == pytest.approx(found, rel=1e-5)
    assert proof["dual"] <= best + 1e-9
    assert proof["gap"] < 2e-3


@pytest.mark.parametrize("reduction", ["pick_all", "decoupled", "logistic"])
def test_weights_on_pairs_end_at_the_ridged_optimum(reduction, seed, monkeypatch):
    monkeypatch.setattr(blend, "FIGURES", replace(FIGURES, FEWEST_TO_HOLD_OUT=1000))  # none is held out
    X, P = some_rows(seed)
    Y, lists = indicator(P), [list(p) for p in P]
    loss = {"pick_all": losses.cross_entropy, "decoupled": losses.decoupled, "logistic": losses.logistic}[reduction]
    allowed = support(X, lists, PAIRS_K)
    # A class without a row has no best intercept: it is left out.
    used = np.flatnonzero(Y.any(axis=0))
    Y, allowed = Y[:, used], allowed[:, used]
    best, value = convex_optimum(X.astype(np.float64), Y, 0.02, allowed, loss)
    model = trained(sp.csr_array(X), Y, model="pairs", reduction=reduction)
    S, b = dense_of(model), model.intercept_.astype(np.float64)
    assert not S[~allowed].any()
    assert best - 1e-6 < value(S, b) < best + 1e-3
    plain = trained(sp.csr_array(X), Y, model="pairs", reduction=reduction, alpha=0.0, max_iter=60)
    assert value(dense_of(plain), plain.intercept_.astype(np.float64)) > best + 0.05
    if reduction != "pick_all":
        return
    proof = model.certificate(sp.csr_array(X), Y)
    assert proof["primal"] == pytest.approx(value(S, b), rel=1e-5)
    assert proof["dual"] <= best + 1e-9
    assert proof["gap"] < 2e-3


def test_the_certificate_of_pairs_is_a_bound_for_any_weights(seed):
    X, P = some_rows(seed, several=False)
    y, rng = np.array([p[0] for p in P]), np.random.default_rng(seed)
    allowed = support(X, [list(p) for p in P], PAIRS_K)
    best, value = convex_optimum(X.astype(np.float64), indicator(P), 0.1, allowed)
    model = SoftmaxClassifier(model="pairs", alpha=0.1, max_iter=1, random_state=0).fit(sp.csr_array(X), y)
    for scale in (0.0, 0.1, 1.0, 30.0):
        model._weights.values[:] = scale * rng.normal(size=len(model._weights.values))
        model._weights.bias[:] = scale * rng.normal(size=PAIRS_K)
        proof = model.certificate(sp.csr_array(X), y)
        S, b = dense_of(model), model.intercept_.astype(np.float64)
        assert proof["primal"] == pytest.approx(value(S, b), rel=1e-6)
        assert 0 <= proof["dual"] <= best + 1e-9


def test_embeddings_end_where_the_ridged_objective_is_flat(seed):
    # It is not convex, so what is asked is that its slope is 0, and that without the ridge's part it would not be.
    X, y, _ = some_problem(seed)
    x, alpha, n = X.astype(np.float64), 0.02, N
    model = trained(X, y, model="embedding", dim=3, sampler="all", max_iter=400, alpha=alpha)
    E, W, b = (a.astype(np.float64) for a in (model.embedding_, model.coef_, model.intercept_))
    phi = x @ E
    z = phi @ W.T + b
    G = np.exp(z - logsumexp(z, axis=1, keepdims=True))
    G[np.arange(n), y] -= 1
    of_W, of_E = G.T @ phi / n, x.T @ (G @ W) / n
    for slope, weights in ((of_W, W), (of_E, E)):
        # Rows whose turn of the ridge is yet to come leave up to .09 of it, of ten seeds and two lengths of rows.
        assert np.linalg.norm(slope + alpha * weights) < 0.15 * np.linalg.norm(alpha * weights)


# What has none


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"model": "hybrid", "sampler": "search"}, "alpha is 0.1, which has no effect with sampler='search'"),
        ({"sampler": "search", "model": "embedding"}, "alpha is 0.1, which has no effect with sampler='search'"),
        ({"model": "pairs", "alpha": -1.0}, "alpha is -1.0; it must be finite, at least 0"),
    ],
)
def test_where_there_is_no_ridge_it_is_refused(parameters, told):
    X, Y, _ = some_problem(0, multilabel=True)
    with pytest.raises(ValueError, match=re.escape(told)):
        SoftmaxClassifier(**{"alpha": 0.1} | parameters).fit(sp.csr_array(X), Y)


def test_embeddings_have_no_certificate():
    X, y, _ = some_problem(0)
    model = SoftmaxClassifier(model="embedding", dim=3, alpha=0.1, max_iter=1).fit(X, y)
    with pytest.raises(ValueError, match="the model has embeddings, whose objective is not convex"):
        model.certificate(X, y)


def test_what_is_left_open_has_no_ridge(seed):
    X, Y, _ = some_problem(seed, multilabel=True)
    fits = [SoftmaxClassifier(model=models.Pairs(), alpha=a, max_iter=2, random_state=0) for a in ("auto", 0.0)]
    np.testing.assert_array_equal(*(m.fit(sp.csr_array(X), Y).decision_function(X) for m in fits))
