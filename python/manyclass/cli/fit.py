"""Fit a classifier to data and save it.

Estimators: softmax, one of very many classes with its probability; margin, the largest margin, for several labels a row
above all; augment-reduce, choice probabilities (probit, logistic). Each has parameters of its own: `manyclass fit
--estimator margin --help` lists those of margin.

Rows without a label or without a feature are dropped, and it is said how many. Texts become rows by a text vectorizer,
which the model file keeps. Ctrl-C ends training and saves the model reached so far, with exit code 130; before the
first pass, while alpha is chosen for example, there is none, and it says so. Results go to stdout, notes and progress
to stderr.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass.checks import check_number, n_threads_from
from manyclass.classifiers.base import with_classes
from manyclass.classifiers.margin import MarginClassifier
from manyclass.classifiers.saving import save_model
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.classifiers.utility import AugmentReduceClassifier
from manyclass.cli.arguments import (
    add_checkpoints,
    add_parameters,
    add_progress,
    checkpoints_from,
    parameters_from,
    shows_progress,
)
from manyclass.cli.codes import INTERRUPTED
from manyclass.cli.data import (
    DATA,
    Data,
    Expected,
    Labelled,
    add_data_options,
    features,
    labelled,
    notes_of,
    read,
)
from manyclass.cli.evaluate import as_text, evaluated
from manyclass.cli.messages import check_writable, note, print_table, waiting
from manyclass.cli.streams import add_stream_options, labels_in, notes_of_stream, stream_of
from manyclass.datasets import TextVectorizer, first_label
from manyclass.plot import learning_curve
from manyclass.plot.style import form_of
from manyclass.training.checkpoint import Checkpoints
from manyclass.training.interrupts import was_interrupted

ESTIMATORS: dict[str, type[Any]] = {
    "softmax": SoftmaxClassifier,
    "margin": MarginClassifier,
    "augment-reduce": AugmentReduceClassifier,
}
DEFAULT = "softmax"
OF_TEXT = "text_"  # before the names of the text vectorizer's parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command but the estimator's parameters; see `add_estimator`."""
    parser.add_argument("data", metavar="DATA", help=f"training data: {DATA}")
    parser.add_argument("--output", required=True, metavar="PATH", help="file for the model; replaced if it exists")
    parser.add_argument("--estimator", choices=tuple(ESTIMATORS), default=DEFAULT, help="what is fitted, see above")
    parser.add_argument("--test", metavar="FILE", help="evaluate on this data after training")
    parser.add_argument("--evaluate", action="store_true", help="evaluate on the training data after training")
    parser.add_argument("--plot", metavar="FILE", help="draw the loss by pass, as .svg or .png (needs matplotlib)")
    parser.add_argument("--max-seconds", type=float, metavar="S", help="train for at most S seconds")
    add_checkpoints(parser)
    parser.add_argument(
        "--labels",
        choices=("auto", "first", "all", "one"),
        default="auto",
        help="of a row that has several labels, learn the first or all; one: such a row is an error; auto: first, but "
        "all with --estimator margin",
    )
    add_progress(parser)
    add_stream_options(parser, bounded=True)
    add_data_options(parser, of_model=False)
    add_parameters(parser, TextVectorizer, OF_TEXT)


def add_estimator(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Declare the parameters of the estimator that the arguments of the command line name."""
    before = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    before.add_argument("--estimator", default=DEFAULT)
    try:
        name = before.parse_known_args(list(argv))[0].estimator
    except argparse.ArgumentError:
        name = DEFAULT  # the parser proper tells what is wrong
    add_parameters(parser, ESTIMATORS.get(name, ESTIMATORS[DEFAULT]))


def run(args: argparse.Namespace) -> int:
    """Fit, save, tell."""
    progress = shows_progress(args)
    kind = ESTIMATORS[args.estimator]
    model = kind(**parameters_from(args, kind), verbose=int(progress))
    vectorizer = TextVectorizer(**parameters_from(args, TextVectorizer, OF_TEXT))
    _check_before_work(args, model, vectorizer)
    try:
        return _fitted_to_stream(args, model, vectorizer) if args.stream else _fitted(args, model, vectorizer)
    except KeyboardInterrupt:
        if hasattr(model, "classes_"):  # it is saved by then
            raise
        print(f"manyclass: interrupted before there was a model; {args.output} is not written", file=sys.stderr)
        return INTERRUPTED


def _fitted(args: argparse.Namespace, model: Any, vectorizer: TextVectorizer) -> int:
    begin = time.perf_counter()
    data = read(args, args.data, Expected(args.n_features, need_label=True))
    texts = _take_texts(args, data, vectorizer)
    which = _which_labels(args, data)
    args.labels = which
    rows = labelled(data, features(args, data.records.X, vectorizer), which)
    test = _test_rows(args, rows, vectorizer if texts else None) if args.test else None
    read_seconds = time.perf_counter() - begin

    several = which == "all"
    begin = time.perf_counter()
    interrupted = _fit(model, rows, _limits(args), several=several)
    fit_seconds = time.perf_counter() - begin
    model.verbose = 0  # the progress belongs to this run, not to the model
    if texts:
        model.vectorizer_ = vectorizer
    with waiting(f"writing {args.output}"):
        save_model(model, args.output, notes_of(args, data))
    print_table(_summary(args, model, rows, read_seconds, fit_seconds))
    return _after_fit(args, model, interrupted, [("training", rows if args.evaluate else None), ("test", test)])


def _after_fit(args: argparse.Namespace, model: Any, interrupted: bool, to_evaluate: list[tuple[str, Any]]) -> int:
    """Draw and evaluate, but not after Ctrl-C."""
    if interrupted:
        sys.stdout.flush()
        note(f"interrupted; {args.output} is the model reached after {model.n_iter_} passes")
        return INTERRUPTED
    if args.plot:
        _plot(model, args.plot)
    for what, some in to_evaluate:
        if some is not None:
            print()
            print_table({"evaluated on": what, **as_text(evaluated(model, some))})
    return 0


def _fitted_to_stream(args: argparse.Namespace, model: Any, vectorizer: TextVectorizer) -> int:
    """Fit to rows that come in parts."""
    several = args.labels == "all" or (args.labels == "auto" and args.estimator == "margin")
    args.labels = "all" if several else "first"
    _refuse_text_options(vectorizer, f"{args.data} is read as a stream")
    stream, rows = stream_of(args, several=several, n_features=args.n_features)
    more = {name: value for name in ("max_seconds", "max_memory") if (value := getattr(args, name)) is not None}
    if args.max_memory is not None and stream.n_labels is None:
        with waiting("counting the labels"):
            more["classes"] = labels_in(stream)
    begin = time.perf_counter()
    interrupted = was_interrupted(lambda: model.fit(stream, **more))
    seconds = time.perf_counter() - begin
    rows.tell()
    model.verbose = 0
    with waiting(f"writing {args.output}"):
        save_model(model, args.output, notes_of_stream(args, stream))
    hashed = model.storage().get("hashed_features")
    table = {
        "estimator": type(model).__name__,
        "rows": int(model.class_count_.sum()) if not several else None,
        "features": f"{model.n_features_in_}" + (f", hashed onto {hashed} rows of weights" if hashed else ""),
        "classes": len(model.classes_),
        "seconds": f"{seconds:.2f}",
        **_found(args, model),
    }
    print_table({name: value for name, value in table.items() if value is not None})
    return _after_fit(args, model, interrupted, [("test", _test_of(args, model) if args.test else None)])


def _test_of(args: argparse.Namespace, model: Any) -> Labelled:
    data = read(args, args.test, Expected.by(model, need_label=True))
    return labelled(data, features(args, data.records.X, None), args.labels)


def _check_before_work(args: argparse.Namespace, model: Any, vectorizer: TextVectorizer) -> None:
    """Raise now what would else be raised after the training."""
    model.check_parameters()
    vectorizer.check_parameters()
    n_threads_from(model.n_jobs)
    if args.max_seconds is not None:
        check_number("max_seconds", args.max_seconds, low=0)
    Checkpoints.of(**checkpoints_from(args))
    for option in ("max_memory",) if not args.stream else ("evaluate",):
        if getattr(args, option):
            told = "reads all rows at once; leave it out with --stream" if args.stream else "is for --stream"
            raise ValueError(f"--{option.replace('_', '-')} {told}")
    if args.labels == "one" and args.stream:
        raise ValueError("--labels is one; with --stream choose first or all")
    if args.labels == "all" and args.estimator == "augment-reduce":
        raise ValueError("--labels is all; --estimator augment-reduce has one label a row: choose first, or another")
    for path in filter(None, (args.output, args.plot)):
        check_writable(path)
    if args.plot:
        form_of(args.plot)
    if args.plot and importlib.util.find_spec("matplotlib") is None:
        raise ImportError("--plot needs matplotlib: pip install 'manyclass[plot]'")


def _take_texts(args: argparse.Namespace, data: Data, vectorizer: TextVectorizer) -> bool:
    """Fit the vectorizer where the data are texts; else its parameters would have no effect."""
    if isinstance(data.records.X, list):
        with waiting(f"counting the words of {len(data.records.X)} texts"):
            vectorizer.fit(data.records.X)
        return True
    _refuse_text_options(vectorizer, f"{data.name} is read as {data.form}")
    return False


def _refuse_text_options(vectorizer: TextVectorizer, told: str) -> None:
    for name, parameter in inspect.signature(TextVectorizer).parameters.items():
        if getattr(vectorizer, name) != parameter.default:
            raise ValueError(f"--{(OF_TEXT + name).replace('_', '-')} is for texts; {told}")


def _which_labels(args: argparse.Namespace, data: Data) -> str:
    if args.labels != "auto":
        return str(args.labels)
    several = bool(np.any(np.diff(data.records.Y.indptr) > 1))
    return "all" if several and args.estimator == "margin" else "first"


def _test_rows(args: argparse.Namespace, rows: Labelled, vectorizer: TextVectorizer | None) -> Labelled:
    """Read the test data as the training data were."""
    names = np.asarray(rows.X.columns, dtype=object) if hasattr(rows.X, "columns") else None
    several = args.labels == "all"
    expected = Expected(rows.X.shape[1], True, names, vectorizer, several, need_label=True)
    data = read(args, args.test, expected)
    return labelled(data, features(args, data.records.X, vectorizer), args.labels)


def _limits(args: argparse.Namespace) -> dict[str, Any]:
    """What `fit` is told beside the data."""
    return {"max_seconds": args.max_seconds, **checkpoints_from(args)}


def _fit(model: Any, rows: Labelled, more: dict[str, Any], *, several: bool) -> bool:
    """Fit the model; return whether Ctrl-C ended it, the model being the one reached before."""
    if not several:
        return was_interrupted(lambda: model.fit(rows.X, _plain(rows.labels)[first_label(rows.Y)], **more))
    used = np.unique(rows.Y.indices)
    Y = sp.csr_array(rows.Y[:, used])
    Y.sort_indices()
    interrupted = was_interrupted(lambda: model.fit(rows.X, Y, **more))
    # Names instead of the numbers of columns, which are sorted as the names are.
    with_classes(model, _plain(rows.labels[used]))
    return interrupted


def _plain(labels: Any) -> Any:
    """Names as NumPy's own strings, which fit sorts faster; numbers as they are."""
    return labels.astype(str) if labels.dtype.kind == "O" else labels


def _summary(
    args: argparse.Namespace, model: Any, rows: Labelled, read_seconds: float, fit_seconds: float
) -> dict[str, Any]:
    n_rows, n_features = rows.X.shape
    table = {
        "estimator": type(model).__name__,
        "rows": n_rows,
        "features": n_features,
        "classes": len(model.classes_),
        "labels a row": f"{rows.Y.nnz / n_rows:.4g}" if args.labels == "all" else None,
        "non-zeros": n_rows * n_features if hasattr(rows.X, "columns") else rows.X.nnz,
        "seconds to read": f"{read_seconds:.2f}",
        "seconds to fit": f"{fit_seconds:.2f}",
        **_found(args, model),
    }
    return {name: value for name, value in table.items() if value is not None}


def _found(args: argparse.Namespace, model: Any) -> dict[str, str]:
    """What is told of a fit, whatever its data were."""
    curve, chosen = model.loss_curve_, getattr(model, "resolved_params_", {})
    at_zero = ""
    if args.estimator == "softmax" and not model.multilabel_:
        at_zero = f" (W = 0 has {np.log(len(model.classes_)):.4f})"
    return {
        "passes": f"{model.n_iter_} of {chosen.get('max_iter', model.max_iter)}",
        "chosen": ", ".join(f"{name}={_short(value)}" for name, value in chosen.items()) or "nothing",
        "running loss": f"{curve[-1]:.4f} nats{at_zero}" if len(curve) else "none",
        "model": f"{args.output} ({os.path.getsize(args.output)} bytes)",
    }


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _plot(model: Any, path: str) -> None:
    if model.n_iter_ == 0:
        note(f"{path} not drawn: no pass was completed")
        return
    learning_curve(model).save(path)
