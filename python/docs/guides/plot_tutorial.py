"""Tutorial: a model of 1,700 classes, from data to a service
===========================================================

Half an hour, one data set, from its first line to answers over HTTP. Somebody writes what a function should do, and is
told which of NumPy, SciPy and scikit-learn does it. Each function is a class, each sentence of its documentation a row;
all of it is on every machine that has manyclass.

In short, with your data in the place of those below::

    model = SoftmaxClassifier(random_state=0).fit(train, y)
    model.evaluate(test, y_test)
    model.predict_top_k(["eigenvalues of a symmetric matrix"], 3)
"""

# %%
# 1. The data
# -----------
# A text and a label a row. Sentences of less than 40 letters say little, and lines of examples are no sentences.

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from re import split

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from manyclass import SoftmaxClassifier, load, plot

MODULES = "numpy numpy.linalg scipy.linalg scipy.ndimage scipy.optimize scipy.signal scipy.special scipy.stats"


def sentences_of(modules):
    """Pairs of a sentence and the function that it describes, sorted, so that every run has the same."""
    pairs = set()
    for module in modules.split():
        for name, thing in vars(import_module(module)).items():
            sentences = split(r"[.:]\s", getdoc(thing) or "")
            pairs |= {(text, name) for text in sentences if len(text) > 40 and ">>>" not in text}
    return sorted(pairs)


texts, functions = zip(*sentences_of(MODULES + " sklearn.metrics"), strict=True)
train, test, y, y_test = train_test_split(texts, functions, test_size=0.2, random_state=0)
print(f"{len(train):,} sentences of {len(set(y)):,} functions, and {len(test):,} to test. One of them:")
print(f"{y[7]}: {train[7][:80]!r}")

# %%
# 2. A first fit
# --------------
# Texts go in as they are. Nothing has to be set: rows held out say how much each of several models counts.

begin = time.process_time()
model = SoftmaxClassifier(random_state=0).fit(train, y)
print(f"{time.process_time() - begin:.0f} s of processor time")
print(model.auto_report_)

# %%
# 3. How good is it?
# ------------------
# ``evaluate`` is exact, over all classes. ``log_loss`` is the mean of -log p of the right function: e to its power says
# among how many equally likely functions one would be as unsure. ``error`` is the share that is not named first,
# ``top5_error`` the share not among the best five; ``n_unseen`` rows have functions without a row in ``train``, and are
# left out. Many sentences, such as those on ``axis``, stand in dozens of functions, so that nobody can be right often.
# Naive Bayes, which takes a second, is what has to be beaten.

found = model.evaluate(test, y_test)
print({name: round(value, 3) for name, value in found.items()})
print(f"as unsure as among {np.exp(found['log_loss']):.0f} of {len(model.classes_):,} functions")
naive = make_pipeline(TfidfVectorizer(), MultinomialNB(alpha=0.03)).fit(train, y)
known = np.isin(y_test, naive.classes_)
rows, names = np.array(test)[known], np.array(y_test)[known]
nats = log_loss(names, naive.predict_proba(rows), labels=naive.classes_)
print(f"naive Bayes: log_loss {nats:.3f}, error {1 - naive.score(rows, names):.3f}")

# %%
# Can the probabilities be believed? Of the answers that are said to be right with .6, six of ten should be.

reliability = plot.reliability_diagram(model, test, y_test)

# %%
# 4. Ask, and ask why
# -------------------
# ``predict_top_k`` gives the best labels with the logarithms of their probabilities, ``explain`` what each word adds to
# the score of a label, and ``top_features`` the words that speak for a label anywhere.

question = "eigenvalues of a symmetric matrix"
labels, log_p = model.predict_top_k([question], 5)
print(question, "->", ", ".join(f"{name} {p:.2f}" for name, p in zip(labels[0], np.exp(log_p[0]), strict=True)))
(why,) = model.explain([question], 4)
print(f"{why.label}:", ", ".join(f"{word} {w:+.1f}" for word, w in zip(why.features, why.contributions, strict=True)))
print("words for ttest_ind:", ", ".join(model.top_features("ttest_ind", 5)[0]))

# %%
# 5. A list that surely has it
# ----------------------------
# Rows that were not trained on tell how long a list has to be to have the right function nine times of ten. The share
# holds whatever the model is worth; the worse it is, the longer are the lists.

half = len(test) // 2
model.calibrate_sets(test[:half], y_test[:half], 0.9)
sets = model.predict_set(test[half:], 0.9)
holds = np.mean([name in some for name, some in zip(y_test[half:], sets, strict=True)])
sizes = np.array([len(some) for some in sets])
print(f"{holds:.3f} of the lists have the right function; {np.median(sizes):.0f} functions in the median list")

# %%
# 6. Learn something new
# ----------------------
# Next month scikit-learn's module of clustering comes in. ``partial_fit`` trains on with the new rows alone, and labels
# that it has never seen become classes.

new, late, of_new, of_late = train_test_split(*zip(*sentences_of("sklearn.cluster"), strict=True), random_state=0)
before = len(model.classes_)
model.partial_fit(new, of_new)
print(f"{before:,} functions before, {len(model.classes_):,} now; on new sentences of the late ones:")
print({name: round(value, 3) for name, value in model.evaluate(late, of_late).items()})

# %%
# 7. Keep it, and serve it
# ------------------------
# A file holds the model with its words and labels, and ``compress`` rounds the weights. The command answers lines of a
# file, or clients over HTTP (:doc:`/serving`).

folder = Path(tempfile.mkdtemp())
model.save(folder / "functions.model")
small = load(folder / "functions.model").compress("int8")
small.save(folder / "small.model")
print({path.name: f"{path.stat().st_size / 1e6:.0f} MB" for path in sorted(folder.iterdir())})

(folder / "questions.txt").write_text("area under the curve\nfind the roots of a polynomial\n")
predict = [sys.executable, "-m", "manyclass", "predict", "small.model", "questions.txt", "-k", "3"]
print(subprocess.run(predict, cwd=folder, capture_output=True, text=True, check=True).stdout)

serve = [sys.executable, "-m", "manyclass", "serve", "small.model", "--port", "0"]
with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
    address = server.stdout.readline().split()[-1]
    body = json.dumps({"row": "solve a linear system", "k": 2}).encode()
    request = urllib.request.Request(f"{address}/predict", body, {"Content-Type": "application/json"})
    print(json.load(urllib.request.urlopen(request)))
    server.terminate()

# %%
# 8. Where to go
# --------------
# Your own file, a text, a tab and its label a line, needs no Python: ``manyclass fit FILE --text --output my.model``.
# Several tags a text are in :doc:`plot_tags_for_texts`; :doc:`/choose` has what else rows can be, :doc:`/default` what
# was trained here, and :doc:`/results` what was measured beside other packages.
