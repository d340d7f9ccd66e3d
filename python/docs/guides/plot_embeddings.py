"""Faces and other embeddings
==========================

A network has turned each picture into a vector, and there are thousands of people to tell apart. Rows are dense, and
classes outnumber features. The vectors are drawn here: 5,000 people, five pictures of each, 64 numbers a picture.

In short, with your data in the place of those below::

    model = SoftmaxClassifier(random_state=0).fit(X, who)  # a row of numbers for each picture
    who_it_is, log_probabilities = model.predict_top_k(X[:5], 3)
"""

# %%
# Vectors
# -------

import time

import numpy as np

from manyclass import SoftmaxClassifier, SphericalClusterIndex, plot

N_PEOPLE, N_PICTURES, DIM = 5_000, 5, 64
rng = np.random.default_rng(0)
faces = rng.normal(size=(N_PEOPLE, DIM))
who = np.repeat(np.arange(N_PEOPLE), N_PICTURES)
X = faces[who] + 1.1 * rng.normal(size=(who.size, DIM))
new = np.arange(who.size) % N_PICTURES == 0  # one picture of each is kept for the test
X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)

# %%
# Fit
# ---
# Nothing has to be set. Where dense rows have many classes, ``"auto"`` tries whether to begin at the closed form of
# linear discriminant analysis, which a few steps then better; ``auto_report_`` tells what it tried.

model = SoftmaxClassifier(random_state=0)
begin = time.process_time()
model.fit(X[~new], who[~new])
print(f"{time.process_time() - begin:.1f} s of processor time, {model.resolved_params_['solver']}")
print({name: round(value, 3) for name, value in model.evaluate(X[new], who[new]).items()})

# %%
# Can the probabilities be believed?
# ----------------------------------

reliability = plot.reliability_diagram(model, X[new], who[new], n_bins=12)

# %%
# Search instead of scoring everybody
# -----------------------------------
# From some thousand classes on, an index of the weights finds the best ones without scoring all. The answer is checked
# while it works: ``recall`` is the share of the true best that it must find. With fewer than 4,096 classes all are
# scored in any case.

exact, _ = model.predict_top_k(X[new], 5)
found, log_probabilities, std = model.predict_top_k(X[new], 5, approximate=True, recall=0.95, return_std=True)
shared = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(exact.tolist(), found.tolist(), strict=True)])
print(f"found {100 * shared:.1f} % of the five most probable people of each picture")

# %%
# Look somebody up without training
# ---------------------------------
# The index works on any vectors: here on the pictures themselves, nearest by inner product.

index = SphericalClusterIndex(random_state=0).fit(X[~new])
similarity, nearest = index.query(X[new][:1000], 1)
print(f"nearest picture shows the same class: {np.mean(who[~new][nearest[:, 0]] == who[new][:1000]):.3f}")
