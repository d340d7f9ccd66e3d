"""Train a saved model on with new rows, and save it: labels never seen before become classes.

The steps are those of its fit; rows are read as there, texts by the model's own vectorizer, whose words are those of
the fit. What a call costs does not depend on the rows that the model has seen. The file is replaced when all is done,
or another is written (--output). Ctrl-C ends training and saves the model reached so far, with exit code 130.

Several files are learnt one after the other, as they came in time; --prequential scores each before it is learnt, on
its rows whose label the model knows by then. With --half-life old rows fade, for data that drift.

Rows without a label or without a feature are dropped, and it is said how many.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass.classifiers.saving import load, load_notes, save_model
from manyclass.cli.arguments import add_progress, shows_progress
from manyclass.cli.codes import INTERRUPTED
from manyclass.cli.data import DATA, Expected, Labelled, add_data_options, apply_notes, features, labelled, read
from manyclass.cli.evaluate import as_text, evaluated
from manyclass.cli.messages import check_writable, note, print_table, waiting
from manyclass.cli.streams import Rows, add_stream_options, as_classes, stream_of
from manyclass.datasets import Stream, first_label
from manyclass.training.interrupts import was_interrupted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("model", metavar="MODEL", help="model file of `manyclass fit` or an estimator's save")
    parser.add_argument("data", metavar="DATA", nargs="+", help=f"new rows, a file or several in order: {DATA}")
    parser.add_argument("--output", metavar="PATH", help="file for the model; default: MODEL, which is replaced")
    parser.add_argument("--test", metavar="FILE", help="evaluate on this data before and after training")
    parser.add_argument("--n-passes", type=int, default=1, help="passes over the new rows")
    parser.add_argument(
        "--learning-rate", type=float, help="step size; default: where that of the fit ended, larger for many new rows"
    )
    parser.add_argument("--half-life", type=float, help="rows after which an old one counts half; default: never")
    parser.add_argument("--prequential", action="store_true", help="score each file before it is learnt, a line each")
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
    for path in [] if args.stream else args.data[1:]:
        Path(path).stat()  # one that is not there is told before hours of training on the others
    own_jobs, own_verbose = model.n_jobs, model.verbose
    model.set_params(n_jobs=args.n_jobs, verbose=int(shows_progress(args)))
    several = bool(getattr(model, "multilabel_", False))
    expected = Expected.by(model, need_label=True)
    learnt = _Learnt(model, args, expected, several=several)
    learnt.open()  # a mistake is told before the test is evaluated
    test = _rows(args, args.test, expected, several=several) if args.test else None
    if test is not None:
        print_table({"evaluated": "before", **as_text(evaluated(model, test))})
        print()

    before, begin = len(model.classes_), time.perf_counter()
    learnt.run()
    seconds = time.perf_counter() - begin
    model.set_params(n_jobs=own_jobs, verbose=own_verbose)
    with waiting(f"writing {output}"):
        save_model(model, output, notes)
    learnt.tell(before, seconds, output)
    if learnt.interrupted:
        sys.stdout.flush()
        note(f"interrupted; {output} is the model reached so far")
        return INTERRUPTED
    if test is not None:
        print()
        print_table({"evaluated": "after", **as_text(evaluated(model, test))})
    return 0


@dataclass
class _Learnt:
    """Files that are learnt one after the other."""

    model: Any
    args: argparse.Namespace
    expected: Expected
    several: bool
    n_rows: int = 0
    interrupted: bool = False
    first: Labelled | None = None
    parts: Stream | None = None
    prepared: Rows | None = None

    def open(self) -> None:
        """Read the first file, or open the stream."""
        if self.args.stream:
            self.parts, self.prepared = _stream(self.args, self.model, several=self.several)
        else:
            self.first = _rows(self.args, self.args.data[0], self.expected, several=self.several)

    def run(self) -> None:
        """Learn what was opened."""
        names = ("n_passes", "learning_rate", "half_life")
        steps = {name: getattr(self.args, name) for name in names}
        if self.first is not None:
            self._files(self.first, steps)
            return
        self.interrupted = was_interrupted(lambda: self._stream(steps))
        if self.prepared is not None:
            self.prepared.tell()

    def _stream(self, steps: dict[str, Any]) -> None:
        if not self.several:
            self.model.partial_fit(self._counted(), **steps)
            return
        for X, Y in self._counted():
            _of_several(self.model, Labelled(X, Y, np.arange(Y.shape[1]), {}), steps)

    def _counted(self) -> Iterator[Any]:
        assert self.parts is not None
        for part in self.parts:
            yield part
            self.n_rows += part[0].shape[0]

    def _files(self, first: Labelled, steps: dict[str, Any]) -> None:
        train = _of_several if self.several else _of_one
        for at, path in enumerate(self.args.data):
            rows = first if at == 0 else _rows(self.args, path, self.expected, several=self.several)
            if self.args.prequential:
                print(f"{path}: {rows.X.shape[0]} rows, {_scored(self.model, rows)}", flush=True)
            self.interrupted = was_interrupted(partial(train, self.model, rows, steps))
            self.n_rows += rows.X.shape[0]
            if self.interrupted:
                break

    def tell(self, n_before: int, seconds: float, output: str) -> None:
        """Say what was learnt."""
        classes, curve = self.model.classes_, self.model.loss_curve_
        print_table(
            {
                "rows": self.n_rows,
                "classes": f"{len(classes)}, {len(classes) - n_before} of them new",
                "passes": self.args.n_passes,
                "seconds": f"{seconds:.2f}",
                "running loss": f"{curve[-1]:.4f} nats" if len(curve) else "none",
                "model": f"{output} ({os.path.getsize(output)} bytes)",
            }
        )


def _scored(model: Any, rows: Labelled) -> str:
    """What the model makes of rows before it learns them."""
    if not np.isin(as_classes(model.classes_, rows.labels)[np.unique(rows.Y.indices)], model.classes_).any():
        return "none with a known label"
    found = evaluated(model, rows)
    loss = f"log-loss {found['log_loss']:.4f} nats, " if "log_loss" in found else ""
    unseen = found["dropped_rows"]["with_unseen_label"]
    return f"{unseen} of them with a new label; {loss}accuracy {1 - found['error']:.4f}"


def _rows(args: argparse.Namespace, path: str, expected: Expected, *, several: bool) -> Labelled:
    data = read(args, path, expected)
    return labelled(data, features(args, data.records.X, expected.vectorizer), "all" if several else "first")


def _stream(args: argparse.Namespace, model: Any, *, several: bool) -> tuple[Stream, Rows]:
    if hasattr(model, "vectorizer_"):
        raise ValueError(f"{args.model} was fitted on texts, which --stream does not read; leave it out")
    if args.prequential:
        raise ValueError("--prequential is of whole files; leave it out with --stream")
    hashed = "hashed_features" in model.storage()  # which may be of any number
    stream, rows = stream_of(args, several=several, n_features=model.n_features_in_, classes=model.classes_)
    if stream.n_features != model.n_features_in_ and not hashed:
        raise ValueError(
            f"{' '.join(args.data)} has {stream.n_features} features; the model was fitted on {model.n_features_in_}"
        )
    return stream, rows


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
