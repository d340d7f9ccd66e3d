"""Make a small model for predictions, with weights in half precision or in bytes, or without the smallest of them.

--test shows what is lost: log-loss and precision before and after. The small model cannot be trained any further; keep
the original for that.
"""

from __future__ import annotations

import os
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from json import dumps
from typing import Any, Literal

from manyclass.checks import bytes_of
from manyclass.classifiers.saving import Classifier, load_notes, save_model
from manyclass.cli.data import labelled_rows
from manyclass.cli.messages import check_writable, print_table, waiting
from manyclass.cli.models import OnModel, evaluated, expected_by, print_evaluation
from manyclass.cli.vectors import is_word2vec, word_vectors
from manyclass.datasets.inputs import is_safetensors
from manyclass.weights.arrays import Dtype
from manyclass.words.vectors import WordVectors


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
    most = None if args.max_bytes is None else bytes_of("max_bytes", args.max_bytes)
    check_writable(args.output)
    is_words = not is_safetensors(args.model) and is_word2vec(args.model)
    model = word_vectors(args.model) if is_words else args.load(mmap=True)
    rows, notes = None, dict[str, Any]()
    if isinstance(model, WordVectors):
        if args.test:
            raise ValueError("--test is for models; word vectors have no labels")
    else:
        notes, expected = load_notes(args.model), replace(expected_by(model, need_label=True), n_jobs=args.n_jobs)
        rows = labelled_rows(args.reading, args.test, expected) if args.test else None
        if most is not None:  # the notes are in the file, too
            most = max(1, most - len(dumps(dumps(notes))))
    with waiting("compressing"):
        small = model.compress(args.dtype, prune=args.prune, max_bytes=most)
    both = {"before": (args.model, model), "after": (args.output, small)}
    results = {}
    for name, (_, each_model) in both.items():
        if rows is not None and not isinstance(each_model, WordVectors):  # a copy, as the file keeps the threads
            results[name] = evaluated(copy(each_model).set_params(n_jobs=args.n_jobs), rows)
    with waiting(f"writing {args.output}"):
        if isinstance(small, WordVectors):
            small.save(args.output)
        else:
            save_model(small, args.output, notes)
    sizes = _size("before", model) | _size("after", small)
    files = {f"file {name}": f"{path} ({_megabytes(os.path.getsize(path))})" for name, (path, _) in both.items()}
    print_table(sizes | files)
    for name, result in results.items():
        print_evaluation({"evaluated": name}, result)
    return 0


def _size(name: str, model: Classifier | WordVectors) -> dict[str, str]:
    """Say how many words or weights there are, and their bytes."""
    if isinstance(model, WordVectors):
        return {f"words {name}": f"{len(model)}, {_megabytes(model.vectors_.nbytes)}"}
    storage = model.storage()
    return {f"weights {name}": f"{storage['weights']}, {_megabytes(storage['weight_bytes'])}"}


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.2f} MB"
