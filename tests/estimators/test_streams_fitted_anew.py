"""Streams that are fitted anew to all of their rows as these become more."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from planned import with_figures, with_planner
from test_curvature_steps import planted
from test_partial_fit_batches import K, assert_same, some_data

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier
from manyclass.fitting import fit as partial_fit
from manyclass.training.incremental import Call


def few_rows(model, **figures):
    """The estimator, whose streams are fitted to few rows."""
    return with_figures(model, **{"FEWEST_TO_FIT": 300} | figures)


def fits_win(model, **figures):
    """Likewise, and a first fit to them predicts better than the stream."""
    return with_planner(few_rows(model, **figures), loss=lambda planner, state, points: -state.history.n_fit)


def in_calls(model, X, y, *ends, **given):
    """Train on the rows up to each end in turn, all classes being named."""
    for first, last in zip((0, *ends), ends, strict=False):
        model.partial_fit(X[first:last], y[first:last], classes=range(K), **given)
    return model


@pytest.mark.parametrize("model", ["hybrid", "pairs"])
@pytest.mark.parametrize("several", [False, True])
def test_a_stream_on_pairs_is_fitted_anew_as_its_rows_become_more(model, several, seed):
    """To all of them, with the classes and the columns that came late, whatever becomes of the caller's memory."""
    X, y = some_data(seed, several=several, n=700)
    early = X[:, :-3]
    own = {"model": model, "random_state": 0}
    stream, r = fits_win(SoftmaxClassifier(**own)), np.linspace(1, 2, 700)
    if not several:
        y[:300] = np.minimum(y[:300], K - 2)  # the last class comes late
    for first, last in ((0, 100), (100, 300)):
        part = early[first:last]
        stream.partial_fit(part, y[first:last], sample_weight=r[first:last])
        part.data[:] = 7
    fitted = SoftmaxClassifier(**own).fit(early[:300], y[:300], sample_weight=r[:300])
    assert_same(stream, fitted)
    stream.partial_fit(X[300:320], y[300:320], sample_weight=r[300:320], new_features="grow")  # too few for another fit
    assert stream.n_iter_ == fitted.n_iter_ + 1
    before = stream.predict(X)
    stream.partial_fit(X[320:], y[320:], sample_weight=r[320:])
    X = sp.csr_array(sp.vstack([sp.hstack([early[:300], sp.csr_array((300, 3), dtype=np.float32)]), X[300:]]))
    assert_same(stream, SoftmaxClassifier(**own).fit(X, y, sample_weight=r))
    np.testing.assert_array_equal(stream.class_count_, np.bincount(y) if not several else y.sum(axis=0))
    assert not np.array_equal(stream.predict(X), before)


def test_a_stream_with_nothing_set_ends_within_three_hundredths_of_a_nat_of_fit(seed):
    X, y, X_test, y_test = planted(10, 40, 2400, seed, sparse=True)
    losses = []
    stream, steps = (few_rows(SoftmaxClassifier(random_state=0), FEWEST_TO_FIT=1000) for _ in range(2))
    for part in np.array_split(np.arange(len(y)), 6):
        stream.partial_fit(X[part], y[part], classes=range(10))
        steps.partial_fit(X[part], y[part], classes=range(10), n_kept=0)
        losses.append(stream.evaluate(X_test, y_test)["log_loss"])
    fitted = SoftmaxClassifier(random_state=0).fit(X, y).evaluate(X_test, y_test)["log_loss"]
    assert losses[-1] < fitted + 0.03 < steps.evaluate(X_test, y_test)["log_loss"]
    assert np.diff(losses).max() < 0.02  # as the noise of a small call


MODELS = {
    "nothing set": SoftmaxClassifier(random_state=0),
    "linear": SoftmaxClassifier(model="linear", random_state=0),
    "embedding": SoftmaxClassifier(model="embedding", dim=8, random_state=0),
    "margins": MarginClassifier(random_state=0),
}


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_so_are_streams_by_other_models(name, dense, seed):
    X, y = some_data(seed, several=False, n=400)
    X = X.toarray() if dense else X
    stream, fitted = (clone_of(name) for _ in range(2))
    stream = in_calls(fits_win(stream), X, y, 100, 200, 400)
    assert_same(stream, fitted.fit(X, y))
    assert str(stream.resolved_params_) == str(fitted.resolved_params_)


def clone_of(name):
    return MODELS[name].__class__(**MODELS[name].get_params())


@pytest.mark.parametrize(
    "given",
    [
        {"n_kept": 0},
        {"n_kept": 299},
        {"n_passes": 2},
        {"half_life": 1e9},
        {"learning_rate": 0.5},
    ],
)
def test_no_rows_are_kept_where_that_is_refused_or_calls_are_set_by_hand(given, seed):
    X, y = some_data(seed, several=False, n=400)
    model = in_calls(few_rows(SoftmaxClassifier(model="hybrid", random_state=0)), X, y, 100, 200, 300, 400, **given)
    assert model._state.calls == ()
    assert model._state.history.n_fit == 0
    with pytest.raises(ValueError, match="n_kept is -1; it must be"):
        model.partial_fit(X, y, n_kept=-1)
    with pytest.raises(ValueError, match="n_kept is 'all'; it must be a number or 'auto'"):
        model.partial_fit(X, y, n_kept="all")


@pytest.mark.parametrize(
    "model",
    [SoftmaxClassifier(learning_rate=1.0, random_state=0), AugmentReduceClassifier(random_state=0)],
)
def test_nor_are_rows_of_models_with_a_step_size_or_of_augment_and_reduce(model, seed):
    X, y = some_data(seed, several=False, n=400)
    model = in_calls(few_rows(model), X, y, 200, 400)
    assert model._state.calls == ()
    assert model._state.history.n_fit == 0


def test_rows_are_kept_up_to_a_number_of_bytes(seed):
    X, y = some_data(seed, several=False, n=200)
    for beside, n_calls in ((0, 1), (-1, 0)):
        n_bytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
        model = few_rows(SoftmaxClassifier(model="hybrid", random_state=0), MOST_KEPT_BYTES=n_bytes + beside)
        assert len(model.partial_fit(X, y)._state.calls) == n_calls


@pytest.mark.parametrize(("limit", "few"), [("MOST_DENSE", 200 // K), ("MOST_DENSE_OF_FEW", 200 // K + 1)])
def test_dense_rows_of_linear_models_are_kept_while_a_pass_is_quick(limit, few, seed):
    X, y = some_data(seed, several=False, n=200)
    for cells, n_calls in ((X.shape[0] * X.shape[1] * K, 1), (X.shape[0] * X.shape[1] * K - 1, 0)):
        dense, sparse = (
            few_rows(SoftmaxClassifier(random_state=0), FEW_OF_A_CLASS=few, **{limit: cells}) for _ in range(2)
        )
        assert len(dense.partial_fit(X.toarray(), y)._state.calls) == n_calls
        assert len(sparse.partial_fit(X, y)._state.calls) == 1


def test_a_linear_model_of_dense_rows_leaves_those_kept_as_a_stream_of_them(seed):
    X, y = some_data(seed, several=False, n=400)
    X = X.toarray()
    figures = {"MOST_DENSE_OF_FEW": 300 * X.shape[1] * K}
    kept, plain = (fits_win(SoftmaxClassifier(model="linear", random_state=0), **figures) for _ in range(2))
    in_calls(kept, X, y, 300)
    assert kept._state.history.n_fit == 300
    plain.partial_fit(X[:300], y[:300], classes=range(K), n_kept=0)
    for model in (kept, plain):
        model.partial_fit(X[300:], y[300:], classes=range(K), n_kept=0 if model is plain else "auto")
    assert kept._state.calls == ()
    assert_same(kept, plain)


@pytest.mark.parametrize("given", [{"n_kept": 0}, {"learning_rate": 0.5}])
@pytest.mark.parametrize("model", ["linear", "hybrid"])
def test_a_stream_that_was_never_fitted_leaves_its_rows_as_it_is(model, given, seed):
    X, y = some_data(seed, several=False, n=400)
    X = X.toarray() if model == "linear" else X
    kept, plain = (few_rows(SoftmaxClassifier(model=model, random_state=0)) for _ in range(2))
    kept = with_planner(kept, loss=lambda planner, state, points: state.history.n_fit)  # a fit does not win
    in_calls(kept, X, y, 100, 300)
    in_calls(plain, X, y, 100, 300, n_kept=0)
    assert kept._state.calls
    for stream in (kept, plain):
        stream.partial_fit(X[300:], y[300:], classes=range(K), **given)
    assert_same(kept, plain)


def test_a_first_fit_of_a_stream_must_predict_rows_better_than_the_stream(seed):
    X, y = some_data(seed, several=False, n=400)
    losses, told = iter([2.0, 1.0, 1.0, 2.0]), []  # of a fit and of the stream, twice

    def loss(_, state, points):
        told.append((state.history.n_fit > 0, state.history.n_points, len(points.labels)))
        return next(losses)

    model = with_planner(few_rows(SoftmaxClassifier(model="hybrid", random_state=0)), loss=loss)
    for first, last, n_fit in ((0, 200, 0), (200, 320, 0), (320, 330, 0), (330, 400, 400)):
        model.partial_fit(X[first:last], y[first:last], classes=range(K))
        assert model._state.history.n_fit == n_fit
    assert told == [(True, 280, 40), (False, 280, 40), (True, 350, 50), (False, 350, 50)]


def test_rows_of_classes_that_come_last_do_not_tell(seed):
    X, y = some_data(seed, several=False, n=80)
    y[:70] = np.minimum(y[:70], K - 2)
    y[70:76] = K - 1
    model = SoftmaxClassifier(model="hybrid", random_state=0).partial_fit(X, y)
    learnt, told = partial_fit.split_to_compare(model._state.calls[0])
    assert len(learnt.labels) == 70
    np.testing.assert_array_equal(told.labels.ids, y[76:])
    np.testing.assert_array_equal(told.x.toarray(), X[76:].toarray())


def test_a_loss_of_margins_is_their_errors(seed):
    X, y = some_data(seed, several=True, n=80)
    model = MarginClassifier(random_state=0).partial_fit(X, y)
    (points,) = model._state.calls
    errors = y[np.arange(80), model.predict_top_k(X, 1)[0][:, 0]] == 0
    assert model._plans().loss(model._state, points) == pytest.approx(errors.mean())


@pytest.mark.parametrize("model", ["hybrid", "embedding"])
def test_a_stream_with_more_rows_than_are_kept_goes_on_by_sums_of_one_pass(model, seed):
    X, y = some_data(seed, several=False, n=400)
    stream = fits_win(SoftmaxClassifier(model=model, dim=8, n_models=1, random_state=0))
    in_calls(stream, X, y, 100, 300, n_kept=350)
    before = stream._state
    assert before.history.n_fit == 300
    stream.partial_fit(X[300:], y[300:], n_kept=350)
    assert stream._state.calls == ()
    assert stream._state.history.n_fit == 300
    was, now, n = before.squares, partial_fit.without_rows_kept(before, None).squares, len(before.curve)
    for name in ("embeddings", "classes", "values", "intercept"):
        np.testing.assert_allclose(getattr(now, name), getattr(was, name) / n, rtol=1e-6)  # rounding of a product
        grown = getattr(stream._state.squares, name)
        assert len(grown) >= len(getattr(was, name))
        assert grown.sum() >= (1 - 1e-4) * getattr(was, name).sum() / n
    assert now.offset == was.offset


def test_margins_go_on_beyond_the_rows_kept_as_a_stream_that_was_never_fitted(seed):
    X, y = some_data(seed, several=False, n=400)
    stream = in_calls(fits_win(MarginClassifier(random_state=0)), X, y, 100, 300, n_kept=350)
    passes = stream.n_iter_
    stream.partial_fit(X[300:], y[300:], n_kept=350)
    assert stream._state.history.n_fit == 0
    assert stream.n_iter_ == passes + 8


def test_steps_of_linear_models_between_fits_follow_the_schedule_and_not_curvature(seed):
    X, y = some_data(seed, several=False, n=400)
    model = in_calls(fits_win(SoftmaxClassifier(model="linear", random_state=0)), X, y, 100, 300)
    state, (points,) = model._state, model._state.calls
    assert state.history.n_fit == 300
    for before, falls in ((state, False), (replace(state, calls=()), True)):
        plan = model._plans().plan_call(before, points, Call(open_passes=True))[0].plan
        assert plan.by_curvature == falls
