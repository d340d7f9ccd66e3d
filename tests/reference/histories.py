"""The log-loss of the last items of sequences by counts of what came after what, by products of sparse matrices."""

import numpy as np
import scipy.sparse as sp


def shares(codes, begin, end, n_last, decay, n_items):
    """Rows of recency weights of the last items of codes[begin:end], which sum to 1."""
    rows = np.zeros((len(begin), n_items))
    for row, a, b in zip(rows, begin, end, strict=True):
        last = codes[a:b][::-1][:n_last]
        np.add.at(row, last, (1.0 + np.arange(len(last))) ** -decay)
    return rows / rows.sum(axis=1, keepdims=True)


def log_losses(codes, starts, n_last, n_items, decays, most_told, most_counted, shrinkage):
    """The log-loss of each decay."""
    long = np.flatnonzero(np.diff(starts) >= 3)
    told = long[np.arange(most_told) * (len(long) - 1) // (most_told - 1)]
    last = starts[told + 1] - 1
    sequence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    counted = np.arange(len(codes)) > starts[sequence]
    counted[last] = False
    at = np.flatnonzero(counted)
    at = at[sequence[at] % (1 + len(at) // most_counted) == 0]
    prior = np.bincount(codes[at], minlength=n_items) + 0.1
    prior = prior / prior.sum()
    labels = sp.csr_array((np.ones(len(at)), (np.arange(len(at)), codes[at])), shape=(len(at), n_items)).toarray()
    losses = []
    for decay in decays:
        C = shares(codes, starts[sequence[at]], at, n_last, decay, n_items).T @ labels
        totals = C.sum(axis=1)
        a = shares(codes, starts[told], last, n_last, decay, n_items) / (totals + shrinkage)
        p = (a * C[:, codes[last]].T).sum(axis=1) + (1 - a @ totals) * prior[codes[last]]
        losses.append(-np.log(p).mean())
    return losses
