"""Training a saved model on, with files or with a stream of new rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from manyclass.classifiers.predictions import vectorizer_of
from manyclass.classifiers.saving import Classifier, load_notes, save_model
from manyclass.cli.data import Expected, Streaming, labelled_rows, open_stream
from manyclass.cli.messages import check_writable, interrupted, print_table, waiting, written
from manyclass.cli.models import OnModel, as_text, evaluated, expected_by, print_evaluation, takes_several
from manyclass.cli.options import WithProgress
from manyclass.datasets import SequenceEncoder, first_label
from manyclass.datasets.records import Records, as_classes, known_labels
from manyclass.labels import sorted_classes
from manyclass.training.passes import interruption_of


@dataclass
class LearnArguments(OnModel, WithProgress):
    """Arguments of the command.

    Attributes
    ----------
    data : DATA
        new rows, a file or several in order, in one of the forms below; - reads stdin
    output : PATH
        file for the model; default: MODEL, which is replaced
    test : FILE
        evaluate on this data before and after training
    n_passes : int
        passes over the new rows; default: 1, or more of a model that was never fitted
    learning_rate : float
        step size; default: where that of the fit ended, larger for many new rows
    half_life : float
        number of newer rows after which a row counts half; default: rows never fade
    prequential : bool
        score each file before it is learnt, a line each
    """

    data: tuple[str, ...]
    _: KW_ONLY
    output: str | None = None
    test: str | None = None
    n_passes: int | None = None
    learning_rate: float | None = None
    half_life: float | None = None
    prequential: bool = False
    streaming: Streaming

    @property
    def how(self) -> dict[str, Any]:
        """What `partial_fit` is told beside the rows."""
        options = {name: getattr(self, name) for name in ("n_passes", "learning_rate", "half_life")}
        return {name: value for name, value in options.items() if value is not None}


def learn(args: LearnArguments) -> int:
    """Train a saved model on with new rows, and save it: labels never seen before become classes.

    Training goes on with the solver of the fit, and rows are read as they were then; words that the fit has not seen
    are ignored, and new items of a log are added. The time depends on the new rows alone. The model's file is replaced
    at the end, unless --output names another one. Ctrl-C ends training and saves the model reached so far, with exit
    code 130.

    Several files are learnt one after the other, as they came in time; --prequential scores each before it is learnt,
    on its rows whose label the model knows by then. With --half-life old rows fade, for data that drift.

    Rows without a label or without a feature are dropped; a note says how many.
    """
    output = args.output or args.model
    model = args.load()
    check_writable(output)
    for path in [] if args.streaming.stream else args.data[1:]:
        Path(path).stat()  # raises for one that is not there before hours of training on the others
    parameters = {"n_jobs": model.n_jobs, "verbose": model.verbose}
    model.set_params(n_jobs=args.n_jobs, verbose=int(args.progress))
    expected = expected_by(model, need_label=True)
    learnt = (_learn_stream if args.streaming.stream else _learn_files)(args, model, expected)
    # The first file, or the stream, is opened before the test is evaluated, so that its mistakes are found at once.
    next(learnt)
    test = labelled_rows(args.reading, args.test, expected) if args.test else None
    if test is not None:
        print_table({"evaluated": "before", **as_text(evaluated(model, test))})
        print()

    n_before, n_rows, is_interrupted, begin = len(model.classes_), 0, False, time.perf_counter()
    for n, is_interrupted in learnt:
        n_rows += n
        if is_interrupted:
            break
    seconds = time.perf_counter() - begin
    model.set_params(**parameters)
    with waiting(f"writing {output}"):
        save_model(model, output, load_notes(args.model))
    curve = model.loss_curve_
    print_table(
        {
            "rows": n_rows,
            "classes": f"{len(model.classes_)}, {len(model.classes_) - n_before} of them new",
            "passes": args.n_passes or "auto",
            "seconds": f"{seconds:.2f}",
            "running loss": f"{curve[-1]:.4f} nats" if len(curve) else "none",
            "model": written(output),
        }
    )
    if is_interrupted:
        return interrupted(f"{output} is the model reached so far")
    if args.test and args.reading.sequences is not None:  # histories may have new items now
        test = labelled_rows(args.reading, args.test, expected_by(model, need_label=True))
    if test is not None:
        print_evaluation({"evaluated": "after"}, evaluated(model, test))
    return 0


Learnt = Iterator[tuple[int, bool]]  # the numbers of rows learnt, and whether Ctrl-C came; first of none


def _learn_files(args: LearnArguments, model: Classifier, expected: Expected) -> Learnt:
    """Read the first file, then learn each in turn."""
    encoder = copy(expected.vectorizer)  # that of the model gets new items when they are learnt
    expected = replace(expected, vectorizer=encoder, learns=True)
    for number, path in enumerate(args.data):
        rows = labelled_rows(args.reading, path, expected)
        if number == 0:
            yield 0, False
        if args.prequential:
            print(f"{path}: {rows.X.shape[0]} rows, {_scored(model, rows)}", flush=True)
        if isinstance(encoder, SequenceEncoder):
            model.vectorizer_ = copy(encoder)
        yield rows.X.shape[0], interruption_of(partial(_learn, model, rows, args.how)) is not None


def _learn_stream(args: LearnArguments, model: Classifier, expected: Expected) -> Learnt:
    """Open the stream, then learn it."""
    encoder, width, counts = expected.vectorizer, model.n_features_in_, list[int]()
    if isinstance(encoder, SequenceEncoder):
        raise ValueError(f"{args.model} was fitted on histories, which --stream does not read; leave it out")
    if args.prequential:
        raise ValueError("--prequential is of whole files; leave it out with --stream")
    expected = replace(expected, n_features=None if encoder is not None else width)
    stream, rows, _ = open_stream(args.reading, args.data, expected, classes=model.classes_)
    names = stream.label_names
    # A model whose features are hashed takes any number of them.
    if stream.n_features != width and "hashed_features" not in model.storage():
        width_of_stream = f"{' '.join(args.data)} has {stream.n_features} features"
        raise ValueError(f"{width_of_stream}; the model was fitted on {width}")
    yield 0, False

    def parts() -> Iterator[Any]:
        for part in stream:
            yield part
            counts.append(part[0].shape[0])

    def train() -> None:
        if not expected.several:
            model.partial_fit(parts(), **args.how)
            return
        for X, Y in parts():
            _learn(model, Records(X, Y, np.arange(Y.shape[1]) if names is None else names), args.how)

    is_interrupted = interruption_of(train) is not None
    rows.tell()
    yield sum(counts), is_interrupted


def _scored(model: Classifier, rows: Records) -> str:
    """Say how well the model predicts rows before it learns them."""
    if rows.X.shape[1] > model.n_features_in_ and isinstance(vectorizer_of(model), SequenceEncoder):
        rows = replace(rows, X=rows.X[:, : model.n_features_in_])
    if not known_labels(model.classes_, rows.labels, rows.Y).nnz:
        return "none with a known label"
    measures = evaluated(model, rows)
    loss = f"log-loss {measures['log_loss']:.4f} nats, " if "log_loss" in measures else ""
    unseen = measures["dropped_rows"]["with_unseen_label"]
    return f"{unseen} of them with a new label; {loss}accuracy {1 - measures['error']:.4f}"


def _learn(model: Classifier, rows: Records, how: dict[str, Any]) -> None:
    """Train on rows; several labels are a matrix with a column for each class, new ones among them."""
    labels = as_classes(model.classes_, rows.labels)
    if isinstance(vectorizer_of(model), SequenceEncoder):
        how = {**how, "new_features": "grow"}
    if not takes_several(model):
        model.partial_fit(rows.X, labels[first_label(rows.Y)], **how)
        return
    names = sorted_classes(labels[np.unique(rows.Y.indices)], model.classes_)[0]
    model.partial_fit(rows.X, known_labels(names, labels, rows.Y).sorted_indices(), classes=names, **how)
