"""Tags for texts
==============

Each text gets the tags that fit it: subjects for a title, labels for a ticket. The texts here are the descriptions of
some 2,000 functions of NumPy, SciPy and scikit-learn, which are on every machine that has manyclass; their tags are
the package and the module that a function belongs to. Where the environment variable ``MANYCLASS_DATA`` names a folder
with the set ``annif-yso``, they are library titles, and the tags the fifty subjects that are given most often.
"""

# %%
# Texts and tags
# --------------
# A title has its subjects behind tabs. Of a function's description these are the words, without its name and without
# those of its module.

import importlib
import inspect
import lzma
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MultiLabelBinarizer

from manyclass import SoftmaxClassifier, plot
from manyclass.metrics import ndcg_at_k, precision_at_k

MODULES = """
numpy numpy.fft numpy.linalg numpy.random scipy.cluster.hierarchy scipy.fft scipy.integrate scipy.interpolate
scipy.linalg scipy.ndimage scipy.optimize scipy.signal scipy.sparse scipy.sparse.linalg scipy.spatial scipy.special
scipy.stats sklearn.cluster sklearn.datasets sklearn.decomposition sklearn.ensemble sklearn.feature_selection
sklearn.linear_model sklearn.metrics sklearn.model_selection sklearn.preprocessing
""".split()  # noqa: SIM905


def descriptions_of(name):
    """The words that describe each function of a module."""
    module = importlib.import_module(name)
    for attribute, thing in sorted(vars(module).items()):
        text = getattr(thing, "__doc__", None) or ""
        if len(text) >= 200 and not attribute.startswith("_") and not inspect.ismodule(thing):
            words = [w for w in re.findall("[a-z]{3,}", text.lower()) if w not in name and w != attribute.lower()]
            yield " ".join(words[:60])


titles = Path(os.environ.get("MANYCLASS_DATA", ""), "annif-yso")
if titles.is_dir():
    vocabulary = (titles / "vocabulary.tsv").read_text("utf-8").splitlines()
    subject = {uri: name.strip() for uri, _, name in (line.partition("\t") for line in vocabulary)}
    lines = lzma.decompress((titles / "train.tsv.xz").read_bytes()).decode().splitlines()
    given = {text: uris.split() for text, _, uris in (line.partition("\t") for line in lines)}
    usual = {tag for tag, _ in Counter(tag for some in given.values() for tag in some).most_common(50)}
    kept = {text: sorted(usual.intersection(some)) for text, some in given.items()}
    tags_of = {text: [subject[uri] for uri in some] for text, some in kept.items() if some}
else:
    tags_of = {text: [name.partition(".")[0], name] for name in MODULES for text in descriptions_of(name)}
texts, tags = list(tags_of), list(tags_of.values())

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
# For several labels a row the default is weights on pairs of a word and a tag, and embeddings. Where probabilities are
# not needed :class:`~manyclass.MarginClassifier` ranks about as well (:doc:`/choose` has the table on real data).
# ``predict_top_k`` gives the columns of the best tags; precision at k is the share of right ones among the first k.

model = SoftmaxClassifier(random_state=0).fit(X_train, Y_train)
ranked, scores = model.predict_top_k(X_test, 3)
print("precision at 1, 2, 3:", precision_at_k(Y_test.tocsr(), ranked, k=(1, 2, 3)).round(3))
print("nDCG at 3:           ", round(ndcg_at_k(Y_test.tocsr(), ranked, k=3), 3))
for text, row in zip(texts_test[:3], ranked, strict=False):
    print(f"{', '.join(binarizer.classes_[row])}  <-  {text[:70]}")

# %%
# One tag a text, with probabilities
# ----------------------------------
# Where a text has exactly one label, here the last of its tags, :class:`~manyclass.SoftmaxClassifier` gives
# probabilities that sum to one, exact over all labels. Whether they can be believed is what a reliability diagram
# tells.

y_train, y_test = (np.array([several[-1] for several in some]) for some in (tags_train, tags_test))
softmax = SoftmaxClassifier(random_state=0).fit(X_train, y_train)
found = softmax.evaluate(X_test, y_test)
print(
    {name: round(value, 3) for name, value in found.items()},
    "; at random, the log-loss is",
    np.log(softmax.classes_.size).round(3),
)
reliability = plot.reliability_diagram(softmax, X_test, y_test)

# %%
# Which tags are taken for each other
# -----------------------------------

confusion = plot.confusion(softmax, X_test, y_test, n_classes=8)

# %%
# On the command line
# -------------------
# A file with a text a line, its tags behind a tab, needs no Python; the model keeps what it counted::
#
#     manyclass fit texts.tsv --text --labels all --output model.safetensors --test test.tsv
#     manyclass predict model.safetensors new.txt --text -k 5
