"""Who ranks all labels of a row best, after how many CPU seconds of training, with how large a model?

P@1/3/5 and PSP@1/3/5 (propensities of Jain et al., a = 0.55, b = 1.5) in per cent on the test rows of eurlex57k and
yso-en, all labels, unit rows; CPU seconds of the process to train and CPU milliseconds to predict five labels of a row,
of all threads together, two of them, one run; megabytes of the saved model. Each package is used by its Python API:
omikuji reads its training text within the clock and predicts row by row, napkinXC writes its model within it.
Our metrics are compared with napkinXC's on every prediction. Real data need an hour or two of a processor, most of it
for napkinXC's three trees; one data set or model by -k:

    python -m pytest bench/bench_multilabel.py -k "eurlex57k and omikuji"

The set "packages" is made of the machine's own list of Debian packages (apt-cache dumpavail), and skipped where there
is none: a row is a package's name and its short description, its labels are the packages that it depends on (of
alternatives the first), those with five rows or more; a fifth of the rows, by the MD5 of the name, is the test. The
words of a name are often those of a label. Numbers depend on the release: bookworm has 41,378 rows and 6,892 labels.

The set "wordnet" is made of WordNet's files (Debian's package wordnet-base; WNSEARCHDIR may name their folder), and
skipped where there are none: a row is the definition of a set of synonyms, without its examples, its labels are the
words in small letters. A tenth of the rows is the test, drawn by NumPy's generator of seed 0. WordNet 3.0 has 105,894
and 11,765 rows and 147,306 labels, 135,037 of them in training: half of the test rows have no label that training has.
"""

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from conftest import digits
from scipy import sparse

from manyclass import MarginClassifier, SoftmaxClassifier, load_xmc, solvers
from manyclass.datasets import TextVectorizer, first_label, l2_normalize
from manyclass.metrics import precision_at_k, propensities, psp_at_k

THREADS, TOP, PLACES = 2, 5, (1, 3, 5)


def label_lists(Y):
    """The labels of each row, as lists."""
    return [Y.indices[a:b].tolist() for a, b in zip(Y.indptr[:-1], Y.indptr[1:], strict=True)]


def padded(rows):
    """Lists of at most TOP labels as an array, with -1 behind."""
    return np.array([(list(row) + [-1] * TOP)[:TOP] for row in rows])


class NapkinXC:
    """Probabilistic label trees; the settings are arguments of `napkinxc.models.PLT`."""

    def __init__(self, **settings):
        self.models = pytest.importorskip("napkinxc.models", reason="the extra 'bench' has napkinxc")
        self.settings = settings

    def prepare(self, folder, X, Y):
        self.path, self.X, self.Y = folder / "model", sparse.csr_matrix(X), label_lists(Y)

    def fit(self):
        self.model = self.models.PLT(str(self.path), threads=THREADS, seed=1, **self.settings)
        self.model.fit(self.X, self.Y)

    def save(self):
        return self.path

    def queries(self, X):
        self.model.load()
        return sparse.csr_matrix(X)

    def predict(self, X):
        return padded(self.model.predict(X, top_k=TOP))


class Omikuji:
    """Partitioned label trees (Parabel, Bonsai); the settings are fields of omikuji's hyper-parameters."""

    def __init__(self, **settings):
        self.omikuji = pytest.importorskip("omikuji", reason="the extra 'bench' has omikuji")
        self.settings = settings

    def prepare(self, folder, X, Y):
        self.folder = folder
        with (folder / "train.txt").open("w") as file:
            file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
            for i, labels in enumerate(label_lists(Y)):
                row = slice(X.indptr[i], X.indptr[i + 1])
                entries = zip(X.indices[row].tolist(), X.data[row].tolist(), strict=True)
                file.write(",".join(map(str, labels)) + "".join(f" {j}:{v:.9g}" for j, v in entries) + "\n")

    def fit(self):
        chosen = self.omikuji.Model.default_hyper_param()
        for name, value in self.settings.items():
            setattr(chosen, name, value)
        self.model = self.omikuji.Model.train_on_data(str(self.folder / "train.txt"), chosen, n_threads=THREADS)

    def save(self):
        self.model.save(str(self.folder / "model"))
        return self.folder / "model"

    def queries(self, X):
        self.model.init_prediction_thread_pool(THREADS)
        self.model.densify_weights(0.1)  # as its command line does before it predicts
        return [
            list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
            for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
        ]

    def predict(self, rows):
        return padded([label for label, _ in self.model.predict(row, top_k=TOP)] for row in rows)


class Ours:
    """An estimator of this package with `predict_top_k`, made by `make()`; `targets(X, Y)` are what it is fitted to."""

    def __init__(self, make, targets=lambda X, Y: (X, Y)):
        self.make, self.targets = make, targets

    def prepare(self, folder, X, Y):
        self.path = folder / "model.safetensors"
        self.data = self.targets(X, Y)

    def fit(self):
        self.model = self.make().fit(*self.data)

    def save(self):
        self.model.save(self.path)
        return self.path

    def queries(self, X):
        return X

    def predict(self, X):
        return self.model.predict_top_k(X, TOP)[0]


def first_labels(X, Y):
    y = first_label(Y)
    return X[y >= 0], y[y >= 0]


SETS = ("eurlex57k", "yso-en", "packages", "wordnet")
MADE = SETS[2:]


class Contender(NamedTuple):
    name: str
    make: object  # a function without arguments to one of the classes above
    sets: tuple[str, ...] = SETS[:2]


# napkinXC: its defaults, and one of two settings of its authors' final experiments
# (experiments/plt_jmlr/plt_final.sh); the other, logistic loss with C = 12, takes even longer.
# omikuji: its defaults (Parabel), and the Bonsai-like trees that its README finds best.
# Ours: the best of a few on eurlex57k by P@1 (embeddings of 128 and 256, decay 0.7 and 1, smoothing 1, 5 and 10).
# On yso-en all classes would take ten times as long as a sample; smoothing 5 ranks better than 1 there, and uniform
# draws better than ones by frequency.
EMBEDDED = {"model": "embedding", "dim": 256, "max_iter": 6, "n_jobs": THREADS, "random_state": 0}
EMBEDDED["solver"] = solvers.Adagrad(decay=0.7)
SAMPLED = {**EMBEDDED, "solver": solvers.Adagrad(decay=0.5), "max_iter": 4}
FINAL_PLT = {"ensemble": 3, "arity": 16, "kmeans_balanced": False, "loss": "l2", "liblinear_c": 1}
CONTENDERS = [
    Contender("napkinXC PLT, defaults", NapkinXC, SETS),
    Contender("napkinXC PLT, 3 trees, squared hinge", lambda: NapkinXC(**FINAL_PLT)),
    Contender("omikuji, defaults", Omikuji, SETS),
    Contender("omikuji, Bonsai", lambda: Omikuji(cluster_balanced=False, cluster_k=100, max_depth=3), SETS),
    Contender("SoftmaxClassifier()", lambda: Ours(lambda: SoftmaxClassifier(n_jobs=THREADS, random_state=0)), MADE),
    Contender(
        "MarginClassifier()", lambda: Ours(lambda: MarginClassifier(n_jobs=THREADS, random_state=0)), ("packages",)
    ),
    Contender(
        "MarginClassifier, embeddings of 256, exact",
        lambda: Ours(lambda: MarginClassifier(**EMBEDDED, smoothing=5.0)),
        ("eurlex57k",),
    ),
    Contender(
        "MarginClassifier, embeddings of 256, mips",
        lambda: Ours(lambda: MarginClassifier(**EMBEDDED, smoothing=5.0, sampler="search")),
        ("eurlex57k",),
    ),
    Contender(
        "MarginClassifier, embeddings of 256, 2,048 sampled",
        lambda: Ours(lambda: MarginClassifier(**SAMPLED, sampler="uniform", smoothing=5.0, n_negatives=2048)),
    ),
    Contender(
        "MarginClassifier, embeddings of 512, 2,048 sampled",
        lambda: Ours(
            lambda: MarginClassifier(**{**SAMPLED, "dim": 512}, sampler="uniform", smoothing=5.0, n_negatives=2048)
        ),
        ("yso-en",),
    ),
    Contender(
        "SoftmaxClassifier, embeddings of 256, 1,024 sampled",
        lambda: Ours(lambda: SoftmaxClassifier(**SAMPLED, sampler="frequency", n_negatives=1024)),
    ),
    Contender(
        "SoftmaxClassifier, first label only",
        lambda: Ours(lambda: SoftmaxClassifier(n_jobs=THREADS, random_state=0), first_labels),
    ),
]


class Data(NamedTuple):
    name: str
    X: sparse.csr_array
    Y: sparse.csr_array
    X_test: sparse.csr_array
    Y_test: sparse.csr_array
    propensities: np.ndarray


def debian_packages():
    """Names of packages with their short descriptions and the packages that they depend on, of the first of each."""
    apt = shutil.which("apt-cache")
    told = apt and subprocess.run([apt, "dumpavail"], capture_output=True, text=True, check=False).stdout
    if not told:
        pytest.skip("the set of packages is made by apt-cache, which is not here or has no list (apt-get update)")
    found = {}
    for paragraph in told.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Description|Depends): (.*)$", paragraph, re.MULTILINE))
        first = [re.split(r"[ (:|]", choice.strip())[0] for choice in fields.get("Depends", "").split(",")]
        if "Package" in fields:
            found.setdefault(fields["Package"], (fields.get("Description", ""), sorted(filter(None, set(first)))))
    return found


def packages(least=5):
    """The set that is made of them; see above."""
    found = debian_packages()
    counts = Counter(label for _, labels in found.values() for label in labels)
    parts = ([], []), ([], [])
    for name, (description, labels) in found.items():
        if own := [label for label in labels if counts[label] >= least]:
            is_test = int(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest(), 16) % 5 == 0
            texts, lists = parts[is_test]
            texts.append(f"{name} {description}")
            lists.append(own)
    return of_texts("packages", *parts)


def wordnet():
    """Definitions and their words; see above."""
    folder = Path(os.environ.get("WNSEARCHDIR", "/usr/share/wordnet"))
    files = [folder / f"data.{kind}" for kind in ("noun", "verb", "adj", "adv")]
    if not all(file.is_file() for file in files):
        pytest.skip("the set of definitions is made of WordNet's data files: Debian's package wordnet-base has them")
    texts, lists = [], []
    for line in chain.from_iterable(file.read_text("utf-8").splitlines() for file in files):
        if line.startswith("  "):  # the licence
            continue
        fields, _, gloss = line.partition(" | ")
        # offset, file, kind, number of words in hexadecimal, then each word and a number; (a) stands behind adjectives
        words = fields.split(" ")[4 : 4 + 2 * int(fields.split(" ")[3], 16) : 2]
        lists.append(list(dict.fromkeys(re.sub(r"\(\w+\)$", "", word).lower() for word in words)))
        texts.append(gloss.split('; "')[0].strip())
    order = np.random.default_rng(0).permutation(len(texts))
    parts = [([texts[i] for i in rows], [lists[i] for i in rows]) for rows in np.split(order, [len(order) // 10])]
    return of_texts("wordnet", *parts[::-1])


def of_texts(name, *parts):
    """Texts and lists of labels of training and of test rows as a set; labels of a row keep their order."""
    labels = sorted({label for _, lists in parts for own in lists for label in own})
    column = {label: k for k, label in enumerate(labels)}
    vectorizer = TextVectorizer().fit(parts[0][0])
    rows = []
    for texts, lists in parts:
        indptr = np.cumsum([0, *map(len, lists)])
        ids = np.array([column[label] for own in lists for label in own], np.int32)
        Y = sparse.csr_array((np.ones(len(ids), np.float32), ids, indptr), shape=(len(lists), len(column)))
        rows += [sparse.csr_array(vectorizer.transform(texts)), Y]
    return Data(name, *rows, propensities(rows[1].copy()))  # which may sort the labels of a row


@pytest.fixture(scope="module", params=SETS)
def data(request):
    if request.param in MADE:
        return packages() if request.param == "packages" else wordnet()
    data_folder = request.getfixturevalue("data_folder")
    X, Y = load_xmc(data_folder / request.param / "train.txt.xz")
    X_test, Y_test = load_xmc(data_folder / request.param / "test.txt.xz", n_features=X.shape[1], n_labels=Y.shape[1])
    return Data(request.param, l2_normalize(X), Y, l2_normalize(X_test), Y_test, propensities(Y))


def size(path: Path):
    """Bytes of a file, or of the files of a folder."""
    return sum(p.stat().st_size for p in ([path] if path.is_file() else path.rglob("*")))


MODELS = {contender.name: contender for contender in CONTENDERS}


@pytest.mark.parametrize("what", MODELS)
def test_multilabel(timed, data, what, tmp_path):
    contender = MODELS[what]
    if data.name not in contender.sets:
        pytest.skip(f"not tried on {data.name}")
    model = contender.make()
    model.prepare(tmp_path, data.X, data.Y)
    begin = time.perf_counter()
    timed(model.fit, clock="processor")
    wall = time.perf_counter() - begin
    megabytes = size(model.save()) / 1e6
    queries = model.queries(data.X_test)
    model.predict(queries[:100])
    start = time.process_time()
    predicted = model.predict(queries)
    milliseconds = (time.process_time() - start) * 1e3 / len(predicted)

    p = precision_at_k(data.Y_test, predicted, PLACES)
    psp = psp_at_k(data.Y_test, predicted, data.propensities, PLACES)
    timed.row(
        "many_labels",
        data=f"{data.name}, {data.Y.shape[1]:,} labels",
        model=contender.name,
        p=[round(100 * float(value), 1) for value in p],
        psp=[round(100 * float(value), 1) for value in psp],
        cpu_s=round(float(timed.seconds[0]), 1),
        predict_ms=digits(milliseconds),
        mb=round(megabytes, 1),
    )
    timed.tell(threads=THREADS, wall_s=wall)
    compare_metrics(data, predicted, p, psp)


def compare_metrics(data, predicted, p, psp):
    """Ours are napkinXC's."""
    theirs = pytest.importorskip("napkinxc.metrics", reason="the extra 'bench' has napkinxc")
    truth, lists = label_lists(data.Y_test), [[label for label in row if label >= 0] for row in predicted.tolist()]
    at = np.array(PLACES) - 1
    # The same sums in another order: rounding of float64 sums of 1e5 terms.
    np.testing.assert_allclose(p, theirs.precision_at_k(truth, lists, TOP)[at], rtol=1e-10)
    inverse = theirs.Jain_et_al_inverse_propensity(sparse.csr_matrix(data.Y))
    np.testing.assert_allclose(1 / data.propensities, inverse, rtol=1e-6)  # theirs sums float32 counts
    np.testing.assert_allclose(psp, theirs.psprecision_at_k(truth, lists, inverse, TOP)[at], rtol=1e-6)
