"""Results do not depend on how many threads BLAS has: L-BFGS limits it to one, and the others use it for nothing."""

import os
import subprocess
import sys

import pytest

# So many weights and rows that OpenBLAS takes a second thread for a product of two vectors, of a matrix and a vector,
# and of two matrices.
WORK = """
import hashlib, sys, warnings
import numpy as np, scipy.sparse as sp
from manyclass import AugmentReduceClassifier, SoftmaxClassifier, models, solvers

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(700, 300)).astype(np.float32)
y = np.append(np.arange(120), rng.integers(0, 120, 580))
one = {"random_state": 0}
MODELS = {
    "lbfgs": SoftmaxClassifier(solver="lbfgs", max_iter=8, alpha=1e-3, **one),
    "scaled": SoftmaxClassifier(solver="lbfgs", model=models.Linear(scaling="standard"), max_iter=5, alpha=1e-3, **one),
    "auto": SoftmaxClassifier(max_iter=5, **one),
    "normal": AugmentReduceClassifier(noise="normal", max_iter=2, **one),
    "logistic": AugmentReduceClassifier(noise="logistic", max_iter=2, **one),
    "adaptive": AugmentReduceClassifier(solver=solvers.SGD(schedule="adaptive"), max_iter=2, **one),
    "posterior": AugmentReduceClassifier(noise="normal", posterior="gaussian", alpha=0.1, max_iter=2, **one),
}
for name, model in MODELS.items():
    for x in (X, sp.csr_array(np.where(X > 0.5, X, 0))):
        model.fit(x, y)
        found = [model.coef_, model.intercept_, model.loss_curve_, model.predict_proba(x[:40])]
        print(name, hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in found)).hexdigest())
a = rng.normal(size=(900, 900))
print(hashlib.sha256((a @ a).tobytes() + (a.ravel() @ a.ravel()).tobytes()).hexdigest(), file=sys.stderr)
"""


def told(n_threads):
    """The digests of each training, and that of plain products, where BLAS has so many threads."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        env={**os.environ, **dict.fromkeys(names, str(n_threads))},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.long
def test_the_threads_of_blas_change_no_bit_of_a_fit():
    (one, plain), (two, other_plain) = told(1), told(2)
    assert len(one) == 14
    assert one == two
    if plain == other_plain:
        pytest.skip("plain products are the same bits with one and two threads of this BLAS, which tells little")
