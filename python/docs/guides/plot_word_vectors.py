"""Word vectors
============

Words that stand in the same places get vectors that point the same way (word2vec's skip-gram). The text is the
documentation of NumPy, SciPy and scikit-learn, which is on every machine that has manyclass: about a tenth of what
word vectors need to be good, and enough to see them work.

In short, with your data in the place of those below::

    model = SkipGram(50, random_state=0).fit(sentences)  # lists of words
    model.most_similar("matrix", topn=5)
"""

# %%
# Sentences
# ---------
# One a line, words between spaces.

import importlib
import re

import numpy as np
from matplotlib.figure import Figure
from sklearn.decomposition import PCA

from manyclass import SkipGram, plot

MODULES = """
numpy numpy.fft numpy.linalg numpy.random scipy.fft scipy.integrate scipy.interpolate scipy.linalg scipy.ndimage
scipy.optimize scipy.signal scipy.sparse scipy.spatial scipy.special scipy.stats sklearn.cluster
sklearn.decomposition sklearn.ensemble sklearn.linear_model sklearn.metrics sklearn.model_selection
sklearn.preprocessing
""".split()


def documentation():
    """The sentences of what the modules say of themselves."""
    found = set()
    for name in MODULES:
        for thing in vars(importlib.import_module(name)).values():
            members = vars(thing).values() if isinstance(thing, type) else []
            found |= {part.__doc__ for part in (thing, *members) if isinstance(getattr(part, "__doc__", None), str)}
    return re.split(r"[.:]\s", " ".join(sorted(found)).lower())


sentences = [words for part in documentation() if len(words := re.findall("[a-z]+", part)) > 3]
print(f"{sum(map(len, sentences)):,} words in {len(sentences):,} sentences")

# %%
# Train
# -----
# The Huffman tree is the objective that does best on little text (`bench/decisions.md` has the measurements).

model = SkipGram(50, window=5, min_count=10, objective="hierarchical", sample=1e-3, max_iter=3, random_state=0)
model.fit(sentences)
for word in ("matrix", "float", "cluster", "probability"):
    print(f"{word:12}", ", ".join(f"{near} {cosine:.2f}" for near, cosine in model.most_similar(word, topn=5)))

# %%
# Keep and exchange
# -----------------
# ``save_word2vec`` writes the format of word2vec, which gensim and others read; ``transform`` gives the vectors of
# words as rows for another model.

print(np.round(model.similarity("row", "column"), 2), np.round(model.similarity("row", "beta"), 2))
print("not like the others:", model.doesnt_match(["gamma", "normal", "poisson", "matrix"]))
vectors = model.transform(["row", "column"])
print(vectors.shape, vectors.dtype)

# %%
# A map
# -----
# The two directions in which these words differ most.

groups = ("gamma normal poisson uniform", "row column matrix diagonal", "cluster neighbors centroid distance")
words = [word for group in groups for word in group.split() if word in model]
places = PCA(2).fit_transform(model[words])
figure = Figure(figsize=(6.4, 4))
axes = figure.subplots()
axes.scatter(*places.T, color="w")
for word, place in zip(words, places, strict=True):
    axes.annotate(word, place, ha="center", color=f"C{[word in group.split() for group in groups].index(True)}")
axes.set_axis_off()
picture = plot.Picture(
    figure, "A map of words: names of distributions, words of matrices and words of clustering apart"
)

# %%
# On the command line::
#
#     manyclass skipgram text.txt --output vectors.bin --objective hierarchical
#     manyclass neighbours vectors.bin matrix
