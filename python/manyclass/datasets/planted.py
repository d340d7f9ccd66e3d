"""Sparse data drawn from a known softmax model, so that the best possible log-loss is known."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from manyclass import _core
from manyclass.checks import check_number
from manyclass.datasets.csr import ones_at


@dataclass(frozen=True)
class Planted:
    """Data drawn from p(k | x) = softmax_k(W_true x), and how well W_true itself does on them.

    Attributes
    ----------
    X : csr_array of shape (n_samples, n_features), float32
        Rows of Euclidean norm 1 with equal values.
    y : ndarray of shape (n_samples,), int64
        Classes in [0, n_classes). A class that is rare need not occur.
    X_test : csr_array of shape (n_test, n_features), float32
        New rows.
    y_test : ndarray of shape (n_test,), int64
        Their classes.
    W_true : ndarray of shape (n_classes, n_features), float64
        The planted weights. There is no intercept.
    bayes_log_loss : float
        Mean over the distribution of x of the entropy of y given x, in nats: no model has a smaller expected
        log-loss on new data.
    log_loss : float
        Log-loss of W_true on (X, y), in nats.
    test_log_loss : float
        Log-loss of W_true on (X_test, y_test), in nats.
    """

    X: sparse.csr_array
    y: NDArray[np.int64]
    X_test: sparse.csr_array
    y_test: NDArray[np.int64]
    W_true: NDArray[np.float64]
    bayes_log_loss: float
    log_loss: float
    test_log_loss: float

    @property
    def statistical_gap(self) -> float:
        """How far the optimum over W of the training loss lies below `log_loss`: (K - 1) D / (2 N) nats.

        This is the expectation for N large (half a chi-square of as many degrees of freedom, over N; Wilks),
        and the excess of that optimum over `bayes_log_loss` on new data is the same. Classes with fewer than
        about one expected row per feature add less to the first and more to the second.
        """
        n_classes, n_features = self.W_true.shape
        return float((n_classes - 1) * n_features / (2 * len(self.y)))


def make_planted(
    n_samples: int = 300_000,
    n_classes: int = 10_000,
    n_features: int = 5,
    *,
    n_test: int | None = None,
    nnz: int = 2,
    n_patterns: int = 1_000,
    scale: float = 1.0,
    zipf: float = 0.5,
    random_state: int | np.random.RandomState | None = None,
) -> Planted:
    r"""Draw sparse rows and their classes from a softmax model without intercept.

    A row is one of a pool of patterns, drawn uniformly: `nnz` of the features, each with value
    1 / sqrt(nnz). The pool makes exact sampling and exact entropies cheap: a softmax over all classes is
    computed once per pattern, not once per row. The score of class k is

    .. math:: z_k(x) = \langle w_k, x \rangle, \qquad
              w_{kj} = \text{scale} \cdot \epsilon_{kj} - \frac{\text{zipf} \cdot \log r_k}{\sqrt{\text{nnz}}}

    with standard normal :math:`\epsilon` and a random ranking r of the classes. As all rows have the same
    sum, sqrt(nnz), the second term adds -zipf log r_k to the score: class frequencies fall as a power of the
    rank, and a model needs no intercept to express it.

    Whoever fits all (n_classes - 1) n_features free weights without penalty ends below `log_loss` in training
    and above `bayes_log_loss` on new data, by about `Planted.statistical_gap` each. Keep n_features small if
    that is to be small: the defaults give 0.083 nats, 0.9 % of log(n_classes).

    Parameters
    ----------
    n_samples : int, default=300_000
        Training rows, at least 1.
    n_classes : int, default=10_000
        At least 2.
    n_features : int, default=5
        At least nnz.
    n_test : int, optional
        Test rows, at least 1; a tenth of n_samples, rounded up, if None.
    nnz : int, default=2
        The number of non-zero features of a row, at least 1.
    n_patterns : int, default=1_000
        Size of the pool; all subsets of the features are in it if there are no more than that. Time is
        O(n_patterns n_classes).
    scale : float, default=1.0
        Standard deviation of a score over classes, at least 0. At 0 the class does not depend on the row.
    zipf : float, default=0.5
        Exponent of the class frequencies, at least 0.
    random_state : int, RandomState or None
        Seed of all draws.

    Returns
    -------
    data : Planted

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from manyclass.datasets import make_planted
    >>> data = make_planted(2_000, n_classes=50, n_features=4, random_state=0)
    >>> data.X.shape, data.W_true.shape
    ((2000, 4), (50, 4))
    """
    n_test = -(-n_samples // 10) if n_test is None else n_test
    numbers: dict[str, tuple[float, int]] = {"n_samples": (n_samples, 1), "n_classes": (n_classes, 2), "nnz": (nnz, 1)}
    numbers |= {"n_features": (n_features, nnz), "n_test": (n_test, 1), "n_patterns": (n_patterns, 1)}
    numbers |= {"scale": (scale, 0), "zipf": (zipf, 0)}
    for name, (value, least) in numbers.items():
        check_number(name, value, low=least, integer=name not in ("scale", "zipf"))
    rng = check_random_state(random_state)

    offsets = -zipf * np.log(rng.permutation(n_classes) + 1.0)
    W = scale * rng.standard_normal((n_classes, n_features)) + offsets[:, None] / np.sqrt(nnz)

    patterns = _patterns(rng, n_patterns, n_features, nnz)
    pattern_of_row = rng.randint(len(patterns), size=n_samples + n_test)
    uniforms = rng.random_sample(n_samples + n_test)
    length = np.float32(1 / np.sqrt(nnz))  # of each value of a row of unit length
    classes, log_p, entropies = _core.draw_from_softmax(patterns, float(length), W, pattern_of_row, uniforms)

    columns = patterns[pattern_of_row]
    X = ones_at(columns.ravel(), np.full(len(columns), nnz), n_features) * length
    return Planted(
        X=X[:n_samples],
        y=classes[:n_samples],
        X_test=X[n_samples:],
        y_test=classes[n_samples:],
        W_true=W,
        bayes_log_loss=float(entropies.mean()),
        log_loss=float(-log_p[:n_samples].mean()),
        test_log_loss=float(-log_p[n_samples:].mean()),
    )


def _patterns(rng: np.random.RandomState, n_patterns: int, n_features: int, nnz: int) -> NDArray[np.int32]:
    """Draw distinct subsets of nnz features, one a row, sorted."""
    if comb(n_features, nnz) <= n_patterns:
        return np.array(list(combinations(range(n_features), nnz)), np.int32)
    # More subsets exist than are wanted, so that the set below fills up.
    chosen: dict[tuple[int, ...], None] = {}
    while len(chosen) < n_patterns:
        chosen[tuple(sorted(rng.choice(n_features, nnz, replace=False).tolist()))] = None
    return np.array(list(chosen), np.int32)
