"""Training: fits of classifiers to rows and to streams, and of choice models, and saved models that are trained on."""

from __future__ import annotations

import argparse
import itertools
import re
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from manyclass.choice.model import ChoiceClassifier
from manyclass.classifiers.margin import MarginClassifier
from manyclass.classifiers.predictions import state_of, vectorizer_of, with_classes
from manyclass.classifiers.saving import Classifier, load_notes, save_model
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.classifiers.utility import AugmentReduceClassifier
from manyclass.cli import data as files
from manyclass.cli.choices import ChoiceTable, refuse_others
from manyclass.cli.data import Expected, Reading, Vectorizer, features, labelled, labelled_rows, open_stream, read
from manyclass.cli.messages import (
    check_readable,
    check_writable,
    interrupted,
    listed,
    note,
    print_evaluation,
    print_table,
    waiting,
    written,
)
from manyclass.cli.models import OnModel, evaluated, expected_by, takes_several
from manyclass.cli.options import CheckpointOptions, WithProgress, add_parameters, flag, parameters_from, set_options
from manyclass.datasets import SequenceEncoder, TextVectorizer, first_label
from manyclass.datasets.inputs import LINES, TABLES, Input, files_of
from manyclass.datasets.stream import Records, as_classes, known_labels
from manyclass.labels import as_labels, column_numbers, find_positions, sorted_classes
from manyclass.training.passes import keeping

Estimator = Literal["softmax", "margin", "augment-reduce", "choice"]
KINDS = (SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier, ChoiceClassifier)
ESTIMATORS: dict[str, type[Any]] = dict(zip(get_args(Estimator), KINDS, strict=True))
# What makes rows of raw data, by what stands before the names of its parameters.
VECTORIZERS: dict[str, type[Vectorizer]] = {"text_": TextVectorizer, "sequence_": SequenceEncoder}
SEPARATORS = {"|": r"\|", ";": ";", ",": r",(?! )"}  # of labels, and what looks so
UNSTREAMED = ("groups", "class_text", "checkpoint", "every", "resume")  # for rows that are read at once


@dataclass
class FitArguments(WithProgress):
    """Arguments of the command.

    Attributes
    ----------
    data : DATA
        training data, in one of the forms below; - reads stdin
    output : PATH
        file for the model; replaced if it exists
    estimator : {"softmax", "margin", "augment-reduce", "choice"}
        what is fitted, see above
    test : FILE
        evaluate on this data after training
    max_seconds : S
        train for at most S seconds
    stream : bool
        read DATA in parts while training: a file, a folder or a pattern such as 'day-*.txt.gz', of any form below, but
        no log; texts become rows anew in each pass, and files that do not tell their columns are read once before
    max_memory : SIZE
        the most memory of the model and its training, such as 2GiB; with --stream also that of the rows in hand, and
        where the weights do not fit, features are hashed
    labels : {"auto", "first", "all"}
        of a row that has several labels, learn the first or all; auto: first, but all with --estimator margin or
        --label-separator
    n_features : int
        number of features, where the data do not show all of them; a feature beyond it is an error
    groups : COLUMN
        column of a table that has the group of each row, such as its person, and is no feature then; wherever rows are
        held out, whole groups are
    class_text : FILE
        texts or names of classes, on each line a label, a tab, its text; classes that no row has get scores, too
    parsed : Namespace
        The parameters of the estimator and of the vectorizer among all arguments.
    """

    data: str
    _: KW_ONLY
    output: str
    estimator: Estimator = "softmax"
    test: str | None = None
    max_seconds: float | None = None
    labels: Literal["auto", "first", "all"] = "auto"
    n_features: int | None = None
    checkpoints: CheckpointOptions
    stream: bool = False
    max_memory: str | None = None
    groups: str | None = None
    class_text: str | None = None
    choices: ChoiceTable
    reading: Reading
    parsed: argparse.Namespace

    @property
    def takes_all(self) -> bool:
        """Whether all labels of a row are learnt where some have several, and nobody has said."""
        is_separated = self.estimator == "softmax" and bool(self.reading.label_separator)
        return self.labels == "auto" and (self.estimator == "margin" or is_separated)


def add_to_fit(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Add the parameters of what makes rows of raw data, and of the estimator that the command line names."""
    for prefix, vectorizer in VECTORIZERS.items():
        add_parameters(parser, vectorizer, prefix)
    names = ["softmax", *re.findall(r"--estimator[ =](\S+)", " ".join(argv))]
    add_parameters(parser, ESTIMATORS.get(names[-1], SoftmaxClassifier))  # the parser itself says what is wrong


def fit(args: FitArguments) -> int:
    """Fit a classifier to data and save it.

    --estimator chooses what is fitted: softmax gives probabilities, and is right for most data; margin gives a ranking
    of several labels a row, in less time; augment-reduce gives choice probabilities (probit, logit); choice fits
    discrete choice models with features of alternatives, and gives standard errors: its table is told by --long or
    --wide. Each has parameters of its own: `manyclass fit --estimator margin --help` lists those of margin.

    Rows without a label or without a feature are dropped; a note says how many. The words of texts are counted, and the
    model file keeps the vocabulary, so that later commands take texts; so it is with the items of a log (--sequences).
    Ctrl-C ends training and saves the model reached so far, with exit code 130; where the first pass has not ended,
    there is no model yet, and none is written. Results go to stdout, notes and progress to stderr.
    """
    kind = ESTIMATORS[args.estimator]
    model = kind(**parameters_from(args.parsed, kind), verbose=int(args.progress))
    model.check_parameters()
    check_writable(args.output)
    check_readable(args.test)
    if args.choices.is_table != (kind is ChoiceClassifier):
        raise ValueError("--long or --wide and --estimator choice go together; give both or neither")
    if kind is ChoiceClassifier:
        return _fit_choices(args, model)
    if args.class_text and args.estimator != "softmax":
        raise ValueError(f"--class-text is for --estimator softmax; it is {args.estimator}")
    how = {"keep": "best", "max_seconds": args.max_seconds, "max_memory": args.max_memory, **args.checkpoints.how}
    given, notes, vectorizer, classes = (_open_stream if args.stream else _read_rows)(args, model)
    begin = time.perf_counter()
    with keeping("best") as interruptions:
        model.fit(**given, **how)
    seconds = time.perf_counter() - begin
    if classes is not None:
        with_classes(model, classes)
    if vectorizer is not None:
        model.vectorizer_ = vectorizer
    model.verbose = 0  # the progress belongs to this run, not to the model
    with waiting(f"writing {args.output}"):
        save_model(model, args.output, notes)
    facts = {
        "estimator": type(model).__name__,
        "labels" if takes_several(model) else "rows": int(model.class_count_.sum()),
        "classes": len(model.classes_),
        "features": model.n_features_in_,
        "hashed features": model.storage().get("hashed_features"),
        "seconds": f"{seconds:.2f}",
        "passes": model.n_iter_,
        "chosen": listed(getattr(model, "resolved_params_", {})) or "nothing",
    }
    _print_fit(model, args.output, facts)
    if interruptions:
        return interrupted(f"{args.output} is the model reached after {model.n_iter_} passes")
    if args.test:
        args.reading.take(notes)
        test = labelled_rows(args.reading, args.test, expected_by(model, need_label=True))
        print_evaluation({"evaluated on": args.test}, evaluated(model, test))
    return 0


# The arguments of `fit`, what a model file keeps of the reading, and the vectorizer and the names of columns of labels,
# where the model is not told these by `fit`.
Training = tuple[dict[str, Any], dict[str, Any], Vectorizer | None, NDArray[Any] | None]


def _read_rows(args: FitArguments, model: Classifier) -> Training:
    """Read rows at once."""
    expected = Expected(args.n_features, several=args.labels == "all", need_label=True, n_jobs=model.n_jobs)
    data = read(args.reading, args.data, replace(expected, groups=args.groups))
    vectorizer = _vectorizer(args, files.RAW.get(type(data.X)), f"{data.name} is read as {data.form}")
    notes = args.reading.notes(data.form, one_based=data.one_based)
    texts = files.read_pairs(args.class_text, "label", "text") if args.class_text else {}
    if texts and not isinstance(vectorizer, TextVectorizer):
        raise ValueError(f"--class-text is for texts; {data.name} is read as {data.form}")
    if isinstance(vectorizer, SequenceEncoder):
        # Histories know their users, which the rows that are made of them do not.
        return {"X": data.X.before(), "vectorizer": vectorizer}, notes, None, None
    n_labels = np.diff(data.Y.indptr)
    if vectorizer is not None:
        with waiting(f"counting the words of {len(data.X) + len(texts)} texts"):
            vectorizer.fit([*itertools.compress(data.X, n_labels > 0), *texts.values()])
    several = args.labels == "all" or (args.takes_all and np.any(n_labels > 1))
    rows = labelled(data, features(args.reading, data.X, vectorizer), "all" if several else "first")
    _hint_at_separators(rows)
    classes = rows.labels[np.unique(rows.Y.indices)]
    given = {"X": rows.X, "y": rows.labels[first_label(rows.Y)], "groups": rows.groups}
    if texts:
        names = as_classes(rows.labels, as_labels([*texts]))
        classes, _ = sorted_classes(names, classes)
        names = find_positions(names, classes, "class_text") if several else names
        given["class_text"] = names, features(args.reading, [*texts.values()], vectorizer)
    if several:
        given["y"] = known_labels(classes, rows.labels, rows.Y).sorted_indices()
    return given, notes, vectorizer, classes if several else None


def _hint_at_separators(rows: Records) -> None:
    """Say that labels may be several in one, as "red|round", where a fifth of the rows look so; not "Smith, John"."""
    words = rows.labels[first_label(rows.Y)] if rows.labels.dtype.kind in "OU" else ()
    for separator, pattern in SEPARATORS.items():
        n_words = sum(re.search(pattern, str(word)) is not None for word in words)
        if n_words and 5 * n_words >= len(words):
            hint = f"--label-separator '{separator}' divides them"
            note(f"{n_words:,} of {len(words):,} labels contain {separator!r}; {hint}")


def _open_stream(args: FitArguments, model: Classifier) -> Training:
    """Open rows that come in parts."""
    for name in set_options(args):
        if name in UNSTREAMED:
            raise ValueError(f"{flag(name)} is for rows that are read at once; leave it out with --stream")
    form = _form_of(args.reading, args.data)
    several = args.labels == "all" or (args.takes_all and form not in TABLES)
    kind = TextVectorizer if form in LINES else None
    vectorizer = _vectorizer(args, kind, f"{args.data} is read as a stream of {form}")
    seed = model.random_state if isinstance(model.random_state, int) else 0
    expected = Expected(args.n_features, vectorizer=vectorizer, several=several, need_label=True, n_jobs=model.n_jobs)
    stream, notes = open_stream(args.reading, args.data, form, expected, seed)
    # Of labels that files name before their rows are read, those without a row that counts are no classes.
    if not several and stream.label_names is None and args.max_memory is None:
        return {"X": stream}, notes, vectorizer, None
    classes = files.labels_in(stream)
    names = column_numbers(stream.n_labels or 0) if stream.label_names is None else stream.label_names
    stream = stream.map(lambda X, y: (X, known_labels(classes, names, y).sorted_indices() if several else y))
    return {"X": stream, "classes": classes}, notes, vectorizer, None


def _vectorizer(args: FitArguments, wanted: type[Vectorizer] | None, reading: str) -> Vectorizer | None:
    """Return a vectorizer of a kind; raise ValueError for parameters of others, which would have no effect."""
    vectorizer = None
    for prefix, kind in VECTORIZERS.items():
        parameters, defaults = parameters_from(args.parsed, kind, prefix), kind().get_params()
        changed = [name for name in parameters if parameters[name] != defaults[name]]
        if kind is wanted:
            vectorizer = kind(**parameters)
        elif changed:
            raise ValueError(f"{flag(prefix + changed[0])} is for {files.UNITS[kind]}; {reading}")
    return vectorizer


def _print_fit(model: Classifier, path: str, facts: dict[str, Any]) -> None:
    """Print a table of facts of a training, and of the model that it has written."""
    curve = model.loss_curve_
    loss = f"{curve[-1]:.4f} nats" if len(curve) else "none"
    print_table({**facts, "running loss": loss, "model": written(path)})


def _fit_choices(args: FitArguments, model: ChoiceClassifier) -> int:
    """Fit a choice model to a table, save it, and print its summary and evaluation."""
    refuse_others(args)
    choices = args.choices
    sets, _ = choices.read(args.data, args.reading)
    model.set_params(**choices.parameters(sets.alternatives, model.reference))
    begin = time.perf_counter()
    model.fit(sets)
    seconds = time.perf_counter() - begin
    model.verbose = 0
    with waiting(f"writing {args.output}"):
        model.save(args.output, args.reading.notes(args.reading.form or "csv", one_based=False) | choices.notes({}))
    print(model.summary())
    print()
    columns = ", ".join((*sets.chooser_names, *sets.alternative_names, *sets.pair_names))
    print_table({"features": columns, "seconds": f"{seconds:.2f}", "model": written(args.output)})
    if args.test:
        print_evaluation({"evaluated on": args.test}, model.evaluate(choices.read(args.test, args.reading, model)[0]))
    return 0


# Training on


@dataclass
class LearnArguments(OnModel, WithProgress):
    """Arguments of the command.

    Attributes
    ----------
    data : DATA
        new rows, a file or several in order, in one of the forms below; - reads stdin
    output : PATH
        file for the model; default: MODEL, which is replaced
    n_passes : int
        passes over the new rows; default: 1, or more of a model that was never fitted
    learning_rate : float
        step size; default: where that of the fit ended, larger for many new rows
    half_life : float
        number of newer rows after which a row counts half; default: rows never fade
    prequential : bool
        score each file before it is learnt, a line each
    stream : bool
        read rows in parts, of data larger than memory
    """

    data: tuple[str, ...]
    _: KW_ONLY
    output: str | None = None
    n_passes: int | None = None
    learning_rate: float | None = None
    half_life: float | None = None
    prequential: bool = False
    stream: bool = False


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
    if not args.stream:
        check_readable(*args.data)
    parameters = {"n_jobs": model.n_jobs, "verbose": model.verbose}
    model.set_params(n_jobs=args.n_jobs, verbose=int(args.progress))
    how = {"learning_rate": args.learning_rate, "half_life": args.half_life}
    how |= {} if args.n_passes is None else {"n_passes": args.n_passes}
    n_before, n_learnt, begin = len(model.classes_), state_of(model).history.n_points, time.perf_counter()
    is_interrupted = False
    for path in args.data:
        expected = expected_by(model, need_label=True)
        if args.stream:
            learn_rows = partial(_learn_stream, args, model, path, expected, how)
        else:
            encoder = copy(expected.vectorizer)  # that of the model gets new items when they are learnt
            rows = labelled_rows(args.reading, path, replace(expected, vectorizer=encoder, learns=True))
            if args.prequential:
                print(f"{path}: {rows.X.shape[0]} rows, {_scored(model, rows)}", flush=True)
            if isinstance(encoder, SequenceEncoder):
                model.vectorizer_ = encoder
            learn_rows = partial(_learn, model, rows, how)
        try:
            with keeping("best") as interruptions:
                learn_rows()
            is_interrupted = bool(interruptions)
        except KeyboardInterrupt:
            is_interrupted = True
        if is_interrupted:
            break
    seconds = time.perf_counter() - begin
    model.set_params(**parameters)
    with waiting(f"writing {output}"):
        save_model(model, output, load_notes(args.model))
    classes = f"{len(model.classes_)}, {len(model.classes_) - n_before} of them new"
    n_rows = state_of(model).history.n_points - n_learnt
    _print_fit(model, output, {"rows": n_rows, "classes": classes, "seconds": f"{seconds:.2f}"})
    return interrupted(f"{output} is the model reached so far") if is_interrupted else 0


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


def _learn_stream(args: LearnArguments, model: Classifier, path: str, expected: Expected, how: dict[str, Any]) -> None:
    """Train on the rows of files in parts."""
    if args.prequential or isinstance(expected.vectorizer, SequenceEncoder):
        raise ValueError("--prequential and histories are for rows that are read at once; leave --stream out")
    stream, _ = open_stream(args.reading, path, _form_of(args.reading, path), expected, 0)
    if not expected.several:
        model.partial_fit(((X, as_classes(model.classes_, y)) for X, y in stream), keep="best", **how)
        return
    for X, Y in stream:
        names = column_numbers(Y.shape[1]) if stream.label_names is None else stream.label_names
        _learn(model, Records(X, Y, names), how)


def _form_of(reading: Reading, source: str) -> str:
    """Return the form of the files of a stream."""
    return reading.form_of([Input(str(file)) for file in files_of(source)])


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
