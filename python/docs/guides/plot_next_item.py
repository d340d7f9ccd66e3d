"""The next item
=============

What will a visitor open, buy or listen to next, given what they had before? Items are classes, and there are many of
them. A row has a one for each item of the visitor's past; the label is the next item. The visits are drawn here:
3,000 items in 60 groups, popular and rare ones, of which a visitor follows two.
"""

# %%
# Visits
# ------

import numpy as np
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, plot
from manyclass.metrics import top_k_accuracy

N_ITEMS, N_GROUPS, N_VISITORS, PAST = 3_000, 60, 30_000, 8
rng = np.random.default_rng(0)
popularity = 1 / (1 + rng.permutation(N_ITEMS)) ** 0.8
group_of = rng.integers(N_GROUPS, size=N_ITEMS)
members = [np.flatnonzero(group_of == g) for g in range(N_GROUPS)]
shares = [popularity[some] / popularity[some].sum() for some in members]

visits = np.empty((N_VISITORS, PAST + 1), dtype=np.int64)
for row in visits:
    likes = rng.choice(N_GROUPS, size=2, replace=False)
    for place in range(PAST + 1):
        group = likes[rng.integers(2)]
        row[place] = rng.choice(members[group], p=shares[group])

past, following = visits[:, :-1], visits[:, -1]
rows = np.repeat(np.arange(N_VISITORS), PAST)
X = sp.csr_array((np.ones(rows.size, np.float32), (rows, past.ravel())), shape=(N_VISITORS, N_ITEMS))
train, test = np.arange(N_VISITORS) < 27_000, np.arange(N_VISITORS) >= 27_000

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

popular = np.bincount(following[train], minlength=N_ITEMS).argsort()[::-1][:20]
best, _ = model.predict_top_k(X[test], 20)
k = (1, 5, 20)
print("items  ", k)
print("model  ", top_k_accuracy(following[test], best, k=k).round(3))
print("popular", top_k_accuracy(following[test], np.tile(popular, (test.sum(), 1)), k=k).round(3))

# %%
# Not what they have already
# --------------------------
# A shop does not offer what the visitor has just bought: ``exclude`` takes the labels, or a matrix, of what a row is
# not to get.

offered, _ = model.predict_top_k(X[test][:3], 5, exclude=list(past[test][:3]))
for had, items in zip(past[test], offered, strict=False):
    print(f"had {sorted(set(had.tolist()))}: offer {items.tolist()}")
