"""Steps by curvature, with which training goes on: their twin, streams that fall to the optimum, and new classes."""

import copy
import functools
import os
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from reference import problems
from reference.epoch import Move, Training
from reference.problems import as_storage
from reference.rng import Rng
from reference.selections import SELECTIONS
from reference.steps import IMPLICIT, STEPS, Point
from scipy.special import logsumexp
from test_epoch import small_problem

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, _core, solvers
from manyclass.datasets import load_multiclass
from manyclass.papers.data import load_problem
from manyclass.training import points
from manyclass.training.incremental import ends_of_stretches

GAIN = 1.25
LONG = pytest.mark.long


class ByCurvature(Training):
    """The twin, in one pass or more over rows that come first of all, in their order."""

    exact = True

    def begin(self, ridge):
        """Sums of squares of the features, of which the last is the intercept's, and of curvatures."""
        self.C = np.zeros(len(self.b))
        self.squares_now = np.append((self.X**2).sum(axis=0), len(self.X))
        if ridge:  # all features alike
            sums = self.squares_now[:-1]
            self.squares_now[:-1] = (sums**2).sum() / sums.sum()
        self.moved = np.zeros_like(self.X)
        return self

    def solve(self, i, named_by, t, eta, eta_u):
        o, x, y, n_classes = self.options, self.X[i], self.labels[i], len(self.b)
        drawn = SELECTIONS[self.selection](Rng(self.seed, t, named_by), self.choice, y, self.heads[i])
        passes = t + i / len(self.X)
        falls = 1 + eta * passes * self.squares_now / (GAIN * n_classes)
        self.moved[i] = x * falls[-1] / falls[:-1]
        eta, x_sq = eta / falls[-1], x @ self.moved[i]
        rest = (x_sq + o.fit_intercept) / (falls[-1] * (x @ x + o.fit_intercept))
        factors = 1 / (rest + (1 - rest) * n_classes * self.C / (1 + passes * len(self.X)))
        f, f_y = factors[drawn.classes], factors[y]
        shrinks = 1 / (1 + eta * (x_sq / (x @ x) if x.any() else 1) * self.ridge * factors)
        s = np.where(drawn.random & (drawn.classes != y), shrinks[drawn.classes], 1.0)
        s_y, first = shrinks[y], o.solver in IMPLICIT
        z = self.W @ x + self.b
        scores, z_y = z[drawn.classes], z[y]
        if first:
            scores = self.b[drawn.classes] + s * (scores - self.b[drawn.classes])
            z_y = self.b[y] + s_y * (z_y - self.b[y])
        if t == 0:
            self.carried[i] = logsumexp(z if self.exact else np.append(scores + np.log(drawn.alpha), z_y)) - z_y
        log_sum = self.carried[i] if t == 0 else None
        point = Point(
            scores=scores,
            alpha=drawn.alpha,
            label_score=float(z_y),
            x_sq=f_y * (x_sq * (s_y if first else 1) + o.fit_intercept),
            x_sqs=f * (x_sq * s + o.fit_intercept),
            eta=eta,
            eta_u=eta_u / (1 + falls[-1] / len(drawn.classes) ** 2),
            carried=float(self.carried[i]),
            visits=2**30 if t == 0 and self.exact else t,
            label_alpha=drawn.label_alpha,
        )
        p, rise, self.carried[i], loss = STEPS[o.solver](point)
        log_sum = log_sum if t == 0 and self.exact else loss
        prob, prob_y = np.exp(np.minimum(scores - z_y - log_sum, 0)), np.exp(-log_sum)
        np.add.at(self.C, drawn.classes, drawn.alpha * prob * (1 - prob))
        self.C[y] += prob_y * (1 - prob_y)
        return Move(i, y, drawn, p * f, rise * f_y, s, s_y), float(loss)

    def apply(self, move):
        x, self.X = self.X, self.moved
        super().apply(move)
        self.X = x


@pytest.mark.parametrize("alpha", [0.0, 0.01])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize("solver", ["implicit", "umax", "bregman"])
def test_passes_equal_their_twin(solver, storage, exact, alpha, seed, monkeypatch):
    if not exact:
        monkeypatch.setattr(points, "MOST_SCORED_FIRST", 0)
    X, y = small_problem(seed)
    made = solvers.SOLVERS[solver](shuffle=False, u_learning_rate=0.2)
    model = SoftmaxClassifier(solver=made, alpha=alpha, sampler="uniform", n_negatives=5, random_state=0)
    model.partial_fit(as_storage(X, storage), y, n_passes=2)
    options = {
        "solver": solver,
        "selection": "uniform",
        "learning_rate": model.resolved_params_["learning_rate"],
        "u_learning_rate": 0.2,
        "u_gain": 0.2,  # of "bregman"
        "schedule": "constant",
        "n_negatives": 5,
        "max_iter": 2,
        "random_state": 0,
        "shuffle": False,
        "alpha": alpha,
    }
    twin = ByCurvature(X.astype(float), y, 21, options).begin(alpha > 0)
    twin.exact = exact
    expected = twin.run()
    # A float's rounding at each visit, which steps of up to 15 nats carry on.
    atol = 10 * len(y) * 2.0**-20 * np.abs(expected.coef).max()
    np.testing.assert_allclose(model.coef_, expected.coef, rtol=0, atol=atol)
    np.testing.assert_allclose(model.intercept_, expected.intercept, rtol=0, atol=4 * atol)
    found = model._state.squares
    np.testing.assert_allclose(found.curvatures, twin.C[twin.position], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found.features, 2 * np.append((X.astype(float) ** 2).sum(axis=0), len(y)), rtol=1e-6)


def test_repeated_calls_with_nothing_set_end_at_the_ridged_optimum():
    X, y = problems.planted(np.random.default_rng(3), 3000, 10, 50, scale=4)
    alpha = 1e-3

    def objective(model):
        return model.evaluate(X, y)["log_loss"] + alpha / 2 * float(np.sum(model.coef_.astype(float) ** 2))

    best = objective(SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-7), alpha=alpha, max_iter=2000).fit(X, y))
    for solver, drawn, nats in (("implicit", "auto", 0.002), ("implicit", 5, 0.01), ("bregman", 5, 0.01)):
        model = SoftmaxClassifier(solver=solver, n_negatives=drawn, alpha=alpha, random_state=0)
        for _ in range(50):
            model.partial_fit(X, y, n_kept=0)
        # .0004, .0064 and .003; a u that goes to what 5 of 50 classes say for ever leaves .087.
        assert objective(model) - best < nats, (solver, drawn)


@functools.cache
def certified_bibtex(alpha):
    """The training rows of bibtex, and between which numbers the optimum with a ridge is."""
    data = load_multiclass("bibtex", n_jobs=1)
    model = SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-4), alpha=alpha, max_iter=2000)
    return data.X_train, data.y_train, model.fit(data.X_train, data.y_train).certificate(data.X_train, data.y_train)


@pytest.mark.parametrize("name", ["implicit", *(pytest.param(n, marks=LONG) for n in ("umax", "bregman", "exact"))])
def test_repeated_calls_with_nothing_set_end_at_the_optimum_of_bibtex(name):
    if "MANYCLASS_DATA" not in os.environ:
        pytest.skip("MANYCLASS_DATA does not name a folder of data sets")
    alpha = 1e-3
    X, y, best = certified_bibtex(alpha)

    def objective(model):
        return model.evaluate(X, y)["log_loss"] + alpha / 2 * float(np.sum(model.coef_.astype(float) ** 2))

    model = SoftmaxClassifier(solver=name, alpha=alpha, random_state=0)
    for _ in range(100):
        model.partial_fit(X, y, n_kept=0)
    assert objective(model) - best["dual"] < 0.01 + best["gap"]  # .0016 to .0043


def planted(n_classes, n_features, n_rows, seed, *, sparse=False):
    """Unit rows, and labels that a softmax of scores of scale 4 draws; the last 4,000 are for tests."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows + 4000, n_features))
    if sparse:
        X *= rng.random(X.shape) < 0.1
        X[:, 0] += 1e-3  # no row is empty
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    W = 4 * rng.normal(size=(n_classes, n_features))
    y = (X @ W.T + rng.gumbel(size=(len(X), n_classes))).argmax(axis=1)
    X = sp.csr_array(X) if sparse else X
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def learnt(model, X, y, X_test, y_test, n_calls, classes):
    """Test log-losses after each of some calls, whose rows are not kept for fits to them."""
    losses = []
    for rows in np.array_split(np.arange(len(y)), n_calls):
        model.partial_fit(X[rows], y[rows], classes=classes, n_kept=0)
        losses.append(model.evaluate(X_test, y_test)["log_loss"])
    return np.array(losses)


@functools.cache
def planted_and_fitted(n_classes, n_rows, seed):
    """Such data of 10 features, and the test log-loss of a fit."""
    X, y, X_test, y_test = planted(n_classes, 10, n_rows, seed)
    fitted = SoftmaxClassifier(random_state=0).fit(X, y).evaluate(X_test, y_test)["log_loss"]
    return X, y, X_test, y_test, fitted


@pytest.mark.parametrize("n_calls", [1, 10, 100])
def test_a_stream_with_nothing_set_falls_to_what_fit_finds(n_calls, seed):
    *data, fitted = planted_and_fitted(50, 100_000, seed)
    losses = learnt(SoftmaxClassifier(random_state=0), *data, n_calls, np.arange(50))
    assert losses[-1] < fitted + 0.04  # .02 to .03 over seeds; with one step size for ever it was .8
    # Noise of 1,000 rows a call: a loss never rises by more than the standard error of its test rows.
    assert np.diff(losses).max(initial=0) < 0.02


# Steps that fall as those of a class of the mean curvature leave rare classes noisy: .13 where a batch has one step.
@pytest.mark.parametrize(
    ("solver", "nats"), [(solvers.MinibatchImplicit(), 0.2), (solvers.Implicit(max_norm=50.0), 0.05)]
)
def test_steps_that_are_alike_for_all_weights_fall_too(solver, nats, seed):
    *data, fitted = planted_and_fitted(20, 30_000, seed)
    losses = learnt(SoftmaxClassifier(solver=solver, random_state=0), *data, 30, np.arange(20))
    assert losses[-1] < fitted + nats
    assert np.diff(losses).max() < 0.02


# Scores of negative sampling come near log(p / (m q)) instead of log p, so that their log-loss says nothing of a
# stream: it rises by .09 to .26.
@pytest.mark.parametrize("solver", [name for name in solvers.SOLVERS if name != "negative_sampling"])
@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_a_stream_of_each_solver_falls_below_the_prior(solver, storage, seed):
    is_sparse = storage == "sparse"
    X, y, X_test, y_test = planted(20, 40 if is_sparse else 10, 4000, seed, sparse=is_sparse)
    model = SoftmaxClassifier(solver=solver, random_state=0)
    losses = learnt(model, X, y, X_test, y_test, 20, np.arange(20))
    of_rows = -np.log(model.predict_proba(X_test)[np.arange(len(y_test)), y_test])
    # What a rise must exceed to be told from the noise of the test rows: two standard errors.
    assert np.diff(losses).max() < 2 * of_rows.std() / np.sqrt(len(y_test))
    prior = np.bincount(y, minlength=20) / len(y)
    assert losses[-1] < -np.log(prior[y_test]).mean()


def test_sparse_streams_fall(seed):
    X, y, X_test, y_test = planted(30, 100, 30_000, seed, sparse=True)
    losses = learnt(SoftmaxClassifier(random_state=0), X, y, X_test, y_test, 30, np.arange(30))
    fitted = SoftmaxClassifier(random_state=0, model="linear").fit(X, y).evaluate(X_test, y_test)["log_loss"]
    assert losses[-1] < fitted + 0.08  # .06: 3,000 weights of 30,000 rows, by one visit of each
    assert np.diff(losses).max() < 0.02


def test_a_fit_that_goes_on_is_as_good_as_one_of_all_rows(seed):
    X, y, X_test, y_test = planted(50, 10, 60_000, seed)
    whole = SoftmaxClassifier(random_state=0).fit(X, y).evaluate(X_test, y_test)["log_loss"]
    model = SoftmaxClassifier(random_state=0).fit(X[:30_000], y[:30_000])
    before = model.evaluate(X_test, y_test)["log_loss"]
    losses = learnt(model, X[30_000:], y[30_000:], X_test, y_test, 30, None)
    # Half of the rows cost .006 nats; a day's steps of the old schedule ended .3 above what they began at.
    assert losses.max() < before + 0.003
    assert losses[-1] < whole + 0.003


def late_and_known(X, y, X_test, y_test, late, n_calls, **parameters):
    """Test log-losses of late classes and of all, where all rows of these come in the second half, and where not."""
    n, rng = len(y), np.random.default_rng(0)
    early = np.flatnonzero(~np.isin(y, late))
    others = np.concatenate([early[n // 2 :], np.flatnonzero(np.isin(y, late))])
    orders = {"late": np.concatenate([early[: n // 2], rng.permutation(others)]), "known": np.arange(n)}
    of_late, found = np.isin(y_test, late), {}
    for name, order in orders.items():
        model = SoftmaxClassifier(random_state=0, **parameters)
        for rows in np.array_split(order, n_calls):
            model.partial_fit(X[rows], y[rows], classes=np.unique(y) if name == "known" else None, n_kept=0)
        p = np.log(model.predict_proba(X_test)[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)])
        found[name] = -p[of_late].mean(), -p.mean()
    return found["late"], found["known"]


def test_late_classes_are_learnt_as_those_from_the_start(seed):
    X, y, X_test, y_test = planted(200, 20, 60_000, seed)
    late, known = late_and_known(X, y, X_test, y_test, np.arange(20), 60)
    assert late[0] < known[0] + 0.05  # .3 to .5 below: their share of the rows has doubled meanwhile
    assert late[1] < known[1] + 0.05  # .03 to .04 above, as the others' share is smaller now


def test_late_classes_of_few_rows_are_learnt_as_those_from_the_start(seed):
    """Classes by Zipf's law, of which most have one row to ten; words tell them."""
    rng, n_classes, n, n_test = np.random.default_rng(seed), 2000, 12_000, 3000
    shares = 1 / (20 + np.arange(n_classes))
    y = rng.choice(n_classes, n + n_test, p=shares / shares.sum())
    words = np.hstack([3 * y[:, None] + rng.integers(30, size=(len(y), 4)), rng.integers(6000, size=(len(y), 4))])
    X = sp.csr_array((np.full(words.size, 8**-0.5, np.float32), words.ravel(), np.arange(0, words.size + 1, 8)))
    X.sum_duplicates()
    test = n + np.flatnonzero(np.isin(y[n:], y[:n]))
    late = rng.permutation(np.unique(y[:n]))[: n_classes // 10]
    late, known = late_and_known(X[:n], y[:n], X[test], y[test], late, 20, model="hybrid")
    assert late[0] < known[0] + 0.05  # .26 to .39 below
    assert late[1] < known[1] + 0.05


@LONG
def test_late_subjects_of_titles_are_learnt_as_those_from_the_start():
    if "MANYCLASS_DATA" not in os.environ:
        pytest.skip("MANYCLASS_DATA does not name a folder of data sets")
    data, rng = load_problem("yso-en", scale="l2", max_rows=None, n_jobs=1), np.random.default_rng(0)
    rows = rng.permutation(len(data.y_train))[:20_000]
    y, classes = data.y_train[rows], np.unique(data.y_train[rows])
    late = rng.permutation(classes)[: len(classes) // 10]
    test = rng.permutation(np.flatnonzero(np.isin(data.y_test, classes)))[:8000]
    found = late_and_known(data.X_train[rows], y, data.X_test[test], data.y_test[test], late, 20, model="hybrid")
    # .12 below; .15 above where new classes began as frequent ones would with their counts.
    assert found[0][0] < found[1][0] + 0.05
    assert found[0][1] < found[1][1] + 0.05


@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_threads_change_nothing(storage, seed):
    rng = np.random.default_rng(seed)
    X = as_storage(sp.random_array((600, 40), density=0.2, rng=rng, dtype=np.float32).toarray(), storage)
    y = rng.integers(0, 1100, 600)  # more than 1,024 classes: points share batches
    for sampler, n_negatives in (("uniform", 20), ("frequency_block", 64), ("all", "auto")):
        models = []
        for n_jobs in (1, 2):
            model = SoftmaxClassifier(
                solver="implicit", sampler=sampler, n_negatives=n_negatives, random_state=0, n_jobs=n_jobs
            )
            for rows in (slice(0, 300), slice(300, 600)):
                model.partial_fit(X[rows], y[rows], classes=np.arange(1100))
            models.append(model)
        np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
        np.testing.assert_array_equal(models[0].intercept_, models[1].intercept_)


def test_what_steps_go_by_is_kept_in_files(tmp_path, seed):
    X, y = small_problem(seed)
    model = SoftmaxClassifier(solver="implicit", random_state=0).partial_fit(X, y)
    model.save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.partial_fit(X, y).coef_, model.partial_fit(X, y).coef_)


@pytest.mark.parametrize(
    "value", [{"learning_rate": 0.1}, {"solver": solvers.Implicit(max_norm=5.0)}, {"solver": "minibatch_implicit"}]
)
def test_curvatures_are_kept_only_where_each_weight_has_its_step(value, seed):
    X, y = small_problem(seed)
    model = SoftmaxClassifier(**{"solver": "implicit", "random_state": 0, **value}).partial_fit(X, y)
    squares = model._state.squares
    assert not len(squares.curvatures)
    assert squares.features[-1] == len(y)


@pytest.mark.parametrize(("noise", "nats"), [("gumbel", 0.05), ("normal", 0.05), ("logistic", 0.1)])
def test_streams_of_augment_and_reduce_fall_to_what_fit_finds(noise, nats, seed):
    X, y, X_test, y_test = planted(10, 5, 10_000, seed)
    model = AugmentReduceClassifier(noise=noise, random_state=0)
    losses = learnt(model, X, y, X_test, y_test, 20, np.arange(10))
    assert np.diff(losses).max() < 0.03
    fitted = AugmentReduceClassifier(noise=noise, random_state=0).fit(X, y).evaluate(X_test, y_test)["log_loss"]
    assert losses[-1] < fitted + nats


@pytest.mark.long  # those of dense rows take the same way
def test_streams_of_augment_and_reduce_of_sparse_rows_fall_to_what_fit_finds(seed):
    X, y, X_test, y_test = planted(30, 100, 30_000, seed, sparse=True)
    losses = learnt(AugmentReduceClassifier(random_state=0), X, y, X_test, y_test, 30, np.arange(30))
    fitted = AugmentReduceClassifier(random_state=0).fit(X, y).evaluate(X_test, y_test)["log_loss"]
    assert losses[-1] < fitted + 0.13  # .10: 3,000 weights of 30,000 rows, by one visit of each; it was .31
    assert np.diff(losses).max() < 0.02


@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_streams_of_margins_fall_to_what_fit_finds(storage, seed):
    sparse = storage == "sparse"
    X, y, X_test, y_test = planted(30, 100 if sparse else 10, 30_000, seed, sparse=sparse)
    model, errors = MarginClassifier(random_state=0), []
    for rows in np.array_split(np.arange(len(y)), 30):
        model.partial_fit(X[rows], y[rows], classes=np.arange(30), n_kept=0)
        errors.append(model.evaluate(X_test, y_test)["error"])
    fitted = MarginClassifier(random_state=0).fit(X, y).evaluate(X_test, y_test)["error"]
    assert errors[-1] < fitted + 0.06  # .01 of dense rows, .045 of sparse ones
    # Three standard errors of a difference of shares of 4,000 rows, of which most are the same.
    assert np.diff(errors).max() < 3 * np.sqrt(0.5 / 4000)


def test_gains_of_smaller_weights_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    scores, intercept = rng.normal(size=(40, 7)).astype(np.float32), rng.normal(size=7).astype(np.float32)
    labels, factors = rng.integers(0, 7, 40).astype(np.int32), np.array([0.1, 0.5, 1.0])

    def losses(factor):
        z = factor * (scores.astype(float) - intercept) + intercept
        return np.logaddexp.reduce(z, axis=1) - z[np.arange(40), labels]

    gains = losses(1.0) - np.array([losses(factor) for factor in factors])
    found = _core.shrinking_gains(scores, intercept, labels, factors)
    np.testing.assert_allclose(found, (gains.sum(axis=1), np.square(gains).sum(axis=1)), atol=1e-12)
    with pytest.raises(ValueError, match="a label is out of range"):
        _core.shrinking_gains(scores, intercept, labels + 1, factors)


def test_weights_that_are_too_sure_of_new_rows_shrink(seed):
    rng = np.random.default_rng(seed)
    X = sp.random_array((4000, 300), density=0.05, rng=rng, dtype=np.float32).tocsr()
    y = np.minimum(rng.geometric(0.05, 4000), 60)  # labels that the features tell nothing of
    model = SoftmaxClassifier(random_state=0)
    losses = learnt(model, X[:3000], y[:3000], X[3000:], y[3000:], 10, np.unique(y))
    prior = np.bincount(y[:3000], minlength=61) / 3000
    at_best = -np.log(np.maximum(prior[y[3000:]], 1e-3)).mean()
    first = SoftmaxClassifier(random_state=0).partial_fit(X[:300], y[:300], classes=np.unique(y))
    assert model.resolved_params_["learning_rate"] < 0.5 * first.resolved_params_["learning_rate"]
    assert losses[-1] < 0.5 * (losses[0] + at_best)


@pytest.mark.parametrize("ordered", [False, True])
def test_one_call_and_many_end_where_ten_calls_do(ordered, seed):
    """Labels that features hardly tell; rows that are sorted within a call are drawn, too.

    Calls of 40 rows tell what factor the weights want together: each alone would never be looked at.
    """
    rng = np.random.default_rng(seed)
    X = sp.random_array((9000, 300), density=0.05, rng=rng, dtype=np.float32).tocsr()
    y = np.minimum(rng.geometric(0.05, 9000), 60)
    train, test = np.arange(8000), np.arange(8000, 9000)
    found = {}
    for n_calls in (1, 10, 200):
        model = SoftmaxClassifier(random_state=0)
        for part in np.array_split(train, n_calls):
            part = part[np.argsort(y[part])] if ordered else part
            model.partial_fit(X[part], y[part], classes=np.unique(y), n_kept=0)
        found[n_calls] = model
    losses = {n_calls: model.evaluate(X[test], y[test])["log_loss"] for n_calls, model in found.items()}
    assert abs(losses[1] - losses[10]) < 0.05
    assert losses[200] < losses[10] + 0.05  # .6 above it while small calls were not looked at
    rates = {n_calls: model.resolved_params_["learning_rate"] for n_calls, model in found.items()}
    first = SoftmaxClassifier(random_state=0).partial_fit(X[:60], y[:60], classes=np.unique(y))  # too few to look at
    assert max(rates.values()) < 0.5 * first.resolved_params_["learning_rate"]


@pytest.mark.parametrize(
    ("n_rows", "n_classes", "n_before", "expected"),
    [
        (64, 10, 0.0, []),
        (128, 10, 0.0, [64]),
        (12_800, 10, 0.0, [400, 800, 1600, 3200, 6400]),
        (12_800, 10, 6400.0, [3200]),
        (12_800, 10, 12_800.0, []),
        (12_800, 40_000, 0.0, []),
    ],
)
def test_a_call_is_trained_in_stretches_that_double_the_rows(n_rows, n_classes, n_before, expected):
    assert ends_of_stretches(n_rows, n_classes, n_before) == expected


def test_weights_stay_where_new_rows_agree(seed):
    X, y, _, _ = planted(20, 10, 4000, seed)
    model = SoftmaxClassifier(solver="implicit", random_state=0)
    for rows in np.array_split(np.arange(4000), 4):
        model.partial_fit(X[rows], y[rows], classes=np.arange(20), n_kept=0)
    assert model.resolved_params_["learning_rate"] == 15.0  # 30 / (|x|^2 + 1)


def test_half_life_makes_old_rows_count_less(seed):
    X, y = small_problem(seed)
    model = SoftmaxClassifier(solver="implicit", random_state=0).partial_fit(X, y)
    fading = copy.deepcopy(model)
    n = len(y)
    fading.partial_fit(X, y, half_life=n)
    assert fading._state.squares.features[-1] == pytest.approx(1.5 * n)
    assert model.partial_fit(X, y)._state.squares.features[-1] == 2 * n


def test_extreme_features_leave_finite_weights(seed):
    X, y = small_problem(seed)
    for scale in (1e-30, 1e-10, 1e10, 1e18):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SoftmaxClassifier(solver="implicit", random_state=0).partial_fit((X * scale).astype(np.float32), y)
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.intercept_).all()


def test_a_small_first_call_sets_no_scales_that_later_rows_do_not_have(seed):
    rng = np.random.default_rng(seed)
    X = sp.random_array((4000, 400), density=0.05, rng=rng, dtype=np.float32).tocsr()
    X.data[:] = 1
    X.data[rng.integers(0, X.nnz, 30)] = 500  # a few heavy counts
    y = (sp.csr_array(X > 0).astype(np.float32) @ rng.normal(size=(400, 10)) + rng.gumbel(size=(4000, 10))).argmax(
        axis=1
    )
    ends = [
        learnt(SoftmaxClassifier(random_state=0), X[:3000], y[:3000], X[3000:], y[3000:], n, np.arange(10))[-1]
        for n in (10, 300)
    ]
    assert ends[1] - ends[0] < 0.1  # .5 and more by the scales of ten rows
