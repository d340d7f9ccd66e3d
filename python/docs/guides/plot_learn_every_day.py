"""Learn every day
===============

Yesterday's model meets today's rows: visitors want other things, and new items come. ``partial_fit`` trains on with the
new rows alone, and labels that it has never seen become classes. Here a shop of 2,000 items is drawn whose tastes drift
and that takes in twenty new items a day.
"""

# %%
# A shop that changes
# -------------------

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, plot
from manyclass.datasets import Stream

N_ITEMS, N_NEW, N_GROUPS, A_DAY, PAST, DAYS = 2_000, 20, 40, 2_000, 6, 15
rng = np.random.default_rng(0)
group_of = rng.integers(N_GROUPS, size=N_ITEMS)
taste = rng.normal(size=N_ITEMS)  # the log of an item's popularity


def a_day(n_items):
    """Rows of past items, and the item that follows each, of the items that are there."""
    shares = np.exp(taste[:n_items])
    members = [np.flatnonzero(group_of[:n_items] == g) for g in range(N_GROUPS)]
    visits = np.empty((A_DAY, PAST + 1), dtype=np.int64)
    for g, rows in enumerate(np.array_split(rng.permutation(A_DAY), N_GROUPS)):
        p = shares[members[g]]
        visits[rows] = rng.choice(members[g], size=(len(rows), PAST + 1), p=p / p.sum())
    rows = np.repeat(np.arange(A_DAY), PAST)
    ones = np.ones(rows.size, np.float32)
    return sp.csr_array((ones, (rows, visits[:, :-1].ravel())), shape=(A_DAY, N_ITEMS)), visits[:, -1]


# %%
# A first fit
# -----------
# On five days that have passed. Columns of X are there for items to come; a text's words would be hashed into columns.

n_items = N_ITEMS - N_NEW * DAYS
past = [a_day(n_items) for _ in range(5)]
X, y = sp.vstack([X for X, _ in past], format="csr"), np.concatenate([y for _, y in past])
fixed = SoftmaxClassifier(solver="implicit", random_state=0).fit(X, y)
daily = SoftmaxClassifier(solver="implicit", random_state=0).fit(X, y)

# %%
# Day by day
# ----------
# Each day's rows are predicted first and learnt afterwards, so that each loss is one on rows never seen: the
# prequential log-loss. Items on their first day are not predicted by either model, and left out of both losses.

losses = {"fitted once": [], "trained on every day": []}
for _ in range(DAYS):
    taste += 0.15 * rng.normal(size=N_ITEMS)
    n_items += N_NEW
    X, y = a_day(n_items)
    known = np.isin(y, fixed.classes_)
    losses["fitted once"].append(fixed.evaluate(X[known], y[known])["log_loss"])
    losses["trained on every day"].append(daily.evaluate(X[known], y[known])["log_loss"])
    daily.partial_fit(X, y, n_passes=2)

print(f"classes: {len(fixed.classes_)} at first, {len(daily.classes_)} after {DAYS} days")
print(f"rows:    {5 * A_DAY} at first, {int(daily.class_count_.sum())} in the end")
for name, by_day in losses.items():
    print(f"{name:>22}: {by_day[0]:.2f} nats on day 1, {by_day[-1]:.2f} on day {DAYS}")

picture = plot.loss_over_time(losses)

# %%
# Files larger than memory
# ------------------------
# A ``Stream`` reads files in parts, the next one while the one before is trained on. ``fit`` goes through it as often
# as through arrays, ``partial_fit`` once, and ``max_memory`` bounds what either takes. Here three days are files; a
# folder, a pattern such as ``"day-*.txt.gz"``, tables and arrays will do as well.

with TemporaryDirectory() as folder:
    for day, (X, y) in enumerate(past[:3]):
        rows = (" ".join(f"{j}:1" for j in np.unique(row.indices)) for row in (X[[i]] for i in range(A_DAY)))
        lines = [f"{A_DAY} {N_ITEMS} {N_ITEMS}", *(f"{k} {row}" for k, row in zip(y, rows, strict=True))]
        (Path(folder) / f"day-{day}.txt").write_text("\n".join(lines) + "\n")
    stream = Stream(folder, labels="first", random_state=0)
    streamed = SoftmaxClassifier(solver="implicit", random_state=0).fit(stream, max_memory="1GiB")
print(f"{stream}: {len(streamed.classes_)} classes after {streamed.n_iter_} passes")

# %%
# What a call does
# ----------------
# - Rows are visited once, or ``n_passes`` times, by the steps that ``fit`` makes. The step size is that with which the
#   schedule of ``fit`` ended, and a larger one where a call brings many rows beside those seen before;
#   ``learning_rate`` sets it by hand.
# - New labels become classes in their places among the sorted ``classes_``; ``classes=`` names labels that are to come.
#   ``class_count_`` has the rows of each class so far.
# - The whole is not redone: what only old rows told is slowly forgotten. Where a tenth of the labels comes late, the
#   model ends some hundredths of a nat above one that was trained on all rows at once, in a fifth of its time.
# - A call copies the weights, so that one that fails leaves the model as it was; give it thousands of rows and not one.
# - Any iterable of parts ``(X, y)`` can be given instead of arrays: ``model.partial_fit(parts)`` is the loop over them.
# - A saved model goes on where it ended: ``manyclass.load(path).partial_fit(X, y)``.
