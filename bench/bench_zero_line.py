"""How far from the certified optimum does each solver end, in nats per point of the objective with its ridge?

bibtex, first labels (146 classes), unit rows, intercept, alpha = 1 / N, 32 classes a step by frequency_block,
exponential schedule; 60 and 500 passes, each solver at the best of a grid of its step sizes, of which the fit is timed
again. The optimum is L-BFGS's, with its duality gap. Biased solvers are in the table too: what they keep is their bias.
Half an hour with real data:

    python -m pytest bench/bench_zero_line.py
"""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from manyclass import SoftmaxClassifier
from manyclass.registry import parts
from manyclass.solvers import SOLVERS

# What is tuned beside the learning rate: the steps of u, and gains and smoothings.
TUNED = {
    "u_learning_rate": {"bregman": (0.05, 0.2, 0.5), "scent": (0.05, 0.2, 0.5), "minibatch_implicit": (1.0, 10.0)},
    "gain": {},
    "rho": {},
}
USUAL = {"u_learning_rate": (1.0, 3.0), "gain": (0.05, 0.2, 0.5), "rho": (0.05, 0.2, 0.5)}
RATES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
DECAYS = {60: 0.94, 500: 0.99, 6: 0.6}
SMALL = {60: 6, 500: 60}  # passes over generated data


def grid_of(name, passes, small):
    """Values of each parameter of the solver that is tuned."""
    own = {setting.name for setting in SOLVERS[name].settings}
    rates = RATES[2:5] if small else RATES if passes < 100 else RATES[1:5]
    others = {f"solver__{key}": TUNED[key].get(name, USUAL[key]) for key in TUNED if key in own}
    return {"learning_rate": rates, **{key: values[:1] if small else values for key, values in others.items()}}


@pytest.fixture(scope="module")
def problem(dataset):
    """Rows, classes, the ridge, and the certificate of the optimum."""
    data = dataset("bibtex")
    X, y = data.X_train, data.y_train
    alpha = 1 / X.shape[0]
    best = SoftmaxClassifier(solver="lbfgs", alpha=alpha, max_iter=2000, n_jobs=2).fit(X, y).certificate(X, y)
    return X, y, alpha, best


@pytest.mark.parametrize("what", parts("solver"))
@pytest.mark.parametrize("name", ["60 passes", "500 passes"])
def test_excess_over_the_certified_optimum(timed, problem, small, name, what):
    X, y, alpha, best = problem
    passes = int(name.split()[0])
    passes = SMALL[passes] if small else passes
    grid = grid_of(what, passes, small)
    sampled = {} if what == "exact" else {"n_negatives": min(32, len(np.unique(y)) - 1)}
    given = {"alpha": alpha, "max_iter": passes, "random_state": 0, **sampled}

    def fit(values):
        model = SoftmaxClassifier(solver=SOLVERS[what](decay=DECAYS[passes]), **given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.set_params(**dict(zip(grid, values, strict=True))).fit(X, y)

    def excess(model):
        if model.n_iter_ < passes:  # it ran away
            return np.inf
        ridge = 0.5 * alpha * float(np.square(model.coef_, dtype=np.float64).sum())
        return model.evaluate(X, y)["log_loss"] + ridge - best["primal"]

    ends = {values: excess(fit(values)) for values in itertools.product(*grid.values())}
    at = min(ends, key=ends.__getitem__)
    timed(lambda: fit(at), clock="processor")
    settings = ", ".join(f"{key} {value:g}" for key, value in zip(grid, at, strict=True))
    timed.tell(settings=settings, optimum=best["primal"], gap=best["gap"], excess=ends[at])
    if np.isfinite(ends[at]):
        biased = next(part.biased for part in parts("solver").values() if part.name == what)
        timed.row("zero_line", data=f"bibtex, {name}", solver=what, biased=biased, nats=round(ends[at], 4))
