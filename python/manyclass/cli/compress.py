"""Make a small model for predictions: weights in half precision or in bytes, fewer of them, or as many as fit a size.

Predictions are made from the small weights as they stand in the file. What is lost is told by --test: log-loss and
precision before and after. The model cannot be trained on; keep the original for that.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from manyclass.classifiers.saving import load, load_notes, save_model
from manyclass.cli.data import DATA, Expected, Labelled, add_data_options, apply_notes, features, labelled, read
from manyclass.cli.evaluate import as_text, evaluated
from manyclass.cli.messages import check_writable, print_table, waiting
from manyclass.cli.sources import is_safetensors
from manyclass.cli.vectors import is_word2vec, word_vectors
from manyclass.weights.codes import DTYPES
from manyclass.weights.compression import bytes_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("model", metavar="MODEL", help="a model file, or word vectors")
    parser.add_argument("--output", metavar="PATH", required=True, help="file for the small model")
    parser.add_argument(
        "--dtype",
        choices=("auto", *DTYPES),
        default="auto",
        help="type of the weights; auto: float16, with --max-bytes the first that fits of float16, int8, pruned int8",
    )
    parser.add_argument("--prune", type=float, default=0.0, help="share of the weights, the smallest ones, to drop")
    parser.add_argument("--max-bytes", metavar="SIZE", help="most bytes of the file, such as 500000, 10MB or 1GiB")
    parser.add_argument("--test", metavar="FILE", help=f"evaluate on this data before and after: {DATA}")
    parser.add_argument("--n-jobs", type=int, default=-1, help="threads of the evaluation; -1: all cores")
    add_data_options(parser, of_model=True)


def run(args: argparse.Namespace) -> int:
    """Load, compress, save, tell."""
    most = None if args.max_bytes is None else bytes_of(args.max_bytes)
    if not is_safetensors(args.model) and is_word2vec(args.model):
        return _of_words(args, most)
    with waiting(f"loading {args.model}"):
        model = load(args.model, mmap=True)
    notes = load_notes(args.model)
    apply_notes(args, notes)
    check_writable(args.output)
    rows = _rows(args, model) if args.test else None
    if most is not None:  # the notes are in the file, too
        most = max(1, most - len(json.dumps(json.dumps(notes))))
    before = {"file": os.path.getsize(args.model), **model.storage()}
    with waiting("compressing"):
        small = model.compress(args.dtype, prune=args.prune, max_bytes=most)
    results = [] if rows is None else [_evaluated(args, each, rows) for each in (model, small)]
    with waiting(f"writing {args.output}"):
        save_model(small, args.output, notes)
    after = {"file": os.path.getsize(args.output), **small.storage()}
    print_table(
        {
            "weights before": f"{before['weights']}, {_megabytes(before['weight_bytes'])}",
            "weights after": f"{after['weights']}, {_megabytes(after['weight_bytes'])}",
            "file before": f"{args.model} ({_megabytes(before['file'])})",
            "file after": f"{args.output} ({_megabytes(after['file'])})",
        }
    )
    for name, result in zip(("before", "after"), results, strict=False):
        print()
        print_table({"evaluated": name, **as_text(result)})
    return 0


def _of_words(args: argparse.Namespace, most: int | None) -> int:
    if args.test:
        raise ValueError("--test is for models; word vectors have no labels")
    check_writable(args.output)
    with waiting(f"compressing {args.model}"):
        vectors = word_vectors(args.model)
        small = vectors.compress(args.dtype, prune=args.prune, max_bytes=most)
        small.save(args.output)
    before, after = os.path.getsize(args.model), os.path.getsize(args.output)
    print_table(
        {
            "words before": f"{len(vectors)}, {_megabytes(vectors.vectors_.nbytes)}",
            "words after": f"{len(small)}, {_megabytes(small.vectors_.nbytes)}",
            "file before": f"{args.model} ({_megabytes(before)})",
            "file after": f"{args.output} ({_megabytes(after)})",
        }
    )
    return 0


def _rows(args: argparse.Namespace, model: Any) -> Labelled:
    expected = Expected.by(model, need_label=True)
    data = read(args, args.test, expected)
    which = "all" if getattr(model, "multilabel_", False) else "first"
    return labelled(data, features(args, data.records.X, expected.vectorizer), which)


def _evaluated(args: argparse.Namespace, model: Any, rows: Labelled) -> dict[str, Any]:
    own = model.n_jobs
    model.set_params(n_jobs=args.n_jobs)
    result = evaluated(model, rows)
    model.set_params(n_jobs=own)
    return result


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.2f} MB"
