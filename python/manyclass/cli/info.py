"""Tell what a file is: a model, an index, word vectors or data, with its shape, parameters and bytes."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import numpy as np

from manyclass.classifiers.files import FORMAT
from manyclass.classifiers.saving import load, load_notes
from manyclass.cli.data import DATA, Data, Expected, add_data_options, read
from manyclass.cli.messages import print_table, waiting
from manyclass.cli.sources import is_safetensors
from manyclass.cli.vectors import is_binary_word2vec, is_word2vec, word_vectors
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.weights.tensor_file import open_tensors
from manyclass.words.vectors import FORMAT as WORDS_FORMAT

INDEXES: dict[str, type[Any]] = {kind.FORMAT[0]: kind for kind in (SphericalClusterIndex, DecomposedIndex)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("path", metavar="FILE", help=f"a model, an index, word vectors, or {DATA}")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_data_options(parser, of_model=False)


def run(args: argparse.Namespace) -> int:
    """Tell."""
    args.labels = "all"  # in the cells of a table, too
    with waiting(f"reading {args.path}"):
        rows = _described(args)
    if args.json:
        print(json.dumps(rows))
    else:
        print_table({key.replace("_", " "): value for key, value in rows.items()})
    return 0


def _described(args: argparse.Namespace) -> dict[str, Any]:
    path = args.path
    if os.path.isfile(path) and args.format == "auto":
        found = open_tensors(path).metadata.get("format") if is_safetensors(path) else None
        if found == FORMAT:
            return describe_model(path, load(path, mmap=True))
        if found in INDEXES:
            return _of_index(path, INDEXES[found])
        if found == WORDS_FORMAT or is_word2vec(path):
            return _of_words(path)
    return _of_data(args)


def describe_model(path: str, model: Any) -> dict[str, Any]:
    """What is told of the model that was loaded from a file."""
    defaults = type(model)().get_params()
    curve, given = model.loss_curve_, model.get_params(deep=False)
    several = bool(getattr(model, "multilabel_", False))
    return {
        "kind": f"model, {type(model).__name__}",
        "written_by": f"manyclass {open_tensors(path).metadata['package_version']}",
        "features": model.n_features_in_,
        "classes": len(model.classes_),
        "labels": f"{model.classes_.dtype}, {model.classes_[0]} ... {model.classes_[-1]}",
        "labels_of_a_row": f"several, {model.n_labels_} on average" if several else "one",
        "texts": _of_vectorizer(model),
        **model.storage(),
        "file_bytes": os.path.getsize(path),
        "passes": model.n_iter_,
        "running_loss": round(float(curve[-1]), 6) if len(curve) else None,
        "parameters": _changed(given, defaults),
        "chosen_in_fit": ", ".join(f"{k}={v!r}" for k, v in getattr(model, "resolved_params_", {}).items())
        or "nothing",
        "reading": ", ".join(f"{k}={v}" for k, v in load_notes(path).items()) or "not recorded",
    }


def _changed(given: dict[str, Any], defaults: dict[str, Any]) -> str:
    changed = [f"{k}={v!r}" for k, v in given.items() if repr(v) != repr(defaults[k])]
    return ", ".join(changed) or "all at their defaults"


def _of_vectorizer(model: Any) -> str:
    vectorizer = getattr(model, "vectorizer_", None)
    if vectorizer is None:
        return "not read"
    terms = "hashed" if vectorizer.n_hash else f"{len(vectorizer.vocabulary_)} terms"
    return f"{terms}, {_changed(vectorizer.get_params(), type(vectorizer)().get_params())}"


def _of_index(path: str, kind: type[Any]) -> dict[str, Any]:
    index = kind.load(path)
    return {
        "kind": f"index, {kind.__name__}",
        "rows": index.n_rows_,
        "features": index.n_features_in_,
        "clusters": index.n_clusters_,
        "probed_clusters": index.n_probe_,
        "parameters": _changed(index.get_params(), kind().get_params()),
        "file_bytes": os.path.getsize(path),
    }


def _of_words(path: str) -> dict[str, Any]:
    words = word_vectors(path)
    names = list(words.vocabulary_)
    table = words.vectors_
    lengths = np.linalg.norm(np.asarray(table), axis=1)
    form = f"word2vec's {'binary' if is_binary_word2vec(path) else 'text'} form" if is_word2vec(path) else "compressed"
    return {
        "kind": f"word vectors, {form}",
        "words": len(names),
        "dimensions": table.shape[1],
        "bytes": table.nbytes,
        "first_words": ", ".join(names[:5]),
        "lengths": f"{lengths.min(initial=np.inf):.4g} to {lengths.max(initial=0):.4g}" if names else "none",
        "file_bytes": os.path.getsize(path),
    }


def _of_data(args: argparse.Namespace) -> dict[str, Any]:
    data = read(args, args.path, Expected(args.n_features))
    size = os.path.getsize(args.path) if os.path.isfile(args.path) else None
    Y = data.records.Y
    labels_per_row, n_rows = np.diff(Y.indptr), max(1, Y.shape[0])
    names = data.records.labels
    about = {
        "labels": len(names),
        "labels_in_use": len(np.unique(Y.indices)),
        "labels_per_row": _spread(labels_per_row, Y.nnz / n_rows),
        "rows_without_label": int(np.sum(labels_per_row == 0)),
    }
    if len(names) and names.dtype.kind == "O":
        about["names"] = f"{names[0]} ... {names[-1]}"
    return {**_of_features(data), **about, **({} if size is None else {"file_bytes": size})}


def _of_features(data: Data) -> dict[str, Any]:
    X, Y = data.records.X, data.records.Y
    if isinstance(X, list):
        lengths = np.array([len(text.split()) for text in X], dtype=np.int64)
        words = _spread(lengths, float(lengths.mean()) if len(X) else 0)
        return {"kind": f"data, {data.form}", "rows": len(X), "words_per_row": words}
    if hasattr(X, "columns"):
        return {"kind": f"data, {data.form}", "rows": len(X), "features": ", ".join(X.columns[:20])}
    per_row = np.diff(X.indptr)
    return {
        "kind": "data, text" if data.form == "xmc" else f"data, {data.form}",
        "rows": X.shape[0],
        "features": X.shape[1],
        "features_in_use": len(np.unique(X.indices)),
        "non_zeros": X.nnz,
        "non_zeros_per_row": _spread(per_row, X.nnz / max(1, X.shape[0])),
        "rows_without_feature": int(np.sum(per_row == 0)),
        "memory_bytes": sum(a.nbytes for m in (X, Y) for a in (m.indptr, m.indices, m.data)),
    }


def _spread(counts: Any, mean: float) -> str:
    return f"{counts.min(initial=counts.max(initial=0))} to {counts.max(initial=0)}, mean {mean:.4g}"
