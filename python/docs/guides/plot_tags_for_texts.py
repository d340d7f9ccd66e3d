"""Tags for texts
==============

Each text gets the tags that fit it: subjects for a title, labels for a ticket. The texts here are the descriptions of
some 2,000 functions of NumPy, SciPy and scikit-learn, which are on every machine that has manyclass; their tags are
the package and the module that a function belongs to.

In short, with your data in the place of those below::

    model = SoftmaxClassifier(random_state=0).fit(texts_train, tags_train)  # a list of tags for each text
    ranked, scores = model.predict_top_k(texts_test, 3)
    model.evaluate(texts_test, tags_test)
"""

# %%
# Texts and tags
# --------------
# Of a function's description these are the words, without its name and without those of its module.

# sphinx_gallery_thumbnail_number = 2
import importlib
import inspect
import re

import numpy as np
from sklearn.model_selection import train_test_split

from manyclass import SoftmaxClassifier, plot
from manyclass.datasets import TextVectorizer
from manyclass.metrics import ndcg_at_k, precision_at_k

MODULES = """
numpy numpy.fft numpy.linalg numpy.random scipy.cluster.hierarchy scipy.fft scipy.integrate scipy.interpolate
scipy.linalg scipy.ndimage scipy.optimize scipy.signal scipy.sparse scipy.sparse.linalg scipy.spatial scipy.special
scipy.stats sklearn.cluster sklearn.datasets sklearn.decomposition sklearn.ensemble sklearn.feature_selection
sklearn.linear_model sklearn.metrics sklearn.model_selection sklearn.preprocessing
""".split()


def descriptions_of(name):
    """The words that describe each function of a module."""
    module = importlib.import_module(name)
    for attribute, thing in sorted(vars(module).items()):
        text = getattr(thing, "__doc__", None) or ""
        if len(text) >= 200 and not attribute.startswith("_") and not inspect.ismodule(thing):
            words = [w for w in re.findall("[a-z]{3,}", text.lower()) if w not in name and w != attribute.lower()]
            yield " ".join(words[:60])


tags_of = {text: sorted({name.partition(".")[0], name}) for name in MODULES for text in descriptions_of(name)}
texts, tags = list(tags_of), list(tags_of.values())

print(f"{len(texts):,} texts; one of them, with the tags {tags[700]}:")
print(texts[700][:150])

# %%
# Several tags a text
# -------------------
# Texts go in as they are; the model counts their words, and keeps what it counted. ``vectorizer`` says how: by default
# single words, and here words of two texts or more. Several tags a row are lists, or a matrix of 0 and 1 with one
# column a tag, as scikit-learn makes it; with the names of its columns, ``(Y, names)``, classes have these names.

texts_train, texts_test, tags_train, tags_test = train_test_split(texts, tags, test_size=0.25, random_state=0)
model = SoftmaxClassifier(random_state=0).fit(texts_train, tags_train, vectorizer=TextVectorizer(min_df=2))

# %%
# Rank and measure
# ----------------
# ``predict_top_k`` gives the best tags; precision at k is the share of right ones among the first k. Where
# probabilities are not needed, :class:`~manyclass.MarginClassifier` ranks about as well (:doc:`/results`).

ranked, scores = model.predict_top_k(texts_test, 3)
print("precision at 1, 2, 3:", precision_at_k(tags_test, ranked, k=(1, 2, 3)).round(3))
print("nDCG at 3:           ", round(ndcg_at_k(tags_test, ranked, k=3), 3))
for text, best in zip(texts_test[:3], ranked, strict=False):
    print(f"{', '.join(best)}  <-  {text[:70]}")

# %%
# Why?
# ----
# What each word adds to the score of a tag, and which words speak for a tag.

(why,) = model.explain(texts_test[:1], 5)
print(why.label, dict(zip(why.features, why.contributions.round(2).tolist(), strict=True)))
print("sklearn.cluster:", ", ".join(model.top_features("sklearn.cluster", 5)[0]))

# %%
# One tag a text, with probabilities
# ----------------------------------
# Where a text has exactly one label, here the last of its tags, probabilities sum to one, exactly, over all labels.
# Whether they can be believed is what a reliability diagram tells.

y_train, y_test = (np.array([several[-1] for several in some]) for some in (tags_train, tags_test))
softmax = SoftmaxClassifier(random_state=0).fit(texts_train, y_train)
print({name: round(value, 3) for name, value in softmax.evaluate(texts_test, y_test).items()})
print("by chance, the log-loss is", np.log(softmax.classes_.size).round(3))
reliability = plot.reliability_diagram(softmax, texts_test, y_test)

# %%
# Which tags are taken for each other
# -----------------------------------

confusion = plot.confusion(softmax, texts_test, y_test, n_classes=8)

# %%
# On the command line
# -------------------
# A file with a text a line, its tags behind a tab, needs no Python::
#
#     manyclass fit texts.tsv --text --labels all --output model.safetensors --test test.tsv
#     manyclass predict model.safetensors new.txt -k 5
#     manyclass explain model.safetensors new.txt
