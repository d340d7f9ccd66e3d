"""Saved files: what they are, how small they can be, their vectors, and a server of their predictions."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import bytes_of, check_number, did_you_mean
from manyclass.choice.files import FORMAT as CHOICE_FORMAT
from manyclass.choice.model import ChoiceClassifier
from manyclass.classifiers.base import LabelClassifier
from manyclass.classifiers.files import FORMAT
from manyclass.classifiers.predictions import class_vectors, vectorizer_of
from manyclass.classifiers.saving import load_classifier, load_notes, save_model
from manyclass.cli import models
from manyclass.cli.data import Expected, Reading, features, file_format, labelled_rows, read, text_output
from manyclass.cli.messages import as_lines, check_writable, note, print_evaluation, print_facts, print_table, waiting
from manyclass.cli.models import OnMappedModel, OnModel, changed_parameters, evaluated, expected_by
from manyclass.compressed import STDIN
from manyclass.datasets.csr import rows_of
from manyclass.datasets.inputs import Input, is_safetensors
from manyclass.datasets.logs import Histories
from manyclass.datasets.stream import Records
from manyclass.labels import written
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.serving.predictor import Limits, Predictor
from manyclass.weights.arrays import Dtype
from manyclass.weights.tensor_file import replacing
from manyclass.words.vectors import FORMAT as WORDS_FORMAT
from manyclass.words.vectors import WordVectors

INDEXES: dict[str, Any] = {kind.FORMAT[0]: kind for kind in (SphericalClusterIndex, DecomposedIndex)}
BINARY_HEAD = 1 << 16  # bytes by which word2vec's two forms are told apart
MOST_PORT = 65535
TUNE_ROWS = 4096  # rows of --approximate that are read into features: some 512 of them are drawn
N_SEARCHED = 100_000  # names among which one like a name that is not there is looked for


@dataclass
class InfoArguments:
    """Arguments of the command.

    Attributes
    ----------
    path : FILE
        a model, an index, word vectors, or data in one of the forms below; - reads data from stdin
    json : bool
        print one JSON object instead of a table
    """

    path: str
    _: KW_ONLY
    json: bool = False
    reading: Reading


def info(args: InfoArguments) -> int:
    """Tell what a file is: a model, an index, word vectors or data, with its shape, parameters and bytes."""
    with waiting(f"reading {args.path}"):
        facts = _describe(args, args.path)
    if os.path.isfile(args.path):
        facts.setdefault("file_bytes", os.path.getsize(args.path))
    shown = {key.replace("_", " "): str(value) for key, value in facts.items()}
    return print_facts(facts if args.json else None, shown)


def _describe(args: InfoArguments, path: str) -> dict[str, Any]:
    form = file_format(path) if os.path.isfile(path) and args.reading.format == "auto" else "data"
    if form == FORMAT:
        return models.describe_model(path, load_classifier(path, mmap=True))
    if form == CHOICE_FORMAT:
        model = ChoiceClassifier.load(path)
        facts = {name.replace(" ", "_"): value for name, value in model.summary().facts.items()}
        first = ", ".join(model.coef_names_[:5])
        return {**facts, "coefficients": first, "parameters": changed_parameters(model)}
    if form in INDEXES:
        index = INDEXES[form].load(path)
        sizes = {"rows": index.n_rows_, "features": index.n_features_in_, "clusters": index.n_clusters_}
        facts = {"kind": f"index, {type(index).__name__}", **sizes, "probed_clusters": index.n_probe_}
        return {**facts, "parameters": changed_parameters(index)}
    if form != "data" and holds_words(path):
        words, kind = word_vectors(path), f"word2vec's {word2vec_form(path)} form" if form is None else "compressed"
        facts = {"kind": f"word vectors, {kind}", "words": len(words), "dimensions": words.vector_size}
        return {**facts, "first_words": ", ".join(words.index_to_key[:5])}
    return _describe_data(read(args.reading, path, Expected(several=True)))  # in cells of a table, too


def _describe_data(data: Records) -> dict[str, Any]:
    X, Y = data.X, data.Y
    facts: dict[str, Any] = {"kind": f"data, {data.form}", "rows": Y.shape[0]}
    if isinstance(X, Histories):
        facts["items_per_row"] = _spread([*map(len, X)])
    elif isinstance(X, list):
        facts["words_per_row"] = _spread([len(text.split()) for text in X])
    elif hasattr(X, "columns"):
        facts["features"] = ", ".join(X.columns[:20])
    else:
        facts |= {"features": X.shape[1], "features_in_use": len(np.unique(X.indices)), "non_zeros": X.nnz}
        facts["non_zeros_per_row"] = _spread(np.diff(X.indptr))
    facts |= {"labels": len(data.labels), "labels_in_use": len(np.unique(Y.indices))}
    facts["labels_per_row"] = _spread(np.diff(Y.indptr))
    if len(data.labels) and data.labels.dtype.kind == "O":
        facts["names"] = f"{data.labels[0]} ... {data.labels[-1]}"
    return facts


def _spread(counts: Sequence[int] | NDArray[Any]) -> str:
    """Return the least, the most and the mean of some counts."""
    array = np.asarray(counts, np.int64) if len(counts) else np.zeros(1, np.int64)
    return f"{array.min()} to {array.max()}, mean {array.mean():.4g}"


@dataclass
class CompressArguments(OnModel):
    """Arguments of the command.

    Attributes
    ----------
    model : MODEL
        a model file, or word vectors
    output : PATH
        file for the small model
    dtype : {"auto", "float16", "int8", "float32"}
        type of the weights; auto: float16, with --max-bytes the first that fits of float16, int8, pruned int8
    prune : float
        share of the weights, the smallest ones, to drop
    max_bytes : SIZE
        most bytes of the file, such as 500000, 10MB or 1GiB
    test : FILE
        evaluate on this data before and after
    """

    _: KW_ONLY
    output: str
    dtype: Literal["auto", Dtype] = "auto"
    prune: float = 0.0
    max_bytes: str | None = None
    test: str | None = None


def compress(args: CompressArguments) -> int:
    """Make a small model for predictions, with weights in half precision or in bytes, or without the smallest of them.

    --test shows what is lost: log-loss and precision before and after. The small model cannot be trained any further;
    keep the original for that.
    """
    most = None if args.max_bytes is None else bytes_of("max_bytes", args.max_bytes)
    check_writable(args.output)
    is_words = not is_safetensors(args.model) and word2vec_form(args.model) is not None
    if is_words and args.test:
        raise ValueError("--test is for models; word vectors have no labels")
    model: Any = word_vectors(args.model) if is_words else args.load(mmap=True)
    notes, results = {} if is_words else load_notes(args.model), {}
    if most is not None:  # the notes are in the file, too
        most = max(1, most - len(json.dumps(json.dumps(notes))))
    with waiting("compressing"):
        small = model.compress(args.dtype, prune=args.prune, max_bytes=most)
    both = {"before": (args.model, model), "after": (args.output, small)}
    if args.test:  # a copy is asked, as the file keeps the threads
        expected = replace(expected_by(model, need_label=True), n_jobs=args.n_jobs)
        rows = labelled_rows(args.reading, args.test, expected)
        for name, (_, asked) in both.items():
            results[name] = evaluated(copy(asked).set_params(n_jobs=args.n_jobs), rows)
    with waiting(f"writing {args.output}"):
        if is_words:
            small.save(args.output)
        else:
            save_model(small, args.output, notes)
    table = dict[str, str]()
    for name, (path, each) in both.items():
        words = {"weights": f"{len(each)} words", "weight_bytes": each.vectors_.nbytes} if is_words else {}
        storage = words or each.storage()
        table[f"weights {name}"] = f"{storage['weights']}, {storage['weight_bytes'] / 1e6:.2f} MB"
        table[f"file {name}"] = f"{path} ({os.path.getsize(path) / 1e6:.2f} MB)"
    print_table(table)
    for name, result in results.items():
        print_evaluation({"evaluated": name}, result)
    return 0


# Vectors that have names


def word2vec_form(path: str) -> str | None:
    """Return "text" or "binary" for a file of word2vec, which begins with two integers; None for others."""
    with open(path, "rb") as file:
        first, row = file.readline(64), file.read(BINARY_HEAD).partition(b"\n")[0]
    fields, numbers = first.split(), row.split()[1:]
    if not first.endswith(b"\n") or len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
    try:
        return "text" if len([float(number) for number in numbers]) == int(fields[1]) else "binary"
    except ValueError:
        return "binary"


def holds_words(path: str) -> bool:
    """Whether a file looks like one of word vectors."""
    return file_format(path) == WORDS_FORMAT or word2vec_form(path) is not None


def named_vectors(path: str, names: Sequence[str]) -> WordVectors:
    """Read word vectors, or the vectors of a model's classes by the names of the classes.

    Raises
    ------
    ValueError
        If the file is neither, its model has no such vectors, or one of `names` is not among theirs.
    OSError
        If it cannot be read.
    """
    unit = "word"
    if not is_safetensors(path) or holds_words(path):
        vectors = word_vectors(path)
    else:
        unit, model = "class", load_classifier(path, mmap=True)
        try:
            vectors = WordVectors(written(model.classes_), class_vectors(model))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    for name in names:
        if name not in vectors:
            hint = did_you_mean(name, vectors.index_to_key[:N_SEARCHED])
            raise ValueError(f"{path} has no {unit} {name!r} among its {len(vectors)}{hint}")
    return vectors


def word_vectors(path: str) -> WordVectors:
    """Read word2vec's text or binary form, or what `WordVectors.save` wrote; raises ValueError if it is neither."""
    if is_safetensors(path):
        return WordVectors.load(path, mmap=True)
    return WordVectors.load_word2vec(path, binary=word2vec_form(path) == "binary")


@dataclass
class EmbedArguments(OnMappedModel):
    """Arguments of the command.

    Attributes
    ----------
    model : FILE
        a model with embeddings, or word vectors
    data : DATA
        rows, in one of the forms below, or for word vectors words, one a line; - reads stdin
    classes : bool
        write the vectors of the model's classes
    output : PATH
        file: an array if it ends in .npy, else TSV; default: stdout
    """

    data: str | None = None
    _: KW_ONLY
    classes: bool = False
    output: str | None = None


def embed(args: EmbedArguments) -> int:
    """Write the vectors of rows, of words or of classes, as .npy or as lines with tabs.

    With a model that has embeddings (--model embedding), DATA are rows or texts, and each gets the vector that the
    hidden layer makes of it. With word vectors DATA are words, one a line. With --classes the vectors of a model's
    classes are written, without any data. A line of TSV is a vector; that of a word or a class begins with its name.
    """
    if args.classes == (args.data is not None):
        raise ValueError("give either DATA or --classes")
    if args.output:
        check_writable(args.output)
    names, vectors = _vectors(args)
    if args.output and args.output.endswith(".npy"):
        with replacing(args.output) as file:
            # Not by np.save, which asks a file for its position: a pipe has none.
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(vectors))
            file.write(vectors.data)
        return 0
    rows = vectors.tolist() if names is None else [[name, *row] for name, row in zip(names, vectors, strict=True)]
    with text_output(args.output) as out:
        out.write(as_lines(rows, digits=7))
    return 0


def _vectors(args: EmbedArguments) -> tuple[list[str] | None, NDArray[np.float32]]:
    """Return vectors, and their names where they have some."""
    is_words = not is_safetensors(args.model) or holds_words(args.model)
    if args.data is None and is_words:
        raise ValueError(f"{args.model} holds no model, which --classes is for")
    if args.data is None or is_words:
        asked = [] if args.data is None else [*Input.of(args.data).lines()]
        with waiting(f"reading {args.model}"):
            vectors = named_vectors(args.model, asked)
        names = vectors.index_to_key if args.data is None else asked
        return names, np.ascontiguousarray(vectors[names])
    model = args.opened()
    if not isinstance(model, LabelClassifier) or not hasattr(model, "embedding_"):
        raise ValueError(f"{args.model} holds a {type(model).__name__}, which has no embeddings")
    return None, np.ascontiguousarray(model.embed(args.features_of(model, args.data)))


@dataclass
class NeighboursArguments:
    """Arguments of the command.

    Attributes
    ----------
    file : FILE
        word vectors, or a model
    names : NAME
        words or classes; - reads them from stdin, one a line
    k : int
        number of neighbours of each
    """

    file: str
    names: tuple[str, ...]
    _: KW_ONLY
    k: int = 10


def neighbours(args: NeighboursArguments) -> int:
    """Print the words nearest to a word, or the classes nearest to a class, by the cosine of their vectors.

    FILE holds word vectors (word2vec's text or binary form) or a model, whose classes have a vector each: their
    weights. Each line has the name that was asked for, a neighbour and its cosine, with tabs between; the nearest come
    first.
    """
    check_number("k", args.k, low=1, integer=True)
    names = [*Input.of(STDIN).lines()] if [*args.names] == [STDIN] else [*args.names]
    with waiting(f"reading {args.file}"):
        vectors = named_vectors(args.file, names)  # all are known, or nothing is printed
    for name in names:
        sys.stdout.write(as_lines([(name, *neighbour) for neighbour in vectors.most_similar(name, topn=args.k)]))
    return 0


# A server of predictions, with one model in memory


@dataclass
class ServeArguments:
    """Arguments of the command.

    Attributes
    ----------
    model : MODEL
        model file of `manyclass fit` or an estimator's save
    host : str
        address to listen at; 0.0.0.0: all of this machine
    allowed_host : NAME
        host name that requests may use, beside --host and localhost; may be given several times; '*' allows all
    port : int
        port to listen at; 0: any free one
    k : int
        number of labels a row, where a request has no "k"
    mmap : bool
        map the weights instead of reading them
    n_jobs : int
        threads of each request: 1 for many small requests at the same time, -1 (all cores) for a few large ones
    approximate : DATA
        build an index that requests with "approximate": true search for up to -k labels (more than 4,096 classes),
        tuned by 128 or more rows of DATA
    recall : float
        share of the labels that --approximate is to find
    threshold : float
        least probability, or score of a model without, of labels, where a request has no "threshold"
    workers : int
        processes that answer at the port, each with the model; needs a system with fork
    access_log : bool
        write a line on stderr for each request
    """

    model: str
    _: KW_ONLY
    host: str = "127.0.0.1"
    allowed_host: list[str] | None = None
    port: int = 8000
    k: int = models.K
    mmap: bool = False
    n_jobs: int = 1
    approximate: str | None = None
    recall: float = models.RECALL
    threshold: float | None = None
    workers: int = 1
    access_log: bool = False
    limits: Limits


def serve(args: ServeArguments) -> int:
    """Answer requests for predictions over HTTP, with one model in memory.

    POST /predict takes JSON, {"rows": [...], "k": 5}, a row being a list of numbers, {"indices": [...], "values":
    [...]} by columns from 0, a text where the model was fitted on texts, or a list of items where it was fitted on
    histories; {"row": ...} is one row; "exclude" has a list of labels for each row that it is not to get, or is "seen":
    what a history has. The answer has labels, scores and probabilities as `manyclass predict` has them. GET /health,
    /info and /metrics are for whoever runs the server, and GET / is a page to try the model on. Requests that are
    refused, and with --access-log all, have a line on stderr. SIGHUP loads the model file anew; where that fails, the
    old model stays. There is no encryption and no password: leave the host as it is, or put a proxy before it. The URL
    is printed on one line once the server listens. SIGTERM or Ctrl-C ends it: running requests are finished, and the
    exit code is 0. The command needs an extra: pip install 'manyclass[serve]'.
    """
    server = importlib.import_module("manyclass.serving.server")  # it needs an extra, which --help does not
    # SIGTERM ends well, and SIGHUP does not end, before the server listens.
    with server.handling({"SIGTERM": lambda *_: sys.exit(0), "SIGHUP": signal.SIG_IGN}):
        check_number("port", args.port, low=0, high=MOST_PORT, integer=True)
        check_number("workers", args.workers, low=1, high=256 if hasattr(os, "fork") else 1, integer=True)
        models.check_options(args)
        address, hosts, is_logged = (args.host, args.port), args.allowed_host or (), args.access_log
        running = server.Server(*address, lambda: _load(args), args.limits, hosts, logs_all=is_logged)
        if not running.run_until_signal(lambda: print(running.url, flush=True), args.workers):
            note(f"requests still ran after {args.limits.grace:g} seconds and were cut off")
            sys.stdout.flush()
            # Python would wait for their threads at its end, however long they take.
            os._exit(0)
    return 0


def _load(args: ServeArguments) -> tuple[Predictor, dict[str, Any]]:
    """Return the predictor of the model file, and what is said of it."""
    reading = Reading()
    model = OnModel(args.model, reading=reading).load(mmap=args.mmap)
    facts = models.describe_model(args.model, model)
    model.n_jobs = args.n_jobs
    how: dict[str, Any] = {"normalize": bool(reading.normalize), "threshold": args.threshold}
    predictor = Predictor(model, args.limits, args.k, **how)
    if args.approximate:
        data = read(reading, args.approximate, expected_by(model, need_label=False))
        X = features(reading, rows_of(data.X, slice(TUNE_ROWS)), vectorizer_of(model))
        with waiting("building the index"):
            predictor.build_index(np.asarray(X, np.float32) if hasattr(X, "columns") else X, args.recall)
    return predictor, facts | {"serving": asdict(args.limits) | predictor.about()}
