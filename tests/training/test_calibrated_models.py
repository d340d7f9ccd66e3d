"""Calibration of fitted models: against a general optimiser, on data of known probabilities, and as a contract."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, log_softmax
from sklearn.base import clone
from testing_core import pieces

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, metrics
from manyclass.blending.calibration import calibrated, label_log_losses, n_held_out
from manyclass.classifiers.predictions import uncalibrated_confidence
from manyclass.cli.parser import main
from manyclass.training.plan import Labels, ScoredRows, draw_rows_out
from manyclass.training.state import Calibration
from manyclass.weights.weights import Weights

K, D = 12, 5


def scores_and_labels(seed, n=400, several=False):
    """Weights, rows and labels that they do not fit very well, and weights of rows."""
    rng = np.random.default_rng(seed)
    W, x = rng.standard_normal((K, D)).astype(np.float32), rng.standard_normal((n, D)).astype(np.float32)
    z = x @ W.T
    y = np.array([rng.choice(K, p=p) for p in np.exp(log_softmax(z / 2, axis=1))])
    Y = sp.csr_array(np.maximum(np.eye(K)[y], rng.random((n, K)) < expit(z - 3)))
    labels = Labels(Y.indptr.astype(np.int64), Y.indices) if several else Labels.single(y.astype(np.int32))
    return (
        Weights.linear(W, np.zeros(K, np.float32), by_feature=False),
        x,
        labels,
        (Y if several else y),
        rng.random(n) + 0.1,
    )


def test_the_temperature_has_the_least_log_loss(seed):
    weights, x, labels, y, r = scores_and_labels(seed)
    z = (x @ weights.matrix.T).astype(float)

    def loss(log_t):
        return np.average(-log_softmax(z / np.exp(log_t), axis=1)[np.arange(len(y)), y], weights=r)

    best = minimize_scalar(loss, bracket=(-1, 1), tol=1e-10)
    found = calibrated(weights, ScoredRows(x, labels, 1, r), several=False)
    assert np.log(found.temperature) == pytest.approx(best.x, abs=2e-3)  # what the search stops at, twice
    assert found.log_loss == pytest.approx(best.fun, rel=1e-6)  # scores in float32
    assert found.uncalibrated_log_loss == pytest.approx(loss(0), rel=1e-6)


@pytest.mark.parametrize("noise", ["normal", "logistic"])
def test_the_temperature_of_utilities_has_the_least_log_loss(noise, seed):
    weights, x, labels, _, r = scores_and_labels(seed, n=60)
    found = calibrated(weights, ScoredRows(x, labels, 1, r), several=False, noise=noise)
    for factor in (0.9, 1.1):
        scaled = Weights.linear(
            weights.matrix * np.float32(factor / found.temperature), weights.intercept, by_feature=False
        )
        losses, _ = scaled.log_losses(x, labels.ids, 1, noise=noise)
        assert np.average(losses, weights=r) > found.log_loss


def test_both_numbers_of_several_labels_have_the_least_log_loss(seed):
    weights, x, labels, Y, r = scores_and_labels(seed, several=True)
    v, dense = log_softmax((x @ weights.matrix.T).astype(float), axis=1), Y.toarray()

    def loss(numbers):
        t = numbers[0] * v + numbers[1]
        return r @ -np.where(dense > 0, log_expit(t), log_expit(-t)).sum(axis=1) / r.sum()

    best = minimize(loss, [1, 0], method="BFGS")
    found = calibrated(weights, ScoredRows(x, labels, 1, r), several=True)
    # A histogram moves v by at most half a bin, 0.004.
    assert [1 / found.temperature, found.offset] == pytest.approx(best.x, rel=5e-3, abs=5e-3)
    assert found.log_loss == pytest.approx(best.fun, rel=1e-3)
    stated = r @ -np.where(dense > 0, v, np.log1p(-np.exp(v))).sum(axis=1) / r.sum()
    assert found.uncalibrated_log_loss == pytest.approx(stated, rel=1e-4)  # log(1 - p) of p in float32


def test_labels_of_scores_at_the_end_of_single_precision_are_calibrated(seed):
    weights, x, labels, _, r = scores_and_labels(seed, several=True)
    weights.matrix[:] *= np.float32(2.0**122)
    found = calibrated(weights, ScoredRows(x, labels, 1, r), several=True)
    assert np.isfinite([found.temperature, found.offset, found.log_loss, found.uncalibrated_log_loss]).all()


# With an offset of 120 odds are beyond single precision.
@pytest.mark.parametrize("found", [None, *(Calibration(0.9, offset, 10, 1.0, 0.5) for offset in (0.5, 120.0))])
def test_the_log_loss_of_many_unlikely_labels_is_their_sum(found):
    rng = np.random.default_rng(0)
    W, x = rng.standard_normal((1200, 3)).astype(np.float32), rng.standard_normal((5, 3)).astype(np.float32) / 3
    Y = sp.csr_array(rng.random((5, 1200)) < 0.002)
    v = log_softmax((x @ W.T).astype(float), axis=1)
    if found is None:
        log_p, log_rest = v, np.log1p(-np.exp(v))
    else:
        t = v / found.temperature + found.offset
        log_p, log_rest = log_expit(t), log_expit(-t)
    expected = -np.where(Y.toarray(), log_p, log_rest).mean(axis=1)
    model = Weights.linear(W, np.zeros(1200, np.float32), by_feature=False)
    losses, of_own = label_log_losses(model, x, Y, found, 1)
    # Scores in float32; the terms left out of the logarithm are below 4e-7 of the sum.
    assert losses == pytest.approx(expected, rel=3e-6)
    assert of_own == pytest.approx(np.where(Y.toarray(), -v, 0).sum(axis=1) / Y.sum(axis=1), rel=1e-6)


def test_labels_that_do_not_fit_the_scores_are_refused():
    scores, indptr, ids = np.zeros((2, 3), np.float32), np.array([0, 1, 2]), np.array([0, 2], np.int32)
    call = {"scores": scores, "indptr": indptr, "ids": ids, "n_threads": 1}
    losses = np.zeros(2)
    pieces.label_odds(**call, log_losses=losses)
    assert losses == pytest.approx(np.log(3), rel=1e-12)
    for changed, message in [
        ({"ids": np.array([0, 3], np.int32)}, "the labels of row 1 are not distinct, sorted and in range"),
        ({"indptr": np.array([0, 2])}, "the labels do not describe one list for each row"),
        ({"log_losses": np.zeros(3)}, "the sums do not have the sizes"),
        ({"counts": np.zeros(8), "lowest": -5.0}, "the sums do not have the sizes"),  # without weights of the rows
    ]:
        with pytest.raises(ValueError, match=message):
            pieces.label_odds(**{**call, **changed})


def test_a_calibration_can_be_undone_and_its_threshold_found():
    found = Calibration(0.5, 2.0, 10, 1.0, 0.5)
    log_p = np.log([0.9, 0.3, 1e-3, 1e-8])
    assert found.uncalibrated(found.log_probabilities(log_p)) == pytest.approx(log_p, abs=1e-9)
    assert np.exp(found.log_probabilities(found.limit(0.3))) == pytest.approx(0.3)
    assert (found.limit(0), found.limit(1)) == (-np.inf, np.inf)


def test_every_label_keeps_a_row(seed):
    rng = np.random.default_rng(seed)
    Y = sp.csr_array(rng.random((60, 25)) < 0.08)
    labels = Labels(Y.indptr.astype(np.int64), Y.indices)
    held = draw_rows_out(20, 60, np.random.RandomState(seed), None, labels)
    assert 0 < held.sum() <= 20
    used = np.unique(Y.indices)
    assert np.array_equal(np.unique(Y[np.flatnonzero(~held)].indices), used)
    with pytest.raises(ValueError, match="rows all of whose labels other rows have"):
        SoftmaxClassifier(calibration="temperature").fit(np.eye(5, dtype=np.float32), np.arange(5))


def test_few_rows_are_held_out_where_they_are_enough():
    assert n_held_out(1000, 10, 0.1) == 100
    assert n_held_out(10**6, 10, 0.1) == 4096
    assert n_held_out(10**6, 10**6, 0.1) == 256


# Models


def drawn(n, rng, several=False):
    """Rows whose labels have known log-odds, sharper than a short training finds."""
    X = rng.standard_normal((n, 6)).astype(np.float32)
    W = np.random.default_rng(7).standard_normal((8, 6)) * 1.5
    if several:
        return X, (rng.random((n, 8)) < expit(X @ W.T - 2)).astype(int)
    return X, np.array([rng.choice(8, p=p) for p in np.exp(log_softmax(X @ W.T, axis=1))])


MODELS = {
    "softmax": SoftmaxClassifier(solver="exact", max_iter=2, learning_rate=0.05, random_state=0),
    "embedding": SoftmaxClassifier(model="embedding", dim=6, max_iter=2, random_state=0),
    "pairs": SoftmaxClassifier(model="pairs", max_iter=2, random_state=0),
    "margin": MarginClassifier(max_iter=3, random_state=0),
    "utility": AugmentReduceClassifier(max_iter=2, random_state=0, n_negatives=3),
}
SEVERAL = ("embedding", "pairs", "margin")
CASES = [*((name, False) for name in MODELS), *((name, True) for name in SEVERAL)]


def calibrated_model(name, several, rng, n=1000):
    X, y = drawn(n, rng, several)
    return clone(MODELS[name]).set_params(calibration="temperature").fit(X, y)


# Pairs and embeddings of several labels train decoupled losses, whose log-odds their normaliser is no part of: 0.11.
DECOUPLED = (("pairs", True), ("embedding", True))


@pytest.mark.parametrize(("name", "several"), [case for case in CASES if case not in DECOUPLED])
def test_probabilities_of_a_calibrated_model_are_right(name, several, seed):
    rng = np.random.default_rng(seed)
    model = calibrated_model(name, several, rng)
    X, y = drawn(2000, rng, several)
    if several:  # rows without labels are none of the model's
        X, y = X[y.any(axis=1)], y[y.any(axis=1)]
    p = model.predict_proba(X)
    if several:
        order = np.argsort(-p, axis=1)[:, :3]
        ece = metrics.expected_calibration_error(sp.csr_array(y), order, np.take_along_axis(p, order, axis=1))
        assert p.sum(axis=1).mean() == pytest.approx(y.sum(axis=1).mean(), rel=0.2)  # 100 held-out rows: 6 % each
        assert model.evaluate(X, y)["label_log_loss"] < 1.05 * np.log(2) * 0.7
    else:
        assert p.sum(axis=1) == pytest.approx(1)
        ece = metrics.expected_calibration_error(y, p.argmax(axis=1), p.max(axis=1))
    # 100 held-out rows find the mean confidence to 0.5 / sqrt(100) = 0.05; bins of a form that is not theirs add as
    # much. Not calibrated, the margin has an error of 0.25 and the softmax of 0.2.
    assert ece < 0.1


@pytest.mark.parametrize(("name", "several"), CASES)
def test_all_that_tells_probabilities_tells_the_same(name, several, seed, tmp_path):
    rng = np.random.default_rng(seed)
    model = calibrated_model(name, several, rng, n=400)
    X, y = drawn(200, rng, several)
    p = model.predict_proba(X)
    labels, log_p = model.predict_top_k(X, 3)
    assert np.exp(log_p) == pytest.approx(np.take_along_axis(p, labels, axis=1), rel=1e-4)  # of float32
    found = model.evaluate(X, y)
    if several:
        cells = np.where(y > 0, np.log(p), np.log1p(-p))[y.any(axis=1)]
        assert found["label_log_loss"] == pytest.approx(-cells.mean(), rel=1e-4)
        for threshold in (0.0, 0.2, 0.7):
            assert np.array_equal(model.predict(X, threshold=threshold), p > threshold)
    else:
        assert found["log_loss"] == pytest.approx(-np.log(p[np.arange(len(y)), y]).mean(), rel=1e-4)
        best = model.predict(X)
        before = uncalibrated_confidence(model, X, best)
        if name != "utility":
            z = model.decision_function(X).astype(float) * model.calibration_.temperature
            assert before == pytest.approx(np.exp(log_softmax(z, axis=1))[np.arange(len(z)), best], rel=1e-4)
    model.save(tmp_path / "model")
    for other in (manyclass.load(tmp_path / "model"), manyclass.load(tmp_path / "model", mmap=True)):
        assert other.calibration_ == model.calibration_
        assert np.array_equal(other.predict_proba(X), p)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), p)
    again = clone(model).fit(*drawn(400, np.random.default_rng(seed), several))
    assert again.calibration_ == model.calibration_


def test_a_temperature_is_of_the_rows_held_out_and_leaves_the_order_of_labels_as_it_is():
    X, y = drawn(4000, np.random.default_rng(0))  # so many that the model is not fitted again
    plain = SoftmaxClassifier(solver="exact", max_iter=1, random_state=0)
    model = clone(plain).set_params(calibration="temperature", validation_fraction=0.025).fit(X, y)
    held = draw_rows_out(100, len(y), np.random.RandomState(0), None, Labels.single(y.astype(np.int32)))
    expected = plain.fit(X[~held], y[~held])
    T = model.calibration_.temperature
    of_held = calibrated(expected._weights, ScoredRows(X[held], Labels.single(y[held].astype(np.int32))), several=False)
    assert model.calibration_ == of_held
    assert T != 1
    assert model.coef_ * T == pytest.approx(expected.coef_, rel=1e-5)
    assert model.intercept_ * T == pytest.approx(expected.intercept_, rel=1e-5)
    assert np.array_equal(model.predict(X[:500]), expected.predict(X[:500]))


@pytest.mark.parametrize(
    "plain",
    [
        SoftmaxClassifier(model="pairs", max_iter=2, random_state=0),
        MarginClassifier(max_iter=2, random_state=0),
    ],
    ids=lambda plain: type(plain).__name__,
)
def test_the_fit_on_all_rows_takes_what_the_fit_without_the_held_out_ones_has_chosen(plain):
    X, y = drawn(1500, np.random.default_rng(1))  # so many that rates are tried, and so few that it is fitted again
    model = clone(plain).set_params(calibration="temperature").fit(X, y)
    held = draw_rows_out(150, len(y), np.random.RandomState(0), None, Labels.single(y.astype(np.int32)))
    first = clone(plain).fit(X[~held], y[~held])
    assert repr(model.resolved_params_) == repr(first.resolved_params_)
    assert model.resolved_params_
    if isinstance(plain, SoftmaxClassifier):
        assert len(model.auto_report_) == len(first.auto_report_) > 0
    again = clone(plain).set_params(**first.resolved_params_).fit(X, y)
    scores = again.decision_function(X) / model.calibration_.temperature
    assert model.decision_function(X) == pytest.approx(scores, rel=1e-4, abs=1e-5)  # T is rounded to float32


def test_a_margin_has_probabilities_only_with_a_calibration():
    X, y = drawn(200, np.random.default_rng(0))
    model = MarginClassifier(max_iter=1, random_state=0)
    assert not hasattr(model, "predict_proba")
    assert hasattr(clone(model).set_params(calibration="temperature"), "predict_proba")
    model.fit(X, y)
    assert not hasattr(model, "predict_log_proba")
    assert "log_loss" not in model.evaluate(X, y)
    model.set_params(calibration="temperature").fit(X, y)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1)
    assert "log_loss" in model.evaluate(X, y)
    model.set_params(calibration=None).fit(X, y)
    assert not hasattr(model, "predict_proba")


def test_rows_without_weight_are_not_held_out(seed):
    X, y = drawn(300, np.random.default_rng(seed))
    model = clone(MODELS["margin"]).set_params(calibration="temperature")
    expected = model.fit(X[:200], y[:200]).calibration_
    y[200:] = 0
    assert model.fit(X, y, sample_weight=np.r_[np.ones(200), np.zeros(100)]).calibration_ == expected


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SoftmaxClassifier(calibration="temprature"), r"must be one of 'temperature' \(did you mean 'temperature'\?\)"),
        (MarginClassifier(calibration=True), "calibration is True; it must be one of 'temperature'"),
        (
            AugmentReduceClassifier(posterior="gaussian", alpha=0.1, calibration="temperature"),
            "leave it None or 'auto'",
        ),
    ],
)
def test_what_cannot_be_calibrated_is_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*drawn(50, np.random.default_rng(0)))


@pytest.mark.parametrize("labels", ["first", "all"])
def test_the_command_tells_of_the_error_with_and_without(labels, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X, Y = drawn(300, rng, several=True)
    Y[:, 0] |= ~Y.any(axis=1)
    rows = (
        f"{','.join(map(str, np.flatnonzero(y)))} {' '.join(f'{j}:{v:.4f}' for j, v in enumerate(x))}"
        for x, y in zip(X, Y, strict=True)
    )
    (tmp_path / "data.txt").write_text("\n".join(rows) + "\n")
    data, model = str(tmp_path / "data.txt"), str(tmp_path / "m")
    options = ["--estimator", "margin", "--calibration", "temperature", "--labels", labels, "--max-iter", "2"]
    assert main(["fit", data, "--output", model, *options]) == 0
    assert main(["evaluate", model, data]) == 0
    told = capsys.readouterr().out
    assert "ece_uncalibrated" in told
    assert ("label_log_loss" in told) == (labels == "all")
