"""The contenders of bench_races.py, and the process that fits one of them and looks at its losses on the way.

A contender is one of quality_models.py whose `fit` calls `self.look` after some passes, while its clocks stand still.
Where a package shows nothing on the way, it is fitted anew for each point of its curve, which then has the seconds of
that fit alone. Settings are chosen as in bench_quality.py, by a tenth of some rows; so is the number of passes, which
is that of the least held-out loss, or MOST_PASSES if it still fell when the seconds of a trial were over. A fit goes on
behind that pass for its curve; its other figures are those of the chosen pass.

    python bench/race_models.py DATA FOLDER  # train.npz, test.npz; job.json. Writes result.json
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import quality_models as quality
from race_passes import MOST_PASSES, InPasses, Look
from scipy import sparse, special

LOOKED_AT = 4_000  # training rows whose mean log-loss is a point of a curve; test rows are those of the log-loss


class Ours(quality.Ours):
    """Losses on the way are those of the current iterate; the last are those of the model."""

    def fit(self, X, targets):
        def after(state):
            ended = self.look(lambda X, y: -state.log_losses(X, y), state.n_iter)
            return ended and bool(self.settings)  # of a solver, not of trials and all runs

        # Not max_seconds, with which nothing would be tried before.
        self.model = self.estimator(random_state=self.seed, **self.settings).fit(X, targets, callback=after)
        self.look(self.log_p, self.model.n_iter_, always=True)
        self.look.keep()


class SGDClassifier(InPasses, quality.SGDClassifier):
    """scikit-learn's, a call of partial_fit for each pass."""

    def make(self):
        options = {name: value for name, value in self.settings.items() if name != "n_passes"}
        return self.imported.SGDClassifier(loss="log_loss", random_state=self.seed, **options)

    def begin(self, X, y):
        self.model, self.classes = self.make(), np.unique(y)

    def one_pass(self, X, y):
        self.model.partial_fit(sparse.csr_matrix(X) if sparse.issparse(X) else X, y, classes=self.classes)


class Anew:
    """A contender that is fitted anew for each of `stages`, the points of its curve, or with `trial` alone."""

    def fit(self, X, y):
        X = sparse.csr_matrix(X) if sparse.issparse(X) else X
        is_trial = len(self.look.parts) == 1
        for stage in (self.trial,) if is_trial else self.stages:
            self.look.start()
            ended = self.fit_once(X, y, stage)
            # The next stage takes about twice as long.
            if self.look(self.log_p, stage, always=True) or ended or self.look.spent[0] > self.look.most_s / 2:
                break
        self.look.keep()


class LogisticRegression(Anew, quality.LogisticRegression):
    """scikit-learn's, by L-BFGS; stages are iterations."""

    solver, stages, trial = "lbfgs", (5, 10, 20, 40, 80, 160, 500), 80

    def fit_once(self, X, y, stage):
        self.model = self.imported.LogisticRegression(
            solver=self.solver, max_iter=stage, random_state=self.seed, **self.settings
        ).fit(X, y)
        return self.model.n_iter_[0] < stage


class Saga(LogisticRegression):
    """scikit-learn's, by SAGA; stages are passes."""

    solver, stages, trial = "saga", (1, 2, 4, 8, 16, 32, 64), 16


class Liblinear(Anew, quality.Contender):
    """One logistic loss for each class; probabilities are divided by their sum. Stages are tolerances."""

    package, module = "liblinear-official", "liblinear.liblinearutil"
    stages, trial = (1.0, 0.1, 0.01), 0.01

    def fit_once(self, X, y, stage):
        self.model = self.imported.train(y.astype(float), X, f"-s 0 -B 1 -q -e {stage} -c {self.settings['C']}")
        model, n = self.model, X.shape[1] + 1
        weights = np.ctypeslib.as_array(model.w, (n * model.nr_class,)).reshape(n, model.nr_class)
        self.W = np.empty((n, model.nr_class), np.float32)
        self.W[:, np.array(model.get_labels())] = weights
        return False

    def save(self):
        path = self.folder / "model.txt"
        self.imported.save_model(str(path), self.model)
        return path

    def scores(self, X):
        return X @ self.W[:-1] + self.W[-1]

    def log_p(self, X, y):
        def shares(at):
            logs = special.log_expit(self.scores(X[at]))
            return (logs - special.logsumexp(logs, axis=1, keepdims=True))[np.arange(len(y[at])), y[at]]

        return np.array(quality.in_chunks(shares, len(y)))

    def top(self, X, k):
        found = quality.in_chunks(
            lambda at: list(zip(*quality.best_of(self.scores(X[at]), k), strict=True)), X.shape[0]
        )
        return np.array([labels for labels, _ in found]), None


OURS = {"SoftmaxClassifier()": {}} | {f"SoftmaxClassifier, {s}": {"solver": s} for s in ("implicit", "exact", "lbfgs")}
PEERS = {
    "scikit-learn lbfgs": LogisticRegression,
    "scikit-learn saga": Saga,
    "scikit-learn SGD": SGDClassifier,
    "liblinear": Liblinear,
}


def contender(name):
    """The class of a contender. PyTorch is imported for its own alone: it would be in the memory of the others."""
    if name.startswith("PyTorch"):
        from race_torch import KINDS

        return KINDS[name]
    return Ours if name in OURS else PEERS[name]


def choose(job, make, X, y, folder):
    """The settings of least held-out loss, with a number of passes where the curve shows one."""
    X, y, X_held, y_held = quality.held_out(X, y, job["grid_rows"], several=False)
    found = []
    for number, settings in enumerate(job["grid"]):
        place = folder / f"trial{number}"
        place.mkdir()
        model = make(settings, 0, place, False)
        model.look = Look([(X_held, y_held)], job["trial_s"])
        model.fit(X, y)
        losses = np.nan_to_num([row[-1] for row in model.look.curve], nan=np.inf)
        at = int(np.argmin(losses))
        if isinstance(model, InPasses):
            n_passes = MOST_PASSES if at == len(losses) - 1 else model.look.curve[at][0]
            settings = settings | {"n_passes": n_passes}
        found.append((float(losses[at]), settings))
    return min(found, key=lambda pair: pair[0])[1], [str(round(loss, 4)) for loss, _ in found]


def some(X, y):
    """Rows that are looked at."""
    rows = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:LOOKED_AT])
    return X[rows], y[rows]


def main(data, folder):
    job = json.loads((folder / "job.json").read_text())
    X, y, _, _ = quality.load(data / "train.npz")
    make = contender(job["model"])
    if "grid" in job:
        begin = time.process_time()
        settings, losses = choose(job, make, X, y, folder)
        found = {"settings": settings, "grid_loss": losses, "grid_cpu_s": round(time.process_time() - begin, 1)}
        (folder / "result.json").write_text(json.dumps(found))
        return
    X_test, y_test, rows, _ = quality.load(data / "test.npz")
    model = make(job["settings"], job["seed"], folder, False)
    k = min(quality.PLACES, job["n_classes"])

    def asked():
        """Figures of the test rows by the model at hand."""
        peak = round(quality.peak())
        path = model.save()
        model.ready()
        model.top(X_test[:100], k)
        begin = time.process_time()
        labels, _ = model.top(X_test, k)
        each = 1e3 * (time.process_time() - begin) / len(y_test)
        return {
            "predict_ms": round(each, 3),
            "accuracy": round(100 * float(np.mean(labels[:, 0] == y_test)), 2),
            "log_loss": round(-float(np.mean(model.log_p(X_test[rows], y_test[rows]))), 4),
            "peak_mb": peak,
            "mb": round(path.stat().st_size / 1e6, 1),
        }

    model.asked, model.classes = asked, np.arange(job["n_classes"])
    model.look = Look([some(X, y), (X_test[rows], y_test[rows])], job["most_s"])
    model.fit(X, y)
    found = {"log_loss": None} | model.look.kept
    found = found | asked() if found["log_loss"] is None else found
    found |= {"curve": model.look.curve, "settings": model.chosen()}
    found["versions"] = {name: quality.version(name) for name in (make.package, "numpy")}
    (folder / "result.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
