"""Write the vectors of rows, of words or of classes, as .npy or as lines with tabs.

With a model that has embeddings (--model embedding), DATA are rows or texts, and each gets the vector that the hidden
layer makes of it. With word vectors DATA are words, one a line. With --classes the vectors of a model's classes are
written, without any data. A line of TSV is a vector; that of a word or a class begins with its name.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.cli.data import DATA, Expected, add_data_options, features, read
from manyclass.cli.evaluate import load_model
from manyclass.cli.forms import lines_of
from manyclass.cli.messages import check_writable, waiting
from manyclass.cli.sources import Source, is_safetensors
from manyclass.cli.vectors import as_lines, named_vectors
from manyclass.weights.tensor_file import replacing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("model", metavar="FILE", help="a model with embeddings, or word vectors")
    parser.add_argument("data", metavar="DATA", nargs="?", help=f"rows: {DATA}; for word vectors: words, one a line")
    parser.add_argument("--classes", action="store_true", help="write the vectors of the model's classes")
    parser.add_argument("--output", metavar="PATH", help="file: an array if it ends in .npy, else TSV; default: stdout")
    parser.add_argument("--mmap", action="store_true", help="map the weights instead of reading them")
    parser.add_argument("--n-jobs", type=int, default=-1, help="threads; -1: all cores")
    add_data_options(parser, of_model=True)


def run(args: argparse.Namespace) -> int:
    """Look up or compute, write."""
    if args.classes == (args.data is not None):
        raise ValueError("give either DATA or --classes")
    if args.output:
        check_writable(args.output)
    names, vectors = _vectors(args)
    if args.output and args.output.endswith(".npy"):
        with replacing(args.output) as file:
            np.save(file, vectors)
        return 0
    heads: Any = ([name] for name in names) if names is not None else ([] for _ in vectors)
    rows = [[*head, *(f"{value:.7g}" for value in vector)] for head, vector in zip(heads, vectors, strict=True)]
    if args.output:
        with replacing(args.output) as file:
            file.write(as_lines(rows).encode())
    else:
        sys.stdout.write(as_lines(rows))
    return 0


def _vectors(args: argparse.Namespace) -> tuple[list[str] | None, NDArray[np.float32]]:
    """Vectors, and their names where they have some."""
    if args.classes or not is_safetensors(args.model):
        with waiting(f"reading {args.model}"):
            named = named_vectors(args.model)
        if args.classes and named.what != "class":
            raise ValueError(f"{args.model} holds word vectors; --classes is for models")
        if args.classes:
            return list(named.names), np.ascontiguousarray(named.vectors)
        words = lines_of(Source.of(args.data))
        return words, np.ascontiguousarray(named.vectors[[named.row(word) for word in words]])
    model = load_model(args)
    if not hasattr(model, "embed"):
        raise ValueError(f"{args.model} holds a {type(model).__name__}, which has no embeddings")
    try:
        model.embedding_  # noqa: B018 (asked for before the data are read)
    except AttributeError as error:
        raise ValueError(f"{args.model}: {error}") from error
    expected = Expected.by(model, need_label=False)
    data = read(args, args.data, expected)
    return None, model.embed(features(args, data.records.X, expected.vectorizer))
