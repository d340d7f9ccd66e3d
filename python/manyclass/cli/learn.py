"""Train a saved model on with new rows, and save it: labels never seen before become classes.

The steps are those of its fit; rows are read as there, texts by the model's own vectorizer, whose words are those of
the fit. What a call costs does not depend on the rows that the model has seen. The file is replaced when all is done,
or another is written (--output). Ctrl-C ends training and saves the model reached so far, with exit code 130.

Rows without a label or without a feature are dropped, and it is said how many.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass.cli.arguments import add_progress, shows_progress
from manyclass.cli.codes import INTERRUPTED
from manyclass.cli.data import DATA, Expected, Labelled, add_data_options, apply_notes, features, labelled, read
from manyclass.cli.evaluate import as_text, evaluated
from manyclass.cli.messages import check_writable, note, print_table, waiting
from manyclass.cli.streams import Rows, add_stream_options, as_classes, stream_of
from manyclass.datasets import Stream, first_label
from manyclass.estimators.files import load, load_notes, save_model
from manyclass.training.interrupts import was_interrupted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("model", metavar="MODEL", help="model file of `manyclass fit` or an estimator's save")
    parser.add_argument("data", metavar="DATA", help=f"new rows: {DATA}")
    parser.add_argument("--output", metavar="PATH", help="file for the model; default: MODEL, which is replaced")
    parser.add_argument("--test", metavar="FILE", help="evaluate on this data before and after training")
    parser.add_argument("--n-passes", type=int, default=1, help="passes over the new rows")
    parser.add_argument(
        "--learning-rate", type=float, help="step size; default: where that of the fit ended, larger for many new rows"
    )
    parser.add_argument("--n-jobs", type=int, default=-1, help="threads; -1: all cores")
    add_progress(parser)
    add_stream_options(parser, bounded=False)
    add_data_options(parser, of_model=True)


def run(args: argparse.Namespace) -> int:
    """Load, train on, save, tell."""
    output = args.output or args.model
    with waiting(f"loading {args.model}"):
        model = load(args.model)
    notes = load_notes(args.model)
    apply_notes(args, notes)
    if not hasattr(model, "partial_fit"):
        raise ValueError(f"{args.model} is a {type(model).__name__}, which cannot be trained on")
    check_writable(output)
    own_jobs, own_verbose = model.n_jobs, model.verbose
    model.set_params(n_jobs=args.n_jobs, verbose=int(shows_progress(args)))
    several = bool(getattr(model, "multilabel_", False))
    expected = Expected.by(model, need_label=True)
    rows = None if args.stream else _rows(args, args.data, expected, several=several)
    stream, prepared = _stream(args, model, several=several) if args.stream else (None, None)
    test = _rows(args, args.test, expected, several=several) if args.test else None
    if test is not None:
        print_table({"evaluated": "before", **as_text(evaluated(model, test))})
        print()

    before, seen, begin = len(model.classes_), model.class_count_.sum(), time.perf_counter()
    steps = {"n_passes": args.n_passes, "learning_rate": args.learning_rate}
    if rows is None:
        interrupted = was_interrupted(lambda: _of_stream(model, stream, steps, several=several))
    else:
        train = _of_several if several else _of_one
        interrupted = was_interrupted(lambda: train(model, rows, steps))
    if prepared is not None:
        prepared.tell()
    seconds = time.perf_counter() - begin
    model.set_params(n_jobs=own_jobs, verbose=own_verbose)
    with waiting(f"writing {output}"):
        save_model(model, output, notes)
    curve = model.loss_curve_
    print_table(
        {
            "rows" if rows is not None or not several else "labels": int(model.class_count_.sum() - seen)
            if rows is None
            else rows.X.shape[0],
            "classes": f"{len(model.classes_)}, {len(model.classes_) - before} of them new",
            "passes": args.n_passes,
            "seconds": f"{seconds:.2f}",
            "running loss": f"{curve[-1]:.4f} nats" if len(curve) else "none",
            "model": f"{output} ({os.path.getsize(output)} bytes)",
        }
    )
    if interrupted:
        sys.stdout.flush()
        note(f"interrupted; {output} is the model reached so far")
        return INTERRUPTED
    if test is not None:
        print()
        print_table({"evaluated": "after", **as_text(evaluated(model, test))})
    return 0


def _rows(args: argparse.Namespace, path: str, expected: Expected, *, several: bool) -> Labelled:
    data = read(args, path, expected)
    return labelled(data, features(args, data.records.X, expected.vectorizer), "all" if several else "first")


def _stream(args: argparse.Namespace, model: Any, *, several: bool) -> tuple[Stream, Rows]:
    if hasattr(model, "vectorizer_"):
        raise ValueError(f"{args.model} was fitted on texts, which --stream does not read; leave it out")
    hashed = "hashed_features" in model.storage()  # which may be of any number
    stream, rows = stream_of(args, several=several, n_features=model.n_features_in_, classes=model.classes_)
    if stream.n_features != model.n_features_in_ and not hashed:
        raise ValueError(
            f"{args.data} has {stream.n_features} features; the model was fitted on {model.n_features_in_}"
        )
    return stream, rows


def _of_stream(model: Any, stream: Any, steps: dict[str, Any], *, several: bool) -> None:
    if not several:
        model.partial_fit(stream, **steps)
        return
    for X, Y in stream:
        _of_several(model, Labelled(X, Y, np.arange(Y.shape[1]), {}), steps)


def _of_one(model: Any, rows: Labelled, steps: dict[str, Any]) -> None:
    labels = as_classes(model.classes_, rows.labels)
    model.partial_fit(rows.X, labels[first_label(rows.Y)], **steps)


def _of_several(model: Any, rows: Labelled, steps: dict[str, Any]) -> None:
    used = np.unique(rows.Y.indices)
    labels = as_classes(model.classes_, rows.labels)[used]
    names = np.union1d(model.classes_, labels)
    column = np.full(rows.Y.shape[1], -1, dtype=np.int32)
    column[used] = np.searchsorted(names, labels)
    Y = sp.csr_array((rows.Y.data, column[rows.Y.indices], rows.Y.indptr), shape=(rows.Y.shape[0], len(names)))
    Y.sort_indices()
    model.partial_fit(rows.X, Y, classes=names, **steps)
