"""Choice probabilities
====================

People choose one of many alternatives, the one with the largest utility: a score that depends on what is known of
them, plus noise that is not. With Gumbel noise that is the softmax; with normal noise, multinomial probit. The
choices here are made by probit's rule, by 4,000 people among 40 alternatives, so that it is known which model is
right.

In short, with your data in the place of those below::

    model = AugmentReduceClassifier(noise="normal", random_state=0).fit(X, chosen)  # facts, and what was chosen
    model.predict_proba(X[:5])
"""

# %%
# Choices
# -------

# sphinx_gallery_thumbnail_number = 2
import numpy as np
from matplotlib.figure import Figure

from manyclass import AugmentReduceClassifier, plot
from manyclass.special import utility_probabilities

N_PEOPLE, N_ALTERNATIVES, N_FEATURES = 6_000, 40, 8
rng = np.random.default_rng(0)
X = rng.normal(size=(N_PEOPLE, N_FEATURES)).astype(np.float32)
W_true = 0.5 * rng.normal(size=(N_ALTERNATIVES, N_FEATURES))
utility = X @ W_true.T + rng.normal(size=(N_PEOPLE, N_ALTERNATIVES))
chosen = utility.argmax(axis=1)
train, test = slice(0, 4_000), slice(4_000, None)

# %%
# Fit three noises
# ----------------
# ``"normal"`` is multinomial probit, ``"gumbel"`` the multinomial logit, and ``"logistic"`` lies between them.
# :class:`~manyclass.AugmentReduceClassifier` trains every noise at a cost that does not grow with the alternatives; its
# probabilities are by quadrature, exact to the digits shown.

models = {
    noise: AugmentReduceClassifier(noise=noise, max_iter=40, random_state=0).fit(X[train], chosen[train])
    for noise in ("normal", "gumbel", "logistic")
}
for noise, model in models.items():
    found = model.evaluate(X[test], chosen[test])
    print(f"{noise:8}  log-loss {found['log_loss']:.4f}  error {found['error']:.3f}")
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

most = np.argsort(-after)[:8]
figure = Figure(figsize=(6.4, 3.6), layout="constrained")
axes = figure.subplots()
axes.bar(np.arange(8) - 0.2, np.delete(before, first)[most], 0.4, label="before")
axes.bar(np.arange(8) + 0.2, after[most], 0.4, label="after")
axes.set(xlabel="alternatives, the likeliest first", ylabel="probability", xticks=[])
axes.legend(frameon=False)
withdrawn = plot.Picture(
    figure, f"Bars of eight alternatives before and after alternative {first} is withdrawn: all rise"
)
