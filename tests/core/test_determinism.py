"""What the same random_state promises: the same bits for any number of threads, and rounding between processors."""

import numpy as np
import pytest
from reference.core_step import isas
from reference.flat import softmax
from reference.problems import as_storage, planted
from reference.steps import WITH_LABEL

from manyclass import SoftmaxClassifier, _core, solvers
from manyclass.registry import names
from manyclass.training import passes

# A pass or two of steps that are large enough to show a difference may end worse than they began.
pytestmark = pytest.mark.filterwarnings("ignore:training diverged. the exact loss")

# (n_classes, n_samples): one point at a time; batches, the last one short, classes not a multiple of 16
SIZES = [(30, 400), (1030, 1203)]
SOLVERS = names("solver", without="batch")


def fit_on(monkeypatch, isa, X, y, **parameters):
    """Fit with the core told to use one instruction set."""
    real = _core.Plan
    monkeypatch.setattr(_core, "Plan", lambda **plan: real(**{**plan, "isa": isa}))
    model = softmax(**parameters).fit(X, y)
    monkeypatch.undo()
    return model


def same_bits(a, b):
    return (
        np.array_equal(a.coef_, b.coef_)
        and np.array_equal(a.intercept_, b.intercept_)
        and np.array_equal(a.loss_curve_, b.loss_curve_)
    )


def some_selections(solver):
    """All with the two kinds of step that there are; one with other solvers, which share all code but the step."""
    if solver == "exact":
        return ["all"]
    if solver in ("implicit", "css"):
        return names("selection")
    some = names("selection", *["label"] * (solver in WITH_LABEL), without="all_classes")
    return [some[SOLVERS.index(solver) % len(some)]]


def rates_of(solver):
    """Small for importance sampling, whose scores run away, and one-vs-each, whose steps carry a weight K / m of 55."""
    return {"learning_rate": 0.01} if solver in ("is", "ove") else {}


def assert_threads_change_nothing(X, y, n_jobs, **parameters):
    one, several = (
        softmax(**{"solver": "implicit", **parameters, "max_iter": 1, "n_jobs": n}).fit(X, y) for n in (1, n_jobs)
    )
    assert one.coef_.any()
    assert same_bits(one, several)


THREADS = {"sparse": 3, "dense": 2}


@pytest.mark.parametrize(
    ("solver", "selection"),
    [(solver, name) for solver in SOLVERS for name in some_selections(solver)],
)
@pytest.mark.parametrize(("n_classes", "n_samples"), SIZES)
def test_any_number_of_threads_gives_the_same_bits(n_classes, n_samples, solver, selection, seed):
    X, y = planted(np.random.default_rng(seed), n_samples, 20, n_classes, density=0.4)
    for storage in ("sparse", "dense") if solver == "implicit" else ("sparse",):
        data = as_storage(X, storage)
        assert_threads_change_nothing(
            data,
            y,
            THREADS[storage],
            solver=solver,
            selection=selection,
            n_negatives=20,
            random_state=seed,
            **rates_of(solver),
        )


OPTIONS = [
    {"alpha": 1e-3},
    {"alpha": 1e-3, "averaging": "polyak", "selection": "head_tail", "n_head": 4},
    {"alpha": 30.0, "averaging": "polyak", "solver": "css", "selection": "frequency"},  # scales are multiplied in
    {"averaging": "polyak", "solver": "bregman", "selection": "uniform"},
    {"schedule": "adaptive", "solver": "augment_reduce"},
    {"schedule": "adaptive", "solver": "css", "selection": "frequency", "batch_size": 50},
    {"batch_size": 64, "share_classes": True, "alpha": 1e-3},
]


@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize(("n_classes", "n_samples"), SIZES)
def test_threads_change_nothing_with_any_option(n_classes, n_samples, options, storage, seed):
    X, y = planted(np.random.default_rng(seed), n_samples, 20, n_classes, density=0.4)
    assert_threads_change_nothing(
        as_storage(X, storage), y, THREADS[storage], n_negatives=20, random_state=seed, **options
    )


def test_threads_change_nothing_where_small_batches_share_their_classes(seed):
    X, y = planted(np.random.default_rng(seed), 1203, 20, 1030, density=0.4)
    assert_threads_change_nothing(X, y, 3, selection="uniform", n_negatives=20, random_state=seed, share_classes=True)


def test_the_same_random_state_gives_the_same_bits_and_another_one_other_draws(seed):
    X, y = planted(np.random.default_rng(seed), 400, 20, 30)
    first, again, other = (SoftmaxClassifier(n_negatives=5, max_iter=2, random_state=s).fit(X, y) for s in (1, 1, 2))
    assert same_bits(first, again)
    assert not np.array_equal(first.coef_, other.coef_)
    drawn = [
        SoftmaxClassifier(n_negatives=5, max_iter=2, random_state=np.random.RandomState(5)).fit(X, y) for _ in range(2)
    ]
    assert same_bits(*drawn)


@pytest.mark.parametrize(("n_classes", "n_samples"), [(30, 2301), (1030, 1203)])
def test_where_the_clock_cuts_a_pass_changes_no_bit(n_classes, n_samples, monkeypatch, seed):
    X, y = planted(np.random.default_rng(seed), n_samples, 20, n_classes)
    fits = []
    for slice_seconds in (0.0, 1e9):  # pieces that shrink to one batch, and pieces that double
        monkeypatch.setattr(passes, "SLICE_SECONDS", slice_seconds)
        fits.append(SoftmaxClassifier(n_negatives=10, max_iter=2, random_state=seed).fit(X, y))
    assert same_bits(*fits)


def test_a_second_fit_of_the_same_estimator_starts_afresh(seed):
    X, y = planted(np.random.default_rng(seed), 200, 8, 20)
    model = SoftmaxClassifier(max_iter=2, random_state=0).fit(X, y)
    first = model.coef_.copy()
    assert np.array_equal(model.fit(X, y).coef_, first)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("n_classes", "n_samples"), SIZES)
def test_instruction_sets_agree_to_rounding(n_classes, n_samples, solver, monkeypatch, seed):
    X, y = planted(np.random.default_rng(seed), n_samples, 20, n_classes, density=0.4)
    storage = ("sparse", "dense")[SOLVERS.index(solver) % 2]
    parameters = {"solver": solver, "n_negatives": 20, "max_iter": 2, "random_state": seed, **rates_of(solver)}
    fits = [fit_on(monkeypatch, isa, as_storage(X, storage), y, **parameters) for isa in isas()]
    # As against the twin: a few 2^-23 of the largest weight for each visit that moves a row (the labels' and, of 2
    # passes, the share of visits whose selection holds it), if all erred alike.
    share = 1 if solver == "exact" else min(1, 25 / n_classes)
    visits = 2 * (share * n_samples + np.bincount(y).max())
    for other in fits[1:]:
        atol = visits * 4 * 2.0**-23 * np.abs(fits[0].coef_).max()
        np.testing.assert_allclose(other.coef_, fits[0].coef_, rtol=0, atol=atol)


def test_an_instruction_set_that_does_not_exist_is_refused(monkeypatch, seed):
    X, y = planted(np.random.default_rng(seed), 60, 4, 5)
    with pytest.raises(ValueError, match="isa is 'avx1024'; it must be one of 'auto', 'baseline', 'avx2', 'avx512'"):
        fit_on(monkeypatch, "avx1024", X, y, solver="exact")


@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_racing_threads_reach_about_the_same_loss(storage, seed):
    X, y = planted(np.random.default_rng(seed), 1500, 20, 40, scale=3)
    parameters = {"n_negatives": 10, "max_iter": 10, "random_state": 0}
    careful = softmax(**parameters, solver="implicit").fit(as_storage(X, storage), y)
    racing = softmax(**parameters, solver="implicit", parallel="hogwild", n_jobs=2).fit(as_storage(X, storage), y)
    losses = [model.evaluate(as_storage(X, storage), y)["log_loss"] for model in (careful, racing)]
    assert losses[0] < 0.9 * np.log(40)
    # A lost update costs one step of 15,000; two seeds of the careful fit differ by about 0.01.
    assert losses[1] == pytest.approx(losses[0], abs=0.1)


@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 1e-4, "averaging": "polyak", "selection": "head_tail"},
        {"alpha": 1e-4, "solver": "bregman", "selection": "frequency"},
        {"averaging": "suffix", "solver": "nce", "selection": "uniform"},
        {"schedule": "adaptive", "solver": "css", "learning_rate": 1.0, "selection": "block"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_racing_threads_learn_with_any_option(options, storage, seed):
    X, y = planted(np.random.default_rng(seed), 1500, 20, 40, scale=3)
    parameters = {
        "n_negatives": 10,
        "max_iter": 6,
        "random_state": 0,
        "solver": "implicit",
        "parallel": "hogwild",
        **options,
    }
    racing = softmax(n_jobs=2, **parameters).fit(as_storage(X, storage), y)
    assert np.isfinite(racing.coef_).all()
    assert racing.evaluate(X, y)["log_loss"] < 0.95 * np.log(40)


def test_racing_threads_meet_no_row_whose_scale_is_multiplied_into_it(seed):
    """A ridge by which scales fall below their bound every few passes: such a row's move was 2^40 times too long."""
    X, y = np.random.default_rng(seed).standard_normal((400, 10)).astype(np.float32), np.arange(400) % 40
    given = {"n_negatives": 16, "model": "linear", "alpha": 0.5, "learning_rate": 0.05, "max_iter": 1000}
    solver = solvers.Implicit(parallel="hogwild", schedule="constant")
    model = SoftmaxClassifier(solver=solver, n_jobs=2, random_state=seed, **given).fit(X, y)
    assert model.n_iter_ == 1000
    # Labels are random, so that no weight learns: log 40, less by what noise of steps of .05 may tell.
    assert model.evaluate(X, y)["log_loss"] == pytest.approx(np.log(40), abs=0.1)
