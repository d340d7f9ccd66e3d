"""fit and partial_fit from a stream: what is one, equality with loops and arrays, errors in the middle."""

import warnings

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from reference import problems
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, load, models, solvers
from manyclass.classifiers.base import is_stream
from manyclass.datasets import Stream, TextVectorizer

N, D, K = 400, 24, 8
STEPS = {"learning_rate": 0.5, "random_state": 0}
MODELS = {
    "implicit": SoftmaxClassifier(solver="implicit", **STEPS),
    "exact": SoftmaxClassifier(solver="exact", **STEPS),
    "scaled": SoftmaxClassifier(solver="implicit", model=models.Linear(scaling="standard"), **STEPS),
    "embedding": SoftmaxClassifier(model="embedding", solver="adagrad", dim=4, **STEPS),
    "margin": MarginClassifier(**STEPS),
    "probit": AugmentReduceClassifier(**STEPS),
    "gumbel": AugmentReduceClassifier(noise="gumbel", **STEPS),  # whose rows carry one number, not two
}


@pytest.fixture
def rows(seed):
    """Rows that nearly tell their labels, each of which the first twenty rows have."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(K), np.arange(K), rng.integers(K, size=N - 2 * K)])
    X = rng.random((N, D)) * (rng.random((N, D)) < 0.2)
    X[np.arange(N), 2 * y] = 1
    return sp.csr_array(X.astype(np.float32)), y


def parts_of(X, y, size=100):
    return [(X[first : first + size], y[first : first + size]) for first in range(0, len(y), size)]


def clone_of(model, /, **params):
    return type(model)(**model.get_params(deep=False) | params)


def assert_same(one, other):
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    np.testing.assert_array_equal(one.class_count_, other.class_count_)


# What a stream is


def test_a_stream_is_told_from_an_array_like(rows):
    X, y = rows
    for stream in (
        Stream(X, y),
        iter(parts_of(X, y)),
        (part for part in parts_of(X, y)),
        parts_of(X, y),
        tuple(parts_of(X.toarray(), y)),
        [(pandas.DataFrame(X.toarray()), y)],
        type("Loader", (), {"__iter__": lambda self: iter(parts_of(X, y))})(),
    ):
        assert is_stream(stream, None)
    for array in (
        X,
        X.toarray(),
        X.toarray().tolist(),
        pandas.DataFrame(X.toarray()),
        [(1.0, 2.0), (3.0, 4.0)],
        [(1.0, 2.0, 3.0)],
        ["ant bee", "cow"],
        [["ant", "bee"]],
        [],
        "text",
    ):
        assert not is_stream(array, None)
    assert not is_stream(parts_of(X, y), y)
    with pytest.raises(ValueError, match="y is given beside a Stream"):
        is_stream(Stream(X, y), y)


@pytest.mark.parametrize("call", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", ["implicit", "margin", "probit"])
def test_an_array_without_y_is_refused_as_ever(rows, name, call):
    for X in (rows[0], rows[0].toarray(), rows[0].toarray().tolist()):
        with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
            getattr(clone_of(MODELS[name]), call)(X)


# Equality


@pytest.mark.parametrize("n_passes", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_partial_fit_of_a_stream_is_the_loop_over_its_parts(rows, name, n_passes):
    X, y = rows
    loop = clone_of(MODELS[name])
    for some, labels in Stream(X, y, rows=100, random_state=3):
        loop.partial_fit(some, labels, classes=np.arange(K), n_passes=n_passes)
    for source in (
        Stream(X, y, rows=100, random_state=3),
        list(Stream(X, y, rows=100, random_state=3)),
        iter(Stream(X, y, rows=100, random_state=3)),
    ):
        found = clone_of(MODELS[name]).partial_fit(source, classes=np.arange(K), n_passes=n_passes)
        assert_same(found, loop)
        assert found.loss_curve_.tolist() == loop.loss_curve_.tolist()


# "scaled" scales by the first part; what rows of "implicit" carry begins in a call at its value, and in `fit` at log K.
@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("scaled", "implicit")])
def test_one_pass_of_fit_is_the_loop_over_its_parts(rows, name):
    X, y = rows
    loop = clone_of(MODELS[name])
    for some, labels in parts_of(X, y):
        loop.partial_fit(some, labels, classes=np.arange(K), n_passes=1)
    found = clone_of(MODELS[name], max_iter=1).fit(parts_of(X, y), classes=np.arange(K))
    assert_same(found, loop)
    assert found.n_iter_ == 1
    np.testing.assert_allclose(found.loss_curve_, [np.mean(loop.loss_curve_)])


def test_weights_of_rows_come_with_the_parts(rows, seed):
    X, y = rows
    r = np.random.default_rng(seed).random(N) + 0.1
    loop = clone_of(MODELS["implicit"])
    parts = [(X[first : first + 100], y[first : first + 100], r[first : first + 100]) for first in range(0, N, 100)]
    for some, labels, weights in parts:
        loop.partial_fit(some, labels, classes=np.arange(K), sample_weight=weights)
    assert_same(clone_of(MODELS["implicit"]).partial_fit(parts, classes=np.arange(K)), loop)
    with pytest.raises(ValueError, match="sample_weight is given, which is for arrays"):
        clone_of(MODELS["implicit"]).partial_fit(parts, sample_weight=r)


@pytest.mark.parametrize("name", MODELS)
def test_passes_over_a_stream_learn_what_passes_over_arrays_do(rows, name):
    X, y = rows
    whole = clone_of(MODELS[name], max_iter=6).fit(X, y)
    model = clone_of(MODELS[name], max_iter=6).fit(Stream(X, y, rows=100, random_state=0))
    assert model.n_iter_ == whole.n_iter_ == 6
    np.testing.assert_array_equal(model.class_count_, whole.class_count_)
    if name == "margin":
        assert abs(model.score(X, y) - whole.score(X, y)) <= 0.02  # eight of 400 rows
    else:
        # Both visit each row six times with the same steps, in other orders and by other draws: W = 0 has 2.08.
        losses = [m.evaluate(X, y)["log_loss"] for m in (model, whole)]
        assert abs(losses[0] - losses[1]) < 0.1
    assert np.all(np.diff(model.loss_curve_) < 0.02)


class Loader:
    """An iterable that is neither a list nor a `Stream`: rows have no numbers."""

    def __init__(self, parts):
        self.parts = parts

    def __iter__(self):
        return iter(self.parts)


@pytest.mark.parametrize(
    ("solver", "rate", "drawn", "alpha"),
    [
        ("implicit", 0.4, "auto", 1e-3),
        pytest.param("implicit", 0.4, "auto", 1e-2, marks=pytest.mark.long),
        pytest.param("exact", 0.1, "auto", 1e-3, marks=pytest.mark.long),
        ("bregman", 0.1, 5, 1e-3),
    ],
)
def test_fit_of_any_iterable_is_as_near_the_ridged_optimum_as_fit_of_arrays(solver, rate, drawn, alpha):
    """Under the conditions that the module states; W = 0 is 1.5 nats above the optimum."""
    X, y = problems.planted(np.random.default_rng(3), 1000, 8, 20, scale=4)
    plain = models.Linear(scaling="none")
    shared = {"model": plain, "alpha": alpha, "random_state": 0}

    def objective(model):
        return model.evaluate(X, y)["log_loss"] + alpha / 2 * float(np.sum(model.coef_.astype(float) ** 2))

    best = objective(SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-7), max_iter=3000, **shared).fit(X, y))
    model = SoftmaxClassifier(solver=solver, n_negatives=drawn, learning_rate=rate, max_iter=30, **shared)
    at_once = objective(clone_of(model).fit(X, y)) - best
    sources = {
        "list": parts_of(X, y, 300),
        "small parts": parts_of(X, y, 60),
        "Stream": Stream(X, y, rows=200, random_state=0),
    }
    sources["any iterable"] = Loader(parts_of(X, y, 150))
    above = {
        name: objective(clone_of(model).fit(source, classes=np.arange(20))) - best for name, source in sources.items()
    }
    assert at_once < 0.005
    assert max(above.values()) < at_once + 0.005, above


def test_fit_can_be_repeated_and_its_stream_is_not_used_up(rows):
    X, y = rows
    stream = Stream(X, y, rows=100, random_state=0)
    assert_same(*(clone_of(MODELS["implicit"], max_iter=3).fit(stream) for _ in range(2)))


def test_seeds_are_drawn_once_where_none_is_given(rows):
    X, y = rows
    for random_state in (None, np.random.RandomState(3)):
        model = clone_of(MODELS["implicit"], random_state=random_state, max_iter=2).fit(parts_of(X, y))
        assert model.random_state is random_state
    again = clone_of(MODELS["implicit"], random_state=np.random.RandomState(3), max_iter=2).fit(parts_of(X, y))
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_u_is_kept_from_pass_to_pass_by_the_row(rows):
    """A stream whose parts come in one order is the same whether windows are shuffled by `Stream` or not at all."""
    X, y = rows
    plain = solvers.Implicit(shuffle=False, u_learning_rate=3.0)
    model = clone_of(MODELS["implicit"], solver=plain, sampler="all", max_iter=3)
    in_order = clone_of(model).fit(parts_of(X, y))
    np.testing.assert_array_equal(clone_of(model).fit(Stream(X, y, rows=100, shuffle=False)).coef_, in_order.coef_)
    forgetful = clone_of(model).fit(type("Loader", (), {"__iter__": lambda self: iter(parts_of(X, y))})())
    whole = clone_of(model).fit(X, y)
    # Kept in single precision, where `fit` has double.
    atol = 100 * 2.0**-24 * np.abs(whole.coef_).max()
    np.testing.assert_allclose(in_order.coef_, whole.coef_, rtol=0, atol=atol)
    assert np.abs(forgetful.coef_ - whole.coef_).max() > 100 * atol


def test_auto_learns_from_the_first_part_and_averages(rows):
    X, y = rows
    big = sp.vstack([X] * 4, format="csr")
    labels = np.tile(y, 4)
    model = SoftmaxClassifier(random_state=0).fit(Stream(big, labels, rows=1200, shuffle=False), classes=np.arange(K))
    assert model.auto_report_
    assert {line["parameter"] for line in model.auto_report_} == {"learning_rate"}
    assert model.resolved_params_["alpha"] == 0
    assert model.resolved_params_["solver"].averaging == "suffix"
    assert model.resolved_params_["max_iter"] == model.n_iter_ > 1
    last = clone_of(model, **model.resolved_params_ | {"solver": solvers.Exact(averaging="none")})
    last.fit(Stream(big, labels, rows=1200, shuffle=False), classes=np.arange(K))
    assert not np.array_equal(last.coef_, model.coef_)


def test_a_margin_learns_from_the_first_part(rows):
    X, y = rows
    grown = [(n**2 * some, labels) for n, (some, labels) in enumerate(parts_of(X, y), start=1)]
    model = MarginClassifier(random_state=0, max_iter=3).fit(grown)
    mean = np.mean(np.sum(grown[0][0].toarray() ** 2.0, axis=1))
    assert model.resolved_params_["learning_rate"] == pytest.approx(mean**-0.5, rel=1e-12)
    again = clone_of(model, **model.resolved_params_).fit(grown)
    assert_same(again, model)
    assert again.resolved_params_ == {}


def test_the_average_is_the_mean_over_the_later_passes(rows):
    X, y = rows
    stream = Stream(X, y, rows=100, random_state=0)
    fits = [
        clone_of(MODELS["exact"], solver=solvers.Exact(averaging=averaging, decay=0.9), max_iter=n).fit(stream)
        for averaging, n in (("suffix", 5), ("none", 3), ("none", 4), ("none", 5))
    ]
    averaged, *iterates = (model.coef_ for model in fits)
    atol = 8 * 2.0**-24 * np.abs(averaged).max()  # a running mean of three in single precision
    np.testing.assert_allclose(averaged, np.mean(iterates, axis=0), rtol=0, atol=atol)


def test_several_labels_a_row(rows, seed):
    X, y = rows
    Y = sp.csr_array((np.ones(2 * N), (np.tile(np.arange(N), 2), np.r_[y, (y + 1) % K])), shape=(N, K))
    Y = sp.csr_array(Y * (np.random.default_rng(seed).random((N, 1)) < 0.9))  # some rows without any
    Y.eliminate_zeros()
    for model in (MODELS["margin"], MODELS["embedding"]):
        found = clone_of(model, max_iter=5).fit(Stream(X, Y, rows=100, random_state=0))
        assert found.multilabel_
        assert found.n_labels_ == 2
        whole = clone_of(model, max_iter=5).fit(X, Y)
        assert abs(found.evaluate(X, Y)["precision_at_1"] - whole.evaluate(X, Y)["precision_at_1"]) < 0.1
    empty = sp.csr_array((100, K))
    with_empty = [(X[:100], Y[:100]), (X[:100], empty), (X[100:200], Y[100:200])]
    assert clone_of(MODELS["margin"], max_iter=2).fit(with_empty).n_iter_ == 2


def test_classes_that_come_later_grow_the_model(rows):
    X, y = rows
    order = np.argsort(y, kind="stable")
    parts = parts_of(X[order], y[order])
    model = clone_of(MODELS["implicit"], max_iter=5).fit(parts)
    np.testing.assert_array_equal(model.classes_, np.arange(K))
    np.testing.assert_array_equal(model.class_count_, np.bincount(y))
    assert model.score(X, y) > 0.9


def test_a_fit_from_a_stream_is_saved_and_goes_on(rows, tmp_path):
    X, y = rows
    model = clone_of(MODELS["implicit"], max_iter=3).fit(Stream(X, y, rows=100, random_state=0))
    model.save(tmp_path / "model")
    other = load(tmp_path / "model")
    assert_same(other, model)
    assert_same(other.partial_fit(X[:50], y[:50]), model.partial_fit(X[:50], y[:50]))
    assert_same(clone_of(model).fit(X, y), model.fit(X, y))  # a fit of arrays knows nothing of the stream


# Passes


def test_an_iterator_is_one_pass_and_says_so(rows):
    X, y = rows
    once = clone_of(MODELS["implicit"], max_iter=1).fit(parts_of(X, y))
    with pytest.warns(UserWarning, match="X is an iterator, which is read once: it is one pass, and not max_iter=5"):
        found = clone_of(MODELS["implicit"], max_iter=5).fit(iter(parts_of(X, y)))
    assert_same(found, once)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clone_of(MODELS["implicit"]).fit(iter(parts_of(X, y))).n_iter_ == 1


def test_max_seconds_ends_after_a_part(rows):
    X, y = rows
    message = "stopped after .* s in pass 1 of 5, part 1 of the stream, when max_seconds was over"
    with pytest.warns(ConvergenceWarning, match=message):
        model = clone_of(MODELS["implicit"], max_iter=5).fit(parts_of(X, y), max_seconds=0)
    assert model.n_iter_ == 0
    assert model.class_count_.sum() == 100


def test_ctrl_c_ends_with_the_model_reached(rows):
    X, y = rows

    class Interrupting(Stream):
        def read_numbered(self, n_pass=0):
            for at, part in enumerate(super().read_numbered(n_pass)):
                if at == 2:
                    raise KeyboardInterrupt
                yield part

        def read(self, n_pass=0):
            return ((X, y) for X, y, _ in self.read_numbered(n_pass))

    for call, place in (("fit", "pass 1 of 5, part 2"), ("partial_fit", "part 2")):
        model = clone_of(MODELS["implicit"], max_iter=5)
        with pytest.warns(ConvergenceWarning, match=f"the model is the one reached so far: it stopped .* s in {place}"):
            getattr(model, call)(Interrupting(X, y, rows=100, shuffle=False), keep="best")
        assert model.class_count_.sum() == 200
        model.fit(X, y)
        before = model.decision_function(X), model.class_count_
        with pytest.raises(KeyboardInterrupt):
            getattr(model, call)(Interrupting(X, y, rows=100, shuffle=False))
        np.testing.assert_array_equal(model.decision_function(X), before[0])
        np.testing.assert_array_equal(model.class_count_, before[1])
        with pytest.raises(KeyboardInterrupt):
            getattr(new := clone_of(MODELS["implicit"], max_iter=5), call)(Interrupting(X, y, rows=100, shuffle=False))
        assert not hasattr(new, "classes_")


# Errors


def broken(X, y):
    return [*parts_of(X[:200], y[:200]), (X[:3], y[:2]), *parts_of(X[200:], y[200:])]


@pytest.mark.parametrize("begun", [False, True])
def test_an_error_leaves_partial_fit_after_the_last_whole_part(rows, begun):
    X, y = rows
    loop, model = clone_of(MODELS["implicit"]), clone_of(MODELS["implicit"])
    if begun:
        loop.fit(X, y)
        model.fit(X, y)
    for some, labels in parts_of(X[:200], y[:200]):
        loop.partial_fit(some, labels)
    with pytest.raises(ValueError, match=r"part 3 of the stream: X has .* rows, y has shape"):
        model.partial_fit(broken(X, y))
    assert_same(model, loop)


def test_an_error_leaves_fit_as_it_was(rows, tmp_path):
    X, y = rows
    model = clone_of(MODELS["implicit"])
    with pytest.raises(ValueError, match="part 3 of the stream"):
        model.fit(broken(X, y))
    assert not hasattr(model, "classes_")
    model.fit(X, y)
    before = model.coef_.copy()
    for day, text in enumerate(("1 0:1\n2 1:1\n" * 50, "1 0:1\n2 1:1\n" * 50, "1 0:1\n1 x:1\n")):
        (tmp_path / f"day-{day}.txt").write_text(text)
    stream = Stream(tmp_path, labels="first", n_features=D, n_labels=K, rows=60, shuffle=False)
    with pytest.raises(ValueError, match=r"part 4 of the stream: .*day-2.txt:2:3: "):
        model.fit(stream)
    np.testing.assert_array_equal(model.coef_, before)


def test_what_is_no_part_is_refused(rows):
    X, y = rows
    for part, told in (((X,), "a tuple of 1"), (X, "a csr_array"), ((y, y), "a tuple of 2"), (3, "a int")):
        with pytest.raises(TypeError, match=f"part 2 of X is {told}"):
            clone_of(MODELS["implicit"]).fit([(X, y), part])
    for empty in (iter([]), Stream(X[:0], y[:0])):
        with pytest.raises(ValueError, match="X has no part with a label"):
            clone_of(MODELS["implicit"]).fit(empty)


def test_what_needs_all_rows_is_refused(rows):
    X, y = rows
    for params, told in (
        ({"early_stopping": True}, "early_stopping is True"),
        ({"n_models": 2}, "n_models is 2"),
        ({"calibration": "temperature"}, "calibration is 'temperature'"),
        ({"class_weight": "balanced"}, "class_weight is 'balanced'"),
        ({"warm_start": True}, "warm_start is True"),
        ({"solver": "lbfgs"}, "solver is 'lbfgs', which needs all rows at once"),
        ({"learning_rate": "grid"}, "learning_rate is 'grid'"),
    ):
        with pytest.raises(ValueError, match=told):
            SoftmaxClassifier(**params).fit(parts_of(X, y))
    model = clone_of(MODELS["implicit"])
    for name, value in (("callback", print), ("coef_init", np.zeros((K, D))), ("candidates", [[0]])):
        with pytest.raises(ValueError, match=f"{name} is given, which is for arrays"):
            model.fit(parts_of(X, y), **{name: value})
    with pytest.raises(ValueError, match="classes is given, which is for a stream"):
        model.fit(X, y, classes=[1, 2])
    with pytest.raises(ValueError, match="max_memory is given, which is for a stream"):
        model.partial_fit(X, y, max_memory="1GiB")


# Texts

GOODS = ("red apples", "a green pear", "sweet plums", "a fast car", "slow trucks", "the long bus")
TEXTS, OF_TEXTS = (
    [f"{GOODS[i % 6]} {i % 7}" for i in range(120)],
    np.array(["food", "traffic"])[np.arange(120) % 6 // 3],
)


@pytest.mark.parametrize("n_hash", [None, 64])
@pytest.mark.parametrize("form", [list, iter])
def test_parts_may_be_texts_whose_terms_the_first_part_tells(tmp_path, n_hash, form):
    parts = [(TEXTS[at : at + 40], OF_TEXTS[at : at + 40]) for at in (0, 40, 80)]
    vectorizer = TextVectorizer(n_hash=n_hash, min_length=2)
    model = SoftmaxClassifier(solver="implicit", max_iter=1, random_state=0)
    model.fit(form(parts), vectorizer=vectorizer)
    fitted = clone(vectorizer).fit(parts[0][0])
    rows = [(fitted.transform(texts), y) for texts, y in parts]
    assert_same(model, clone(model).fit(form(rows)))
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.predict(["green apples", "the slow car"]).tolist() == ["food", "traffic"]
    # Words that nobody has seen are left out, and so they are where a stream goes on.
    assert_same(loaded.partial_fit(form(parts[1:])), model.partial_fit(form(rows[1:])))


def test_a_stream_of_texts_needs_texts_for_its_vectorizer(rows):
    X, y = rows
    with pytest.raises(ValueError, match=r"part 1 of the stream: .* vectorizer is TextVectorizer.* list of str"):
        SoftmaxClassifier().fit([(X, y)], vectorizer=TextVectorizer())
    with pytest.raises(ValueError, match=r"part 1 of the stream: X is texts.* was not fitted on texts"):
        SoftmaxClassifier().partial_fit([(TEXTS, OF_TEXTS)])
