"""solver="auto": what it chooses, what it leaves alone, and what it tells."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from manyclass import SoftmaxClassifier
from manyclass.estimators import auto
from manyclass.estimators.auto import BY_HAND, EMBEDDED, RIDGES, Shape, best_n_negatives, choose, embeds, visit_cost

BIBTEX = Shape(4_880, 1_836, 146, 68.5, True)
EURLEX57K = Shape(51_000, 5_000, 1_809, 140.0, True)
YSO = Shape(608_795, 50_000, 26_091, 7.5, True)
MNIST = Shape(60_000, 784, 10, 784.0, False)
YELP_NEXT = Shape(255_492, 20_033, 20_031, 5.7, True)
OMNIGLOT = Shape(25_968, 784, 1_623, 784.0, False)


def problem(seed, n=300, n_classes=8, n_features=15):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)).astype(np.float32)
    y = (X[:, :n_classes] + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def large(seed):
    """So many classes and features a row that the exact step is predicted to take longer than it is worth."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2400, 400)).astype(np.float32)
    return X, np.arange(2400) % 1200


@pytest.mark.parametrize(
    ("shape", "solver"),
    [(BIBTEX, "exact"), (MNIST, "exact"), (EURLEX57K, "implicit"), (OMNIGLOT, "implicit"), (YSO, "implicit")],
)
def test_few_classes_are_trained_exactly_and_many_by_samples(shape, solver):
    assert choose(SoftmaxClassifier(), shape, candidates=False)["solver"] == solver


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("row", [2.0, 100.0])
def test_costs_grow_with_classes_and_features(row, sparse):
    def at(n_classes, n_drawn, row):
        return visit_cost(Shape(10_000, 1_000, n_classes, row, sparse), n_drawn)

    assert at(100, None, row) < at(1_000, None, row) < at(10_000, None, row)
    assert at(10_000, 16, row) < at(10_000, 64, row) < at(10_000, 256, row)
    assert at(10_000, 64, row) < at(10_000, 64, 2 * row)
    assert at(40, 64, row) == at(40, 48, row)  # there are no more than 40 to draw, in three lines
    assert at(10_000, 64, row) < at(10_000, None, row)


def test_the_number_of_negatives_minimises_cost_times_noise():
    for shape in (YSO, Shape(10**6, 10**5, 10**5, 50.0, True), Shape(10**5, 300, 5 * 10**4, 300.0, False)):
        lines = np.arange(64, 513, 16)
        products = [visit_cost(shape, int(m)) * (1 + shape.n_classes / 6 / m) for m in lines]
        # The optimum lies between two whole lines, and near it the product is flat: within 1 % of the least.
        at = products[list(lines).index(best_n_negatives(shape))]
        assert at <= 1.01 * min(products)


@pytest.mark.parametrize(
    "given",
    [
        {"n_negatives": 32},
        {"alpha": 1e-3},
        {"averaging": "none"},
        {"decay": 0.5},
        {"learning_rate": 0.7},
        {"u_learning_rate": 0.4},
        {"n_negatives": 32, "alpha": 0.0, "averaging": "polyak", "learning_rate": 0.2, "u_learning_rate": "tied"},
    ],
    ids=str,
)
def test_what_is_given_wins(given, seed):
    X, y = large(seed)
    model = SoftmaxClassifier(max_iter=2, random_state=seed, **given).fit(X, y)
    assert model.resolved_params_["solver"] == "implicit"
    assert not set(given) - {"u_learning_rate"} & set(model.resolved_params_)
    # The same model as with everything given by hand.
    by_hand = {**model.resolved_params_, **given}
    again = SoftmaxClassifier(max_iter=2, random_state=seed, **by_hand).fit(X, y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.alpha_path_ == {}


@pytest.mark.parametrize(
    "given",
    [{"n_negatives": 4}, {"selection": "uniform"}, {"selection": "head_tail"}, {"max_norm": 2.0}],
    ids=str,
)
def test_options_of_sampled_steps_make_the_solver_implicit(given, seed):
    X, y = problem(seed)
    assert SoftmaxClassifier(max_iter=2).fit(X, y).resolved_params_["solver"] == "exact"
    assert SoftmaxClassifier(max_iter=2, **given).fit(X, y).resolved_params_["solver"] == "implicit"


def test_a_solver_chosen_by_hand_changes_nothing_else(seed):
    X, y = problem(seed)
    model = SoftmaxClassifier(solver="umax", learning_rate=0.1, u_learning_rate=0.1).fit(X, y)
    assert model.resolved_params_ == BY_HAND


def test_parameters_stay_as_they_were_given(seed):
    X, y = problem(seed)
    model = SoftmaxClassifier(max_iter=2)
    before = model.get_params()
    assert model.fit(X, y).get_params() == before
    assert clone(model).get_params() == before


def test_scaling_the_data_scales_the_weights(seed):
    X, y = problem(seed, n=1200)
    one = SoftmaxClassifier(max_iter=5, fit_intercept=False, random_state=0).fit(X, y)
    # A power of two changes no rounding.
    eight = SoftmaxClassifier(max_iter=5, fit_intercept=False, random_state=0).fit(8 * X, y)
    np.testing.assert_allclose(8 * eight.coef_, one.coef_, rtol=1e-4, atol=1e-5 * np.abs(one.coef_).max())
    assert [alpha / 64 for alpha in eight.alpha_path_] == pytest.approx(list(one.alpha_path_))


def test_the_ridge_is_the_one_that_predicts_held_out_points_best(seed):
    X, y = problem(seed, n=1000)
    model = SoftmaxClassifier(random_state=seed).fit(X, y)
    path = model.alpha_path_
    unit = float(np.mean(np.sum(np.square(X), axis=1)))
    assert list(path) == pytest.approx([r * unit for r in RIDGES[: len(path)]])
    assert model.resolved_params_["alpha"] == min(path, key=path.get)


def test_nothing_is_tried_with_a_limit_of_seconds_or_few_points(seed):
    X, y = problem(seed, n=1000)
    assert SoftmaxClassifier(max_iter=3).fit(X, y).alpha_path_
    timed = SoftmaxClassifier(max_iter=3).fit(X, y, max_seconds=1e6)
    assert timed.alpha_path_ == {}
    assert timed.resolved_params_["alpha"] == pytest.approx(
        0.01 / 1000 * np.mean(np.sum(np.square(X), axis=1)), rel=1e-5
    )
    assert SoftmaxClassifier(max_iter=3).fit(X[:300], y[:300]).alpha_path_ == {}


@pytest.mark.parametrize("data", [problem, large])
def test_equal_seeds_give_equal_models_for_any_number_of_threads(data, seed):
    X, y = data(seed)
    X = sp.csr_array(np.where(np.abs(X) > 1, X, 0))
    fits = [SoftmaxClassifier(max_iter=3, random_state=seed, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)]
    assert fits[0].resolved_params_ == fits[1].resolved_params_
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


def test_the_certificate_is_for_the_ridge_that_was_chosen(seed):
    X, y = problem(seed, n=200)
    model = SoftmaxClassifier(random_state=0).fit(X, y)
    chosen = model.resolved_params_["alpha"]
    expected = model.evaluate(X, y)["log_loss"] + chosen / 2 * float(np.square(model.coef_, dtype=np.float64).sum())
    assert chosen > 0
    assert model.certificate(X, y)["primal"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["n_negatives", "alpha", "averaging", "learning_rate", "u_learning_rate"])
def test_another_word_than_auto_is_refused(name):
    with pytest.raises((TypeError, ValueError), match=f"{name} is 'automatic'; it must be"):
        SoftmaxClassifier(**{name: "automatic"}).fit(np.eye(4), [0, 0, 1, 1])


@pytest.mark.parametrize(
    ("shape", "wide"),
    [(YSO, True), (YELP_NEXT, True), (EURLEX57K, False), (BIBTEX, False), (MNIST, False), (OMNIGLOT, False)],
)
def test_embeddings_are_for_weights_that_the_data_cannot_teach_one_by_one(shape, wide):
    assert embeds(shape) == wide
    assert not embeds(Shape(shape.n_samples, shape.n_features, shape.n_classes, shape.row, False))


@pytest.fixture
def wide(seed, monkeypatch):
    """Sparse data with two words a row and a class for each second word; small W count as large ones."""
    monkeypatch.setattr(auto, "LEAST_TO_EMBED", 0)
    rng = np.random.default_rng(seed)
    y = np.arange(600) % 150
    words = np.stack([2 * y + rng.integers(0, 2, 600), rng.integers(300, 400, 600)], axis=1)
    return sp.csr_array((np.ones(1200, np.float32), words.ravel(), np.arange(0, 1201, 2)), shape=(600, 400)), y


def test_the_default_embeds_wide_sparse_data_and_says_so(wide, seed):
    X, y = wide
    model = SoftmaxClassifier(random_state=seed).fit(X, y)
    assert model.resolved_params_ == EMBEDDED
    assert model.embedding_.shape == (400, 192)
    assert model.predict_proba(X[:5]).sum(axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    given = SoftmaxClassifier(**EMBEDDED, search="sampled", random_state=seed).fit(X, y)
    np.testing.assert_array_equal(model.coef_, given.coef_)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("given", [{"max_iter": 2}, {"embedding_dim": 8}, {"n_negatives": 32, "decay": 0.7}], ids=str)
def test_what_is_given_wins_with_embeddings_too(wide, given, seed):
    model = SoftmaxClassifier(random_state=seed, **given).fit(*wide)
    used = EMBEDDED | given
    assert {**model.resolved_params_, **given}.items() >= ({} if "embedding_dim" in given else used).items()
    assert model.embedding_.shape == (400, used["embedding_dim"])
    assert not set(given) & set(model.resolved_params_)


@pytest.mark.parametrize(
    "given",
    [
        {"embedding_dim": None},
        {"solver": "implicit"},
        {"u_learning_rate": 0.4},
        {"learning_rate": 0.5},
        {"alpha": 1e-5},
        {"early_stopping": True},
        {"schedule": "inverse"},
        {"selection": "uniform"},
    ],
    ids=str,
)
def test_whatever_embeddings_have_no_use_for_keeps_the_model_linear(wide, given, seed):
    X, y = wide
    model = SoftmaxClassifier(random_state=seed, max_iter=2, **given).fit(X, y)
    assert model.coef_.shape == (150, 400)
    assert model.resolved_params_.get("embedding_dim") is None


def test_candidates_keep_the_model_linear(wide, seed):
    X, y = wide
    model = SoftmaxClassifier(random_state=seed, max_iter=2, selection="head_tail")
    assert model.fit(X, y, candidates=np.column_stack([y, (y + 1) % 150])).coef_.shape == (150, 400)


def test_several_labels_of_wide_data_are_embedded_too(wide, seed):
    X, y = wide
    Y = sp.csr_array((np.ones(600, np.int64), (np.arange(600), y)), shape=(600, 150))
    assert SoftmaxClassifier(random_state=seed).fit(X, Y).embedding_.shape == (400, 192)
