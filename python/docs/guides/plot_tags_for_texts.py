"""Tags for texts
==============

Each text gets the tags that fit it: subjects for a title, labels for a ticket. The texts here are the descriptions of
some 2,000 functions of NumPy, SciPy and scikit-learn, which are on every machine that has manyclass; their tags are
the package and the module that a function belongs to.
"""

# %%
# Texts and tags
# --------------
# The words of a function's description, without its name and without the words of its module.

import importlib
import inspect
import re

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MultiLabelBinarizer

from manyclass import MarginClassifier, SoftmaxClassifier, plot
from manyclass.metrics import ndcg_at_k, precision_at_k

MODULES = """
numpy numpy.fft numpy.linalg numpy.random scipy.cluster.hierarchy scipy.fft scipy.integrate scipy.interpolate
scipy.linalg scipy.ndimage scipy.optimize scipy.signal scipy.sparse scipy.sparse.linalg scipy.spatial scipy.special
scipy.stats sklearn.cluster sklearn.datasets sklearn.decomposition sklearn.ensemble sklearn.feature_selection
sklearn.linear_model sklearn.metrics sklearn.model_selection sklearn.preprocessing
""".split()  # noqa: SIM905

texts, tags, seen = [], [], set()
for name in MODULES:
    module = importlib.import_module(name)
    for attribute in sorted(vars(module)):
        description = getattr(vars(module)[attribute], "__doc__", None) or ""
        if (
            attribute.startswith("_")
            or inspect.ismodule(vars(module)[attribute])
            or len(description) < 200
            or description in seen
        ):
            continue
        seen.add(description)
        words = [w for w in re.findall("[a-z]{3,}", description.lower()) if w not in name and w != attribute.lower()]
        texts.append(" ".join(words[:60]))
        tags.append([name.partition(".")[0], name])

print(f"{len(texts):,} texts; one of them, with the tags {tags[700]}:")
print(texts[700][:150])

# %%
# A matrix of words and a matrix of tags
# --------------------------------------
# scikit-learn's vectorizers make the first; several tags a row are an indicator matrix, one column a tag.

texts_train, texts_test, tags_train, tags_test = train_test_split(texts, tags, test_size=0.25, random_state=0)
vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32)
X_train, X_test = vectorizer.fit_transform(texts_train), vectorizer.transform(texts_test)
binarizer = MultiLabelBinarizer(sparse_output=True)
Y_train, Y_test = binarizer.fit_transform(tags_train), binarizer.transform(tags_test)

# %%
# Fit, rank, measure
# ------------------
# For several labels a row :class:`~manyclass.MarginClassifier` ranks best (:doc:`/choose` has the table on real data).
# ``predict_top_k`` gives the columns of the best tags; precision at k is the share of right ones among the first k.

model = MarginClassifier(random_state=0).fit(X_train, Y_train)
ranked, scores = model.predict_top_k(X_test, 3)
print("precision at 1, 2, 3:", precision_at_k(Y_test.tocsr(), ranked, k=(1, 2, 3)).round(3))
print("nDCG at 3:           ", round(ndcg_at_k(Y_test.tocsr(), ranked, k=3), 3))
for text, row in zip(texts_test[:3], ranked, strict=False):
    print(f"{', '.join(binarizer.classes_[row])}  <-  {text[:70]}")

# %%
# One tag a text, with probabilities
# ----------------------------------
# Where a text has exactly one label, :class:`~manyclass.SoftmaxClassifier` gives probabilities that sum to one, exact
# over all labels. Whether they can be believed is what a reliability diagram tells.

y_train, y_test = (np.array([two[1] for two in some]) for some in (tags_train, tags_test))
softmax = SoftmaxClassifier(random_state=0).fit(X_train, y_train)
found = softmax.evaluate(X_test, y_test)
print(
    {name: round(value, 3) for name, value in found.items()},
    "; at random, the log-loss is",
    np.log(len(MODULES)).round(3),
)
reliability = plot.reliability_diagram(softmax, X_test, y_test)

# %%
# Which modules are taken for each other
# --------------------------------------

confusion = plot.confusion(softmax, X_test, y_test, n_classes=8)

# %%
# On the command line
# -------------------
# A file with a text a line, its tags behind a tab, needs no Python; the model keeps what it counted::
#
#     manyclass fit texts.tsv --text --estimator margin --output model.safetensors --test test.tsv
#     manyclass predict model.safetensors new.txt --text -k 5
