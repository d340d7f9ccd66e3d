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
        facts = _describe(args)
    if os.path.isfile(args.path):
        facts.setdefault("file_bytes", os.path.getsize(args.path))
    if args.json:
        print(dumps(facts))
    else:
        print_table({key.replace("_", " "): str(value) for key, value in facts.items()})
    return 0


def _describe(args: InfoArguments) -> dict[str, Any]:
    path = args.path
    if os.path.isfile(path) and args.reading.format == "auto":
        form = file_format(path)
        if form == FORMAT:
            return describe_model(path, load_classifier(path, mmap=True))
        if form == CHOICE_FORMAT:
            model = ChoiceClassifier.load(path)
            facts = {name.replace(" ", "_"): value for name, value in model.summary().facts.items()}
            first = ", ".join(model.coef_names_[:5])
            return {**facts, "coefficients": first, "parameters": changed_parameters(model)}
        if form in INDEXES:
            return _describe_index(INDEXES[form].load(path))
        if holds_words(path):
            return _describe_words(path)
    data = read(args.reading, path, Expected(args.n_features, several=True))  # in the cells of a table, too
    return {**_describe_features(data), **_describe_labels(data)}


def _describe_index(index: Index) -> dict[str, Any]:
    return {
        "kind": f"index, {type(index).__name__}",
        "rows": index.n_rows_,
        "features": index.n_features_in_,
        "clusters": index.n_clusters_,
        "probed_clusters": index.n_probe_,
        "parameters": changed_parameters(index),
    }


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
    }


def _describe_labels(data: Records) -> dict[str, Any]:
    names, labels_per_row = data.labels, np.diff(data.Y.indptr)
    facts = {
        "labels": len(names),
        "labels_in_use": len(np.unique(data.Y.indices)),
        "labels_per_row": _spread(labels_per_row),
        "rows_without_label": int(np.sum(labels_per_row == 0)),
    }
    named = len(names) and names.dtype.kind == "O"
    return facts | ({"names": f"{names[0]} ... {names[-1]}"} if named else {})


def _describe_features(data: Records) -> dict[str, Any]:
    X, kind = data.X, f"data, {data.form}"
    if isinstance(X, list):
        words = np.array([len(text.split()) for text in X], dtype=np.int64)
        return {"kind": kind, "rows": len(X), "words_per_row": _spread(words)}
    if hasattr(X, "columns"):
        return {"kind": kind, "rows": len(X), "features": ", ".join(X.columns[:20])}
    per_row = np.diff(X.indptr)
    return {
        "kind": "data, text" if data.form == "xmc" else kind,
        "rows": X.shape[0],
        "features": X.shape[1],
        "features_in_use": len(np.unique(X.indices)),
        "non_zeros": X.nnz,
        "non_zeros_per_row": _spread(per_row),
        "rows_without_feature": int(np.sum(per_row == 0)),
        "memory_bytes": sum(a.nbytes for m in (X, data.Y) for a in (m.indptr, m.indices, m.data)),
    }


def _spread(counts: Any) -> str:
    mean = counts.sum() / max(1, len(counts))
    return f"{counts.min(initial=counts.max(initial=0))} to {counts.max(initial=0)}, mean {mean:.4g}"
