"""What do pairs of words, sub-words, hashing and means of runs give on short texts, alone and together?

Titles of annif-yso and their first subject, one label each: test log-loss in nats, accuracy and the share of titles
whose subject is among the ten best, in per cent; processor seconds of the fit with its trials, one thread, seed 0. Rows
are of `TextVectorizer`, whose seconds are told apart; subjects of test titles that training has not are left out.
Models are `SoftmaxClassifier(model=..., n_models=...)`, and else nothing set:

    python -m pytest bench/bench_texts.py --benchmark-save=texts
"""

import lzma
import time

import numpy as np
import pytest
from conftest import digits
from scipy import sparse

from manyclass import SoftmaxClassifier
from manyclass.datasets import TextVectorizer, l2_normalize

MOST_BYTES = 2 << 30  # of a linear W; "auto" tries none that is larger, either
HASHED = 2**18  # columns, which terms share


def features(*vectorizers):
    """Rows of several vectorizers side by side, of unit length."""

    def rows(texts, tested):
        both = [(one.fit_transform(texts), one.transform(tested)) for one in vectorizers]
        return tuple(l2_normalize(sparse.hstack(parts, format="csr")) for parts in zip(*both, strict=True))

    return rows


# Terms of one title alone tell nothing of others; hashing, which counts none, keeps them.
FEATURES = {
    "words alone": lambda: features(TextVectorizer(min_df=2)),
    "with pairs": lambda: features(TextVectorizer(min_df=2, max_n=2)),
    "with pairs, hashed": lambda: features(TextVectorizer(max_n=2, n_hash=HASHED)),
    "with sub-words, hashed": lambda: features(
        TextVectorizer(min_df=2), TextVectorizer(analyzer="char_wb", min_n=5, max_n=5, n_hash=HASHED)
    ),
}
MODELS = {
    "linear": {"model": "linear"},
    "pairs of words and subjects": {"model": "sparse"},
    "embeddings": {"model": "embedding"},
    "hybrid": {"model": "hybrid", "n_models": 1},
    "hybrid, 3 runs": {"model": "hybrid", "n_models": 3},
}


def titles(path):
    """The texts of a file of Annif's, and the first subject of each."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t") for line in file]
    return [text for text, _ in pairs], np.array([subjects.split()[0] for _, subjects in pairs])


def made_up(n, n_subjects=40, rng_seed=0):
    """Titles of four words, two of them of the subject."""
    rng = np.random.default_rng(rng_seed)
    y = rng.integers(0, n_subjects, n)
    words = np.column_stack([2 * y[:, None] + rng.integers(0, 2, (n, 2)), rng.integers(100, 300, (n, 2))])
    return [" ".join(f"word{w}" for w in row) for row in words.tolist()], y.astype(str)


@pytest.fixture(scope="module")
def texts(small, data_folder):
    if small:
        return *made_up(1_000), *made_up(200, rng_seed=1)
    folder = data_folder / "annif-yso"
    return *titles(folder / "train.tsv.xz"), *titles(folder / "test.tsv.xz")


@pytest.fixture(scope="module", params=FEATURES)
def rows(request, texts):
    """The name of the features, training and test rows with their subjects, and the seconds of the vectorizers."""
    texts, y, tested, truth = texts
    begin = time.process_time()
    X, X_test = FEATURES[request.param]()(texts, tested)
    seconds = time.process_time() - begin
    known, some = np.isin(truth, y), np.diff(X.indptr) > 0
    return request.param, X[some], y[some], X_test[known], truth[known], seconds


@pytest.mark.parametrize("what", MODELS)
def test_texts(timed, rows, what, small):
    name, X, y, X_test, truth, seconds = rows
    if what == "linear" and 4 * X.shape[1] * len(np.unique(y)) > MOST_BYTES:
        pytest.skip(f"W would take more than {MOST_BYTES >> 30} GB")
    model = SoftmaxClassifier(random_state=0, n_jobs=1, **MODELS[what])
    timed(lambda: model.fit(X, y), clock="processor")
    found = model.evaluate(X_test, truth)
    hits = 100 * float(np.mean((model.predict_top_k(X_test, 10)[0] == truth[:, np.newaxis]).any(axis=1)))
    figures = {"log_loss": round(found["log_loss"], 3), "accuracy": round(100 * (1 - found["error"]), 1)}
    figures |= {"hit_10": round(hits, 1), "cpu_s": digits(float(timed.seconds[0])), "columns": X.shape[1]}
    figures |= {"values_a_row": round(X.nnz / X.shape[0], 1), "vectorizer_s": digits(seconds)}
    timed.row("texts", features=name, model=what, **figures)
