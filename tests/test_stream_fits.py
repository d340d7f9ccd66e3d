"""Streams of weights on pairs, which are fitted anew to all of their rows as these become more."""

import numpy as np
import pytest
import scipy.sparse as sp
from test_partial_fit_batches import K, assert_same, some_data

from manyclass import SoftmaxClassifier


@pytest.mark.parametrize("model", ["hybrid", "sparse"])
@pytest.mark.parametrize("several", [False, True])
def test_a_stream_on_pairs_is_fitted_anew_as_its_rows_become_more(model, several, seed, monkeypatch):
    """To all of them, with the classes and the columns that came late, whatever becomes of the caller's memory."""
    monkeypatch.setattr("manyclass.classifiers.base.FEWEST_TO_FIT", 300)
    monkeypatch.setattr("manyclass.classifiers.base.Planner._fits_better", lambda *_: True)
    X, y = some_data(seed, several=several, n=700)
    early = X[:, :-3]
    own = {"model": model, "random_state": 0}
    stream, r = SoftmaxClassifier(**own), np.linspace(1, 2, 700)
    if not several:
        y[:300] = np.minimum(y[:300], K - 2)  # the last class comes late
    for first, last in ((0, 100), (100, 300)):
        part = early[first:last]
        stream.partial_fit(part, y[first:last], sample_weight=r[first:last])
        part.data[:] = 7
    fitted = SoftmaxClassifier(**own).fit(early[:300], y[:300], sample_weight=r[:300])
    assert_same(stream, fitted)
    stream.partial_fit(X[300:320], y[300:320], sample_weight=r[300:320], new_features="grow")  # too few for another fit
    assert stream.n_iter_ == fitted.n_iter_ + 2
    before = stream.predict(X)
    stream.partial_fit(X[320:], y[320:], sample_weight=r[320:])
    X = sp.csr_array(sp.vstack([sp.hstack([early[:300], sp.csr_array((300, 3), dtype=np.float32)]), X[300:]]))
    assert_same(stream, SoftmaxClassifier(**own).fit(X, y, sample_weight=r))
    np.testing.assert_array_equal(stream.class_count_, np.bincount(y) if not several else y.sum(axis=0))
    assert not np.array_equal(stream.predict(X), before)


@pytest.mark.parametrize(
    "given", [{"n_kept": 0}, {"n_kept": 299}, {"n_passes": 2}, {"half_life": 1e9}, {"learning_rate": 0.5}]
)
def test_no_rows_are_kept_where_that_is_refused_or_calls_are_set_by_hand(given, seed, monkeypatch):
    monkeypatch.setattr("manyclass.classifiers.base.FEWEST_TO_FIT", 300)
    X, y = some_data(seed, several=False, n=400)
    model = SoftmaxClassifier(model="hybrid", random_state=0)
    for rows in np.split(np.arange(400), 4):
        model.partial_fit(X[rows], y[rows], classes=range(K), **given)
    assert model._state.calls == ()
    assert model._state.history.n_fit == 0
    with pytest.raises(ValueError, match="n_kept is -1; it must be"):
        model.partial_fit(X, y, n_kept=-1)
    with pytest.raises(ValueError, match="n_kept is 'all'; it must be a number or 'auto'"):
        model.partial_fit(X, y, n_kept="all")


def test_a_first_fit_of_a_stream_must_have_predicted_a_call_better(seed, monkeypatch):
    monkeypatch.setattr("manyclass.classifiers.base.FEWEST_TO_FIT", 300)
    monkeypatch.setattr("manyclass.classifiers.base.GROWTH", 1.15)
    X, y = some_data(seed, several=False, n=400)
    losses = iter([1.0, 2.0, 2.0, 1.0])  # of the stream and of a fit, twice
    monkeypatch.setattr("manyclass.classifiers.base.mean_log_loss", lambda *_: next(losses))
    model = SoftmaxClassifier(model="hybrid", random_state=0)
    for first, last, n_fit in ((0, 200, 0), (200, 310, 0), (310, 320, 0), (320, 400, 400)):
        model.partial_fit(X[first:last], y[first:last], classes=range(K))
        assert model._state.history.n_fit == n_fit
    assert next(losses, None) is None


def test_a_stream_with_more_rows_than_are_kept_goes_on_as_one_without_fits(seed, monkeypatch):
    monkeypatch.setattr("manyclass.classifiers.base.FEWEST_TO_FIT", 200)
    X, y = some_data(seed, several=False, n=400)
    monkeypatch.setattr("manyclass.classifiers.base.Planner._fits_better", lambda *_: True)
    kept, plain = (SoftmaxClassifier(model="hybrid", random_state=0) for _ in range(2))
    for first, last, n_fit in ((0, 100, 0), (100, 300, 300), (300, 400, 0)):
        kept.partial_fit(X[first:last], y[first:last], classes=range(K), n_kept=350)
        assert kept._state.history.n_fit == n_fit
    assert kept._state.calls == ()
    for rows in (slice(0, 300), slice(300, 400)):
        plain.partial_fit(X[rows], y[rows], classes=range(K), n_kept=0)
    assert_same(kept, plain)
