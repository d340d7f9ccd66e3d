"""Tell what a file is: a model, an index, word vectors or data, with its shape, parameters and bytes."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from json import dumps
from typing import Any

import numpy as np

from manyclass.choice.files import FORMAT as CHOICE_FORMAT
from manyclass.choice.model import ChoiceClassifier
from manyclass.classifiers.files import FORMAT
from manyclass.classifiers.saving import load_classifier
from manyclass.cli.data import Expected, Reading, file_format, read
from manyclass.cli.messages import print_table, waiting
from manyclass.cli.models import changed_parameters, describe_model
from manyclass.cli.vectors import holds_words, is_binary_word2vec, word_vectors
from manyclass.datasets.inputs import is_safetensors
from manyclass.datasets.records import Records
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex

Index = SphericalClusterIndex | DecomposedIndex
INDEXES: dict[str, type[Index]] = {kind.FORMAT[0]: kind for kind in (SphericalClusterIndex, DecomposedIndex)}


@dataclass
class InfoArguments:
    """Arguments of the command.

    Attributes
    ----------
    path : FILE
        a model, an index, word vectors, or data in one of the forms below; - reads data from stdin
    json : bool
        print one JSON object instead of a table
    n_features : int
        number of features, where the data do not show all of them; a feature beyond it is an error
    """

    path: str
    _: KW_ONLY
    json: bool = False
    n_features: int | None = None
    reading: Reading


def run(args: InfoArguments) -> int:
    """Print the facts as a table or as JSON."""
    with waiting(f"reading {args.path}"):
        rows = _describe(args)
    if args.json:
        print(dumps(rows))
    else:
        print_table({key.replace("_", " "): str(value) for key, value in rows.items()})
    return 0


def _describe(args: InfoArguments) -> dict[str, Any]:
    path = args.path
    if os.path.isfile(path) and args.reading.format == "auto":
        form = file_format(path)
        if form == FORMAT:
            return describe_model(path, load_classifier(path, mmap=True))
        if form == CHOICE_FORMAT:
            return _describe_choices(path)
        if form in INDEXES:
            return _describe_index(path, INDEXES[form])
        if holds_words(path):
            return _describe_words(path)
    data = read(args.reading, path, Expected(args.n_features, several=True))  # in the cells of a table, too
    size = {"file_bytes": os.path.getsize(path)} if os.path.isfile(path) else {}
    return {**_describe_features(data), **_describe_labels(data), **size}


def _describe_index(path: str, kind: type[Index]) -> dict[str, Any]:
    index = kind.load(path)
    return {
        "kind": f"index, {kind.__name__}",
        "rows": index.n_rows_,
        "features": index.n_features_in_,
        "clusters": index.n_clusters_,
        "probed_clusters": index.n_probe_,
        "parameters": changed_parameters(index),
        "file_bytes": os.path.getsize(path),
    }


def _describe_choices(path: str) -> dict[str, Any]:
    model = ChoiceClassifier.load(path)
    facts = {name.replace(" ", "_"): value for name, value in model.summary().facts.items()}
    first = ", ".join(model.coef_names_[:5])
    changed = changed_parameters(model)
    return {**facts, "coefficients": first, "parameters": changed, "file_bytes": os.path.getsize(path)}


def _describe_words(path: str) -> dict[str, Any]:
    words = word_vectors(path)
    names = list(words.vocabulary_)
    table = words.vectors_
    lengths = np.linalg.norm(np.asarray(table), axis=1)
    form = "compressed"
    if not is_safetensors(path):
        form = f"word2vec's {'binary' if is_binary_word2vec(path) else 'text'} form"
    return {
        "kind": f"word vectors, {form}",
        "words": len(names),
        "dimensions": table.shape[1],
        "bytes": table.nbytes,
        "first_words": ", ".join(names[:5]),
        "lengths": f"{lengths.min(initial=np.inf):.4g} to {lengths.max(initial=0):.4g}" if names else "none",
        "file_bytes": os.path.getsize(path),
    }


def _describe_labels(data: Records) -> dict[str, Any]:
    Y, names = data.Y, data.labels
    labels_per_row, n_rows = np.diff(Y.indptr), max(1, Y.shape[0])
    about = {
        "labels": len(names),
        "labels_in_use": len(np.unique(Y.indices)),
        "labels_per_row": _spread(labels_per_row, Y.nnz / n_rows),
        "rows_without_label": int(np.sum(labels_per_row == 0)),
    }
    named = len(names) and names.dtype.kind == "O"
    return about | ({"names": f"{names[0]} ... {names[-1]}"} if named else {})


def _describe_features(data: Records) -> dict[str, Any]:
    X, Y = data.X, data.Y
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
