"""Choice models by their definitions, and data of them, for the tests."""

import numpy as np
from scipy import stats

from manyclass.datasets import choice_sets

N, K = 60, 5
NOISES = ("gumbel", "normal", "logistic")


def log_likelihoods(u, y, model="gumbel", nests=None, dissimilarity=None):
    """log P(y) of rows of utilities, -infinity where there is no such alternative: the definitions."""
    rows = np.arange(len(u))
    if model == "gumbel":
        return u[rows, y] - np.logaddexp.reduce(u, axis=1)
    if model == "nested":
        out = []
        for row, own in zip(u, y, strict=True):
            lam = np.asarray(dissimilarity)
            sums = np.array([np.logaddexp.reduce(row[nests == g] / lam[g]) for g in range(len(lam))])
            g = nests[own]
            p = np.exp(lam[g] * sums[g] - np.logaddexp.reduce(lam * sums)) * np.exp(row[own] / lam[g] - sums[g])
            out.append(np.log(p))
        return np.array(out)
    noise = {"normal": stats.norm, "logistic": stats.logistic}[model]
    e = np.linspace(-45, 60, 3501)  # the trapezoidal rule errs by rounding only
    gaps = u[np.arange(len(u)), y][:, None] - u  # infinite where there is no such alternative
    logs = noise.logcdf(e + gaps[:, :, None])
    logs[np.arange(len(u)), y] = noise.logpdf(e)
    return np.log(np.sum(np.exp(logs.sum(axis=1)), axis=1) * (e[1] - e[0]))


def world(seed, *, available=True, n=N, k=K, d=2, q=2, r=2):
    """Data of every kind, and their utilities as a function of beta of z, beta of s, and W."""
    rng = np.random.default_rng(seed)
    X, Z, S = rng.normal(size=(n, d)), rng.normal(size=(k, q)), rng.normal(size=(n, k, r))
    mask = rng.random((n, k)) < 0.7 if available else np.ones((n, k), bool)
    mask[np.arange(n), rng.integers(k, size=n)] = True
    offset = rng.normal(size=(n, k))

    def utilities(beta_z, beta_s, W):
        u = X @ W @ Z.T + Z @ beta_z + S @ beta_s + offset
        return np.where(mask, u, -np.inf)

    truth = rng.normal(size=q), rng.normal(size=r), rng.normal(size=(d, q))
    chosen = np.argmax(utilities(*truth) + rng.gumbel(size=(n, k)), axis=1)
    pairs = {f"s{j}": S[:, :, j] for j in range(r)}
    weight = rng.uniform(0.5, 2, n)
    sets = choice_sets(
        X=X,
        Z=Z,
        pairs=pairs,
        available=mask,
        offset=offset,
        chosen=chosen,
        sample_weight=weight,
        persons=np.arange(n) // 3,
    )
    return sets, utilities, truth, chosen, weight, mask


def split(theta, q=2, r=2, d=2):
    return theta[:q], theta[q : q + r], theta[q + r : q + r + d * q].reshape(d, q)


def numerical(f, theta, step=1e-5):
    eye = np.eye(len(theta)) * step
    return np.array([(f(theta + e) - f(theta - e)) / (2 * step) for e in eye])
