"""Choice models: seconds and estimates by the number of alternatives, beside xlogit, and drawn alternatives.

Planted location choice: zones with two features, a taste that depends on the chooser, and a distance; the coefficients
are known. `off` is the largest distance of an estimate from the truth in its standard errors, `draws` the largest
standard error that drawn alternatives leave, in the same unit. xlogit (Arteaga et al. 2022) is given the same features
as columns of a long table, without its graphics processor; it is skipped where it is not installed. Peaks of memory are
of the process: run one case in each.

    python -m pytest bench/bench_choice.py
"""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pytest

from manyclass import ChoiceClassifier
from manyclass.datasets import ChoiceSets, choice_sets

NAMES = ["a", "b", "distance", "x:a", "x:b"]
TRUTH = np.array([0.8, -0.4, -6.0, 0.3, 0.2])
SIZES = [(20_000, 10), (20_000, 100), (10_000, 1_000), (200_000, 10_000), (1_000_000, 10_000)]
SIZES += [(10_000, k) for k in (10, 100, 10_000, 100_000)]


def planted(n: int, k: int, seed: int = 0) -> ChoiceSets:
    """Choices by the logit, drawn home by home, so that no table of all pairs is made."""
    rng = np.random.default_rng(seed)
    place, Z = rng.uniform(0, 1, (k, 2)), rng.normal(size=(k, 2))
    home, x = np.sort(rng.integers(0, k, n)), rng.integers(0, 2, n) * 2.0 - 1
    chosen, begins = np.empty(n, np.int64), np.searchsorted(home, np.arange(k + 1))
    for h in np.unique(home):
        away = np.hypot(*(place - place[h]).T)
        rows = np.arange(begins[h], begins[h + 1])
        for side in (-1.0, 1.0):
            own = rows[x[rows] == side]
            u = Z @ (TRUTH[:2] + side * TRUTH[3:]) + TRUTH[2] * away
            shares = np.cumsum(np.exp(u - u.max()))
            chosen[own] = np.searchsorted(shares, rng.random(len(own)) * shares[-1])

    def distance(rows: Any, alternatives: Any) -> Any:
        here = home[rows]
        return np.hypot(place[here, 0] - place[alternatives, 0], place[here, 1] - place[alternatives, 1])[:, None]

    return choice_sets(
        alternatives=np.arange(k),
        X=x[:, None],
        Z=Z,
        pairs=distance,
        chosen=chosen,
        chooser_names=["x"],
        alternative_names=NAMES[:2],
        pair_names=["distance"],
    )


@pytest.mark.parametrize("what", ["lbfgs", "double_sum", "xlogit"])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_choice(timed: Any, small: bool, n: int, k: int, what: str) -> None:
    """Fit the model with its standard errors."""
    if small:
        n, k = 300, min(k, 40)
    if what != "double_sum" and n * k > 10_000_000:
        pytest.skip("all pairs, whose distances NumPy computes, take more than ten minutes of one thread")
    sets = planted(n, k)
    if what == "xlogit":
        xlogit = pytest.importorskip("xlogit")
        table = sets.to_long()
        columns = [table["a"], table["b"], table["distance"], table["x"] * table["a"], table["x"] * table["b"]]
        peer = xlogit.MultinomialLogit()
        given = {"y": table["chosen"], "alts": table["alternative"], "ids": table["chooser"], "varnames": NAMES}
        timed(lambda: peer.fit(X=np.stack(columns, axis=1), verbose=0, **given), clock="processor")
        coef, errors, draws = peer.coeff_, peer.stderr, np.zeros(5)
    else:
        model = ChoiceClassifier(solver=what, n_negatives=128, random_state=0)
        timed(lambda: model.fit(sets), clock="processor")
        coef, errors, draws = model.coef_, model.std_errors_, model.draw_errors_
    timed.tell(
        off=float(np.max(np.abs(coef - TRUTH) / errors)),
        draws=float(np.max(draws / errors)),
        peak_gb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        a=float(coef[0]),
        a_error=float(errors[0]),
    )
