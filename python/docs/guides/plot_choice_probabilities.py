"""Choice probabilities
====================

People choose one of many alternatives, the one with the largest utility: a score that depends on what is known of
them, plus noise that is not. With Gumbel noise that is the softmax; with normal noise, multinomial probit. The
choices here are made by probit's rule, by 4,000 people among 40 alternatives, so that it is known which model is
right. Where the environment variable ``MANYCLASS_DATA`` names a folder with the set ``bibtex``, they are the first tags
that 4,880 people chose for a bookmark among 146, and nobody knows the rule.
"""

# %%
# Choices
# -------

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from manyclass import AugmentReduceClassifier, plot
from manyclass.datasets import load_multiclass
from manyclass.special import utility_probabilities

N_PEOPLE, N_ALTERNATIVES, N_FEATURES = 6_000, 40, 8
rng = np.random.default_rng(0)
bookmarks = Path(os.environ.get("MANYCLASS_DATA", ""), "bibtex")
if bookmarks.is_dir():
    data = load_multiclass(bookmarks)
    X, chosen = sp.vstack([data.X_train, data.X_test]).tocsr(), np.concatenate([data.y_train, data.y_test])
    train, test = slice(0, len(data.y_train)), slice(len(data.y_train), None)
else:
    X = rng.normal(size=(N_PEOPLE, N_FEATURES)).astype(np.float32)
    W_true = 0.5 * rng.normal(size=(N_ALTERNATIVES, N_FEATURES))
    utility = X @ W_true.T + rng.normal(size=(N_PEOPLE, N_ALTERNATIVES))
    chosen = utility.argmax(axis=1)
    train, test = slice(0, 4_000), slice(4_000, None)

# %%
# Fit both noises
# ---------------
# :class:`~manyclass.AugmentReduceClassifier` trains every noise at a cost that does not grow with the alternatives; its
# probabilities are by quadrature, exact to the digits shown.

models = {
    noise: AugmentReduceClassifier(noise=noise, max_iter=40, random_state=0).fit(X[train], chosen[train])
    for noise in ("normal", "gumbel", "logistic")
}
for noise, model in models.items():
    found = model.evaluate(X[test], chosen[test])
    print(f"{noise:8}  log-loss {found['log_loss']:.4f}  error {found['error']:.3f}")
if not bookmarks.is_dir():
    truth = utility_probabilities(X[test] @ W_true.T, noise="normal")
    print(f"the truth  log-loss {-np.log(truth[np.arange(len(truth)), chosen[test]]).mean():.4f}")

# %%
# How training went
# -----------------

curve = plot.learning_curve(models["normal"])

# %%
# What if an alternative is withdrawn?
# ------------------------------------
# That is what choice models are for. Scores stay; the probabilities of the others are computed anew.

scores = models["normal"].decision_function(X[test][:1])
first = int(scores.argmax())
before = utility_probabilities(scores, noise="normal")[0]
after = utility_probabilities(np.delete(scores, first, axis=1), noise="normal")[0]
gained = after - np.delete(before, first)
print(f"alternative {first}, with {before[first]:.3f}, is withdrawn; most goes to those with")
for place in gained.argsort()[::-1][:3]:
    print(f"  {np.delete(before, first)[place]:.3f} before, {after[place]:.3f} after")
