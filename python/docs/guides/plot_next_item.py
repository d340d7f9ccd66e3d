"""The next item
=============

What will a visitor open, buy or listen to next, given what they had before? Items are classes, and there are many of
them. A row has a one for each item of the visitor's past; the label is the next item. The visits are drawn here:
3,000 items in 60 groups, popular and rare ones, of which a visitor follows two. Where the environment variable
``MANYCLASS_DATA`` names a folder with the set ``toys-next``, they are 30,000 of a toy shop.
"""

# %%
# Visits
# ------

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, plot
from manyclass.datasets import first_label, load_xmc
from manyclass.metrics import top_k_accuracy

N_ITEMS, N_GROUPS, N_VISITORS, PAST = 3_000, 60, 30_000, 8


def drawn_visits():
    """Rows of past items, and the item that follows each."""
    rng = np.random.default_rng(0)
    popularity = 1 / (1 + rng.permutation(N_ITEMS)) ** 0.8
    group_of = rng.integers(N_GROUPS, size=N_ITEMS)
    likes = rng.random((N_VISITORS, N_GROUPS)).argsort(axis=1)[:, :2]
    groups = np.take_along_axis(likes, rng.integers(2, size=(N_VISITORS, PAST + 1)), axis=1)
    visits = np.empty_like(groups)
    for g in range(N_GROUPS):
        (members,) = np.nonzero(group_of == g)
        shares = popularity[members] / popularity[members].sum()
        visits[groups == g] = rng.choice(members, size=np.count_nonzero(groups == g), p=shares)
    rows = np.repeat(np.arange(N_VISITORS), PAST)
    ones = np.ones(rows.size, np.float32)
    return sp.csr_array((ones, (rows, visits[:, :-1].ravel())), shape=(N_VISITORS, N_ITEMS)), visits[:, -1]


toys = Path(os.environ.get("MANYCLASS_DATA", ""), "toys-next", "train.txt.xz")
if toys.exists():
    X, Y = load_xmc(toys)
    some = np.random.default_rng(0).permutation(X.shape[0])[:N_VISITORS]
    X, following = X[some], first_label(Y)[some]
else:
    X, following = drawn_visits()
train, test = slice(27_000), slice(27_000, None)
past = np.split(X.indices, X.indptr[1:-1])

# %%
# Fit
# ---
# With ``early_stopping`` a tenth of the visitors is held out, and the passes end where their loss does not fall any
# more.

model = SoftmaxClassifier(solver="implicit", early_stopping=True, n_iter_no_change=2, random_state=0)
model.fit(X[train], following[train])
curve = plot.learning_curve(model)

# %%
# Beside the most popular items
# -----------------------------
# A model of what comes next has to beat "what everybody takes". An item that was never seen as a next one cannot be
# predicted, and counts as wrong here.

popular = np.bincount(following[train]).argsort()[::-1][:20]
best, _ = model.predict_top_k(X[test], 20)
k = (1, 5, 20)
print("items  ", k)
print("model  ", top_k_accuracy(following[test], best, k=k).round(3))
print("popular", top_k_accuracy(following[test], np.tile(popular, (len(best), 1)), k=k).round(3))

# %%
# Not what they have already
# --------------------------
# A shop does not offer what the visitor has just bought: ``exclude`` takes the labels, or a matrix, of what a row is
# not to get. Where what a visitor has comes again never, or more often than the rest, ``model="hybrid"`` learns that
# from the data, if labels are the numbers or the names of columns: see ``help(manyclass.models.Hybrid)``.

offered, _ = model.predict_top_k(X[test][:3], 5, exclude=past[test][:3])
for had, items in zip(past[test], offered, strict=False):
    print(f"had {sorted(set(had.tolist()))}: offer {items.tolist()}")
