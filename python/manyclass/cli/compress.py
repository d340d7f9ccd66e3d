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
    check_writable(args.output)
    is_words, results = not is_safetensors(args.model) and is_word2vec(args.model), {}
    if is_words and args.test:
        raise ValueError("--test is for models; word vectors have no labels")
    model: Any = word_vectors(args.model) if is_words else args.load(mmap=True)
    notes = {} if is_words else load_notes(args.model)
    rows = None
    if args.test:
        rows = labelled_rows(args.reading, args.test, replace(expected_by(model, need_label=True), n_jobs=args.n_jobs))
    if most is not None and not is_words:  # the notes are in the file, too
        most = max(1, most - len(dumps(dumps(notes))))
    with waiting("compressing"):
        small = model.compress(args.dtype, prune=args.prune, max_bytes=most)
    both = {"before": (args.model, model), "after": (args.output, small)}
    if rows is not None:  # by copies, so that the models keep their numbers of threads
        copies = {name: copy(each_model).set_params(n_jobs=args.n_jobs) for name, (_, each_model) in both.items()}
        results = {name: as_text(evaluated(each_model, rows)) for name, each_model in copies.items()}
    with waiting(f"writing {args.output}"):
        if is_words:
            small.save(args.output)
        else:
            save_model(small, args.output, notes)
    counts, files = {}, {}
    for name, (path, each_model) in both.items():
        size = each_model.storage() if not is_words else {}
        n, n_bytes = (size["weights"], size["weight_bytes"]) if size else (len(each_model), each_model.vectors_.nbytes)
        counts[f"{'words' if is_words else 'weights'} {name}"] = f"{n}, {_megabytes(n_bytes)}"
        files[f"file {name}"] = f"{path} ({_megabytes(os.path.getsize(path))})"
    print_table(counts | files)
    for name, result in results.items():
        print()
        print_table({"evaluated": name, **result})
    return 0


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.2f} MB"
