"""The next item
=============

What will a visitor open, buy or listen to next, given what they had before? Items are classes, and there are many of
them. A shop has a log: who took which item, and when. Each beginning of a visitor's history becomes a row, in which the
last items weigh the most, and the item that came next its label. The log is drawn here: 1,000 items in 30 groups,
popular and rare ones, of which a visitor follows two, moving from one to the other; every tenth item is one that the
visitor has had before.
"""

# %%
# A log
# -----

import numpy as np

from manyclass import SoftmaxClassifier, models, plot
from manyclass.datasets import SequenceEncoder
from manyclass.metrics import coverage_at_k, mrr_at_k, top_k_accuracy

N_ITEMS, N_GROUPS, N_VISITORS, LENGTH = 1_000, 30, 2_000, 10
CHANGES, REPEATS = 0.2, 0.1  # how often a visitor goes over to the other group, and takes an item again


def drawn_log():
    """Columns of a log: visitors, items, and the day on which a visitor took an item."""
    rng = np.random.default_rng(0)
    popularity = 1 / (1 + rng.permutation(N_ITEMS)) ** 0.8
    group_of = rng.integers(N_GROUPS, size=N_ITEMS)
    members = [np.flatnonzero(group_of == g) for g in range(N_GROUPS)]
    shares = [popularity[some] / popularity[some].sum() for some in members]
    visitors, items = np.repeat(np.arange(N_VISITORS), LENGTH), np.empty((N_VISITORS, LENGTH), dtype=np.int64)
    for had in items:
        likes = rng.choice(N_GROUPS, size=2, replace=False)
        for place in range(LENGTH):
            if rng.random() < CHANGES:
                likes = likes[::-1]
            again = place > 0 and rng.random() < REPEATS
            had[place] = rng.choice(had[:place]) if again else rng.choice(members[likes[0]], p=shares[likes[0]])
    order = rng.permutation(visitors.size)  # a log is not sorted by visitor
    names = np.array([f"item-{number:04d}" for number in range(N_ITEMS)])
    return visitors[order], names[items.ravel()][order], np.tile(np.arange(LENGTH), N_VISITORS)[order]


visitors, items, days = drawn_log()
histories, _ = SequenceEncoder.sequences_of(visitors, items, days)
print(f"{len(histories)} visitors; the first one took {', '.join(histories[0][:4])}, ...")

# %%
# Rows and labels
# ---------------
# The last item of each visitor is for the test. Of the items before, each beginning is a row; labels are the columns of
# the items, which ``encoder.items_`` names.

earlier = [history[:-1] for history in histories]
encoder = SequenceEncoder().fit(earlier)
rows = encoder.next_items(earlier)
last = np.array([history[-1] for history in histories])
known = np.isin(last, encoder.items_)  # an item that nobody took before cannot be predicted, and counts as wrong
truth = np.where(known, np.searchsorted(encoder.items_, last) % len(encoder.items_), len(encoder.items_))
print(f"{rows.X.shape[0]} rows of {rows.X.shape[1]} items")

# %%
# Fit
# ---
# A hybrid adds weights of pairs of items to embeddings, and mixes in counts of what came after each item, and a share
# of repeats, as far as rows left out of training say so: see ``help(manyclass.models.Hybrid)``.

model = SoftmaxClassifier(model=models.Hybrid(), random_state=0).fit(rows.X, rows.y)
curve = plot.learning_curve(model)

# %%
# Beside the most popular items
# -----------------------------
# A model of what comes next has to beat "what everybody takes".

X_test = encoder.transform(earlier)
popular = np.bincount(rows.y).argsort()[::-1][:20]
best, _ = model.predict_top_k(X_test, 20)
k = (1, 5, 20)
for name, ranked in (("model", best), ("popular", np.tile(popular, (len(truth), 1)))):
    hits, mrr = top_k_accuracy(truth, ranked, k=k), mrr_at_k(truth[:, np.newaxis].tolist(), ranked, k=20)
    shown = coverage_at_k(ranked, len(encoder.items_), 20)
    print(f"{name}: hits in {k} {hits.round(3)}, reciprocal rank {mrr:.3f}, share of the items shown {shown:.2f}")

# %%
# Not what they have already
# --------------------------
# A shop that does not offer what the visitor has says so: ``exclude="seen"``.

offered, log_probabilities = model.predict_top_k(X_test[:3], 3, exclude="seen")
for had, places, how in zip(earlier, offered, np.exp(log_probabilities), strict=False):
    print(f"had {', '.join(had[-3:])}: offer", ", ".join(encoder.items_[places]), how.round(3))

# %%
# Tomorrow
# --------
# What was taken today is learnt by ``partial_fit``, which counts on. A row has what the visitor took before, and with
# ``n_first`` only what came today is a label.

today = [np.append(history[-5:], history[-1]) for history in histories[:200]]
new = encoder.next_items(today, n_first=5)
model.partial_fit(new.X, new.y)
print(f"learnt from {len(new.y)} more rows; {len(model.classes_)} items may come next")
