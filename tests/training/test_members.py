"""Members of a fit: shares by their definition, sums of members that are trained alone, and what ends them."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning

from manyclass import SoftmaxClassifier, models
from manyclass.blending import blend
from manyclass.figures import FIGURES
from manyclass.training import members, train
from manyclass.training.core_training import Watch
from manyclass.training.members import Split, fit_members
from manyclass.training.plan import Labels

K, D, DIM = 40, 300, 6


def word_rows(seed, n=1200, spread=0.1, noise=0.0):
    """Words drawn by the frequencies of the row's class, and its label, another one with a probability of `noise`."""
    rng = np.random.default_rng(seed)
    frequencies = np.random.default_rng(1).dirichlet(np.full(D, spread), K)
    y = rng.integers(0, K, n)
    X = sp.csr_array(np.array([rng.multinomial(8, frequencies[k]) for k in y]), dtype=np.float32)
    return X, np.where(rng.random(n) < noise, rng.integers(0, K, n), y)


def hybrid(seed, n_models=1, counts="ignore", **parameters):
    model = models.Hybrid(counts=counts, repeats="ignore")
    return SoftmaxClassifier(model=model, dim=DIM, n_models=n_models, random_state=seed, n_jobs=1, **parameters)


@pytest.fixture
def calls(monkeypatch):
    """The plans and points of the fits of a test."""
    planned = []

    def spy(plan, points, watch):
        planned.append((plan, points))
        return fit_members(plan, points, watch)

    monkeypatch.setattr(train, "fit_members", spy)
    return planned


def lines(model):
    """The report's lines of members, by name."""
    return {line["value"]: line for line in model.auto_report_ if line["parameter"] == "member"}


def by_definition(terms, labels, weights):
    """What shares minimise: the mean log-loss of the rows held out, and of the prior its part of a row."""
    terms, r = [term.astype(np.float64) for term in terms], weights / weights.sum()
    variances = np.array([r @ term.var(axis=1) for term in terms])

    def value(shares):
        z = sum(share * term for share, term in zip(shares, terms, strict=True))
        loss = r @ -log_softmax(z, axis=1)[np.arange(len(z)), labels]
        return loss + FIGURES.PART_OF_ROW / len(z) * variances @ np.square(shares) / 2

    return value


@pytest.mark.parametrize("unit", [1.0, 1e-4])  # of the weights of rows, which says nothing
def test_shares_are_those_of_the_convex_problem(unit, seed):
    rng = np.random.default_rng(seed)
    n, n_classes = 400, 7
    terms = [rng.normal(size=(n, n_classes)).astype(np.float32) for _ in range(4)]
    z = 1.4 * terms[0] + 0.6 * terms[1] - 0.8 * terms[2]  # the third one wants a share below 0
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1).astype(np.int32)
    weights = unit * (rng.random(n) + 0.5)
    shares = blend.best_shares(terms, blend.ScoredRows(np.zeros((n, 1)), Labels.single(labels), 1, weights))
    value = by_definition(terms, labels, weights)
    best = minimize(value, np.full(4, 0.5), method="L-BFGS-B", bounds=[(0, None)] * 4, tol=1e-12)
    np.testing.assert_allclose(shares, best.x, rtol=0, atol=1e-3)  # slopes of 1e-5, and of scores in single precision
    assert shares[2] == 0
    assert shares[3] < 0.4  # chance, of a standard error near .08


def test_rows_held_out_that_are_all_right_want_no_scores_without_bound(seed):
    X, y = word_rows(seed, spread=0.03)
    X_test, y_test = word_rows(seed + 100, n=3000, spread=0.03)
    model = hybrid(seed, n_models="auto", counts="learn").fit(X, y)
    result = model.evaluate(X_test, y_test)
    assert result["log_loss"] < 3 * result["error"] + 0.05
    before = result["log_loss"]
    model.partial_fit(*word_rows(seed + 200, n=300, spread=0.03))
    assert model.evaluate(X_test, y_test)["log_loss"] < 1.5 * before + 0.05


@pytest.mark.parametrize("dense", [False, True])
def test_scores_are_the_sum_of_members_that_are_trained_alone(dense, seed, calls):
    X, y = word_rows(seed)
    X = X.toarray() if dense else X
    model = hybrid(seed).fit(X, y)
    (plan, points), shares = calls[-1], lines(model)
    assert list(shares) == ["pairs", "embeddings", "margins", "linear"]
    split = Split.of(plan, points)
    # A member of no gain after a tenth of its passes ends there.
    watches = {name: Watch(lambda state, n=line["passes"]: state.n_iter == n) for name, line in shares.items()}
    trained = {
        "pairs": members.fit_pairs(plan.pairs, split.points, watches["pairs"]),
        "embeddings": members.fit_batches(plan.embeddings[0], split.points, watches["embeddings"]),
        "margins": members.fit_batches(plan.margins, split.points, watches["margins"]),
        "linear": members._fit_linear(plan.linear, split.points, watches["linear"]),
    }
    z = np.zeros((X.shape[0], K))
    for name, member in trained.items():
        held_out = member.weights.scores(split.scored.x, 1)
        factor, loss = blend.best_factor_of(held_out, split.scored, blend.DECOUPLED)
        assert shares[name]["log_loss"] == pytest.approx(loss, rel=1e-6)
        assert shares[name]["chosen"] == (shares[name]["share"] > 0)
        assert shares[name]["rows"] == X.shape[0] - len(split.held_out)
        assert shares[name]["passes"] == len(member.curve)
        assert shares[name]["seconds"] >= 0
        z += shares[name]["share"] * factor * member.weights.scores(X, 1).astype(np.float64)
    # Weights of several members are added in single precision.
    np.testing.assert_allclose(model.decision_function(X), z, rtol=0, atol=1e-4 * max(1, np.abs(z).max()))


def test_a_member_of_share_0_is_dropped_and_training_goes_on(seed, monkeypatch):
    X, y = word_rows(seed)
    final = np.array([0.3, 0.4, 0.003, 0.2, 0, 0.1])
    monkeypatch.setattr(blend, "best_shares", lambda terms, _: final if len(terms) == 6 else np.ones(len(terms)))
    model = hybrid(seed, n_models="auto").fit(X, y)
    shares = lines(model)
    # Of less than a hundredth of the largest, .4, one is dropped.
    assert [line["share"] for line in shares.values()] == [0.3, 0.4, 0, 0.2, 0, 0.1]
    assert [line["chosen"] for line in shares.values()] == [True, True, False, True, False, True]
    assert model.embedding_.shape == (D, DIM * 2)
    before = model.score(X, y)
    model.partial_fit(X, y)
    assert model.score(X, y) > before - 0.01


def settings_of_runs(monkeypatch):
    """The ridges and passes of runs of embeddings, all of which are made."""
    settings, fit_batches = [], members.fit_batches

    def spy(plan, *given):
        if plan.dim is not None:
            settings.append((plan.alpha, plan.max_iter))
        return fit_batches(plan, *given)

    monkeypatch.setattr(members, "fit_batches", spy)
    monkeypatch.setattr(blend, "best_shares", lambda terms, _: np.ones(len(terms)))
    return settings


@pytest.mark.parametrize("factor", [0.7, 0.94, 0.96, 1.17, 1.19, 1.5])
def test_what_rows_held_out_want_of_a_run_the_next_one_has(factor, seed, calls, monkeypatch):
    X, y = word_rows(seed, n=400)
    monkeypatch.setattr(blend, "best_factor_of", lambda *_: (factor, 1.0))
    settings = settings_of_runs(monkeypatch)
    hybrid(seed, n_models=3).fit(X, y)
    second = (1 / 400, 5) if factor < 0.95 else (0, 10) if factor > FIGURES.UNDERTRAINED else (0, 5)
    # The third one is as the first, as the second one was not better than it: losses are said to be the same.
    assert settings == [(0, 5), pytest.approx(second), (0, 5)]


def test_embeddings_alone_make_the_passes_of_the_estimator(seed, monkeypatch):
    X, y = word_rows(seed, n=400)
    monkeypatch.setattr(blend, "best_factor_of", lambda *_: (1.5, 1.0))
    settings = settings_of_runs(monkeypatch)
    SoftmaxClassifier(model="embedding", dim=DIM, n_models=2, max_iter=3, random_state=seed).fit(X, y)
    assert settings == [(0, 3), (0, 3)]


def test_labels_that_are_noise_make_the_first_run_overconfident_and_others_do_not(seed, monkeypatch):
    settings = settings_of_runs(monkeypatch)
    for noise, spread in ((0.8, 0.1), (0.0, 0.03)):
        hybrid(seed, n_models=2).fit(*word_rows(seed, n=1500, spread=spread, noise=noise))
    assert [ridge for ridge, _ in settings] == [0, pytest.approx(1 / 1500), 0, 0]


@pytest.mark.parametrize("hopeless", ["margins", "linear", "pairs"])
@pytest.mark.parametrize("gain", [-1.0, 0.0, 0.015])  # of 10; all rows gain as much, so that the error is 0.002
def test_a_member_of_no_gain_after_a_tenth_of_its_passes_ends_there(hopeless, gain, seed, monkeypatch):
    X, y = word_rows(seed)
    n_terms = {"margins": 2, "linear": 3, "pairs": 4}[hopeless]  # in the order of training

    checked = []  # twice for each member: without and with it

    def losses(terms, rows):
        checked.append(len(terms))
        is_after = len(checked) % 2 == 0
        worth = gain if len(terms) == n_terms else 1.0
        return np.full(len(rows.labels), 10.0 - worth * is_after)

    monkeypatch.setattr(blend, "losses_of_sum", losses)
    passes = {name: line["passes"] for name, line in lines(hybrid(seed).fit(X, y)).items()}
    whole = {"pairs": 5, "embeddings": 5, "margins": 20, "linear": 20}
    assert passes == {**whole, hopeless: 1 if hopeless == "pairs" else 2}


def test_losses_of_a_sum_are_those_of_the_best_factors(seed):
    rng = np.random.default_rng(seed)
    n, n_classes = 300, 5
    z = rng.normal(size=(n, n_classes)).astype(np.float32)
    labels = (2 * z + rng.gumbel(size=z.shape)).argmax(axis=1).astype(np.int32)
    rows = blend.ScoredRows(np.zeros((n, 1)), Labels.single(labels), 1)
    alone, with_noise = (
        blend.losses_of_sum(terms, rows) for terms in ([z], [z, rng.normal(size=z.shape).astype(np.float32)])
    )
    shares = blend.best_shares([z], rows)
    by_hand = -log_softmax(float(shares[0]) * z.astype(np.float64), axis=1)[np.arange(n), labels]
    np.testing.assert_allclose(alone, by_hand, rtol=0, atol=1e-5)  # scores are in single precision
    nothing = np.log(n_classes)
    assert nothing - alone.mean() > blend.gain(np.full(n, nothing), alone, None)[1]
    mean, error = blend.gain(alone, with_noise, None)
    assert mean < 2 * error  # chance


@pytest.mark.parametrize("share", [0.44, 0.46])
def test_embeddings_of_a_small_share_have_one_run(share, seed, monkeypatch):
    X, y = word_rows(seed)
    monkeypatch.setattr(blend, "best_shares", lambda terms, _: np.append(share, np.ones(len(terms) - 1)))
    names = list(lines(hybrid(seed, n_models=3).fit(X, y)))
    runs = ["embeddings 1"] if share < FIGURES.SHARE_OF_RUNS else ["embeddings 1", "embeddings 2", "embeddings 3"]
    assert names == ["pairs", *runs, "margins", "linear"]


def n_calls_of_a_fit(seed, X, y):
    calls = []
    hybrid(seed).fit(X, y, callback=lambda state: calls.append(state.n_iter))
    return [n for n, following in zip(calls, [*calls[1:], 1], strict=True) if following == 1]


@pytest.mark.parametrize("interrupt", [False, True])
def test_what_ends_a_member_ends_the_fit_and_it_counts_by_its_share(interrupt, seed):
    X, y = word_rows(seed)
    passes = n_calls_of_a_fit(seed, X, y)
    ends = np.cumsum(passes)
    assert len(passes) == 4
    for member, stop in ((0, 2), (1, ends[0] + 1), (1, ends[1]), (2, ends[1] + 1), (3, ends[2] + 1), (3, ends[3])):
        calls = []

        def callback(state, calls=calls, stop=stop):
            calls.append(state.n_iter)
            if interrupt and len(calls) == stop:
                raise KeyboardInterrupt
            return len(calls) == stop

        model = hybrid(seed)
        if interrupt:
            with pytest.warns(ConvergenceWarning, match="interrupted"):
                model.fit(X, y, callback=callback, keep="best")
        else:
            model.fit(X, y, callback=callback)
        assert len(calls) == stop
        of_pairs = stop - ends[2] if member == 3 else 0  # which have not begun before
        assert model.n_iter_ == (of_pairs or min(stop, passes[0]))
        assert len(lines(model)) == (member + 1 if member else 0)
        if member:  # shares of those that there are
            assert any(line["chosen"] for line in lines(model).values())
            assert model.evaluate(X, y)["log_loss"] < 1


def test_a_clock_that_ends_members_leaves_a_sum_of_those_that_there_are(seed):
    X, y = word_rows(seed)
    for seconds in (0, 0.01, 0.02, 0.05, 0.1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # some limits are none, by the machine
            model = hybrid(seed, n_models=2).fit(X, y, max_seconds=seconds)
        assert np.isfinite(model.decision_function(X)).all()
        assert len(lines(model)) in range(6)


def test_a_fit_that_failed_within_any_member_goes_on_bit_for_bit(seed, tmp_path):
    X, y = word_rows(seed, n=500)
    whole = hybrid(seed).fit(X, y)
    ends = np.cumsum(n_calls_of_a_fit(seed, X, y))
    for number, stop in enumerate((2, *ends[:3] + 1, ends[3])):
        calls, folder = [], tmp_path / str(number)

        def fail(state, calls=calls, stop=stop):
            calls.append(state.n_iter)
            if len(calls) == stop:
                raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            hybrid(seed).fit(X, y, callback=fail, checkpoint=folder)
        again = hybrid(seed).fit(X, y, checkpoint=folder, resume=True)
        np.testing.assert_array_equal(again.decision_function(X), whole.decision_function(X))


def test_a_callback_sees_the_linear_member_with_features_as_they_are(seed):
    X, y = word_rows(seed)
    X = sp.csr_array(X.multiply(np.geomspace(1e-2, 1e2, D))).astype(np.float32)
    losses = []

    def callback(state):
        if state.n_iter == 1:
            losses.append([])
        losses[-1].append(state.evaluate(X, y)["log_loss"])

    hybrid(seed).fit(X, y, callback=callback)
    linear = losses[-2]  # weights on pairs are trained last
    assert linear[-1] < 0.5


def test_the_steps_of_the_default_draw_no_classes_but_in_scent(calls, seed):
    """Margins and linear steps use all classes; `test_objectives.py` enumerates every draw of SCENT."""
    X, y = word_rows(seed)
    SoftmaxClassifier(model="hybrid", n_negatives=16, random_state=seed).fit(X, y)
    plan = calls[-1][0]
    assert len(plan.embeddings) == 3
    for run in plan.embeddings:
        assert (run.double_sum.rule, run.source, run.n_negatives, run.log_q) == ("scent", "sampled", 16, True)
    assert plan.margins.source == "exact"
    assert (plan.linear.solver, plan.linear.sampler) == ("exact", "all")
