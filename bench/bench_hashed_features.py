"""What hashing features costs: test log-loss with W at a half, a fourth and an eighth of its rows.

    python bench/bench_hashed_features.py [--data eurlex57k delicious ...] [--n-jobs 1]

Rows are hashed as `fit(stream, max_memory=...)` hashes them, onto these shares of the features. `fit` has the solver
that is named here and nothing else set. The most frequent features alone, as many, are what one would take without
hashing.
"""

from __future__ import annotations

import argparse
import os
import warnings

import numpy as np

from manyclass import SoftmaxClassifier
from manyclass.model.hashing import FeatureHash
from manyclass.papers.data import load

SETS = ("delicious", "eurlex57k")
SHARES = (2, 4, 8)


def main() -> None:
    """Print a row for each share."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=SETS)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--solver", default="implicit")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.data:
        data = load(name, scale="max" if name == "eurlex57k" else None, max_rows=None, n_jobs=options.n_jobs)
        X, n_features = data.X_train, data.X_train.shape[1]
        print(f"{name}: {X.shape}, {len(np.unique(data.y_train))} classes, load {os.getloadavg()[0]:.1f}", flush=True)
        frequent = np.argsort(-np.bincount(X.indices, minlength=n_features), kind="stable")
        for share in (1, *SHARES):
            rows = n_features // share
            some, hashed = np.sort(frequent[:rows]), FeatureHash(rows).apply
            told = [("frequent", X[:, some], data.X_test[:, some])] if share > 1 else [("all", X, data.X_test)]
            if share > 1:
                told.append(("hashed", hashed(X), hashed(data.X_test)))
            for what, train, test in told:
                model = SoftmaxClassifier(solver=options.solver, random_state=0, n_jobs=options.n_jobs)
                found = model.fit(train, data.y_train).evaluate(test, data.y_test)
                print(f"  1/{share} {what:>8}: {found['log_loss']:.4f} nats, error {found['error']:.4f}", flush=True)


if __name__ == "__main__":
    main()
