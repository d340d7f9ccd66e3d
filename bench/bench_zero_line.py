"""How far from the certified optimum does each solver end, in nats per point of the objective with its ridge?

bibtex, first labels (146 classes), unit rows, intercept, alpha = 1 / N, 32 classes a step by frequency_block,
exponential schedule; 60 and 500 passes, each solver at the best of a grid of its step sizes. The optimum is L-BFGS's,
with its duality gap. Biased solvers are in the table too: what they keep is their bias. Needs MANYCLASS_DATA and half
an hour:

    python -m pytest bench/bench_zero_line.py -s
"""

import itertools
import warnings

import numpy as np
import pytest
from conftest import machine
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


def grid_of(name):
    """Values of each parameter of the solver that is tuned."""
    own = {setting.name for setting in SOLVERS[name].settings}
    return {f"solver__{key}": TUNED[key].get(name, USUAL[key]) for key in TUNED if key in own}


RATES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@pytest.mark.parametrize(("passes", "decay"), [(60, 0.94), (500, 0.99)])
def test_excess_over_the_certified_optimum(dataset, passes, decay):
    data = dataset("bibtex")
    X, y = data.X_train, data.y_train
    alpha = 1 / X.shape[0]
    best = SoftmaxClassifier(solver="lbfgs", alpha=alpha, max_iter=2000, n_jobs=2).fit(X, y).certificate(X, y)
    print(f"\n{machine()}\noptimum {best['primal']:.6f}, gap {best['gap']:.1e} nats; {passes} passes")
    for solver in parts("solver"):
        grid = {"learning_rate": RATES if passes < 100 else RATES[1:5], **grid_of(solver)}
        sampled = {} if solver == "exact" else {"n_negatives": 32}
        ends = {}
        for values in itertools.product(*grid.values()):
            parameters = dict(zip(grid, values, strict=True))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = SoftmaxClassifier(
                    solver=SOLVERS[solver](decay=decay), alpha=alpha, max_iter=passes, random_state=0, **sampled
                )
                model.set_params(**parameters).fit(X, y)
            if model.n_iter_ == passes:
                ridge = 0.5 * alpha * float(np.square(model.coef_, dtype=np.float64).sum())
                ends[values] = model.evaluate(X, y)["log_loss"] + ridge - best["primal"]
        if ends:
            at = min(ends, key=ends.__getitem__)
            settings = ", ".join(f"{name} {value:g}" for name, value in zip(grid, at, strict=True))
            print(f"  {solver:16} {ends[at]:.4f} nats at {settings}", flush=True)
        else:
            print(f"  {solver:16} runs away at every rate")
