"""The contenders of bench_quality.py behind one interface, and the process that fits and asks one of them.

A contender is made with settings, a seed and a folder, and has `fit(X, targets)`, `save()`, `top(X, k)` and, where its
scores are probabilities, `log_p(X, y)`. `targets` are class numbers, or a CSR indicator where a row has several labels.
All use one thread. The process keeps its peak of memory to itself, which is why each contender has one:

    python bench/quality_models.py DATA FOLDER  # train.npz and test.npz; job.json. Writes result.json and found.npz
"""

import importlib
import importlib.metadata
import json
import resource
import sys
import time
from pathlib import Path

import joblib
import numpy as np
from scipy import sparse
from sklearn.multiclass import OneVsRestClassifier

PLACES = 10  # labels asked of each row
CHUNK = 250  # rows whose scores of all classes are asked at once: lists of tuples take some 100 bytes a score
TINY = 1e-30  # least probability: of a class that a pruned tree never names


def label_lists(targets):
    """The labels of each row, as lists."""
    if not sparse.issparse(targets):
        return [[int(label)] for label in targets]
    return [targets.indices[a:b].tolist() for a, b in zip(targets.indptr[:-1], targets.indptr[1:], strict=True)]


def padded(rows, k):
    """Label and probability pairs of rows, best first, as arrays with -1 and 0 behind."""
    labels, p = np.full((len(rows), k), -1, np.int64), np.zeros((len(rows), k))
    for i, row in enumerate(rows):
        for j, (label, value) in enumerate(row[:k]):
            labels[i, j], p[i, j] = label, value
    return labels, p


def log_share(rows, y):
    """log(p_y / sum of p) of rows of (class, p) pairs."""
    shares = []
    for row, label in zip(rows, y, strict=True):
        total = sum(p for _, p in row)
        shares.append(dict(row).get(int(label), 0.0) / max(total, TINY))
    return np.log(np.maximum(shares, TINY))


def best_of(scores, k):
    """The k best columns of each row, best first, and their scores."""
    best = np.argsort(-scores, axis=1)[:, :k]
    return best, np.take_along_axis(scores, best, axis=1)


def in_chunks(ask, n):
    """The list of what `ask` answers for slices of n rows."""
    return [row for start in range(0, n, CHUNK) for row in ask(slice(start, min(start + CHUNK, n)))]


class Contender:
    """What the contenders share; `package` is the distribution that has them, `module` what is imported of it."""

    def __init__(self, settings, seed, folder, several):
        self.settings, self.seed, self.folder, self.several = settings, seed, folder, several
        # Outside the clock; a process holds no package but the one that it measures.
        self.imported = importlib.import_module(self.module)

    def save(self):
        path = self.folder / "model.joblib"
        joblib.dump(self.model, path)
        return path

    def ready(self):
        """Whatever must be done once before rows are asked."""

    def chosen(self):
        return self.settings


class Ours(Contender):
    """An estimator of this package with nothing set."""

    package, module, name = "manyclass", "manyclass", "SoftmaxClassifier"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.estimator = getattr(self.imported, self.name)  # which loads what the package needs

    def fit(self, X, targets):
        # With the labels of the file, as `first_label` has them: those of next items say which columns they are.
        y = targets if self.several else self.classes[targets]
        self.model = self.estimator(random_state=self.seed, **self.settings).fit(X, y)

    def save(self):
        path = self.folder / "model.safetensors"
        self.model.save(path)
        return path

    def top(self, X, k):
        labels, log_p = self.model.predict_top_k(X, k)
        return np.searchsorted(self.classes, labels), np.exp(log_p.astype(float))

    def log_p(self, X, y):
        # Of rows one by one: evaluate() has the mean alone, which is all that is reported.
        return np.array([-self.model.evaluate(X, self.classes[y])["log_loss"]])

    def chosen(self):
        return {**self.settings, **{key: repr(value) for key, value in self.model.resolved_params_.items()}}

    def shares(self):
        """Each member's share of the scores, of a fit that has members, in words."""
        members = [line for line in getattr(self.model, "auto_report_", []) if line["parameter"] == "member"]
        return ", ".join(f"{line['value']} {line['share']:.2f}" for line in members)


class OursMargin(Ours):
    """Its scores are no probabilities."""

    name, log_p = "MarginClassifier", None

    def top(self, X, k):
        return np.searchsorted(self.classes, self.model.predict_top_k(X, k)[0]), None


class Sklearn(Contender):
    """What has predict_proba."""

    package, module = "scikit-learn", "sklearn.linear_model"

    def fit(self, X, targets):
        X = sparse.csr_matrix(X) if sparse.issparse(X) else X
        self.model = OneVsRestClassifier(self.make()) if self.several else self.make()
        self.model.fit(X, sparse.csr_matrix(targets) if self.several else targets)

    def log_p(self, X, y):
        ask = lambda at: self.model.predict_proba(X[at])[np.arange(len(y[at])), y[at]]  # noqa: E731
        return np.log(np.maximum(in_chunks(ask, len(y)), TINY))

    def top(self, X, k):
        found = in_chunks(lambda at: list(zip(*best_of(self.model.predict_proba(X[at]), k), strict=True)), X.shape[0])
        return np.array([labels for labels, _ in found]), np.array([p for _, p in found])


class LogisticRegression(Sklearn):
    def make(self):
        return self.imported.LogisticRegression(max_iter=500, **self.settings)


class SGDClassifier(Sklearn):
    def make(self):
        return self.imported.SGDClassifier(loss="log_loss", random_state=self.seed, **self.settings)


class NapkinXC(Contender):
    """Label trees; the settings are arguments of its models. Their weights are in the folder, written by fit."""

    package, module, name = "napkinxc", "napkinxc.models", "PLT"

    def fit(self, X, targets):
        make = getattr(self.imported, self.name)
        self.model = make(str(self.folder / "model"), threads=1, seed=self.seed, **self.settings)
        self.model.fit(sparse.csr_matrix(X), label_lists(targets) if self.several else targets.tolist())

    def save(self):
        return self.folder / "model"

    def ready(self):
        self.model.load()

    def top(self, X, k):
        return padded(self.model.predict_proba(sparse.csr_matrix(X), top_k=k), k)

    def log_p(self, X, y):
        X = sparse.csr_matrix(X)
        ask = lambda at: log_share(self.model.predict_proba(X[at]), y[at])  # noqa: E731
        return np.array(in_chunks(ask, len(y)))


class HSM(NapkinXC):
    name = "HSM"


class Omikuji(Contender):
    """Partitioned label trees; the settings are fields of its hyper-parameters. Its scores are no probabilities."""

    package, module, log_p = "omikuji", "omikuji", None

    def fit(self, X, targets):
        X, n_labels = sparse.csr_matrix(X), targets.shape[1] if self.several else int(targets.max()) + 1
        with (self.folder / "train.txt").open("w") as file:
            file.write(f"{X.shape[0]} {X.shape[1]} {n_labels}\n")
            for row, labels in zip(self.rows(X), label_lists(targets), strict=True):
                file.write(",".join(map(str, labels)) + "".join(f" {j}:{v:.9g}" for j, v in row) + "\n")
        self.wrote = time.process_time()  # what it took to write the text is not the package's
        chosen = self.imported.Model.default_hyper_param()
        for name, value in self.settings.items():
            setattr(chosen, name, value)
        self.model = self.imported.Model.train_on_data(str(self.folder / "train.txt"), chosen, n_threads=1)

    @staticmethod
    def rows(X):
        pairs = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return (list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)) for a, b in pairs)

    def save(self):
        self.model.save(str(self.folder / "model"))
        return self.folder / "model"

    def ready(self):
        self.model.init_prediction_thread_pool(1)
        self.model.densify_weights(0.1)  # as its command line does before it predicts

    def top(self, X, k):
        return padded([self.model.predict(row, top_k=k) for row in self.rows(sparse.csr_matrix(X))], k)[0], None


class FastText(Contender):
    """A bag of embeddings of the features that a row has; their values are lost, which its input has no place for."""

    package, module = "fasttext-numpy2-wheel", "fasttext"

    def lines(self, X):
        X = sparse.csr_matrix(X)
        return [" ".join(f"f{j}" for j in X.indices[a:b]) for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]

    def fit(self, X, targets):
        rows = [
            " ".join(f"__label__{label}" for label in labels) + f" {line}\n"
            for line, labels in zip(self.lines(X), label_lists(targets), strict=True)
        ]
        # It sees rows in the order of its file: 20news, which is sorted by class, has 79 % so, and 44 % as it stands.
        order = np.random.default_rng(self.seed).permutation(len(rows))
        with (self.folder / "train.txt").open("w") as file:
            file.writelines(rows[i] for i in order)
        self.wrote = time.process_time()
        options = {"minCount": 1, "thread": 1, "verbose": 0, "seed": self.seed, **self.settings}
        self.model = self.imported.train_supervised(str(self.folder / "train.txt"), **options)

    def save(self):
        self.model.save_model(str(self.folder / "model.bin"))
        return self.folder / "model.bin"

    def pairs(self, X, k):
        # A threshold of -1e-5 is log(0) inside, so that no branch of the tree is cut.
        labels, p = self.model.predict(self.lines(X), k=k, threshold=-1e-5)
        return [
            [(int(name[len("__label__") :]), float(value)) for name, value in zip(row, values, strict=True)]
            for row, values in zip(labels, p, strict=True)
        ]

    def top(self, X, k):
        return padded(in_chunks(lambda at: self.pairs(X[at], k), X.shape[0]), k)

    def log_p(self, X, y):
        return np.array(in_chunks(lambda at: log_share(self.pairs(X[at], -1), y[at]), len(y)))


class ClosedForm(Contender):
    """What needs no training, of one label a row; numbers are the best for rows held out: bench_closed_forms.py."""

    package, module = "manyclass", "bench_closed_forms"

    def fit(self, X, targets):
        data = self.imported.Training(X, targets.astype(np.int32), int(targets.max()) + 1)
        self.model = self.imported.fitted(self.form, data)

    def top(self, X, k):
        labels, log_p = self.model.top(X, k)
        return labels, np.exp(log_p.astype(float))

    def log_p(self, X, y):
        return -self.model.losses(X, y.astype(np.int32))[0]


class Prior(ClosedForm):
    form = "prior"


class NaiveBayes(ClosedForm):
    form = "naive Bayes"


class Centroids(ClosedForm):
    form = "centroid"


class Counts(ClosedForm):
    form = "counts"


class NearestRows(ClosedForm):
    form = "nearest rows"


CONTENDERS = {
    "SoftmaxClassifier()": Ours,
    "MarginClassifier()": OursMargin,
    "SoftmaxClassifier(model='embedding')": Ours,
    "SoftmaxClassifier(model='linear')": Ours,
    "SoftmaxClassifier(model='pairs')": Ours,
    "scikit-learn lbfgs": LogisticRegression,
    "scikit-learn SGD": SGDClassifier,
    "napkinXC PLT": NapkinXC,
    "napkinXC HSM": HSM,
    "omikuji Parabel": Omikuji,
    "omikuji Bonsai": Omikuji,
    "fastText": FastText,
    "prior": Prior,
    "naive Bayes": NaiveBayes,
    "centroids": Centroids,
    "counts": Counts,
    "nearest rows": NearestRows,
}


def load(path):
    """X and targets that bench_quality.py stored, the rows whose log-loss is asked, and what the classes are called."""
    with np.load(path) as arrays:
        stored = dict(arrays)

    def matrix(name):
        if f"{name}_indptr" not in stored:
            return stored[name]
        parts = tuple(stored[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
        return sparse.csr_array(parts, shape=tuple(stored[f"{name}_shape"]))

    return matrix("X"), matrix("targets"), stored["rows"], stored["classes"]


def peak():
    """Megabytes that this process held at most.

    Not ru_maxrss where Linux can say better: that keeps the peak of the process that started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def held_out_loss(model, X, targets, several):
    """What the settings of peers are chosen by: log-loss, or the share of best labels that are wrong."""
    if model.log_p and not several:
        return -float(np.mean(model.log_p(X, targets)))
    best = model.top(X, 1)[0][:, 0]
    right = targets[np.arange(len(best)), best] if several else targets == best
    return 1 - float(np.mean(np.asarray(right)))


def choose(make, grid, X, targets, most, several, folder):
    """The settings of the least held-out loss, and the losses."""
    X, y, X_held, y_held = held_out(X, targets, most, several)
    losses = []
    for number, settings in enumerate(grid):
        place = folder / f"trial{number}"
        place.mkdir()
        model = make(settings, 0, place, several)
        try:
            model.fit(X, y)
        except RuntimeError:  # what fastText raises of a step that is too large
            losses.append(float("inf"))
            continue
        model.save()
        model.ready()
        losses.append(held_out_loss(model, X_held, y_held, several))
    return grid[int(np.argmin(losses))], [str(round(loss, 4)) for loss in losses]


def held_out(X, targets, most, several):
    """Rows and targets to fit, and a tenth to choose by, of at most `most` random rows."""
    rows = np.random.default_rng(0).permutation(X.shape[0])[:most]
    held, kept = rows[: len(rows) // 10], rows[len(rows) // 10 :]
    if not several:
        # LogisticRegression numbers the classes that it sees, so each class must keep its number.
        classes, y = np.unique(targets[kept], return_inverse=True)
        held = held[np.isin(targets[held], classes)]
        y_held = np.searchsorted(classes, targets[held])
    else:
        y, y_held = targets[kept], targets[held]
    return X[kept], y, X[held], y_held


def version(package):
    """Of a distribution, or of a package that is not installed."""
    module = sys.modules.get(package)
    return getattr(module, "__version__", None) or importlib.metadata.version(package)


def main(data, folder):
    job = json.loads((folder / "job.json").read_text())
    X, targets, _, classes = load(data / "train.npz")
    make, several = CONTENDERS[job["model"]], job["several"]
    if "grid" in job:
        begin = time.process_time()
        settings, losses = choose(make, job["grid"], X, targets, job["grid_rows"], several, folder)
        found = {"settings": settings, "grid_loss": losses, "grid_cpu_s": round(time.process_time() - begin, 1)}
        (folder / "result.json").write_text(json.dumps(found))
        return
    model = make(job["settings"], job["seed"], folder, several)
    model.classes = classes
    begin = time.process_time()
    model.fit(X, targets)
    found = {"cpu_s": round(time.process_time() - getattr(model, "wrote", begin), 2), "peak_mb": round(peak())}
    path = model.save()
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    found["mb"] = round(sum(p.stat().st_size for p in files) / 1e6, 1)
    found["settings"] = model.chosen()
    if shares := getattr(model, "shares", str)():
        found["shares"] = shares
    X, targets, rows, _ = load(data / "test.npz")
    model.ready()
    k = min(PLACES, job["n_classes"])
    model.top(X[:100], k)
    begin = time.process_time()
    labels, p = model.top(X, k)
    found["predict_ms"] = round(1e3 * (time.process_time() - begin) / X.shape[0], 3)
    if not several and model.log_p:
        found["log_loss"] = round(-float(np.mean(model.log_p(X[rows], targets[rows]))), 4)
    found["versions"] = {name: version(name) for name in (make.package, "numpy")}
    np.savez(folder / "found.npz", labels=labels, **({} if p is None else {"p": p[:, 0]}))
    (folder / "result.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
