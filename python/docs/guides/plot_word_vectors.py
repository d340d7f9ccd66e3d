"""Word vectors
============

Words that stand in the same places get vectors that point the same way (word2vec's skip-gram). The text is the
documentation of NumPy, SciPy and scikit-learn, which is on every machine that has manyclass: about a tenth of what
word vectors need to be good, and enough to see them work. Where the environment variable ``MANYCLASS_DATA`` names a
folder with ``text/novels100.txt.xz``, it is as much of old novels.
"""

# %%
# Sentences
# ---------
# One a line, words between spaces.

import importlib
import lzma
import os
import re
from itertools import islice
from pathlib import Path

import numpy as np

from manyclass import SkipGram, plot

MODULES = """
numpy numpy.fft numpy.linalg numpy.random scipy.fft scipy.integrate scipy.interpolate scipy.linalg scipy.ndimage
scipy.optimize scipy.signal scipy.sparse scipy.spatial scipy.special scipy.stats sklearn.cluster
sklearn.decomposition sklearn.ensemble sklearn.linear_model sklearn.metrics sklearn.model_selection
sklearn.preprocessing
""".split()  # noqa: SIM905


def documentation():
    """The sentences of what the modules say of themselves."""
    found = set()
    for name in MODULES:
        for thing in vars(importlib.import_module(name)).values():
            members = vars(thing).values() if isinstance(thing, type) else []
            found |= {part.__doc__ for part in (thing, *members) if isinstance(getattr(part, "__doc__", None), str)}
    return re.split(r"[.:]\s", " ".join(sorted(found)).lower())


novels = Path(os.environ.get("MANYCLASS_DATA", ""), "text", "novels100.txt.xz")
if novels.exists():
    with lzma.open(novels, "rt") as lines:
        parts = list(islice(lines, 5_000))
    asked, pairs, odd = ("king", "night", "hand", "mother"), ("mother", "father", "river"), "mother father river sister"
else:
    parts = documentation()
    asked, pairs, odd = (
        ("matrix", "float", "cluster", "probability"),
        ("row", "column", "beta"),
        "gamma normal poisson matrix",
    )
sentences = [words for part in parts if len(words := re.findall("[a-z]+", part)) > 3]
print(f"{sum(map(len, sentences)):,} words in {len(sentences):,} sentences")

# %%
# Train
# -----
# The Huffman tree is the objective that does best on little text (`bench/decisions.md` has the measurements).

model = SkipGram(50, window=5, min_count=10, objective="hierarchical", sample=1e-3, max_iter=3, random_state=0)
model.fit(sentences)
curve = plot.learning_curve(model)
for word in asked:
    print(f"{word:12}", ", ".join(f"{near} {cosine:.2f}" for near, cosine in model.most_similar(word, topn=5)))

# %%
# Keep and exchange
# -----------------
# ``save_word2vec`` writes the format of word2vec, which gensim and others read; ``transform`` gives the vectors of
# words as rows for another model.

first, near, far = pairs
print(np.round(model.similarity(first, near), 2), np.round(model.similarity(first, far), 2))
print("not like the others:", model.doesnt_match(odd.split()))
vectors = model.transform([first, near])
print(vectors.shape, vectors.dtype)

# %%
# On the command line::
#
#     manyclass skipgram text.txt --output vectors.bin --objective hierarchical
#     manyclass neighbours vectors.bin matrix
