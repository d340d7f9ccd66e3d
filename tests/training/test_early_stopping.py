"""Early stopping: who is held out, when training stops, and which model is returned."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.problems import as_storage
from sklearn.base import clone

from manyclass import MarginClassifier, SoftmaxClassifier, losses, solvers
from manyclass.training.plan import Labels, held_out


def noisy(seed, n=400, n_classes=12):
    """Labels that the features tell a half of, so that training too long overfits."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20)).astype(np.float32)
    scores = X[:, :n_classes] + rng.gumbel(size=(n, n_classes))
    return X / np.linalg.norm(X, axis=1, keepdims=True), scores.argmax(axis=1)


@pytest.mark.parametrize("fraction", [0.05, 0.1, 0.5, 0.99])
def test_every_class_keeps_a_point(fraction, seed):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(40), rng.geometric(0.2, size=300) % 40]).astype(np.int32)
    held = held_out(labels, fraction, np.random.RandomState(seed))
    assert held.sum() == min(round(fraction * len(labels)), len(labels) - 40)
    np.testing.assert_array_equal(np.unique(labels[~held]), np.arange(40))


def test_points_of_a_class_with_one_point_are_never_held_out(seed):
    labels = np.array([0] * 50 + list(range(1, 30)), dtype=np.int32)
    held = held_out(labels, 0.3, np.random.RandomState(seed))
    assert held.sum() == 24
    assert not held[50:].any()


def test_every_point_of_large_classes_is_held_out_equally_often(seed):
    labels = np.repeat(np.arange(4), 25).astype(np.int32)
    counts = sum(held_out(labels, 0.2, np.random.RandomState(1000 * seed + i)).astype(int) for i in range(400))
    # 400 draws with share 0.2: a standard deviation of 8; 100 points, so 4.5 of them.
    assert np.abs(counts - 80).max() < 36


def test_no_class_with_two_points_is_an_error():
    with pytest.raises(ValueError, match="a class with at least two points"):
        SoftmaxClassifier(early_stopping=True).fit(np.eye(3), [0, 1, 2])


@pytest.mark.filterwarnings("ignore:training diverged")  # steps so large that the best pass is not the last one
@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize(
    "options",
    [
        {"solver": "implicit", "n_negatives": 4, "learning_rate": 20.0},
        {"solver": "implicit", "n_negatives": 4, "learning_rate": 20.0, "alpha": 1e-3},
        {"solver": solvers.Exact(averaging="polyak"), "learning_rate": 20.0},
        {"solver": solvers.Exact(averaging="suffix"), "learning_rate": 20.0, "alpha": 1e-4},
        {"solver": "lbfgs"},
        {},
    ],
    ids=str,
)
def test_the_model_is_that_of_the_best_pass(options, storage, seed):
    X, y = noisy(seed)
    X = as_storage(X, storage)
    fit = SoftmaxClassifier(
        early_stopping=True, validation_fraction=0.25, n_iter_no_change=3, max_iter=40, random_state=seed, **options
    ).fit(X, y)
    curve = fit.validation_curve_
    assert fit.best_iter_ == 1 + np.argmin(curve)
    assert len(curve) == fit.n_iter_ == len(fit.loss_curve_)
    # It ends three passes after the best one, or with the passes.
    assert fit.n_iter_ == min(fit.best_iter_ + 3, 40)
    labels = np.unique(y, return_inverse=True)[1].astype(np.int32)
    held = np.flatnonzero(held_out(labels, 0.25, np.random.RandomState(seed)))
    # Factors of rows are multiplied in after the evaluation: two roundings to float32 of each weight.
    assert fit.evaluate(X[held], y[held])["log_loss"] == pytest.approx(curve.min(), rel=1e-5)


@pytest.mark.filterwarnings("ignore:training diverged")  # the last of the passes is no matter here
@pytest.mark.parametrize("averaging", ["none", "polyak"])
def test_it_equals_a_fit_of_as_many_passes_on_the_points_that_are_left(averaging, seed):
    X, y = noisy(seed)
    options = {"solver": solvers.Exact(averaging=averaging), "learning_rate": 5.0, "random_state": seed}
    stopped = SoftmaxClassifier(early_stopping=True, n_iter_no_change=2, max_iter=30, **options).fit(X, y)
    left = ~held_out(y.astype(np.int32), 0.1, np.random.RandomState(seed))
    plain = SoftmaxClassifier(max_iter=stopped.best_iter_, **options)
    plain.fit(X[left], y[left], callback=lambda state: None)  # with which it is not made again where it diverges
    np.testing.assert_array_equal(stopped.coef_, plain.coef_)
    np.testing.assert_array_equal(stopped.intercept_, plain.intercept_)


@pytest.mark.parametrize("averaging", ["none", "suffix"])
def test_results_do_not_depend_on_the_number_of_threads(averaging, seed):
    rng = np.random.default_rng(seed)
    X = as_storage(rng.normal(size=(3000, 30)) * (rng.random((3000, 30)) < 0.2), "sparse")
    y = rng.integers(0, 1100, size=3000)
    y[:1100] = np.arange(1100)
    fits = [
        SoftmaxClassifier(
            solver=solvers.Implicit(averaging=averaging),
            early_stopping=True,
            max_iter=6,
            n_jobs=n_jobs,
            random_state=seed,
        ).fit(X, y)
        for n_jobs in (1, 3)
    ]
    np.testing.assert_array_equal(fits[0].validation_curve_, fits[1].validation_curve_)
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


def test_classes_of_the_held_out_points_stay(seed):
    X, y = noisy(seed, n=60, n_classes=12)
    fit = SoftmaxClassifier(early_stopping=True, validation_fraction=0.5, random_state=seed).fit(X, y)
    np.testing.assert_array_equal(fit.classes_, np.unique(y))


@pytest.mark.filterwarnings("ignore:training diverged")
def test_training_that_diverges_returns_the_best_pass_before(seed):
    X, y = noisy(seed)
    model = SoftmaxClassifier(
        solver=solvers.SGD(schedule="inverse"),
        learning_rate=0.02,
        max_iter=60,
        early_stopping=True,
        n_iter_no_change=60,
    )
    calls = []

    def poison(state):
        calls.append(state.n_iter)
        if state.n_iter == 5:
            state._weights.matrix[...] = np.inf

    model.set_params(random_state=seed).fit(X, y, callback=poison)
    assert model.best_iter_ <= 5
    assert len(calls) < 60
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation_fraction": 0.0}, "validation_fraction is 0.0"),
        ({"validation_fraction": 1.0}, "validation_fraction is 1.0"),
        ({"n_iter_no_change": 0}, "n_iter_no_change is 0"),
    ],
)
def test_a_parameter_out_of_range_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SoftmaxClassifier(early_stopping=True, **options).fit(np.eye(4), [0, 0, 1, 1])


def test_a_share_without_early_stopping_is_refused_but_patience_is_not():
    with pytest.raises(ValueError, match=r"validation_fraction is 0.3, which has no effect"):
        SoftmaxClassifier(validation_fraction=0.3).fit(np.eye(4), [0, 0, 1, 1])
    for model in ("auto", "linear", "pairs", "embedding", "hybrid"):  # as scikit-learn's checks set it
        SoftmaxClassifier(model=model, n_iter_no_change=20, max_iter=2).fit(sp.eye_array(4, format="csr"), [0, 0, 1, 1])


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("solver", ["implicit", "umax", "lbfgs"])
def test_rows_of_ones_own_are_those_that_say_when_to_stop(solver, storage, seed):
    X, y = noisy(seed)
    X, new, of_new = as_storage(X, storage), *noisy(seed + 100)
    model = SoftmaxClassifier(
        solver=solver,
        model="linear",
        alpha=1e-3,
        early_stopping=True,
        n_iter_no_change=2,
        max_iter=40,
        random_state=seed,
    )
    model.fit(X, y, eval_set=(new, of_new))
    curve = model.validation_curve_
    assert model.best_iter_ == 1 + np.argmin(curve)
    assert model.n_iter_ == min(model.best_iter_ + 2, 40) or solver == "lbfgs"  # which may be at the optimum
    assert model.evaluate(new, of_new)["log_loss"] == pytest.approx(curve.min(), rel=1e-5)  # as above
    assert model.class_count_.sum() == len(y)  # no row of X is held out
    listed = clone(model).fit(X, y, eval_set=[(as_storage(new, "sparse"), of_new)])  # as LightGBM takes them
    np.testing.assert_allclose(listed.validation_curve_, curve, rtol=1e-4)  # sums of sparse rows, in another order


def test_rows_of_ones_own_may_be_texts_and_must_fit():
    texts, y = ["red apple", "green pear", "fast car", "slow truck"] * 5, [0, 0, 1, 1] * 5
    model = SoftmaxClassifier(early_stopping=True, random_state=0)
    assert model.fit(texts, y, eval_set=(["a red car", "an apple"], [1, 0])).validation_curve_.size
    for wrong, message in (
        ((["a"], [2]), r"y of eval_set"),
        ((np.eye(3), [0, 1, 0]), "X has 3 features"),
        ((["a red car"], [0, 1]), r"X has 1 rows, y has shape \(2,\)"),
        ("both", r"eval_set is a str; it must be a pair \(X, y\)"),
        ([(np.eye(3), [0, 1, 0])] * 2, r"eval_set is a list; it must be a pair \(X, y\), one set"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(texts, y, eval_set=wrong)
    with pytest.raises(ValueError, match="set early_stopping=True"):
        SoftmaxClassifier().fit(texts, y, eval_set=(texts, y))


def test_a_flag_that_is_no_flag_is_refused():
    with pytest.raises(TypeError, match="early_stopping is 'yes'; it must be True or False"):
        SoftmaxClassifier(early_stopping="yes").fit(np.eye(4), [0, 0, 1, 1])


# Models that are not linear, or have several labels a row


SEVERAL = {
    "embedding": SoftmaxClassifier(model="embedding", dim=8),
    "pairs": SoftmaxClassifier(model="pairs"),
    "hybrid": SoftmaxClassifier(model="hybrid", dim=8),
    "margin": MarginClassifier(),
    "margin of embeddings": MarginClassifier(model="embedding", dim=8, smoothing=0.0),
    "triplet": MarginClassifier(loss="triplet"),
}


def labelled(seed, several):
    X, y = noisy(seed)
    if not several:
        return X, y
    Y = np.eye(12, dtype=np.int8)[y]
    Y[np.arange(len(y)), (y + 1) % 12] = 1
    Y[0] = 0  # a row without labels counts nowhere
    return X, sp.csr_array(Y)


@pytest.mark.filterwarnings("ignore:the model has learnt no more")  # passes of noise
@pytest.mark.parametrize("several", [False, True], ids=["one label", "several labels"])
@pytest.mark.parametrize("kind", SEVERAL)
def test_every_model_stops_by_rows_of_ones_own_and_is_that_of_the_best_pass(kind, several, seed):
    (X, y), (new, of_new) = labelled(seed, several), labelled(seed + 100, several)
    X, new = as_storage(X, "sparse"), as_storage(new, "sparse")
    model = clone(SEVERAL[kind]).set_params(max_iter=20, random_state=seed)
    stopped = clone(model).set_params(early_stopping=True, n_iter_no_change=2).fit(X, y, eval_set=(new, of_new))
    curve = stopped.validation_curve_
    assert stopped.best_iter_ == 1 + np.argmin(curve)
    assert len(curve) == stopped.n_iter_ == min(stopped.best_iter_ + 2, 20)
    assert stopped.class_count_.sum() == (y.nnz if several else len(y))  # no row of X is held out
    rows = slice(1, None) if several else slice(None)
    scores = stopped.decision_function(new)[rows]
    positives = [row.indices for row in of_new[1:]] if several else of_new[:, np.newaxis]
    if kind in ("pairs", "embedding") and not several:  # scores are those that training moved
        assert stopped.evaluate(new, of_new)["log_loss"] == pytest.approx(curve.min(), rel=1e-5)
    elif kind == "margin":
        assert losses.smoothed_margin(scores, positives, 1.0)[0].mean() == pytest.approx(curve.min(), rel=1e-5)
    elif kind == "margin of embeddings":
        assert losses.max_margin(scores, positives)[0].mean() == pytest.approx(curve.min(), rel=1e-5)
    elif kind == "triplet":
        assert losses.triplet(scores, positives)[0].mean() == pytest.approx(curve.min(), rel=1e-5)
    if kind != "hybrid":  # whose embeddings stop at a pass of their own
        plain = clone(model).set_params(max_iter=stopped.best_iter_).fit(X, y, callback=lambda state: None)
        np.testing.assert_array_equal(stopped.decision_function(new), plain.decision_function(new))


@pytest.mark.parametrize("kind", ["embedding", "hybrid", "margin"])
def test_a_share_of_the_rows_is_held_out_of_every_model(kind, seed):
    X, y = labelled(seed, several=True)
    X, y = as_storage(X, "sparse")[1:], y[1:]
    model = clone(SEVERAL[kind]).set_params(random_state=seed, max_iter=4, early_stopping=True, n_iter_no_change=4)
    if kind == "hybrid":  # a run after one that is too sure of itself has a ridge of 1 over all rows that are given
        model.set_params(alpha=0.0)
    fraction = 0.1 if kind == "margin" else 0.25
    found = clone(model if kind == "margin" else model.set_params(validation_fraction=fraction)).fit(X, y)
    held = held_out(Labels(y.indptr.astype(np.int64), y.indices), fraction, np.random.RandomState(seed))
    left = clone(model).fit(X[~held], y[~held], eval_set=(X[held], y[held]))
    # An offset of the pairs' steps is a mean over all rows that are given: 1e-4 is a tenth of what a pass moves.
    rtol = 1e-4 if kind == "hybrid" else 0
    np.testing.assert_allclose(found.validation_curve_, left.validation_curve_, rtol=rtol)
    np.testing.assert_allclose(found.decision_function(X), left.decision_function(X), rtol=rtol, atol=10 * rtol)


def test_labels_of_rows_of_ones_own_are_those_of_the_fit():
    X, Y = labelled(0, several=True)
    model = MarginClassifier(early_stopping=True, random_state=0)
    with pytest.raises(ValueError, match="y of eval_set has 11 columns; that of the fit has 12"):
        model.fit(X, Y, eval_set=(X, Y[:, :11]))
    with pytest.raises(ValueError, match="y of eval_set has no label in any row"):
        model.fit(X, Y, eval_set=(X[:1], Y[:1]))
    with pytest.raises(ValueError, match="eval_set is given, whose rows say when to stop; set early_stopping=True"):
        MarginClassifier().fit(X, Y, eval_set=(X, Y))


@pytest.mark.parametrize("kind", ["embedding", "margin"])
def test_a_fit_that_begins_warm_holds_no_rows_out(kind):
    X, Y = labelled(0, several=True)
    model = clone(SEVERAL[kind]).set_params(early_stopping=True, warm_start=True, max_iter=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="early_stopping is True; a fit that begins at a model which is not linear"):
        model.fit(X, Y)
