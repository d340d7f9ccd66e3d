"""How well does each package predict with nothing set, or with its best documented settings, and at what cost?

One label a row (the first, where there are several): test log-loss in nats, accuracy and the share of rows whose label
is among the ten best, in per cent, and the expected calibration error of the best (15 bins, per cent); P@1/3/5, too, of
which 3 and 5 are a third and a fifth of the share of rows whose label is among the best three and five. All labels:
P@1/3/5 and PSP@1/3/5 (Jain et al., a = 0.55, b = 1.5) in per cent. CPU seconds to fit, milliseconds to predict ten
labels of a row, peak memory in MB of the process with its training data, MB of the saved model. All see the same unit
rows, one thread, each in a process of its own. The log-loss is of at most 8,000 test rows, the same for all, because
trees answer with Python lists of all classes; their scores are divided by their sum, which is 1 for HSM.

Ours: nothing set, with the shares of its members, and on some sets each kind of member alone. Peers: their defaults and
documented options; where GRIDS has more than one setting, the best by held-out log-loss (with all labels: P@1) on a
tenth of at most GRID_ROWS rows, whose seconds are not counted.
Processor seconds are of the fit, in its process. Records go to results/quality.jsonl, one for each data set, model and
seed; one that is there is not made again. Of generated data there is one set, of which nothing is recorded:

    python -m pytest bench/bench_quality.py -k "bibtex and napkinXC" [--again]
"""

import datetime
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from bench_multilabel import MADE, packages, wordnet
from conftest import machine
from quality_models import CONTENDERS, Ours
from scipy import sparse

from manyclass import load_xmc
from manyclass.datasets import first_label, l2_normalize
from manyclass.metrics import expected_calibration_error, precision_at_k, propensities, psp_at_k, top_k_accuracy
from manyclass.papers.data import Problem, load_problem

RESULTS = Path(__file__).with_name("results") / "quality.jsonl"
SEEDS = (0, 1, 2)
ONE_LABEL = (
    "bibtex", "delicious", "eurlex57k", "yso-en", "gloss-word", "gowalla", "yelp-next", "toys-next", "panlex", "20news",
    "mnist", "omniglot", "wordnet", "agent-brand", "recipe-ingredient", "esco-titles", "tmall-next",
)  # fmt: skip
ALL_LABELS = ("bibtex", "delicious", "eurlex57k", "yso-en", "packages", "wordnet")
BY_SGD = (
    "bibtex", "delicious", "20news", "mnist", "eurlex57k", "panlex", "gowalla", "omniglot", "agent-brand",
    "recipe-ingredient",
)  # fmt: skip
# Where each member of a fit with nothing set is fitted alone, too.
MEMBERS_ALONE = ("bibtex", "delicious", "eurlex57k", "agent-brand", "recipe-ingredient", "esco-titles", "tmall-next")
# Where what needs no training stands beside the others; the nearest of all rows of yso-en would take too long.
MANY = ("gloss-word", "wordnet", "yso-en")
SHAPED_LITTLE = ("agent-brand", "recipe-ingredient", "esco-titles", "tmall-next")
NO_TRAINING = dict.fromkeys(("prior", "naive Bayes", "centroids", "counts"), ((*MANY, *SHAPED_LITTLE), ())) | {
    "nearest rows": (MANY[:2], ())
}
LOSS_ROWS, GRID_ROWS, PLACES = 8_000, 10_000, (1, 3, 5)
MANY_CLASSES, FEW_ROWS = 50_000, 500  # above the first number of classes, log-losses are of the second number of rows
MOST_CPU = 1_500  # seconds of a process: a fit of 15 minutes, and its predictions
SHORT = 30  # CPU seconds of a peer's fit up to which it is run with three seeds
SMALL_SETS = ("bibtex",)  # of generated data
DETERMINISTIC = ("scikit-learn lbfgs",)  # one seed says all

# Where each is run. scikit-learn makes a step for each class: left out where a fit takes more than 15 CPU minutes
# (lbfgs: a product of X with K columns takes 30 s on eurlex57k, of some hundred; SGD: K binary problems).
SETS = {
    "SoftmaxClassifier()": (ONE_LABEL, ALL_LABELS),
    "MarginClassifier()": (MEMBERS_ALONE, ALL_LABELS),
    "SoftmaxClassifier(model='embedding')": (MEMBERS_ALONE, MEMBERS_ALONE[:3]),
    "SoftmaxClassifier(model='linear')": (MEMBERS_ALONE, ()),
    "SoftmaxClassifier(model='pairs')": (MEMBERS_ALONE, MEMBERS_ALONE[:3]),
    "scikit-learn lbfgs": (
        ("bibtex", "delicious", "20news", "mnist", "omniglot", "recipe-ingredient"),
        ("bibtex", "delicious"),
    ),
    "scikit-learn SGD": (
        BY_SGD,
        ("bibtex", "delicious"),
    ),
    "napkinXC PLT": (ONE_LABEL, ALL_LABELS),
    "napkinXC HSM": (ONE_LABEL, ()),
    "omikuji Parabel": (ONE_LABEL, ALL_LABELS),
    "omikuji Bonsai": (ONE_LABEL, ALL_LABELS),
    # Not for images: its input is words.
    "fastText": (tuple(name for name in ONE_LABEL if name not in ("mnist", "omniglot")), ALL_LABELS),
} | NO_TRAINING

# napkinXC: its defaults, and less weight on the data. omikuji: its defaults, and the Bonsai-like trees that its README
# finds best. fastText: the steps and passes of its tutorial, and a smaller step, since on delicious most of these run
# away; a tree, or a loss for each label, as it says.
GRIDS = {
    **{f"SoftmaxClassifier(model={model!r})": [{"model": model}] for model in ("embedding", "linear", "pairs")},
    "scikit-learn lbfgs": [{"C": c} for c in (1.0, 10.0, 100.0)],
    "scikit-learn SGD": [{"alpha": alpha} for alpha in (1e-4, 1e-5, 1e-6)],
    "napkinXC PLT": [{}, {"liblinear_c": 1.0}],
    "napkinXC HSM": [{}, {"liblinear_c": 1.0}],
    "omikuji Bonsai": [{"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}],
    "fastText": [{"lr": lr, "epoch": epoch} for lr in (0.02, 0.1, 0.5, 1.0) for epoch in (5, 25)],
}


def grid_of(model, several, n_classes):
    """The settings to choose from."""
    grid = GRIDS.get(model, [{}])
    if model == "fastText":
        # Its documentation: a tree for many classes, one loss for each label of several.
        loss = "hs" if n_classes > 1_000 else "ova" if several else "softmax"
        grid = [{"loss": loss, **settings} for settings in grid]
    if model == "scikit-learn lbfgs" and n_classes > 1_000:
        grid = grid[1:2]  # omniglot: each takes minutes
    return grid


def first_labels(name):
    """Unit rows and their first labels, numbered by the classes that occur in training, and what these are called."""
    if name == "wordnet":
        made = wordnet()
        (X, y), (X_test, y_test) = ((X, first_label(Y)) for X, Y in ((made.X, made.Y), (made.X_test, made.Y_test)))
        seen = np.isin(y_test, y)
        data = Problem(X, y, X_test[seen], y_test[seen])
    else:
        data = load_problem(name, scale="l2", max_rows=None)
    classes, y = np.unique(data.y_train, return_inverse=True)
    return data.X_train, y.astype(np.int64), data.X_test, np.searchsorted(classes, data.y_test), classes


def all_labels(name, folder):
    """Unit rows and the indicators of their labels."""
    if name in MADE:
        _, X, Y, X_test, Y_test, _ = packages() if name == "packages" else wordnet()
    else:
        X, Y = load_xmc(folder / name / "train.txt.xz")
        X_test, Y_test = load_xmc(folder / name / "test.txt.xz", n_features=X.shape[1], n_labels=Y.shape[1])
    kept, kept_test = (np.diff(matrix.indptr) > 0 for matrix in (Y, Y_test))
    return l2_normalize(X[kept]), Y[kept], l2_normalize(X_test[kept_test]), Y_test[kept_test], np.arange(Y.shape[1])


def store(path, X, targets, rows, classes):
    """For quality_models.load: the process that is measured reads no text."""
    stored = {"rows": rows, "classes": classes}
    for name, matrix in (("X", X), ("targets", targets)):
        if sparse.issparse(matrix):
            stored[f"{name}_shape"] = np.array(matrix.shape)
            stored |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        else:
            stored[name] = matrix
    np.savez(path, **stored)


@pytest.fixture(
    scope="module",
    params=[(name, False) for name in ONE_LABEL] + [(name, True) for name in ALL_LABELS],
    ids=lambda which: f"{which[0]} {'all labels' if which[1] else 'one label'}",
)
def prepared(request, data_folder, small, tmp_path_factory):
    """The name, whether all labels are asked, the folder with the stored data, and what predictions are held to."""
    name, several = request.param
    if small and name in MADE:
        pytest.skip("generated data: one seed of one set")
    X, targets, X_test, truth, classes = all_labels(name, data_folder) if several else first_labels(name)
    n_classes = len(classes)
    folder = tmp_path_factory.mktemp(name)
    store(folder / "train.npz", X, targets, np.empty(0, np.int64), classes)
    n = X_test.shape[0]
    rows = np.sort(np.random.default_rng(0).permutation(n)[: FEW_ROWS if n_classes > MANY_CLASSES else LOSS_ROWS])
    store(folder / "test.npz", X_test, truth, rows, classes)
    return name, several, folder, truth, n_classes, propensities(targets) if several else None


def in_a_process(data, folder, job, script="quality_models.py"):
    """What a script of this folder writes into another for a job, or None if it took longer than MOST_CPU."""
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps(job))
    script = str(Path(__file__).with_name(script))
    # Before NumPy is imported there.
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, script, str(data), str(folder)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU, MOST_CPU)),
        check=False,
    )
    if -done.returncode in (signal.SIGXCPU, signal.SIGKILL):  # of the limit
        return None
    if "Encountered NaN" in done.stderr:
        pytest.skip("fastText runs away on these data, as it does on few rows")
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "result.json").read_text())


def read(path=RESULTS):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def write(record, path=RESULTS):
    """One record more, in place of one of the same data, labels, model and seed."""
    same = [json.dumps(old) for old in read(path) if any(old[key] != record[key] for key in KEY)]
    path.write_text("\n".join([*same, json.dumps(record)]) + "\n", "utf-8")


KEY = ("data", "labels", "model", "seed")


def quality(folder, several, truth, propensity):
    """The figures of the predictions that a process left, in per cent."""
    with np.load(folder / "found.npz") as found:
        labels, p = found["labels"], found.get("p")
    if several:
        of_places = precision_at_k(truth, labels, PLACES), psp_at_k(truth, labels, propensity, PLACES)
        return dict(
            zip(("p", "psp"), ([round(100 * float(v), 2) for v in values] for values in of_places), strict=True)
        )
    figures = {"accuracy": float(np.mean(labels[:, 0] == truth)), "hit_10": None}
    figures["hit_10"] = float(top_k_accuracy(truth, labels, labels.shape[1])) if labels.shape[1] == 10 else None
    if p is not None:
        figures["ece"] = expected_calibration_error(truth, labels[:, 0], np.clip(p, 0, 1))
    hits = top_k_accuracy(truth, labels, PLACES) / np.array(PLACES) if labels.shape[1] == 10 else []
    of_places = {"p": [round(100 * float(value), 2) for value in hits]} if len(hits) else {}
    return {key: round(100 * value, 2) for key, value in figures.items() if value is not None} | of_places


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", SETS)
def test_quality(timed, prepared, what, seed, request, small):
    model = what
    name, several, data, truth, n_classes, propensity = prepared
    if name not in SETS[model][several]:
        pytest.skip(f"{model} is not run on {name}")
    record = {"run": "quality", "data": name, "labels": "all" if several else "first", "model": model, "seed": seed}
    before = {} if small else {tuple(old[key] for key in KEY): old for old in read()}
    first = before.get((name, record["labels"], model, SEEDS[0]))
    why = left_out(record, before, request.config.getoption("again"), small)
    if why:
        pytest.skip(why)
    job = {"model": model, "seed": seed, "several": several, "n_classes": n_classes, "settings": {}}
    grid = grid_of(model, several, n_classes)
    at = machine()
    at["load"] = at["load"][:1]
    with tempfile.TemporaryDirectory() as place:  # not pytest's, which keeps models of gigabytes
        chosen = settings_of(job, data, Path(place), grid, first)
        found = in_a_process(data, Path(place) / "fit", job)
        if found is None:
            record |= {"settings": job["settings"], "stopped_cpu_s": MOST_CPU}
        else:
            record |= quality(Path(place) / "fit", several, truth, propensity) | chosen | found
    at["load"].append(machine()["load"][0])  # before and after
    if not small:
        write(record | at | {"threads": 1, "date": datetime.date.today().isoformat()})
    timed.taken([record.get("cpu_s", MOST_CPU)], clock="processor")
    timed.tell(**{key: value for key, value in record.items() if key not in ("cpu", "load")})


def left_out(record, before, again, small):
    """Why there is no such run, or nothing."""
    name, model, seed = (record[key] for key in ("data", "model", "seed"))
    ours, first = issubclass(CONTENDERS[model], Ours), before.get((name, record["labels"], model, SEEDS[0]))
    package = CONTENDERS[model].module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        return f"needs {package}: the extra 'bench' has it"
    if small:
        return "" if seed == SEEDS[0] and name in SMALL_SETS else "generated data: one seed of one set"
    if tuple(record[key] for key in KEY) in before and not again:
        return "has a record; --again makes it anew"
    if model in DETERMINISTIC and seed != SEEDS[0]:
        return f"{model} draws nothing"
    if not ours and seed != SEEDS[0] and (first is None or first.get("cpu_s", SHORT + 1) > SHORT):
        return "a fit of this peer is long, or its first seed has no record"
    return ""


def settings_of(job, data, place, grid, first):
    """Put settings into a job: the first seed's, the best of a grid, whose losses are returned, or the only ones."""
    if job["seed"] != SEEDS[0] and not issubclass(CONTENDERS[job["model"]], Ours):
        job["settings"] = first["settings"]
    elif len(grid) > 1:
        chosen = in_a_process(data, place / "grid", job | {"grid": grid, "grid_rows": GRID_ROWS})
        assert chosen is not None, f"{grid} took longer than {MOST_CPU} s"
        job["settings"] = chosen["settings"]
        return chosen
    else:
        job["settings"] = grid[0]
    return {}
