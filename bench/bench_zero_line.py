"""How far from the certified optimum does each solver end, in nats per point of the objective with its ridge?

bibtex, first labels (146 classes), unit rows, intercept, alpha = 1 / N, blocks of 16, exponential schedule; 60 and 500
passes, each at the best of a grid of learning rates. The optimum is L-BFGS's, with its duality gap. Biased solvers are
in the table too: what they keep is their bias. Needs MANYCLASS_DATA and ten minutes:

    python -m pytest bench/bench_zero_line.py -s
"""

import warnings

import numpy as np
import pytest
from conftest import machine
from sklearn.exceptions import ConvergenceWarning

from manyclass import SoftmaxClassifier

UNBIASED = ("implicit", "bregman", "scent", "augment_reduce", "scgd", "umax", "sgd", "exact")
BIASED = ("css", "ema", "softplus", "ove", "nce", "bouchard", "is")
RATES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@pytest.mark.parametrize(("passes", "decay"), [(60, 0.92), (500, 0.99)])
def test_excess_over_the_certified_optimum(dataset, passes, decay):
    data = dataset("bibtex")
    X, y = data.X_train, data.y_train
    alpha = 1 / X.shape[0]
    best = SoftmaxClassifier(solver="lbfgs", alpha=alpha, max_iter=2000, n_jobs=2).fit(X, y).certificate(X, y)
    print(f"\n{machine()}\noptimum {best['primal']:.6f}, gap {best['gap']:.1e} nats; {passes} passes")
    for solver in UNBIASED + BIASED:
        ends = {}
        for rate in RATES if passes < 100 else RATES[1:6]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = SoftmaxClassifier(
                    solver=solver,
                    alpha=alpha,
                    n_negatives=16,
                    learning_rate=rate,
                    decay=decay,
                    max_iter=passes,
                    random_state=0,
                ).fit(X, y)
            if model.n_iter_ == passes:
                ridge = 0.5 * alpha * float(np.square(model.coef_, dtype=np.float64).sum())
                ends[rate] = model.evaluate(X, y)["log_loss"] + ridge - best["primal"]
        if ends:
            rate = min(ends, key=ends.__getitem__)
            print(f"  {solver:16} {ends[rate]:.4f} nats at rate {rate:g}", flush=True)
        else:
            print(f"  {solver:16} runs away at every rate")
