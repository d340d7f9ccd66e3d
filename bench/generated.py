"""A folder with the files of the real data sets, small and drawn: benchmarks read them by the same code.

XMC text is drawn from a planted softmax whose classes fall off as by Zipf's law (`manyclass.datasets.make_planted`);
half of the rows have a second label, which goes with the first. Images are grey patterns of their class with noise.
Running text has words by Zipf's law whose neighbours share a topic. What such data say of speed is its order on small
problems; of quality they say no more than that a model learns.
"""

import lzma
from typing import NamedTuple

import numpy as np

from manyclass.datasets import make_planted


class Shape(NamedTuple):
    """Rows for training and testing, classes, features, and features of a row."""

    n_train: int
    n_test: int
    n_classes: int
    n_features: int
    nnz: int


# An order of magnitude or two below the real ones, in the same order.
SHAPES = {
    "bibtex": Shape(1000, 300, 30, 150, 10),
    "delicious": Shape(1500, 300, 60, 100, 5),
    "eurlex57k": Shape(3000, 500, 300, 800, 20),
    "yso-en": Shape(6000, 600, 1200, 1000, 5),
    "gowalla": Shape(2000, 300, 400, 400, 5),
    "yelp-next": Shape(4000, 400, 200, 200, 6),  # a feature for each class: items are both
    "toys-next": Shape(2000, 300, 200, 200, 4),
    "panlex": Shape(2000, 300, 300, 600, 5),
    "20news": Shape(1000, 300, 20, 600, 20),
}
IMAGES = {"mnist": ("mnist.npz", 10, (28, 28)), "omniglot": ("omniglot28.npz", 60, (784,))}
N_IMAGES, N_TEST_IMAGES = 1200, 300
N_WORDS, N_TOPICS, N_LINES, LINE = 600, 30, 3000, 20
RATED = {"wordsim353.tsv": 100, "simlex999.txt": 100, "EN-MEN-TR-3k.txt": 300}


def write_all(folder):
    """Write all sets; return the folder."""
    for seed, (name, shape) in enumerate(SHAPES.items()):
        write_xmc(folder / name, shape, seed)
    for seed, name in enumerate(IMAGES):
        write_images(folder / name, *IMAGES[name], seed)
    write_text(folder)
    return folder


def write_xmc(folder, shape, seed):
    """train.txt.xz and test.txt.xz."""
    n_train, n_test, n_classes, n_features, nnz = shape
    data = make_planted(
        n_train, n_classes, n_features, n_test=n_test, nnz=nnz, n_patterns=n_train // 10, scale=4.0, zipf=0.8,
        random_state=seed,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for part, X, y in (("train", data.X, data.y), ("test", data.X_test, data.y_test)):
        second = (7 * y + 1) % n_classes
        labels = np.where(rng.random(len(y)) < 0.5, second, y)
        lines = [f"{len(y)} {n_features} {n_classes}"]
        for i, pair in enumerate(zip(y.tolist(), labels.tolist(), strict=True)):
            row = slice(X.indptr[i], X.indptr[i + 1])
            entries = (f"{j}:{v:.4g}" for j, v in zip(X.indices[row], X.data[row], strict=True))
            lines.append(",".join(map(str, dict.fromkeys(pair))) + " " + " ".join(entries))
        (folder / f"{part}.txt.xz").write_bytes(lzma.compress("\n".join(lines).encode() + b"\n", preset=0))


def write_images(folder, file, n_classes, shape, seed):
    """An .npz file of images in bytes."""
    rng = np.random.default_rng(seed)
    patterns = 255 * rng.random((n_classes, 784)) ** 3
    folder.mkdir()
    arrays = {}
    for part, n in (("train", N_IMAGES), ("test", N_TEST_IMAGES)):
        y = np.arange(n) % n_classes
        images = np.clip(patterns[y] + 60 * rng.standard_normal((n, 784)), 0, 255).astype(np.uint8)
        arrays |= {f"x_{part}": images.reshape(n, *shape), f"y_{part}": y.astype(np.int32)}
    np.savez(folder / file, **arrays)


def write_text(folder):
    """Paragraphs, and pairs of words that are rated by whether they share a topic."""
    rng = np.random.default_rng(0)
    topic_of = rng.integers(N_TOPICS, size=N_WORDS)
    frequency = 1 / np.arange(10, N_WORDS + 10)
    by_topic = [np.flatnonzero(topic_of == topic) for topic in range(N_TOPICS)]
    lines = []
    for topic in rng.integers(N_TOPICS, size=N_LINES):
        own = by_topic[topic]
        own = own if len(own) else np.arange(N_WORDS)
        words = rng.choice(own, LINE, p=frequency[own] / frequency[own].sum())
        any_ = rng.choice(N_WORDS, LINE, p=frequency / frequency.sum())
        lines.append(" ".join(f"w{word}" for word in np.where(rng.random(LINE) < 0.6, words, any_)))
    (folder / "text").mkdir()
    (folder / "text/novels100.txt.xz").write_bytes(lzma.compress("\n".join(lines).encode() + b"\n", preset=0))
    (folder / "wordeval").mkdir()
    for file, n in RATED.items():
        pairs = rng.integers(N_WORDS // 2, size=(n, 2))
        rated = [f"w{a}\tw{b}\t{5.0 * (topic_of[a] == topic_of[b]) + rng.random():.2f}" for a, b in pairs]
        (folder / "wordeval" / file).write_text("\n".join(rated) + "\n", "utf-8")
