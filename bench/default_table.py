"""What do fits with nothing set reach on each set, with which shares of members, and what does each member reach alone?

    OMP_NUM_THREADS=1 python bench/default_table.py [names...] --seeds 3 --output FILE

Names are folders of MANYCLASS_DATA; NAME-all has all labels. One label: test log-loss in nats and accuracy in per cent
of test rows whose class is in training; several: P@1/3/5 in per cent. CPU seconds are of the fit. Means of the seeds.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from conftest import machine
from scipy import sparse

from manyclass import MarginClassifier, SoftmaxClassifier, load_xmc
from manyclass.datasets import l2_normalize
from manyclass.metrics import precision_at_k
from manyclass.papers.data import load_problem

ONE_LABEL = (
    "bibtex", "20news", "delicious", "esco-titles", "agent-brand", "recipe-ingredient", "omniglot", "eurlex57k",
    "tmall-next", "toys-next", "mnist", "panlex", "yelp-next", "gowalla", "gloss-word", "yso-en",
)  # fmt: skip
NAMES = (*ONE_LABEL, "bibtex-all", "delicious-all", "eurlex57k-all", "yso-en-all")
MODELS = {
    "default": SoftmaxClassifier,
    "pairs": lambda **settings: SoftmaxClassifier(model="pairs", **settings),
    "embedding": lambda **settings: SoftmaxClassifier(model="embedding", **settings),
    "linear": lambda **settings: SoftmaxClassifier(model="linear", **settings),
    "margins": MarginClassifier,
}


def read_rows(name):
    """Training rows and targets, test rows and targets."""
    if not name.endswith("-all"):
        problem = load_problem(name, scale="l2", max_rows=None)
        seen = np.isin(problem.y_test, problem.y_train)
        return problem.X_train, problem.y_train, problem.X_test[seen], problem.y_test[seen]
    folder = Path(os.environ["MANYCLASS_DATA"]) / name.removesuffix("-all")
    X, Y = load_xmc(folder / "train.txt.xz")
    X_test, Y_test = load_xmc(folder / "test.txt.xz", n_features=X.shape[1], n_labels=Y.shape[1])
    labelled, tested = (np.diff(sparse.csr_array(labels).indptr) > 0 for labels in (Y, Y_test))
    return l2_normalize(X[labelled]), Y[labelled], l2_normalize(X_test[tested]), Y_test[tested]


def measure(model, X, targets, X_test, targets_test):
    """The figures of test rows and the CPU seconds of the fit."""
    began = time.process_time()
    model.fit(X, targets)
    seconds = time.process_time() - began
    if sparse.issparse(targets):
        labels = np.asarray(model.predict_top_k(X_test, 5)[0], dtype=np.int64)
        return [*(100 * precision_at_k(targets_test, labels, k) for k in (1, 3, 5)), seconds]
    accuracy = 100 * np.mean(model.predict(X_test) == targets_test)
    loss = model.evaluate(X_test, targets_test)["log_loss"] if isinstance(model, SoftmaxClassifier) else np.nan
    return [loss, accuracy, seconds]


def shares_of(model):
    """Each member of a fitted default with its share of the scores."""
    members = [line for line in model.auto_report_ if line["parameter"] == "member"]
    return ", ".join(f"{line['value']} {line['share']:.2f}" for line in members)


def row_of(name, label, seeds, rows):
    """A line of the table: the mean of the seeds, and the shares of the first one."""
    models = [MODELS[label](random_state=seed) for seed in range(seeds)]
    *figures, seconds = np.mean([measure(model, *rows) for model in models], axis=0)
    if len(figures) == 3:
        text = "/".join(f"{figure:.1f}" for figure in figures)
    else:
        text = ("" if np.isnan(figures[0]) else f"{figures[0]:.3f}, ") + f"{figures[1]:.1f}"
    return f"| {name} | {label} | {text} | {seconds:.1f} | {shares_of(models[0]) if label == 'default' else ''} |"


def head(seeds):
    """The machine and the columns."""
    place = machine()
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    return [
        "# What does the default reach, and each of its members alone?",
        "",
        f"`bench/default_table.py`: {place['cpu']}, {place['cores']} cores shared with other programs, {place['isa']},",
        f"threads: {threads}, load at the start: {place['load']}; seeds: {seeds}.",
        "Log-loss in nats and accuracy in per cent (margins: the latter alone), or P@1/3/5; CPU seconds to fit.",
        "Embeddings alone are one run; the default may blend several. Shares are those of the first seed.",
        "",
        "| set | model | test rows | CPU s | shares |",
        "|---|---|---|---|---|",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = head(options.seeds)
    for name in options.names:
        if not (Path(os.environ["MANYCLASS_DATA"]) / name.removesuffix("-all")).is_dir():
            print(f"{name}: not in MANYCLASS_DATA, left out", flush=True)
            continue
        rows = read_rows(name)
        for label in options.models:
            lines.append(row_of(name, label, options.seeds, rows))
            print(lines[-1], flush=True)
            options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
