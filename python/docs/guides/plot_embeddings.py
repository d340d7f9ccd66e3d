"""Faces and other embeddings
==========================

A network has turned each picture into a vector, and there are thousands of people to tell apart. Rows are dense, and
classes outnumber features. The vectors are drawn here: 5,000 people, five pictures of each, 64 numbers a picture.
Where the environment variable ``MANYCLASS_DATA`` names a folder with the set ``omniglot``, they are 32,460 pictures of
1,623 handwritten characters by twenty people each, and 64 principal components stand for the network.
"""

# %%
# Vectors
# -------

import os
import time
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from manyclass import SoftmaxClassifier, SphericalClusterIndex, plot

N_PEOPLE, N_PICTURES, DIM = 5_000, 5, 64
rng = np.random.default_rng(0)
characters = Path(os.environ.get("MANYCLASS_DATA", ""), "omniglot", "omniglot28.npz")
if characters.exists():
    with np.load(characters) as kept:
        pictures = np.concatenate([kept["x_train"], kept["x_test"]]).astype(np.float32)
        who = np.concatenate([kept["y_train"], kept["y_test"]])
        new = np.arange(who.size) >= len(kept["x_train"])  # by four people of twenty, of whom fit sees nothing
    X = PCA(DIM, random_state=0).fit(pictures[~new]).transform(pictures)
else:
    faces = rng.normal(size=(N_PEOPLE, DIM))
    who = np.repeat(np.arange(N_PEOPLE), N_PICTURES)
    X = faces[who] + 1.1 * rng.normal(size=(who.size, DIM))
    new = np.arange(who.size) % N_PICTURES == 0  # one picture of each is kept for the test
X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)

# %%
# Fit
# ---
# Exact training scores all people at each picture; the default draws some of them, without bias. Vectors of length
# one need long weights before the softmax can be sure, and the automatic step size gets there slowly. For the drawn
# faces it is twenty times as large; ``learning_rate="grid"`` would try for itself, and the implicit step is stable at
# any size. Handwriting by others is far from what was seen, and the automatic step size is better there.

steps = {} if characters.exists() else {"learning_rate": 60, "max_iter": 8}
model = SoftmaxClassifier(**steps, random_state=0)
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
