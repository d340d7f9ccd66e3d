"""Vectors of words, from the files of word2vec and of `WordVectors.save`, of a model's classes, and of rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_number, did_you_mean
from manyclass.classifiers.base import LabelClassifier
from manyclass.classifiers.predictions import class_vectors
from manyclass.classifiers.saving import load_classifier
from manyclass.cli.data import file_format, text_output
from manyclass.cli.messages import check_writable, waiting
from manyclass.cli.models import OnMappedModel
from manyclass.compressed import STDIN
from manyclass.datasets.inputs import Input, is_safetensors
from manyclass.weights.tensor_file import replacing
from manyclass.words.vectors import FORMAT, WordVectors

BINARY_HEAD = 1 << 16  # bytes by which word2vec's two forms are told apart
N_SEARCHED = 100_000  # names among which one like a name that is not there is looked for


def holds_words(path: str) -> bool:
    """Whether a file looks like one of word vectors."""
    return file_format(path) == FORMAT or is_word2vec(path)


def named_vectors(path: str) -> WordVectors:
    """Read word vectors, or the vectors of a model's classes by the names of the classes.

    Raises
    ------
    ValueError
        If the file is neither, or its model has no such vectors.
    OSError
        If it cannot be read.
    """
    if not is_safetensors(path) or holds_words(path):
        return word_vectors(path)
    model = load_classifier(path, mmap=True)
    try:
        return WordVectors(model.classes_.astype(str).tolist(), class_vectors(model))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def word_vectors(path: str) -> WordVectors:
    """Read word2vec's text or binary form, or what `WordVectors.save` wrote, whichever it is.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if is_safetensors(path):
        return WordVectors.load(path, mmap=True)
    return WordVectors.load_word2vec(path, binary=is_binary_word2vec(path))


def check_known(vectors: WordVectors, names: Sequence[str], path: str) -> None:
    """Raise ValueError for a name that has no vector, with one that looks like it."""
    unit = "word" if holds_words(path) else "class"
    for name in names:
        if name not in vectors:
            hint = did_you_mean(name, vectors.index_to_key[:N_SEARCHED])
            raise ValueError(f"{path} has no {unit} {name!r} among its {len(vectors)}{hint}")


def is_word2vec(path: str) -> bool:
    """Whether the first line is that of word vectors: how many there are, and how long."""
    with open(path, "rb") as file:
        first = file.readline(64)
    fields = first.split()
    return first.endswith(b"\n") and len(fields) == 2 and all(field.isdigit() for field in fields)


def is_binary_word2vec(path: str) -> bool:
    """Whether the numbers behind the first word are those of a machine, and not written out."""
    with open(path, "rb") as file:
        fields = file.readline(64).split()
        dim = int(fields[1]) if len(fields) == 2 and fields[1].isdigit() else 0
        numbers = file.read(BINARY_HEAD).partition(b"\n")[0].split()[1:]
    try:
        return not (len(numbers) == dim and [float(number) for number in numbers])
    except ValueError:
        return True


def as_lines(rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as lines with tabs."""
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


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
    rows = [[f"{value:.7g}" for value in vector] for vector in vectors]
    if names is not None:
        rows = [[name, *row] for name, row in zip(names, rows, strict=True)]
    with text_output(args.output) as out:
        out.write(as_lines(rows))
    return 0


def _vectors(args: EmbedArguments) -> tuple[list[str] | None, NDArray[np.float32]]:
    """Return vectors, and their names where they have some."""
    if args.data is None or not is_safetensors(args.model) or holds_words(args.model):
        with waiting(f"reading {args.model}"):
            named = named_vectors(args.model)
        if args.data is None and holds_words(args.model):
            raise ValueError(f"{args.model} holds word vectors; --classes is for models")
        names = named.index_to_key if args.data is None else [*Input.of(args.data).lines()]
        check_known(named, names, args.model)
        return names, np.ascontiguousarray(named[names])
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
    output_format : {"tsv", "jsonl"}
        form of the output
    """

    file: str
    names: tuple[str, ...]
    _: KW_ONLY
    k: int = 10
    output_format: Literal["tsv", "jsonl"] = "tsv"


def neighbours(args: NeighboursArguments) -> int:
    """Print the words nearest to a word, or the classes nearest to a class, by the cosine of their vectors.

    FILE holds word vectors (word2vec's text or binary form) or a model, whose classes have a vector each: their
    weights. Each line has the name that was asked for, a neighbour and its cosine, with tabs between; the nearest come
    first.
    """
    check_number("k", args.k, low=1, integer=True)
    with waiting(f"reading {args.file}"):
        vectors = named_vectors(args.file)
    names = [*Input.of(STDIN).lines()] if [*args.names] == [STDIN] else [*args.names]
    check_known(vectors, names, args.file)  # all are known, or nothing is printed
    for name in names:
        neighbours = [(other, f"{cosine:.6g}") for other, cosine in vectors.most_similar(name, topn=args.k)]
        if args.output_format == "tsv":
            sys.stdout.write(as_lines([(name, *neighbour) for neighbour in neighbours]))
        else:
            near, cosines = [other for other, _ in neighbours], [float(cosine) for _, cosine in neighbours]
            print(json.dumps({"name": name, "neighbours": near, "cosines": cosines}, ensure_ascii=False))
    return 0
