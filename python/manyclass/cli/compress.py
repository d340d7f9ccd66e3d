"""Make a small model for predictions, with weights in half precision or in bytes, or without the smallest of them.

--test shows what is lost: log-loss and precision before and after. The small model cannot be trained any further; keep
the original for that.
"""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, replace
from json import dumps
from typing import Literal

from manyclass.classifiers.saving import load_notes, save_model
from manyclass.cli.data import labelled_rows
from manyclass.cli.messages import check_writable, print_table, waiting
from manyclass.cli.models import OnModel, as_text, evaluated, expected_by
from manyclass.cli.vectors import is_word2vec, word_vectors
from manyclass.datasets.inputs import is_safetensors
from manyclass.weights.arrays import Dtype
from manyclass.weights.compression import bytes_of


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


def run(args: CompressArguments) -> int:
    """Compress the model, save it, and print both sizes and evaluations."""
    most = None if args.max_bytes is None else bytes_of(args.max_bytes)
    if not is_safetensors(args.model) and is_word2vec(args.model):
        return _compress_words(args, most)
    model, notes = args.load(mmap=True), load_notes(args.model)
    check_writable(args.output)
    expected = replace(expected_by(model, need_label=True), n_jobs=args.n_jobs)
    rows = labelled_rows(args.reading, args.test, expected) if args.test else None
    if most is not None:  # the notes are in the file, too
        most = max(1, most - len(dumps(dumps(notes))))
    with waiting("compressing"):
        small = model.compress(args.dtype, prune=args.prune, max_bytes=most)
    results = {}
    if rows is not None:
        for name, each_model in ("before", model), ("after", small):
            n_jobs, each_model.n_jobs = each_model.n_jobs, args.n_jobs
            results[name] = evaluated(each_model, rows)
            each_model.n_jobs = n_jobs
    with waiting(f"writing {args.output}"):
        save_model(small, args.output, notes)
    before, after = (
        (each_model["weights"], each_model["weight_bytes"]) for each_model in (model.storage(), small.storage())
    )
    _print_sizes(args, "weights", before, after)
    for name, result in results.items():
        print()
        print_table({"evaluated": name, **as_text(result)})
    return 0


def _compress_words(args: CompressArguments, most: int | None) -> int:
    if args.test:
        raise ValueError("--test is for models; word vectors have no labels")
    check_writable(args.output)
    with waiting(f"compressing {args.model}"):
        vectors = word_vectors(args.model)
        small = vectors.compress(args.dtype, prune=args.prune, max_bytes=most)
        small.save(args.output)
    before, after = ((len(each_vectors), each_vectors.vectors_.nbytes) for each_vectors in (vectors, small))
    _print_sizes(args, "words", before, after)
    return 0


def _print_sizes(args: CompressArguments, unit: str, before: tuple[int, int], after: tuple[int, int]) -> None:
    """Print the number and the bytes of weights or words, and the bytes of both files, before and after."""
    pairs = {"before": (args.model, before), "after": (args.output, after)}
    counts = {f"{unit} {name}": f"{n}, {_megabytes(n_bytes)}" for name, (_, (n, n_bytes)) in pairs.items()}
    files = {f"file {name}": f"{path} ({_megabytes(os.path.getsize(path))})" for name, (path, _) in pairs.items()}
    print_table(counts | files)


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.2f} MB"
