"""Learn every day
===============

Yesterday's model meets today's rows: visitors want other things, and new items come. ``partial_fit`` trains on with the
new rows alone, and labels that it has never seen become classes. Here a shop is drawn that opens with 850 items and
takes in ten new ones a day, while tastes drift.

In short, with your data in the place of those below::

    model = SoftmaxClassifier(random_state=0).fit(X, y)
    for X_today, y_today in days:
        model.partial_fit(X_today, y_today)
"""

# %%
# A shop that changes
# -------------------

from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, plot
from manyclass.datasets import Stream
from manyclass.metrics import prequential

N_ITEMS, N_NEW, N_GROUPS, A_DAY, PAST, DAYS = 1_000, 10, 40, 2_000, 6, 15
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
# On the day of the opening. Columns of X are there for items to come; a text's words would be hashed into columns.

n_items = N_ITEMS - N_NEW * DAYS
X, y = opening = a_day(n_items)
fixed = SoftmaxClassifier(random_state=0).fit(X, y)
daily, forgetful = deepcopy(fixed), deepcopy(fixed)

# %%
# Day by day
# ----------
# Each day's rows are predicted first and learnt afterwards, so that each loss is one on rows never seen: the
# prequential log-loss. A row whose item a model does not know is charged the logarithm of the number of its classes, so
# that the losses of all models are of all rows; ``unseen="drop"`` would leave such rows out.
#
# With ``half_life`` old rows fade: here a row counts half when three days have passed.

days = []
for _ in range(DAYS):
    taste += 0.05 * rng.normal(size=N_ITEMS)
    n_items += N_NEW
    days.append(a_day(n_items))


def all_rows_loss(model, X, y):
    """The log-loss with the charge for items that the model does not know."""
    found = model.evaluate(X, y)
    unknown = found["n_unseen"] / len(y)
    return (1 - unknown) * found["log_loss"] + unknown * np.log(len(model.classes_))


tables = {
    "learns every day": prequential(daily, days, unseen="log_k"),
    "with a half-life": prequential(forgetful, days, unseen="log_k", half_life=3 * A_DAY),
}
losses = {"fitted once": [all_rows_loss(fixed, X, y) for X, y in days]}
losses |= {name: table["log_loss"].tolist() for name, table in tables.items()}
for name, by_day in losses.items():
    print(f"{name:>22}: {by_day[0]:.2f} nats on day 1, {by_day[-1]:.2f} on day {DAYS}")

picture = plot.loss_over_time(losses)

# %%
# Nothing was told about steps, and every day is learnt: the model that was fitted once loses .7 nats by new items and
# tastes, the one that learns every day none. It ends within .05 nats of a fit of all days but the last, which has:

past = [opening, *days[:-1]]
X, y = sp.vstack([X for X, _ in past], format="csr"), np.concatenate([y for _, y in past])
print(f"refitted on all days: {all_rows_loss(SoftmaxClassifier(random_state=0).fit(X, y), *days[-1]):.2f} nats")

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
# - Rows are visited once, or ``n_passes`` times. Where the model is linear and a row has one label, steps fall by the
#   curvature of the rows so far, so that nobody has to say how many will come. Other models go on with the schedule of
#   ``fit``. ``learning_rate`` sets a step size by hand; ``half_life`` keeps steps long enough for data that drift.
# - A model that began with ``partial_fit``, not with ``fit``, keeps its first rows, up to 128 MB, and is fitted to them
#   anew as they become more, so that it ends where ``fit`` does; ``n_kept=0`` keeps none.
# - New labels become classes in their places among the sorted ``classes_``; ``classes=`` names labels that are to come.
#   ``class_count_`` has the rows of each class so far, less what has faded.
# - ``new_features="grow"`` takes columns that come later; ``new_classes={label: vector}`` starts classes at a vector.
# - A call copies the weights, so that one that fails leaves the model as it was; give it thousands of rows and not one.
#   An iterable of parts ``(X, y)`` may stand for arrays, and ``manyclass.load(path)`` goes on where the model ended.
