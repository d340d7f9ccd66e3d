"""After how many seconds has each package's fit reached a training or a test log-loss, and what does it end with?

One label a row, unit rows, one thread, each fit in a process of its own: [passes, CPU s, s, training log-loss, test
log-loss] on the way, by 4,000 training and at most 8,000 test rows, in nats; then of the chosen state the test
log-loss, accuracy in per cent, milliseconds to predict ten labels of a row, peak MB, and MB of the model. Seconds are
of the fit: those of a grid of settings are told apart, but SoftmaxClassifier() makes its trials within its own.

Ours: nothing set, or the solver alone. Peers: GRIDS, by held-out log-loss on a tenth of at most GRID_ROWS rows (their
passes, too: race_models.py). Left out (SETS) is what takes minutes for a pass, or what does not fit the data. A fit
ends at MOST_S processor seconds (yso-en: MOST_OF_YSO). Records go to results/races.jsonl, one for each data set and
model; one that is there is not made again. fastText and label trees, which show no loss on the way, are those of
bench_quality.py. Of generated data there is one set, without grids, of which nothing is recorded. Tables are written by
make_tables.py, the picture by race_picture.py:

    python -m pytest bench/bench_races.py -k "bibtex and PyTorch" [--again]
"""

import datetime
import importlib.util
import tempfile
from pathlib import Path

import numpy as np
import pytest
from bench_quality import KEY, LOSS_ROWS, MOST_CPU, first_labels, in_a_process, read, store, write
from conftest import machine
from race_models import OURS, PEERS

RESULTS = Path(__file__).with_name("results") / "races.jsonl"
SETS = ("bibtex", "delicious", "20news", "mnist", "eurlex57k", "yso-en")
SMALL_SETS = ("bibtex",)  # of generated data
GRID_ROWS, TRIAL_S = 10_000, 15
MOST_S, MOST_OF_YSO, MOST_OF_SMALL = 60, 120, 1

LINEAR = ("PyTorch linear, Adam", "PyTorch linear, SGD")
OF_EMBEDDINGS = tuple(f"PyTorch embeddings, {how}" for how in ("full", "linear_cross_entropy", "sampled", "adaptive"))
# A pass of scikit-learn or liblinear over eurlex57k makes some 10**10 updates; all scores of yso-en take 20 minutes.
LEFT_OUT = {
    "mnist": OF_EMBEDDINGS,  # its rows are no bags of features
    "eurlex57k": tuple(PEERS),
    "yso-en": (*PEERS, *LINEAR, *OF_EMBEDDINGS[:2], "SoftmaxClassifier, exact", "SoftmaxClassifier, lbfgs"),
}

STEPS_OF_ADAM = [{"lr": lr} for lr in (1e-3, 1e-2, 1e-1)]
GRIDS = {
    "scikit-learn lbfgs": [{"C": c} for c in (1.0, 10.0, 100.0)],
    "scikit-learn saga": [{"C": c} for c in (1.0, 10.0, 100.0)],
    "scikit-learn SGD": [{"alpha": alpha} for alpha in (1e-4, 1e-5, 1e-6)],
    "liblinear": [{"C": c} for c in (1.0, 10.0, 100.0)],
    "PyTorch linear, Adam": STEPS_OF_ADAM,
    "PyTorch linear, SGD": [{"lr": lr} for lr in (0.3, 3.0, 30.0)],
    **{name: [{"lr": lr} for lr in (3e-4, 1e-3, 3e-3, 1e-2)] for name in OF_EMBEDDINGS},
}


@pytest.fixture(scope="module", params=SETS)
def prepared(request, data_folder, tmp_path_factory):
    """The name, the folder with the stored data, and the number of classes."""
    X, y, X_test, y_test, classes = first_labels(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    rows = np.sort(np.random.default_rng(0).permutation(len(y_test))[:LOSS_ROWS])
    store(folder / "train.npz", X, y, np.empty(0, np.int64), classes)
    store(folder / "test.npz", X_test, y_test, rows, classes)
    return request.param, folder, len(classes)


@pytest.mark.parametrize("what", [*OURS, *PEERS, *LINEAR, *OF_EMBEDDINGS])
def test_race(timed, prepared, what, request, small):
    name, data, n_classes = prepared
    record = {"run": "races", "data": name, "labels": "first", "model": what, "seed": 0}
    why = left_out(record, request.config.getoption("again"), small)
    if why:
        pytest.skip(why)
    job = {"model": what, "seed": 0, "n_classes": n_classes, "settings": OURS.get(what, {}), "trial_s": TRIAL_S}
    job["most_s"] = MOST_OF_SMALL if small else MOST_OF_YSO if name == "yso-en" else MOST_S
    at = machine()
    at["load"] = at["load"][:1]
    with tempfile.TemporaryDirectory() as place:  # not pytest's, which keeps what it has
        chosen, grid = {}, GRIDS.get(what)
        if small and grid:
            job["settings"] = grid[1] | SMALL_SETTINGS.get(what, {})
        elif grid:
            chosen = in_a_process(data, Path(place) / "grid", job | {"grid": grid, "grid_rows": GRID_ROWS}, SCRIPT)
            assert chosen is not None, f"{grid} took longer than {MOST_CPU} s"
            job["settings"] = chosen["settings"]
        found = in_a_process(data, Path(place) / "fit", job, SCRIPT)
    assert found is not None, f"a fit took longer than {MOST_CPU} s"
    record |= chosen | found
    assert np.isfinite(record["log_loss"])
    assert len(record["curve"][0]) == 5
    at["load"].append(machine()["load"][0])  # before and after
    if not small:
        write(record | at | {"threads": 1, "date": datetime.date.today().isoformat()}, RESULTS)
    timed.taken([record["cpu_s"]], clock="processor")
    timed.tell(**{key: value for key, value in record.items() if key not in ("cpu", "load", "curve")})
    timed.tell(curve="; ".join(f"{cpu_s}: {train} {test}" for _, cpu_s, _, train, test in record["curve"]))


SCRIPT = "race_models.py"
SMALL_SETTINGS = {name: {"n_passes": 4} for name in ("scikit-learn SGD", *LINEAR, *OF_EMBEDDINGS)}


def left_out(record, again, small):
    """Why there is no such run, or nothing."""
    name, model = record["data"], record["model"]
    package = {"P": "torch", "l": "liblinear", "s": "sklearn", "S": "manyclass"}[model[0]]
    if importlib.util.find_spec(package) is None:
        return f"needs {package}: the extra 'bench' has it"
    if small and name not in SMALL_SETS:
        return "generated data: one set"
    if model in LEFT_OUT.get(name, ()):
        return f"{model} is not run on {name}"
    if not small and not again and any(all(old[key] == record[key] for key in KEY) for old in read(RESULTS)):
        return "has a record; --again makes it anew"
    return ""
