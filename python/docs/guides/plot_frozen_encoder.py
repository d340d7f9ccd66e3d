"""Frozen encoders: 20 rows a class
=================================

An encoder that stays as it is has turned each text or picture into a few hundred numbers, and each class has some 20
rows. The vectors are drawn here: 100 classes, whose spread within a class is larger than between them and lies in other
directions, as that of encoders does.

In short, with your data in the place of those below::

    model = SoftmaxClassifier(random_state=0).fit(X, y)  # vectors of the encoder, and their classes
    model.predict_proba(X[:5])
"""

# %%
# Vectors
# -------

import time

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neighbors import NearestCentroid

from manyclass import SoftmaxClassifier, plot

N_CLASSES, N_ROWS, DIM = 100, 20, 384
rng = np.random.default_rng(0)
spectrum = np.arange(1, DIM + 1) ** -0.5  # the standard deviations of directions
between, within = (np.linalg.qr(rng.normal(size=(DIM, DIM)))[0] for _ in range(2))
means = (rng.normal(size=(N_CLASSES, DIM)) * spectrum) @ between
y = np.repeat(np.arange(N_CLASSES), N_ROWS + 10)
X = means[y] + 6 * (rng.normal(size=(len(y), DIM)) * spectrum) @ within
X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
new = np.arange(len(y)) % (N_ROWS + 10) >= N_ROWS

# %%
# Beside what else is tried first
# -------------------------------
# Nothing is set. Fits of a linear model and of a hidden layer to all rows but some say which of the two it is; the
# linear one begins at a discriminant that knows how few rows tell each mean, where scikit-learn's takes the means as
# they are.

models = {
    "nothing set": SoftmaxClassifier(random_state=0),
    "LogisticRegression": LogisticRegression(C=30, max_iter=300),
    "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis(),
    "NearestCentroid": NearestCentroid(),
}
for name, model in models.items():
    begin = time.process_time()
    model.fit(X[~new], y[~new])
    seconds = time.process_time() - begin
    nats = log_loss(y[new], model.predict_proba(X[new])) if hasattr(model, "predict_proba") else np.nan
    print(f"{name}: {model.score(X[new], y[new]):.3f} right, {nats:.2f} nats, {seconds:.1f} s of processor time")

# %%
# What was tried
# --------------

print(models["nothing set"].auto_report_)

# %%
# Can the probabilities be believed?
# ----------------------------------

reliability = plot.reliability_diagram(models["nothing set"], X[new], y[new], n_bins=12)
