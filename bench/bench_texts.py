"""What do pairs of words, sub-words, hashing and means of runs give on short texts, alone and together?

Titles of annif-yso and their first subject, one label each: test log-loss in nats, accuracy and the share of titles
whose subject is among the ten best, in per cent; processor seconds of the fit with its trials, one thread, seed 0. Rows
are of `TextVectorizer`, whose seconds are told apart; subjects of test titles that training has not are left out.
Models are `SoftmaxClassifier(model=..., n_models=...)`, and else nothing set:

    python -m pytest bench/bench_texts.py --benchmark-save=texts

And what do texts of classes give? `SoftmaxClassifier(random_state=0)` without and with `class_text`, on rows whose
class training has and on those whose class it has not; of esco-titles a tenth of the classes are left out, too.
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
    "pairs of words and subjects": {"model": "pairs"},
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


def lines_of(path):
    """Pairs of what stands before and behind the tab of each line."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def esco_titles(folder):
    """Titles with their occupations, whose names are their texts."""
    parts = [lines_of(folder / f"{part}.tsv.xz") for part in ("train", "test")]
    names = {
        label: label.replace("_", " ") for label in (folder / "labels.txt").read_text("utf-8").split("\n") if label
    }
    return *(column for part in parts for column in ([text for _, text in part], [label for label, _ in part])), names


def annif_yso(folder):
    """Titles with their first subjects, whose names are in a vocabulary."""
    lines = (folder / "vocabulary.tsv").read_text("utf-8").splitlines()
    parts = [titles(folder / f"{part}.tsv.xz") for part in ("train", "test")]
    return *(column for part in parts for column in part), dict(line.split("\t", 1) for line in lines)


def gloss_word(folder):
    """Definitions with their words, which are their own texts."""
    parts = [lines_of(folder / f"{part}.tsv.xz") for part in ("train", "test")]
    words = {word: word for part in parts for word, _ in part}
    return *(column for part in parts for column in ([gloss for _, gloss in part], [word for word, _ in part])), words


NAMED = {"esco-titles": esco_titles, "annif-yso": annif_yso, "gloss-word": gloss_word}


@pytest.mark.parametrize("with_texts", [False, True])
@pytest.mark.parametrize(
    ("name", "left_out"), [("esco-titles", 0), ("esco-titles", 0.1), ("annif-yso", 0), ("gloss-word", 0)]
)
def test_texts_of_classes(timed, small, name, left_out, with_texts, request):
    if small and not left_out:
        pytest.skip("one set of made-up titles is enough")
    if small:
        (texts, y), (tested, truth) = made_up(1_000), made_up(200, rng_seed=1)
        names = {str(k): f"word{2 * k} word{2 * k + 1}" for k in range(40)}
    else:
        texts, y, tested, truth, names = NAMED[name](request.getfixturevalue("data_folder") / name)
    y, truth, seen = np.array(y), np.array(truth), np.unique(y)
    gone = np.random.default_rng(0).choice(seen, int(left_out * len(seen)), replace=False)
    kept = np.flatnonzero(~np.isin(y, gone))
    texts, y = [texts[at] for at in kept], y[kept]
    model = SoftmaxClassifier(random_state=0, n_jobs=1)
    timed(lambda: model.fit(texts, y, class_text=names if with_texts else None), clock="processor")
    hits = model.predict_top_k(tested, 10)[0] == truth[:, np.newaxis]
    figures = {"cpu_s": digits(float(timed.seconds[0])), "classes": len(model.classes_)}
    for which, rows in (("seen", np.isin(truth, y)), ("unseen", ~np.isin(truth, y))):
        some = np.flatnonzero(rows & np.isin(truth, model.classes_))
        if len(some):
            found = model.evaluate([tested[at] for at in some], truth[some])
            figures[f"{which}_log_loss"] = round(found["log_loss"], 3)
        if rows.any():
            figures[f"{which}_rows"] = int(rows.sum())
            figures[f"{which}_accuracy"] = round(100 * float(hits[rows, 0].mean()), 1)
            figures[f"{which}_hit_10"] = round(100 * float(hits[rows].any(axis=1).mean()), 1)
    timed.tell(**figures)
