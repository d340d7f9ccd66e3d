"""Evaluate a model on a data file, exactly, over all classes.

Rows without a label, without a feature, or with a label that the model has not seen are dropped, and it is said how
many.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from manyclass.cli.data import FORM, Labelled, add_data_options, apply_notes, note, print_table, read_labelled
from manyclass.estimators.files import load, load_notes
from manyclass.estimators.softmax import SoftmaxClassifier


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_data_options(parser, of_model=True)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare a model and data for it."""
    parser.add_argument("model", metavar="MODEL", help="model file of `manyclass fit` or SoftmaxClassifier.save")
    parser.add_argument("data", metavar="DATA", help=FORM)
    parser.add_argument("--mmap", action="store_true", help="map the weights instead of reading them")
    parser.add_argument("--n-jobs", type=int, default=-1, help="threads; -1: all cores")


def load_model(args: argparse.Namespace) -> SoftmaxClassifier:
    """Load the model and take the reading options from it that were not given."""
    model: SoftmaxClassifier = load(args.model, mmap=args.mmap)
    apply_notes(args, load_notes(args.model))
    model.n_jobs = args.n_jobs
    return model


def run(args: argparse.Namespace) -> int:
    """Evaluate, tell."""
    model = load_model(args)
    result = evaluated(model, read_labelled(args, args.data, model.n_features_in_), as_text=not args.json)
    if args.json:
        print(json.dumps(result))
    else:
        print_table(result)
    return 0


def evaluated(model: SoftmaxClassifier, data: Labelled, *, as_text: bool = True) -> dict[str, Any]:
    """Return log-loss, error, top-5 error, the rows that count and those that were dropped."""
    seen = np.isin(data.y, model.classes_)
    n_seen = int(np.sum(seen))
    if n_seen < len(data.y):
        note(f"dropped {len(data.y) - n_seen} rows whose label the model has not seen")
    if n_seen == 0:
        raise ValueError("no row has a label that the model has seen")
    X, y = (data.X, data.y) if n_seen == len(data.y) else (data.X[np.flatnonzero(seen)], data.y[seen])
    measured = model.evaluate(X, y)
    dropped = {**data.dropped, "with_unseen_label": len(data.y) - n_seen}
    if not as_text:
        return {**measured, "n_rows": n_seen, "dropped_rows": dropped}
    return {
        "log_loss": f"{measured['log_loss']:.6f} nats",
        "error": f"{measured['error']:.6f}",
        "top5_error": f"{measured['top5_error']:.6f}",
        "rows": n_seen,
        "dropped rows": ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in dropped.items()),
    }
