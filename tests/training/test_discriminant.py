"""Linear discriminant analysis in closed form: its formula, and fits that begin at it."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from manyclass import SoftmaxClassifier
from manyclass.figures import FIGURES
from manyclass.training.plan import Labels
from manyclass.training.state import Points
from manyclass.training.train import begin_at_closed_form


def clusters(n_classes, n_features, counts, seed=0, spread=0.3, unit=False):
    """Normal rows around normal means, `counts` of each class in the mean."""
    random = np.random.default_rng(seed)
    means = random.normal(size=(n_classes, n_features))

    def rows(labels):
        x = means[labels] + spread * random.normal(size=(len(labels), n_features))
        x /= np.linalg.norm(x, axis=1, keepdims=True) if unit else 1
        return x.astype(np.float32)

    labels = np.concatenate([np.arange(n_classes), random.integers(0, n_classes, int((counts - 1) * n_classes))])
    out = random.integers(0, n_classes, 2000)
    return rows(labels), labels.astype(np.int32), rows(out), out.astype(np.int32)


def closed_form(x, labels, n_classes, weights=None):
    return begin_at_closed_form(Points.numbered(x, Labels.single(labels), n_classes, weights), seed=0, n_threads=1)


def scores(start, x):
    return x.astype(np.float64) @ start.coef.T.astype(np.float64) + start.intercept


def log_loss(z, labels):
    z = z - z.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(labels)), labels]))


def test_it_is_fishers_discriminant_where_classes_have_many_rows():
    random = np.random.default_rng(1)
    mixing = np.eye(6) + 0.3 * random.normal(size=(6, 6))
    means = random.normal(size=(5, 6))
    labels = random.integers(0, 5, 20_000).astype(np.int32)
    x = (means[labels] + random.normal(size=(len(labels), 6)) @ mixing).astype(np.float32)
    start = closed_form(x, labels, 5)
    other = LinearDiscriminantAnalysis(solver="lsqr").fit(x, labels).predict_log_proba(x[:500])
    z = scores(start, x[:500])
    ours = (
        z - np.log(np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)) - z.max(axis=1, keepdims=True)
    )
    # The scale that is found on 1,000 rows left out errs by some per cent, and so do log-probabilities.
    np.testing.assert_allclose(ours, other, rtol=0.2, atol=0.1)
    assert log_loss(z, labels[:500]) == pytest.approx(-other[np.arange(500), labels[:500]].mean(), abs=0.01)


def test_weights_are_those_of_the_definition_on_two_scales():
    x, labels, *_ = clusters(60, 5, counts=30, spread=0.8)
    kept = np.random.default_rng(1).random(len(labels)) < 1 / (1 + labels)  # classes that differ in their numbers
    kept[:60] = True
    x, labels = x[kept], labels[kept]
    start = closed_form(x, labels, 60)
    x = x.astype(np.float64)
    counts = np.bincount(labels)
    means = np.stack([x[labels == k].mean(axis=0) for k in range(60)])
    n = counts[labels]
    deviations = ((x - means[labels]) * np.sqrt(n / np.maximum(n - 1, 1e-9))[:, np.newaxis])[n > 1]
    within = ledoit_wolf(deviations, assume_centered=True)[0]
    root = np.linalg.cholesky(np.linalg.inv(within))
    centred = means - x.mean(axis=0)
    t, turn = np.linalg.eigh(ledoit_wolf(centred @ root, assume_centered=True)[0])
    t = np.maximum(t - np.mean(1 / counts), 0)
    basis, inverse = root @ turn, 1 / counts[:, np.newaxis]
    f = t / (t + inverse)
    variance = (1 + f * inverse).mean(axis=0)
    posterior = f * (centred @ basis)
    coef = posterior / variance @ basis.T
    offset = -0.5 * (posterior**2 / variance).sum(axis=1) - coef @ x.mean(axis=0)
    scale = float((start.coef * coef).sum() / (coef**2).sum())
    # Eigenvalues are raised by a millionth of the mean one, and sums are made in single precision.
    np.testing.assert_allclose(start.coef, scale * coef, rtol=1e-3, atol=1e-4)
    of_prior = np.log(counts / len(x))
    rest = start.intercept - scale * offset
    beta = float(rest @ of_prior / (of_prior @ of_prior))
    assert beta > 0.1  # else the prior is not tested
    np.testing.assert_allclose(rest, beta * of_prior, rtol=1e-3, atol=1e-3)


def test_means_of_few_rows_are_shrunk_as_normal_means_are():
    x, labels, out, labels_out = clusters(400, 8, counts=3, spread=0.7)
    start = closed_form(x, labels, 400)
    counts = np.bincount(labels)
    means = np.stack([x[labels == k].mean(axis=0) for k in range(400)]).astype(np.float64)
    n, variance = counts[:, np.newaxis], 0.49  # the planted variance within, that of the means being 1
    f = 1 / (1 + variance / n)
    precision = 1 / (variance * (1 + f / n))
    centre = x.mean(axis=0)
    posterior = centre + f * (means - centre)
    exact = -0.5 * ((out[:, np.newaxis] - posterior) ** 2 * precision).sum(axis=2) + 4 * np.log(precision[:, 0])
    ours = log_loss(scores(start, out), labels_out)
    # Nothing can be better than the exact posterior by more than chance; linear scores lose little beside it.
    assert ours < log_loss(exact, labels_out) + 0.25
    unshrunk = -0.5 * ((out[:, np.newaxis] - means) ** 2).sum(axis=2) / variance
    assert ours < log_loss(unshrunk, labels_out) - 0.1


def test_weights_of_rows_are_numbers_of_rows():
    x, labels, *_ = clusters(6, 4, counts=200, spread=0.8)
    once = closed_form(x, labels, 6)
    weighted = closed_form(x, labels, 6, np.ones(len(labels)))
    np.testing.assert_array_equal(once.coef, weighted.coef)
    weights = np.where(labels == 0, 2.0, 0.8)  # of mean 1
    heavy = closed_form(x, labels, 6, weights)
    share = np.exp(scores(heavy, x)).sum(axis=1)
    before = np.exp(scores(once, x)).sum(axis=1)
    p = [np.exp(scores(start, x))[:, 0] / total for start, total in ((heavy, share), (once, before))]
    assert p[0].mean() > p[1].mean() + 0.05


def test_means_of_low_rank_are_no_worse_than_the_nearest_mean():
    random = np.random.default_rng(7)
    means = random.normal(size=(1000, 6)) @ random.normal(size=(6, 60))
    labels, out = (np.concatenate([np.arange(1000), random.integers(0, 1000, 2000)]).astype(np.int32) for _ in range(2))
    x, x_out = ((means[k] + random.normal(size=(len(k), 60))).astype(np.float32) for k in (labels, out))
    start = closed_form(x, labels, 1000)
    found = np.stack([x[labels == k].mean(axis=0) for k in range(1000)])
    squares = (x_out**2).sum(axis=1)[:, np.newaxis] - 2 * x_out @ found.T + (found**2).sum(axis=1)
    nearest = (squares.argmin(axis=1) == out).mean()
    # In 54 of 60 directions the distances are noise, which the discriminant leaves out.
    assert (scores(start, x_out).argmax(axis=1) == out).mean() > nearest + 0.1


@pytest.mark.parametrize("case", ["one row a class", "equal rows", "classes alike", "huge", "tiny"])
def test_there_is_none_or_a_finite_one(case):
    random = np.random.default_rng(0)
    x, labels, *_ = clusters(50, 5, counts=6)
    if case == "one row a class":
        x, labels = x[:50], labels[:50]
    elif case == "equal rows":
        x = np.eye(50, 5, dtype=np.float32)[labels]
    elif case == "classes alike":
        x = random.normal(size=x.shape).astype(np.float32)
    else:
        x = (x * (1e30 if case == "huge" else 1e-30)).astype(np.float32)
    start = closed_form(x, labels, 50)
    if case in ("one row a class", "equal rows"):
        assert start is None
    elif start is not None:
        assert np.isfinite(start.coef).all()
        assert np.isfinite(start.intercept).all()


def test_wide_rows_take_one_variance_for_all_features(monkeypatch):
    monkeypatch.setattr("manyclass.training.train.FIGURES", replace(FIGURES, COVARIANCE_FEATURES=7))
    x, labels, out, labels_out = clusters(30, 8, counts=20)
    start = closed_form(x, labels, 30)
    means = np.stack([x[labels == k].mean(axis=0) for k in range(30)])
    nearest = ((out[:, np.newaxis] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (scores(start, out).argmax(axis=1) == labels_out).mean() >= (nearest == labels_out).mean() - 0.005


class TestFits:
    def test_many_classes_of_few_rows_are_no_worse_than_nearest_means(self):
        x, labels, out, labels_out = clusters(3000, 32, counts=3, unit=True, spread=0.45)
        model = SoftmaxClassifier(random_state=0).fit(x, labels)
        means = np.stack([x[labels == k].mean(axis=0) for k in range(3000)])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        nearest = (out @ means.T).argmax(axis=1)
        lines = [line for line in model.auto_report_ if line["parameter"] == "start"]
        assert [(line["value"], line["chosen"]) for line in lines] == [("discriminant", True)]
        assert model.resolved_params_["alpha"] == 0
        assert (model.predict(out) == labels_out).mean() >= (nearest == labels_out).mean() - 0.01
        # From W = 0 the passes of "auto" leave 3.05 nats here.
        assert model.evaluate(out, labels_out)["log_loss"] < 1.0

    def test_a_fit_from_it_is_the_same_by_any_number_of_threads(self):
        x, labels, *_ = clusters(1000, 24, counts=3, spread=0.6)
        one, two = (SoftmaxClassifier(random_state=0, n_jobs=n).fit(x, labels) for n in (1, 2))
        assert [line["value"] for line in one.auto_report_ if line["parameter"] == "start"] == ["discriminant"]
        np.testing.assert_array_equal(one.coef_, two.coef_)

    def test_few_rows_sparse_rows_and_what_is_set_begin_at_0(self):
        x, labels, *_ = clusters(2000, 24, counts=3, spread=0.6)
        for model in (
            SoftmaxClassifier(random_state=0, solver="implicit", max_iter=1),
            SoftmaxClassifier(random_state=0, fit_intercept=False, max_iter=1),
        ):
            assert all(line["parameter"] != "start" for line in model.fit(x, labels).auto_report_)


def test_a_fit_makes_no_more_passes_than_trials_where_these_hardly_better_the_discriminant(seed):
    random = np.random.default_rng(seed)
    means = random.normal(size=(300, 40))
    labels = random.integers(0, 300, 2400)
    x = (means[labels] + 0.3 * random.normal(size=(2400, 40))).astype(np.float32)
    given = {"model": "linear", "sampler": "uniform", "random_state": seed}
    model = SoftmaxClassifier(**given).fit(x, labels)
    lines = {line["parameter"]: line for line in model.auto_report_ if line["chosen"]}
    assert lines["start"]["log_loss"] <= FIGURES.AS_GOOD * lines["learning_rate"]["log_loss"]
    assert (model.n_iter_, model.resolved_params_["max_iter"]) == (FIGURES.TRIAL_PASSES, FIGURES.TRIAL_PASSES)
    assert model.resolved_params_["solver"].decay == FIGURES.TRIAL_DECAY
    assert SoftmaxClassifier(max_iter=5, **given).fit(x, labels).n_iter_ == 5
