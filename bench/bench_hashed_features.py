"""What hashing features costs: test log-loss with W at a half, a fourth and an eighth of its rows.

Rows are hashed as `fit(stream, max_memory=...)` hashes them, onto these shares of the features. `fit` has the solver
that is named here and nothing else set. The most frequent features alone, as many, are what one would take without
hashing. Seconds of the processor are of the fit; one thread.

    python -m pytest bench/bench_hashed_features.py
"""

import numpy as np
import pytest

from manyclass import SoftmaxClassifier
from manyclass.papers.data import load_problem
from manyclass.weights.hashing import FeatureHash

SETS = ("delicious", "eurlex57k")
SHARES = ("all", "1/2 frequent", "1/2 hashed", "1/4 frequent", "1/4 hashed", "1/8 frequent", "1/8 hashed")


@pytest.mark.parametrize("what", SHARES)
@pytest.mark.parametrize("name", SETS)
def test_hashing(timed, data_folder, name, what):
    data = load_problem(name, scale="max" if name == "eurlex57k" else None, max_rows=None)
    X, X_test, n_features = data.X_train, data.X_test, data.X_train.shape[1]
    rows = n_features // int(what[2]) if what != "all" else n_features
    if what.endswith("frequent"):
        frequent = np.argsort(-np.bincount(X.indices, minlength=n_features), kind="stable")
        some = np.sort(frequent[:rows])
        X, X_test = X[:, some], X_test[:, some]
    if what.endswith("hashed"):
        X, X_test = map(FeatureHash(rows).apply, (X, X_test))
    model = timed(lambda: SoftmaxClassifier(solver="implicit", random_state=0).fit(X, data.y_train), clock="processor")
    found = model.evaluate(X_test, data.y_test)
    timed.tell(n_features=rows, log_loss=found["log_loss"], error=found["error"])
