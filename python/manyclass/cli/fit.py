"""Training: fits of classifiers to rows and to streams, and of choice models, and saved models that are trained on."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import time
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from manyclass.choice.model import ChoiceClassifier
from manyclass.classifiers.margin import MarginClassifier
from manyclass.classifiers.predictions import vectorizer_of, with_classes
from manyclass.classifiers.saving import Classifier, load_notes, save_model
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.classifiers.utility import AugmentReduceClassifier
from manyclass.cli.choices import ChoiceTable, refuse_others
from manyclass.cli.data import (
    RAW,
    Expected,
    Reading,
    Streaming,
    Vectorizer,
    features,
    labelled,
    labelled_rows,
    labels_in,
    open_stream,
    read,
    read_pairs,
    streamed_form,
    tell,
)
from manyclass.cli.messages import INTERRUPTED, check_writable, interrupted, note, print_table, waiting, written
from manyclass.cli.models import OnModel, as_text, evaluated, expected_by, print_evaluation, takes_several
from manyclass.cli.options import CheckpointOptions, WithProgress, add_parameters, flag, parameters_from, set_options
from manyclass.datasets import SequenceEncoder, TextVectorizer, first_label
from manyclass.datasets.inputs import LINES, TABLES
from manyclass.datasets.logs import next_items
from manyclass.datasets.records import Records, as_classes, known_labels
from manyclass.labels import as_labels, find_positions, sorted_classes
from manyclass.plot import learning_curve
from manyclass.plot.style import form_of
from manyclass.training.passes import interruption_of

Estimator = Literal["softmax", "margin", "augment-reduce", "choice"]
KINDS: tuple[type[Classifier], ...] = (SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier)
ESTIMATORS: dict[str, type[Classifier]] = dict(zip(get_args(Estimator)[:-1], KINDS, strict=True))
DEFAULT: Estimator = "softmax"
# What makes rows of raw data, and what stands before the names of its parameters.
VECTORIZERS: dict[str, type[Vectorizer]] = {"text_": TextVectorizer, "sequence_": SequenceEncoder}
UNSTREAMED = ("evaluate", "groups", "class_text", "checkpoint", "every", "resume")  # for rows that are read at once
CHOICE = "choice"  # of alternatives, which are no classes with weights of their own


@dataclass(kw_only=True)
class BoundedStreaming(Streaming):
    """Data larger than memory.

    Attributes
    ----------
    max_memory : SIZE
        the most memory of the model and its training, such as 2GiB; with --stream also that of the rows in hand, and
        where the weights do not fit, features are hashed
    """

    max_memory: str | None = None


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
    evaluate : bool
        evaluate on the training data after training
    plot : FILE
        draw the loss by pass, as .svg or .png (needs matplotlib)
    max_seconds : S
        train for at most S seconds
    labels : {"auto", "first", "all", "one"}
        of a row that has several labels, learn the first or all; one: such a row is an error; auto: first, but all with
        --estimator margin
    n_features : int
        number of features, where the data do not show all of them; a feature beyond it is an error
    groups : COLUMN|FILE
        the group of each row, such as its person: a column of a table, which is no feature then, or a file that has one
        on each line; wherever rows are held out, whole groups are
    class_text : FILE
        texts or names of classes, on each line a label, a tab, its text; classes that no row has get scores, too
    parsed : Namespace
        The parameters of the estimator and of the vectorizer among all arguments.
    """

    data: str
    _: KW_ONLY
    output: str
    estimator: Estimator = DEFAULT
    test: str | None = None
    evaluate: bool = False
    plot: str | None = None
    max_seconds: float | None = None
    labels: Literal["auto", "first", "all", "one"] = "auto"
    n_features: int | None = None
    checkpoints: CheckpointOptions
    streaming: BoundedStreaming
    groups: str | None = None
    class_text: str | None = None
    choices: ChoiceTable
    reading: Reading
    parsed: argparse.Namespace


def add_to_fit(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Add the parameters of what makes rows of raw data, and of the estimator that the command line names."""
    for prefix, vectorizer in VECTORIZERS.items():
        add_parameters(parser, vectorizer, prefix)
    before = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    before.add_argument("--estimator", default=DEFAULT)
    try:
        name = before.parse_known_args(list(argv))[0].estimator
    except argparse.ArgumentError:
        name = DEFAULT  # the parser itself says what is wrong
    add_parameters(parser, ChoiceClassifier if name == CHOICE else ESTIMATORS.get(name, ESTIMATORS[DEFAULT]))


def fit(args: FitArguments) -> int:
    """Fit a classifier to data and save it.

    --estimator chooses what is fitted: softmax gives probabilities, and is right for most data; margin gives a ranking
    of several labels a row, in less time; augment-reduce gives choice probabilities (probit, logit); choice fits
    discrete choice models with features of alternatives, and gives standard errors: its table is told by --long or
    --wide. Each has parameters of its own: `manyclass fit --estimator margin --help` lists those of margin.

    Rows without a label or without a feature are dropped; a note says how many. The words of texts are counted, and the
    model file keeps the vocabulary, so that later commands take texts; so it is with the items of a log (--sequences).
    Ctrl-C ends training and saves the model reached so far, with exit code 130; where the first pass has not ended,
    there is no model yet, and a note says so. Results go to stdout, notes and progress to stderr.
    """
    if args.choices.is_table != (args.estimator == CHOICE):
        raise ValueError("--long or --wide and --estimator choice go together; give both or neither")
    if args.estimator == CHOICE:
        return _fit_choices(args)
    kind = ESTIMATORS[args.estimator]
    model = kind(**parameters_from(args.parsed, kind), verbose=int(args.progress))
    model.check_parameters()
    _check_options(args)
    try:
        return (_fit_to_stream if args.streaming.stream else _fit_to_rows)(args, model)
    except KeyboardInterrupt:
        if hasattr(model, "classes_"):  # it is saved by then
            raise
        note(f"interrupted before there was a model; {args.output} is not written")
        return INTERRUPTED


def _fit_choices(args: FitArguments) -> int:
    """Fit a choice model to a long table, save it, and print its summary and evaluations."""
    model = ChoiceClassifier(**parameters_from(args.parsed, ChoiceClassifier))
    model.check_parameters()
    check_writable(args.output)
    refuse_others(args)
    choices, begin = args.choices, time.perf_counter()
    sets, _ = choices.read(args.data, args.reading)
    model.set_params(**choices.parameters(sets.alternatives, model.reference))
    seconds, begin = time.perf_counter() - begin, time.perf_counter()
    model.fit(sets)
    table = {"seconds to read": f"{seconds:.2f}", "seconds to fit": f"{time.perf_counter() - begin:.2f}"}
    if choices.long and not (choices.feature or choices.formula):
        features = (*sets.chooser_names, *sets.alternative_names, *sets.pair_names)
        table = {"features": f"{', '.join(features)}: all columns of numbers", **table}
    model.verbose = 0
    with waiting(f"writing {args.output}"):
        model.save(args.output, args.reading.notes(args.reading.form or "csv", one_based=False) | choices.notes({}))
    print(model.summary())
    print()
    print_table({**table, "model": written(args.output)})
    for path in [args.data] * args.evaluate + ([args.test] if args.test else []):
        evaluated_sets = sets if path == args.data else choices.read(path, args.reading, model)[0]
        print_evaluation({"evaluated on": path}, model.evaluate(evaluated_sets))
    return 0


def _check_options(args: FitArguments) -> None:
    """Raise now what would else be raised after the training, and ValueError for options that cannot be together."""
    for name in set_options(args):
        if args.streaming.stream and name in UNSTREAMED:
            raise ValueError(f"{flag(name)} is for rows that are read at once; leave it out with --stream")
    if args.streaming.stream and args.labels == "one":
        raise ValueError("--labels is one; with --stream choose first or all")
    if args.labels == "all" and args.estimator == "augment-reduce":
        raise ValueError("--labels is all; --estimator augment-reduce has one label a row: choose first, or another")
    if args.class_text and args.estimator != "softmax":
        raise ValueError(f"--class-text is for --estimator softmax; it is {args.estimator}")
    check_writable(args.output)
    if args.plot:
        check_writable(args.plot)
        form_of(args.plot)
        if importlib.util.find_spec("matplotlib") is None:
            raise ImportError("--plot needs matplotlib: pip install 'manyclass[plot]'")


def _vectorizer(args: FitArguments, wanted: type[Vectorizer] | None, reading: str) -> Vectorizer | None:
    """Return a vectorizer of a kind; raise ValueError for parameters of others, which would have no effect."""
    vectorizer = None
    for prefix, kind in VECTORIZERS.items():
        parameters = parameters_from(args.parsed, kind, prefix)
        if kind is wanted:
            vectorizer = kind(**parameters)
            continue
        for name in [name for name, value in kind().get_params().items() if parameters[name] != value]:
            use = "texts" if kind is TextVectorizer else "logs with --sequences"
            raise ValueError(f"{flag(prefix + name)} is for {use}; {reading}")
    return vectorizer


def _fit_to_rows(args: FitArguments, model: Classifier) -> int:
    """Fit to rows that are read at once."""
    begin = time.perf_counter()
    expected = Expected(args.n_features, several=args.labels == "all", need_label=True, n_jobs=model.n_jobs)
    data = read(args.reading, args.data, replace(expected, groups=args.groups))
    vectorizer = _vectorizer(args, RAW.get(type(data.X)), f"{data.name} is read as {data.form}")
    data, how = _counted(args, data, vectorizer)
    which = args.labels
    if which == "auto":
        which = "all" if args.estimator == "margin" and np.any(np.diff(data.Y.indptr) > 1) else "first"
    rows, test = labelled(data, features(args.reading, data.X, vectorizer), which), None
    n_rows, n_features = rows.X.shape
    if args.test:
        names = getattr(rows.X, "columns", None)
        expected = Expected(n_features, True, names, vectorizer, which == "all", need_label=True, n_jobs=model.n_jobs)
        test = labelled_rows(args.reading, args.test, expected, which)
    table = {
        "estimator": type(model).__name__,
        "rows": n_rows,
        "features": n_features,
        "classes": 0,
        "labels a row": f"{rows.Y.nnz / n_rows:.4g}" if which == "all" else None,
        "non-zeros": rows.X.size,
        "seconds to read": f"{time.perf_counter() - begin:.2f}",
    }
    begin = time.perf_counter()
    is_interrupted = _fit(model, rows, {**how, **_how(args)}, several=which == "all")
    table |= {"classes": len(model.classes_), "seconds to fit": f"{time.perf_counter() - begin:.2f}"}
    _save(args, model, vectorizer, args.reading.notes(data.form, one_based=data.one_based), table)
    return _after_fit(args, model, is_interrupted, {"training": rows if args.evaluate else None, "test": test})


def _counted(args: FitArguments, data: Records, vectorizer: Vectorizer | None) -> tuple[Records, dict[str, Any]]:
    """Let the vectorizer count words or items; return the rows, and what `fit` is given of histories and classes."""
    if args.class_text and not isinstance(vectorizer, TextVectorizer):
        raise ValueError(f"--class-text is for texts; {data.name} is read as {data.form}")
    if isinstance(vectorizer, SequenceEncoder):
        histories = data.X.before()
        with waiting(f"counting the items of {len(histories)} histories"):
            vectorizer.fit(histories)
        # Histories know their users, which the rows that are made of them do not.
        return tell(next_items(replace(data, X=histories), vectorizer)), {"X": histories, "vectorizer": vectorizer}
    texts = read_pairs(args.class_text, "label", "text") if args.class_text else {}
    if vectorizer is not None:
        with waiting(f"counting the words of {len(data.X) + len(texts)} texts"):
            vectorizer.fit([*itertools.compress(data.X, np.diff(data.Y.indptr) > 0), *texts.values()])
    rows_of_texts = features(args.reading, [*texts.values()], vectorizer) if texts else None
    return data, {"class_text": (as_labels([*texts]), rows_of_texts)} if texts else {}


def _how(args: FitArguments) -> dict[str, Any]:
    """Return the arguments of `fit` beside the data."""
    return {"max_seconds": args.max_seconds, "max_memory": args.streaming.max_memory, **args.checkpoints.how}


def _fit(model: Classifier, rows: Records, how: dict[str, Any], *, several: bool) -> bool:
    """Fit the model, with what else `fit` is given; return whether Ctrl-C ended it, the model being as it was then."""
    used = rows.labels[np.unique(rows.Y.indices)]
    if "class_text" in how:
        names, texts = how["class_text"]
        names = as_classes(rows.labels, names)
        used, _ = sorted_classes(names, used)
        how["class_text"] = find_positions(names, used, "class_text") if several else names, texts
    X = how.pop("X", rows.X)
    y: Any = None if X is not rows.X else rows.labels[first_label(rows.Y)]
    if several:
        X, y = rows.X, known_labels(used, rows.labels, rows.Y).sorted_indices()
    is_interrupted = interruption_of(lambda: model.fit(X, y, groups=rows.groups, **how)) is not None
    # Names instead of the numbers of columns, which are sorted as the names are.
    if several:
        with_classes(model, used)
    return is_interrupted


def _fit_to_stream(args: FitArguments, model: Classifier) -> int:
    """Fit to rows that come in parts."""
    form, _ = streamed_form(args.reading, args.data)
    has_several = args.labels == "auto" and args.estimator == "margin" and form not in TABLES
    several = args.labels == "all" or has_several
    kind = TextVectorizer if form in LINES else None
    vectorizer = _vectorizer(args, kind, f"{args.data} is read as a stream of {form}")
    seed = model.random_state if isinstance(model.random_state, int) else 0
    expected = Expected(args.n_features, vectorizer=vectorizer, several=several, need_label=True, n_jobs=model.n_jobs)
    stream, rows, notes = open_stream(args.reading, args.data, expected, classes=None, seed=seed)
    how = _how(args)
    # Of labels that files name before their rows are read, those without a row that counts are no classes.
    if several or stream.label_names is not None or args.streaming.max_memory is not None:
        how["classes"] = classes = labels_in(stream, rows)
        names = np.arange(stream.n_labels or 0) if stream.label_names is None else stream.label_names
        stream = stream.map(lambda X, y: (X, known_labels(classes, names, y).sorted_indices() if several else y))
    begin = time.perf_counter()
    is_interrupted = interruption_of(lambda: model.fit(stream, **how)) is not None
    seconds = time.perf_counter() - begin
    rows.tell()
    hashed = model.storage().get("hashed_features")
    table = {
        "estimator": type(model).__name__,
        "rows": int(model.class_count_.sum()) if not several else None,
        "features": f"{model.n_features_in_}" + (f", hashed onto {hashed} rows of weights" if hashed else ""),
        "classes": len(model.classes_),
        "seconds": f"{seconds:.2f}",
    }
    _save(args, model, vectorizer, notes, table)
    test = None
    if args.test and not is_interrupted:
        args.reading.take(notes)
        test = labelled_rows(args.reading, args.test, replace(expected_by(model, need_label=True), several=several))
    return _after_fit(args, model, is_interrupted, {"test": test})


def _save(args: FitArguments, model: Classifier, vectorizer: Any, notes: dict[str, Any], table: dict[str, Any]) -> None:
    """Write the model, and print a table of the fit, to which are added the rows that all fits have."""
    if vectorizer is not None:
        model.vectorizer_ = vectorizer
    model.verbose = 0  # the progress belongs to this run, not to the model
    with waiting(f"writing {args.output}"):
        save_model(model, args.output, notes)
    curve, chosen = model.loss_curve_, getattr(model, "resolved_params_", {})
    at_zero = ""
    if args.estimator == "softmax" and not takes_several(model):
        at_zero = f" (W = 0 has {np.log(len(model.classes_)):.4f})"
    named = [f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in chosen.items()]
    table |= {
        "passes": f"{model.n_iter_} of {chosen.get('max_iter', model.max_iter)}",
        "chosen": ", ".join(named) or "nothing",
        "running loss": f"{curve[-1]:.4f} nats{at_zero}" if len(curve) else "none",
        "model": written(args.output),
    }
    print_table(table)


def _after_fit(args: FitArguments, model: Classifier, is_interrupted: bool, rows: dict[str, Records | None]) -> int:
    """Draw the curve and evaluate, but not after Ctrl-C."""
    if is_interrupted:
        return interrupted(f"{args.output} is the model reached after {model.n_iter_} passes")
    if args.plot and model.n_iter_ == 0:
        note(f"{args.plot} not drawn: no pass was completed")
    elif args.plot:
        learning_curve(model).save(args.plot)
    for title, records in rows.items():
        if records is not None:
            print_evaluation({"evaluated on": title}, evaluated(model, records))
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
