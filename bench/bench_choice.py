"""Choice models: seconds and estimates by the number of alternatives, beside peers, and drawn alternatives.

Planted location choice: zones with two features, a taste that depends on the chooser, and a distance; the coefficients
are known. `off` is the largest distance of an estimate from the truth in its standard errors, `draws` the largest
standard error that drawn alternatives leave, in the same unit. Peers (choice_peers.py) are given the same features of
pairs; each is skipped where it is not installed. Peaks of memory are of the process: run one case in each.

`test_example` fits the model of a package's own guide on the data that it ships: `coef` and `errors` are the largest
differences from this package's estimates, in standard errors, and of its standard errors in relation to them.

    python -m pytest bench/bench_choice.py
"""

from __future__ import annotations

import resource
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from choice_peers import EXAMPLES, PEERS, example, shipped

from manyclass import ChoiceClassifier
from manyclass.datasets import ChoiceSets, choice_sets

NAMES = ["a", "b", "distance", "x:a", "x:b"]
TRUTH = np.array([0.8, -0.4, -6.0, 0.3, 0.2])
OF_NOISE = {"gumbel": 1.0, "normal": 0.4, "logistic": 1.0}  # how large the coefficients are, as noise is
SIZES = [(20_000, 10), (20_000, 100), (10_000, 1_000), (200_000, 10_000), (1_000_000, 10_000)]
SIZES += [(10_000, k) for k in (10, 100, 10_000, 100_000)]
MOST_PEERS = 10_000_000  # pairs of a row and an alternative that peers are given


def planted(n: int, k: int, seed: int = 0, noise: str = "gumbel") -> ChoiceSets:
    """Choices of a model, drawn home by home, so that no table of all pairs is made."""
    rng, truth = np.random.default_rng(seed), TRUTH * OF_NOISE[noise]
    place, Z = rng.uniform(0, 1, (k, 2)), rng.normal(size=(k, 2))
    home, x = np.sort(rng.integers(0, k, n)), rng.integers(0, 2, n) * 2.0 - 1
    chosen, begins = np.empty(n, np.int64), np.searchsorted(home, np.arange(k + 1))
    for h in np.unique(home):
        away = np.hypot(*(place - place[h]).T)
        rows = np.arange(begins[h], begins[h + 1])
        for side in (-1.0, 1.0):
            own = rows[x[rows] == side]
            u = Z @ (truth[:2] + side * truth[3:]) + truth[2] * away
            if noise == "gumbel":
                shares = np.cumsum(np.exp(u - u.max()))
                chosen[own] = np.searchsorted(shares, rng.random(len(own)) * shares[-1])
            else:
                for i in own:
                    chosen[i] = np.argmax(u + (rng.standard_normal(k) if noise == "normal" else rng.logistic(size=k)))

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


def needs(package: str) -> None:
    """Skip where a package is not installed; pylogit cannot be imported as it is."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is a peer; the extra 'bench-choice' names it")


def all_pairs(sets: ChoiceSets) -> tuple[Any, Any, Any, list[str]]:
    """Data as peers take them."""
    table = sets.to_long()
    columns = [table["a"], table["b"], table["distance"], table["x"] * table["a"], table["x"] * table["b"]]
    S = np.stack(columns, axis=1).reshape(sets.n_rows, sets.n_alternatives, 5)
    return S, np.ones(S.shape[:2], bool), sets.known_choices.astype(np.int64), NAMES


@pytest.mark.parametrize("what", ["lbfgs", "double_sum", *PEERS])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_choice(timed: Any, small: bool, n: int, k: int, what: str) -> None:
    """Fit the model with its standard errors; "manyclass" is given all features of pairs, as peers are."""
    if small:
        n, k = 300, min(k, 40)
    if what != "double_sum" and n * k > MOST_PEERS:
        pytest.skip("all pairs, whose distances NumPy computes, take more than ten minutes of one thread")
    sets = planted(n, k)
    if what in PEERS:
        needs(what)
        pairs = all_pairs(sets)
        coef, errors, _ = timed(lambda: PEERS[what](*pairs), clock="processor")
        draws = np.zeros(5)
    else:
        coef, errors, draws = fitted(timed, sets, solver=what, n_negatives=128)
    tell(timed, coef, errors, draws, TRUTH)


@pytest.mark.parametrize("what", ["lbfgs", "double_sum"])
@pytest.mark.parametrize("noise", ["normal", "logistic"])
@pytest.mark.parametrize(("n", "k"), [(3_000, 200), (50_000, 1_000), (200_000, 10_000)])
def test_other_noise(timed: Any, small: bool, n: int, k: int, noise: str, what: str) -> None:
    """The same with noise whose sum over alternatives stands inside an integral."""
    if small:
        n, k = 200, 20
    if what == "lbfgs" and n * k > 1_000_000:
        pytest.skip("exact quadratures take more than ten minutes of one thread")
    sets = planted(n, k, noise=noise)
    found = fitted(timed, sets, solver=what, n_negatives=min(64, k // 8), noise=noise)
    tell(timed, *found, TRUTH * OF_NOISE[noise])


def fitted(timed: Any, sets: ChoiceSets, **how: Any) -> tuple[Any, Any, Any]:
    """Estimates, their standard errors and those that draws leave."""
    model = ChoiceClassifier(random_state=0, covariance="hessian", **how)
    timed(lambda: model.fit(sets), clock="processor")
    return model.coef_, model.std_errors_, model.draw_errors_


def tell(timed: Any, coef: Any, errors: Any, draws: Any, truth: Any) -> None:
    """Note how far estimates are from the truth."""
    timed.tell(
        off=float(np.max(np.abs(coef - truth) / errors)),
        draws=float(np.max(draws / errors)),
        peak_gb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        a=float(coef[0]),
        a_error=float(errors[0]),
    )


@pytest.mark.parametrize("what", PEERS)
@pytest.mark.parametrize("data", EXAMPLES)
def test_example(timed: Any, data: str, what: str) -> None:
    """Estimates and standard errors on the data that a package ships."""
    path = shipped(*EXAMPLES[data])
    if path is None:
        pytest.skip(f"{data} comes with {EXAMPLES[data][0]}")
    needs(what)
    given = example(data, path)
    own, errors, likelihood = PEERS["manyclass"](*given)
    coef, of_peer, of_it = timed(lambda: PEERS[what](*given), clock="processor")
    timed.tell(
        coef=float(np.max(np.abs(coef - own) / errors)),
        errors=float(np.max(np.abs(of_peer / errors - 1))),
        log_likelihood=of_it - likelihood,
    )
