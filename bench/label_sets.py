"""How often are classes in their sets, by each promise of `calibrate_sets`, and how large are the sets?

The test rows of a data set are halved at random: one half is for `calibrate_sets`, the other is asked. Told are, for a
coverage of .9: the share of rows whose label is in their set, its mean over classes, the share of classes of which more
than half of the rows are not, and the mean and the median size of a set. MAPIE, where it is installed and rows are
dense, as it wants them, has sets by one limit of the same probabilities ("lac"); its "raps" wants two rows of each
class.

    python bench/label_sets.py omniglot gloss-word
"""

import importlib
import importlib.util
import sys
import time

import numpy as np

from manyclass import SoftmaxClassifier
from manyclass.papers.data import load_problem

COVERAGE, SEED = 0.9, 0
WAYS = (None, "class", "cluster", "prevalence")


def told(name, y, is_covered, sizes, seconds):
    """Print a line of the table."""
    _, classes = np.unique(y, return_inverse=True)
    shares = np.bincount(classes, is_covered) / np.bincount(classes)
    means = f"{is_covered.mean():.3f} | {shares.mean():.3f} | {(shares < 0.5).mean():.3f}"
    print(f"| {name} | {means} | {sizes.mean():.1f} | {np.median(sizes):.0f} | {seconds:.1f} |", flush=True)


def mapie_sets(model, X, y, X_new):
    """Whether each class is in the set of each row, by MAPIE."""
    mapie = importlib.import_module("mapie.classification")
    sets = mapie.SplitConformalClassifier(model, confidence_level=COVERAGE, conformity_score="lac", prefit=True)
    return sets.conformalize(X, y).predict_set(X_new)[1][:, :, 0]


def measured(name):
    """Print the table of a data set."""
    data = load_problem(name, scale="l2", max_rows=None)
    model = SoftmaxClassifier(random_state=SEED).fit(data.X_train, data.y_train)
    order = np.random.default_rng(SEED).permutation(len(data.y_test))
    half, new = np.sort(order[::2]), np.sort(order[1::2])
    X, y, X_new, y_new = data.X_test[half], data.y_test[half], data.X_test[new], data.y_test[new]
    print(f"\n{name}: {len(model.classes_)} classes, {len(y)} rows for the sets, {len(y_new)} new ones\n")
    print("| by | rows | classes | classes below half | mean size | median | CPU s |\n| --- |" + " ---: |" * 6)
    for by in WAYS:
        begin = time.process_time()
        sets = model.calibrate_sets(X, y, COVERAGE, by=by).predict_set(X_new, COVERAGE)
        seconds = time.process_time() - begin
        is_covered = np.array([label in labels for label, labels in zip(y_new, sets, strict=True)])
        told(by or "all rows", y_new, is_covered, np.array([*map(len, sets)]), seconds)
    if importlib.util.find_spec("mapie") and isinstance(X, np.ndarray):
        begin = time.process_time()
        inside = mapie_sets(model, X, y, X_new)
        is_covered = inside[np.arange(len(y_new)), np.searchsorted(model.classes_, y_new)]
        told("MAPIE lac", y_new, is_covered, inside.sum(axis=1), time.process_time() - begin)


if __name__ == "__main__":
    for place in sys.argv[1:]:
        measured(place)
