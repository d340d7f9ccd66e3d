"""The next item
=============

What will a visitor open, buy or listen to next, given what they had before? Items are classes, and there are many of
them. A shop has a log: who took which item, and when. Each beginning of a visitor's history becomes a row, in which the
last items weigh the most, and the item that came next its label. The log is drawn here: 1,000 items in 30 groups,
popular and rare ones, of which a visitor follows two, moving from one to the other; every tenth item is one that the
visitor has had before.

In short, with your data in the place of those below::

    histories, _ = SequenceEncoder.sequences_of(visitors, items, days)  # three columns of a log
    model = SoftmaxClassifier(random_state=0).fit(histories, vectorizer=SequenceEncoder())
    model.predict_top_k(histories[:3], 5, exclude="seen")
"""

# %%
# A log
# -----

import csv
import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from manyclass import SoftmaxClassifier, load, plot
from manyclass.datasets import SequenceEncoder
from manyclass.metrics import coverage_at_k, mrr_at_k, top_k_accuracy

N_ITEMS, N_GROUPS, N_VISITORS, LENGTH = 1_000, 30, 1_000, 10
CHANGES, REPEATS = 0.2, 0.1  # how often a visitor goes over to the other group, and takes an item again


def drawn_log():
    """Events of a log by day: a visitor, an item, and the day on which the visitor took it."""
    rng = np.random.default_rng(0)
    popularity = 1 / (1 + rng.permutation(N_ITEMS)) ** 0.8
    group_of = rng.integers(N_GROUPS, size=N_ITEMS)
    members = [np.flatnonzero(group_of == g) for g in range(N_GROUPS)]
    shares = [popularity[some] / popularity[some].sum() for some in members]
    items = np.empty((N_VISITORS, LENGTH), dtype=np.int64)
    for had in items:
        likes = rng.choice(N_GROUPS, size=2, replace=False)
        for place in range(LENGTH):
            if rng.random() < CHANGES:
                likes = likes[::-1]
            again = place > 0 and rng.random() < REPEATS
            had[place] = rng.choice(had[:place]) if again else rng.choice(members[likes[0]], p=shares[likes[0]])
    days = [f"2026-03-{day + 1:02d}" for day in range(LENGTH)]
    return [(f"v{v:04d}", f"item-{had[day]:04d}", days[day]) for day in range(LENGTH) for v, had in enumerate(items)]


folder = Path(tempfile.mkdtemp())
with open(folder / "log.csv", "w", newline="") as file:
    csv.writer(file).writerows([("visitor", "item", "day"), *drawn_log()])

with open(folder / "log.csv", newline="") as file:
    log = list(csv.DictReader(file))
visitors, items, days = ([event[name] for event in log] for name in ("visitor", "item", "day"))
histories, _ = SequenceEncoder.sequences_of(visitors, items, np.array(days, dtype="M8[D]"))
print(f"{len(histories)} visitors; the first one took {', '.join(histories[0][:4])}, ...")

# %%
# Fit
# ---
# The last item of each visitor is for the test. Each beginning of what came before is a row, by an encoder that the
# model keeps; a trial tells how fast older items fade. A hybrid adds weights of pairs of items to embeddings, and
# counts and repeats where rows left out gain by them: :class:`~manyclass.models.Hybrid`.

earlier = [history[:-1] for history in histories]
last = np.array([history[-1] for history in histories])
model = SoftmaxClassifier(model="hybrid", random_state=0).fit(earlier, vectorizer=SequenceEncoder())
encoder = model.vectorizer_
print(f"{len(model.classes_)} items may come next; the last {encoder.n_last_} count, by a decay of {encoder.decay_}")

# %%
# Beside the most popular items
# -----------------------------
# A model of what comes next has to beat "what everybody takes".

taken = np.concatenate([history[1:] for history in earlier])
names, counts = np.unique(taken, return_counts=True)
popular = names[counts.argsort()[::-1][:20]]
best, _ = model.predict_top_k(earlier, 20)
k = (1, 5, 20)
figure = Figure(figsize=(6.4, 3.6), layout="constrained")
axes = figure.subplots()
for name, ranked in (("model", best), ("popular", np.tile(popular, (len(last), 1)))):
    hits, mrr = top_k_accuracy(last, ranked, k=k), mrr_at_k(last[:, np.newaxis].tolist(), ranked, k=20)
    shown = coverage_at_k(ranked, len(names), 20)
    axes.plot(k, hits, "-o", label=name)
    print(f"{name}: hits in {k} {hits.round(3)}, reciprocal rank {mrr:.3f}, share of the items shown {shown:.2f}")

axes.set(xlabel="items that are shown", ylabel="share of visitors whose next item is among them", ylim=(0, None))
axes.legend(frameon=False)
picture = plot.Picture(
    figure, "Lines of hits among the first 1, 5 and 20 items: the model's is far above that of the popular"
)

# %%
# As others report it
# -------------------
# ``evaluate`` has the measures of recommenders at each k, here without what a visitor has had, where a last item that
# no fit has seen is a miss. This split is leave-one-out. By time, fit to the events before a day and ask for those
# after it (``--since``); by session, ``sequences_of(..., gap=1800)`` makes a history of each visit.

for name, value in model.evaluate(earlier, last, k=10, exclude="seen", unseen="wrong").items():
    print(f"{name} {value:.3f}")

# %%
# Not what they have already
# --------------------------
# A shop that does not offer what the visitor has says so: ``exclude="seen"``.

offered, log_probabilities = model.predict_top_k(earlier[:3], 3, exclude="seen")
for had, found, how in zip(earlier, offered, np.exp(log_probabilities), strict=False):
    print(f"had {', '.join(had[-3:])}: offer", ", ".join(found), how.round(3))

# %%
# What is in stock alone, or the candidates of another model for each visitor, are ranked by ``among``.

in_stock = model.classes_[::10]
offered, _ = model.predict_top_k(earlier[:3], 3, among=in_stock, exclude="seen")
print("of", len(in_stock), "items in stock:", ", ".join(offered[0]))

# %%
# More of the same, and what nobody has had yet
# ---------------------------------------------
# ``similar`` compares items by their vectors in the model. An item that nobody has taken is no class; features of items
# make it one, beside the histories, and as rows of ``class_text`` for all items, the new ones too:
#
# .. code-block:: python
#
#    rows = encoder.next_items(earlier)
#    X = sp.hstack([rows.X, rows.X @ features])  # a row of features for each of encoder.items_
#    of_items = sp.hstack([sp.csr_array((len(all_items), len(encoder.items_))), all_features])
#    SoftmaxClassifier().fit(X.tocsr(), encoder.items_[rows.y], class_text=(all_items, of_items.tocsr()))

print("like", model.classes_[0], "are", ", ".join(model.similar(model.classes_[0], 3)[0][0]))

# %%
# The same from the command line, and every day
# ---------------------------------------------
# The command reads the log itself. ``--since`` leaves out the last day and later evaluates and learns just that:
# ``learn`` scores it first (``--prequential``), then trains on; items that nobody had taken before become classes.
# What has been learnt is in the file, so that a shop runs the last command each night.


def manyclass(*words):
    """Run a command in the folder of the log, and print what it says."""
    command = [sys.executable, "-m", "manyclass", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    print(f"$ manyclass {' '.join(words)}\n{done.stdout}")


until_yesterday = ("--since", "2026-03-10", "--output", "log.model")
manyclass("fit", "log.csv", "--sequences", "visitor,item,day", "--model", "hybrid", *until_yesterday)
manyclass("learn", "log.model", "log.csv", "--since", "2026-03-10", "--prequential")

# %%
# A service
# ---------
# The server takes histories, and leaves out what each visitor has had.

serve = [sys.executable, "-m", "manyclass", "serve", "log.model", "--port", "0"]
with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
    address = server.stdout.readline().split()[-1]
    body = json.dumps({"row": earlier[0].tolist(), "k": 3, "exclude": "seen"}).encode()
    request = urllib.request.Request(f"{address}/predict", body, {"Content-Type": "application/json"})
    print(json.load(urllib.request.urlopen(request)))
    server.terminate()
# %%
# A server keeps the model that it has read. So a table of nightly commands learns the day that has ended and starts the
# service anew; a command that fails leaves the old file. In the table, ``%`` has a backslash:
#
# .. code-block:: text
#
#    1 0 * * *  manyclass learn log.model log.csv --since $(date -d yesterday +\%F) && systemctl restart items
#
# The model of the command is one of Python's, too.

print(load(folder / "log.model").predict([earlier[0]]))
