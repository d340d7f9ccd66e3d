"""One file of each kind that manyclass 0.2 writes: how it is made, and what is read from it.

`PYTHONPATH=tests python tests/data/version_2/make_files.py` writes all anew, with what is read from them in
expected.json. Once a version writes something else, the files stay as they are: they are what every later version has
to read. Fuzzers of files begin with them.

The kind of a file is its name up to the first "_" or ".".
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from planned import with_figures

import manyclass
from manyclass import (
    AugmentReduceClassifier,
    DecomposedIndex,
    MarginClassifier,
    SkipGram,
    SoftmaxClassifier,
    SphericalClusterIndex,
    WordVectors,
    models,
    samplers,
    solvers,
)
from manyclass.datasets import TextVectorizer, load_csr, save_csr
from manyclass.datasets.binary_csr import open_csr
from manyclass.datasets.inputs import Input, Layout
from manyclass.training.state import Features
from manyclass.weights.hashing import FeatureHash

FOLDER = Path(__file__).parent
N, D, K = 60, 6, 5
COMMON: dict[str, Any] = {"max_iter": 2, "random_state": 5, "n_jobs": 1}
WORDS = ["ant", "bee", "käfer", "\U0001f41e"]
TEXTS = [f"{a} {b}" for a in WORDS for b in WORDS]
N_ASKED = 4  # rows whose predictions are kept

Read = dict[str, Any]


def problem() -> tuple[sp.csr_array, np.ndarray, sp.csr_array]:
    """Points, half of whose entries are 0, a label for each, and one to three labels for each."""
    rng = np.random.default_rng(1)
    X = sp.csr_array((rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.5)).astype(np.float32))
    y = np.append(np.arange(K), rng.integers(0, K, N - K))
    return X, y, sp.csr_array(((rng.random((N, K)) < 0.2) | (y[:, np.newaxis] == np.arange(K))).astype(np.int8))


def fitted() -> Iterator[tuple[str, Any]]:
    """Models by name."""
    X, y, Y = problem()
    dense = X.toarray()
    names = np.array([f"class {k}" for k in y])
    softmax = SoftmaxClassifier(**COMMON)
    by_feature = SoftmaxClassifier(
        solver=solvers.UMax(delta=2.0, decay=0.8), sampler=samplers.Frequency(power=0.5), n_negatives=3, alpha=1e-3,
        learning_rate=0.2, class_weight={"class 1": 2.0, **{f"class {k}": 1.0 for k in range(K) if k != 1}}, **COMMON,
    ).fit(X, names)  # fmt: skip
    embedding = SoftmaxClassifier(model=models.Embedding(activation="relu"), dim=4, **COMMON).fit(X, y)
    pairs = SoftmaxClassifier(model="pairs", **COMMON).fit(X, Y)
    hybrid = SoftmaxClassifier(model="hybrid", dim=4, **COMMON).fit(X, Y)
    margin = MarginClassifier(calibration="temperature", **COMMON).fit(X, Y)
    yield "by_feature", by_feature
    yield "by_class", softmax.fit(dense, y)
    yield "dates", SoftmaxClassifier(**COMMON).fit(dense, np.datetime64("1970-01-01") + y)
    yield "embedding", embedding
    yield "pairs", pairs
    yield "hybrid", hybrid
    yield "margin", margin
    yield "probit", AugmentReduceClassifier(
        noise="normal", local_step=solvers.Natural(family="normal", n_nodes=4), sampler=samplers.HeadTail(n_head=2),
        n_negatives=3, **COMMON,
    ).fit(X, y)  # fmt: skip
    yield (
        "posterior",
        AugmentReduceClassifier(
            noise="logistic",
            posterior=solvers.Gaussian(n_draws=16),
            alpha=0.02,
            sampler="uniform",
            n_negatives=4,
            **COMMON,
        ).fit(dense, y),
    )
    yield "partly", SoftmaxClassifier(solver="adagrad", **COMMON).partial_fit(X, y, classes=np.arange(K))
    hashing = FeatureHash(4, seed=1)
    hashed = SoftmaxClassifier(solver="implicit", **COMMON).fit(hashing.apply(X), y)
    # As of a stream whose weights have no room in memory.
    hashed._taken(replace(hashed._fitted, hashing=hashing, features=Features(D, None)))
    yield "hashed", hashed
    vectorizer = TextVectorizer(analyzer="char_wb", min_n=2, max_n=2, max_features=9)
    texts = SoftmaxClassifier(**COMMON).fit(vectorizer.fit_transform(TEXTS), np.arange(len(TEXTS)) % 4)
    texts.vectorizer_ = vectorizer
    yield "texts", texts
    yield "coded_by_feature", by_feature.compress("int8")
    yield "coded_by_class", softmax.compress("float16")
    yield "coded_embedding", embedding.compress("int8", prune=0.3)
    yield "coded_pairs", pairs.compress("float16", prune=0.3)
    yield "coded_hybrid", hybrid.compress("int8")


# n_models: its default was 1 when these were written.
CHECKPOINTS: dict[str, tuple[Callable[[], Any], bool]] = {
    "checkpoint_points": (
        lambda: SoftmaxClassifier(
            solver=solvers.Implicit(averaging="suffix"),
            learning_rate=0.3,
            alpha=1e-3,
            max_iter=3,
            random_state=5,
            n_models=1,
        ),
        False,
    ),
    "checkpoint_heads": (
        lambda: SoftmaxClassifier(
            solver=solvers.Implicit(max_norm=2.0),
            sampler=samplers.HeadTail(n_head=2, refresh=1),
            n_negatives=2,
            learning_rate=0.3,
            alpha=0.0,
            max_iter=3,
            early_stopping=True,
            random_state=5,
            n_models=1,
        ),
        False,
    ),
    "checkpoint_embedding": (
        # The decay is set, so that the fit does not depend on what "auto" stands for.
        lambda: SoftmaxClassifier(
            solver=solvers.Adagrad(decay=0.9),
            model="embedding",
            dim=4,
            learning_rate=0.3,
            max_iter=3,
            random_state=5,
            n_models=1,
        ),
        False,
    ),
    "checkpoint_pairs": (
        lambda: SoftmaxClassifier(model="pairs", learning_rate=0.3, max_iter=3, random_state=5, n_models=1),
        True,
    ),
}
OF_A_FIT = "training-000.safetensors"  # the name of a checkpoint in its folder


def checkpointed(kind: str, folder: Path, n_passes: int | None = None) -> Any:
    """A fit that goes on from the checkpoint in a folder, if there is one; n_passes: it is killed in the one after."""

    def kill(state: Any) -> None:
        if n_passes is not None and state.n_iter > n_passes:
            raise KeyboardInterrupt

    X, y, Y = problem()
    make, several = CHECKPOINTS[kind]
    # The last step that "auto" stood for when these were written: one that was left open is refused by another now.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few passes are no training
        return with_figures(make(), LAST_STEP=1 / 20).fit(
            X, Y if several else y, checkpoint=folder, every=1, resume=True, callback=kill
        )


def write_all(folder: Path) -> None:
    """Write a file of each kind."""
    for name, model in fitted():
        model.save(folder / f"model_{name}.safetensors")
    rows = np.random.default_rng(2).normal(size=(12, 4)).astype(np.float32)
    SphericalClusterIndex(3, augment_norm=True, random_state=0).fit(rows).save(folder / "index_spherical.safetensors")
    DecomposedIndex(2, n_clusters=3, random_state=0).fit(rows).save(folder / "index_decomposed.safetensors")
    trained = SkipGram(3, min_count=1, sample=0, max_iter=1, random_state=0).fit([text.split() for text in TEXTS])
    vectors = WordVectors.from_keyed_vectors(trained)
    vectors.save(folder / "words_float32.safetensors")
    vectors.compress("float16").save(folder / "words_float16.safetensors")
    vectors.compress("int8").save(folder / "words_int8.safetensors")
    vectors.vectors_[0, 0] = 0  # so that a binary file has bytes that no text has
    vectors.save_word2vec(folder / "word2vec.txt")
    vectors.save_word2vec(folder / "word2vec.bin", binary=True)
    X, _, Y = problem()
    save_csr(folder / "csr_labels.safetensors", X[:8], Y[:8])
    save_csr(folder / "csr_doubles.safetensors", sp.csr_array(X[:5].toarray().astype(np.float64)))
    for kind in CHECKPOINTS:
        with tempfile.TemporaryDirectory() as run:
            with contextlib.suppress(KeyboardInterrupt):
                checkpointed(kind, Path(run), n_passes=1)
            shutil.copy(Path(run) / OF_A_FIT, folder / f"{kind}.safetensors")


# What is read, by kind.


def asked(n_features: int) -> sp.csr_array:
    """Rows for a model of so many features."""
    X = problem()[0][:N_ASKED].tocoo()
    return sp.csr_array((X.data, (X.row, X.col * n_features // D)), shape=(N_ASKED, n_features))


def read_model(path: Path) -> Read:
    """Scores, probabilities and the best two classes."""
    model: Any = manyclass.load(path)
    X = asked(model.n_features_in_)
    labels, best = model.predict_top_k(X, 2)
    found = {"scores": model.decision_function(X), "labels": labels.astype(str), "best": best}
    if hasattr(model, "predict_proba"):
        found["probabilities"] = model.predict_proba(X)
    if hasattr(model, "vectorizer_"):
        found["rows"] = model.vectorizer_.transform(TEXTS[:3]).toarray()
    return found


def read_index(path: Path) -> Read:
    """The best rows for some queries."""
    index = (DecomposedIndex if "decomposed" in path.name else SphericalClusterIndex).load(path)
    queries = np.eye(4, index.n_features_in_, dtype=np.float32)
    scores, ids = index.query(queries, 2)
    return {"rows": index.rows_, "scores": scores, "ids": ids, "n_probe": index.n_probe_}


def read_words(path: Path) -> Read:
    """Words and their vectors, and what is near the first one."""
    vectors = WordVectors.load(path)
    words = vectors.index_to_key
    found: Read = {"words": words, "vectors": np.asarray(vectors.vectors_)}
    if len(words) > 1 and vectors.vectors_.shape[1]:
        found["near"] = [word for word, _ in vectors.most_similar(words[0], topn=1)]
    return found


def read_word2vec(path: Path) -> Read:
    """Words and their vectors."""
    vectors = WordVectors.load_word2vec(path)
    return {"words": vectors.index_to_key, "vectors": vectors.vectors_}


def read_csr(path: Path) -> Read:
    """Both matrices, mapped and, where there are labels, row by row."""
    X, Y = load_csr(path)
    found: Read = {"X": X.toarray() if X.shape[0] * X.shape[1] < 10**6 else X.data}
    if Y is not None:
        blocks = list(open_csr([Input(str(path))], Layout()).blocks(3))
        found["n"] = sum(block.shape[0] for block, _ in blocks)
        found["Y"] = Y.toarray() if Y.shape[0] * Y.shape[1] < 10**6 else Y.data
    return found


def read_checkpoint(path: Path) -> Read:
    """What the fit comes to that goes on from there."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(path, Path(folder) / OF_A_FIT)
        try:
            model = checkpointed(path.stem, Path(folder))
        except ValueError as error:
            raise ValueError(str(error).replace(str(Path(folder) / OF_A_FIT), str(path))) from error
    return {"scores": model.decision_function(problem()[0][:N_ASKED]), "curve": model.loss_curve_}


READERS: dict[str, Callable[[Path], Read]] = {
    "model": read_model,
    "index": read_index,
    "words": read_words,
    "word2vec": read_word2vec,
    "csr": read_csr,
    "checkpoint": read_checkpoint,
}


def read(path: Path) -> Read:
    """What is read from a file, whose name says its kind."""
    return READERS[path.name.partition("_")[0].partition(".")[0]](path)


def main() -> None:
    """Write all files."""
    assert manyclass.__version__.startswith("0.2")
    write_all(FOLDER)
    files = sorted(path for path in FOLDER.iterdir() if path.suffix in (".safetensors", ".txt", ".bin"))
    expected = {path.name: {k: np.asarray(v).tolist() for k, v in read(path).items()} for path in files}
    (FOLDER / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
