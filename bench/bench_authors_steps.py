"""Why do probit and logistic augment and reduce end elsewhere than in the paper? A NumPy twin of what its code does.

Ruiz et al. 2018, Table 3, from what their published code does, told here and written anew: weights N(0, 0.1^2), biases
N(0, 0.001^2); minibatches of points from permutations, each point with its own distinct uniform wrong classes; one
local step of q from one draw, gain 0.001 / (1 + pass)^0.9 and without the entropy's gradient, from mean 0 and scale 1;
another draw for the weights; steps 0.02 t^-1/2 G / (1 + sqrt s), 0.9 of it from every 2,000th iteration on, with
s = 0.1 G^2 + 0.9 s where G is not 0 (s = G^2 in the first iteration); test log-likelihoods by 1,000 draws of N(5, 25),
cut off at -26. Each test changes one of these: where q begins ("best": where it is best for equal scores of all
classes, as by default in this package), the gain with the entropy's gradient as the paper prints them, s where G is 0,
and whether s begins at a weight's own first gradient.

    python -m pytest bench/bench_authors_steps.py
"""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, log_ndtr

from manyclass import _core
from manyclass.papers import published
from manyclass.papers.data import load_problem
from manyclass.special import sampled_utility_log_probabilities

METHODS = {"normal": "probit A&R", "logistic": "logistic A&R"}
AS_IN_THEIR_CODE = {"start": "standard", "printed": False, "zeros": "keep", "fresh": "first iteration"}
CHANGES = {
    "their code": {},
    "q begins where it is best": {"start": "best"},
    "the gain and the gradient as printed": {"printed": True},
    "the same, and q begins where it is best": {"start": "best", "printed": True},
    "s falls where G is 0": {"zeros": "fall"},
    "s begins at each weight's first G": {"fresh": "first gradient"},
}
CLIP = -26.0


def hazard(noise, t):
    """The derivative of log Phi."""
    if noise == "logistic":
        return expit(-t)
    return np.where(t < -20, -t, np.exp(-t * t / 2 - np.log(2 * np.pi) / 2 - log_ndtr(np.maximum(t, -20))))


def trained(noise, X, y, n_classes, *, batch, n_negatives, iterations, start, printed, zeros, fresh, seed=0):
    """Weights of shape (D, K), biases, and the mean scale of q."""
    rng = np.random.default_rng(seed)
    n = X.shape[0]
    W, b = 0.1 * rng.standard_normal((X.shape[1], n_classes)), 0.001 * rng.standard_normal(n_classes)
    squares = [np.zeros_like(W), np.zeros_like(b)]
    family = _core.LocalFamily(noise=noise, name=noise, n_nodes=0, n_classes=n_classes)
    mean, scale = (family.mu, family.s) if start == "best" else (0.0, 1.0)
    mu, gamma = np.full(n, mean), np.full(n, np.log(np.expm1(scale)))
    order, at, n_pass, rate = rng.permutation(n), 0, 1, published.RUIZ["step"]
    times, points = (n_classes - 1) / n_negatives, np.arange(batch)

    def draw():
        return rng.standard_normal(batch) if noise == "normal" else rng.logistic(size=batch)

    for t in range(1, iterations + 1):
        if at + batch > n:
            order, at, n_pass = rng.permutation(n), 0, n_pass + 1
        if t % published.RUIZ["decay_iterations"] == 0:
            rate *= published.RUIZ["decay"]
        some = order[at : at + batch]
        at += batch
        x, labels = X[some], y[some]
        z = x @ W + b
        wrong = np.argpartition(rng.random((batch, n_classes - 1)), n_negatives, axis=1)[:, :n_negatives]
        wrong += wrong >= labels[:, np.newaxis]
        above = z[points, labels][:, np.newaxis] - z[points[:, np.newaxis], wrong]

        v, s = draw(), np.logaddexp(0, gamma[some])
        e = mu[some] + s * v
        slope = (-e if noise == "normal" else 1 - 2 * expit(e)) + times * hazard(noise, e[:, np.newaxis] + above).sum(1)
        gain = (0.01 if printed else 0.001) / (1 + n_pass) ** 0.9
        mu[some] += gain * slope
        gamma[some] += gain * (slope * v + (1 / s if printed else 0)) * -np.expm1(-s)
        e = mu[some] + np.logaddexp(0, gamma[some]) * draw()

        h = hazard(noise, e[:, np.newaxis] + above)
        p = np.zeros((batch, n_classes))
        p[points[:, np.newaxis], wrong] = -h
        p[points, labels] += h.sum(axis=1)
        p *= times * n / batch
        for w, s, G in ((W, squares[0], x.T @ p), (b, squares[1], p.sum(axis=0))):
            share = np.where(s == 0, 1.0, 0.1) if fresh == "first gradient" else (1.0 if t == 1 else 0.1)
            new = share * G * G + (1 - share) * s
            s[:] = new if zeros == "fall" else np.where(G == 0, s, new)
            w += rate / np.sqrt(t) * G / (1 + np.sqrt(s))
    return W, b, np.logaddexp(0, gamma).mean()


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("noise", METHODS)
@pytest.mark.parametrize("name", ["bibtex", "mnist"])
def test_one_change_to_the_authors_steps(timed, name, noise, what):
    data = load_problem(name, scale=None, max_rows=None)
    X, X_test = (sp.csr_array(x, dtype=np.float64) for x in (data.X_train, data.X_test))
    classes, labels = np.unique(data.y_train, return_inverse=True)
    of_test = np.searchsorted(classes, data.y_test)
    batch, n_negatives, iterations = published.RUIZ["minibatches"][name]
    how = AS_IN_THEIR_CODE | CHANGES[what]
    steps = {"batch": batch, "n_negatives": n_negatives, "iterations": iterations}
    found = []
    timed(lambda: found.append(trained(noise, X, labels, len(classes), **steps, **how)), rounds=1)
    W, b, scale = found[0]
    z = np.asarray(X_test @ W + b)
    log_p = np.concatenate(
        [
            sampled_utility_log_probabilities(z[i : i + 500], of_test[i : i + 500], noise, random_state=0)
            for i in range(0, len(z), 500)
        ]
    )
    paper = published.values("augment-reduce", "Table 3")[name, METHODS[noise]]
    told = {"log_likelihood": float(np.maximum(log_p, CLIP).mean()), "accuracy": float((z.argmax(1) == of_test).mean())}
    timed.tell(**told, scale_of_q=float(scale), at_the_cut=float((log_p <= CLIP).mean()))
    timed.tell(paper_log_likelihood=paper["log-likelihood"], paper_accuracy=paper["accuracy"])
    assert np.isfinite(told["log_likelihood"])
