"""Weights in model files: their arrays by name, what the description of the model says of them, and how they are read.

Compressed weights have the layout "coded", and the names of their arrays begin with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_choice, check_flag, check_number
from manyclass.weights.arrays import DTYPES, NO_FLOATS, Kind, Mixture, padded
from manyclass.weights.compression import id_type
from manyclass.weights.tensor_file import TensorFile, count, read_offsets
from manyclass.weights.weights import Weights

LARGEST = float(np.finfo(np.float32).max)
# Files have older words for two kinds.
WORDS: Mapping[Kind, str] = {
    "feature_major": "feature_major",
    "class_major": "class_major",
    "phi": "mapped",
    "pairs": "postings",
    "hybrid": "hybrid",
}
KINDS: Mapping[str, Kind] = {word: kind for kind, word in WORDS.items()}
# The names of arrays in files: as they were trained, and compressed.
OF_PAIRS = ("indptr", "classes", "values")
PLAIN = {"matrix": "weights", "embeddings": "embeddings"} | {name: f"postings.{name}" for name in OF_PAIRS}
CODED = {"matrix": "coded.rows"} | {name: f"coded.{name}" for name in ("embeddings", "features", *OF_PAIRS)}
# The highest numbers of a mixture; that of `kept` is the number of classes.
MOST = {"share": 1.0, "repeats": 1.0, "rate": 1.0, "shrinkage": LARGEST, "power": LARGEST}


def weight_tensors(weights: Weights) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model's weights, by their names in the file.

    Compressed ones stand there by the length of their numbers, so that each starts where a mapped array of its type may
    start; nothing stands between two of them.
    """
    names, scales = (PLAIN, {}) if weights.codes is None else (CODED, weights.codes)
    arrays: dict[str, NDArray[Any]] = {}
    for field, name in names.items():
        array = getattr(weights, field)
        if array is not None and (array.size or (weights.has_pairs and field in OF_PAIRS)):
            arrays[name] = array
        if len(scales.get(field, NO_FLOATS)):
            arrays[f"{name}.scales"] = scales[field]
    # The intercepts of rows over phi are a column of them, and those of a sum the ones of its pairs.
    arrays["intercept"] = np.ascontiguousarray(weights.intercept) if weights.kind == "phi" else weights.bias
    more = {"centre": weights.centre, "counts.pairs": weights.counts, "counts.own": weights.own}
    if len(weights.counts):
        more["counts.features"] = weights.totals
    arrays |= {name: array for name, array in more.items() if len(array)}
    return arrays if weights.codes is None else dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))


def described(weights: Weights) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the description of a model says of its weights, and what it says of them beside its labels."""
    word = WORDS[weights.kind]
    beside: dict[str, Any] = {} if np.all(weights.scales == 1) else {"scales": weights.scales.tolist()}
    mixture = {"counts": vars(weights.mixture)} if len(weights.counts) or len(weights.own) else {}
    if weights.codes is not None:
        phi = {"n_hidden": weights.n_hidden, "relu": weights.relu} if weights.has_phi else {}
        return {"layout": "coded", "coded": {"kind": word, "dtype": weights.dtype, **phi, **mixture}}, beside
    beside |= mixture
    if weights.by_minibatches:
        beside["minibatches"] = {"scale": float(weights.scales[1])}
    if weights.has_phi:
        beside["map"] = {name: int(getattr(weights, name)) for name in ("n_hidden", "intercept_column", "relu")}
        beside["scale"] = float(weights.scales[1])  # which version 0.2.0 reads where there are no pairs
    return {"layout": word}, beside


def read_weights(file: TensorFile, info: Mapping[str, Any], n_classes: int, n_features: int, mmap: bool) -> Weights:
    """Read a model's weights; raises ValueError where the file does not fit its description."""
    is_coded, labels = info["layout"] == "coded", info.get("labels", {})
    facts, names = (info["coded"], CODED) if is_coded else (labels, PLAIN)
    word, dtype = (facts["kind"], facts["dtype"]) if is_coded else (info["layout"], "float32")
    check_choice("the kind of its weights" if is_coded else "layout", word, [*KINDS])
    check_choice("the dtype of its weights", dtype, DTYPES)
    kind = KINDS[word]
    known, shapes = _rows(file, kind, facts, names, (n_classes, n_features))
    known |= {"kind": kind, "n_features": n_features}
    if kind in ("pairs", "hybrid"):
        known["indptr"] = read_offsets(file, names["indptr"], n_features)
        shapes["values"] = (int(known["indptr"][-1]),)
        ids = id_type(n_classes) if is_coded else np.int32
        known["classes"] = file.array(names["classes"], ids, shapes["values"], mmap=mmap)
    codes = {}
    for field, shape in shapes.items():
        n_rows, name = n_features if field == "values" else shape[0], names[field]
        known[field] = file.array(name, dtype, shape, mmap=mmap, aligned=not is_coded and len(shape) > 1)
        codes[field] = file.array(f"{name}.scales", np.float32, (n_rows,)) if dtype == "int8" else NO_FLOATS
    if kind == "phi" and not is_coded:  # whose intercepts are a column of the rows
        file.used.add("intercept")
        known["bias"] = np.zeros(n_classes, np.float32)
    else:
        known["bias"] = file.array("intercept", np.float32, (n_classes,))
    known["by_minibatches"] = kind == "feature_major" and not is_coded and "minibatches" in labels
    # Version 0.2.0 writes the scale of rows alone.
    scales = labels.get("scales", (1.0, labels.get("minibatches", labels).get("scale", 1.0)))
    for number in scales:
        check_number("scales", number, low=0, high=LARGEST)
    known["scales"] = np.array(scales, dtype=np.float64).reshape(2)
    known |= _counts(file, facts, shapes, n_classes, n_features, mmap)
    weights = Weights(**known, codes=codes if is_coded else None)
    weights.check()
    return weights


Shapes = dict[str, tuple[int, ...]]  # of the arrays that have scales, by their fields


def _rows(
    file: TensorFile, kind: Kind, facts: Mapping[str, Any], names: Mapping[str, str], shape: tuple[int, int]
) -> tuple[dict[str, Any], Shapes]:
    """Return what is known of the rows of a model, by field, and the shapes of the rows and of embeddings."""
    n_classes, n_features = shape
    if kind == "pairs":
        return {}, {}
    if kind != "phi" and kind != "hybrid":
        by_feature = (n_features, padded(n_classes))
        return {"n_hidden": n_features}, {"matrix": by_feature if kind == "feature_major" else shape}
    is_coded, there = names is CODED, file.entries
    phi = facts if is_coded else facts["map"]
    n_hidden, column = count(file, phi, "n_hidden", least=1), not is_coded and bool(phi["intercept_column"])
    width, n_rows = padded(n_hidden + column), n_features + ("centre" in there)
    known: dict[str, Any] = {"n_hidden": n_hidden, "intercept_column": column, "relu": bool(phi["relu"])}
    shapes: Shapes = {"matrix": (n_classes, n_hidden if is_coded else width)}
    if names["embeddings"] not in there:
        if n_hidden != n_features:
            raise ValueError(f"it has no embeddings, and rows of {n_hidden} for {n_features}")
        return known, shapes
    if n_rows > n_features:  # which version 0.2.0 does not write
        known["centre"] = file.array("centre", np.float32, (n_rows,))
    n_kept = n_rows
    if names.get("features") in there:
        n_kept = there[names["embeddings"]][1][0]
        features = known["features"] = file.array(names["features"], np.int32, (n_kept,))
        if n_kept < 1 or features[0] < 0 or features[-1] >= n_rows or np.any(np.diff(features) <= 0):
            raise ValueError("'coded.features' are not distinct, sorted and in range")
    return known, {"embeddings": (n_kept, width), **shapes}


def _counts(
    file: TensorFile, facts: Mapping[str, Any], shapes: Shapes, n_classes: int, n_features: int, mmap: bool
) -> dict[str, Any]:
    """Return the counts of a file and how they are mixed in, by field, if it has any."""
    if "counts" not in facts:
        return {}
    numbers = {"rate": 0.0, "kept": 0, "both": False} | facts["counts"]  # which earlier versions do not write
    mixture = Mixture(**{number.name: numbers[number.name] for number in fields(Mixture)})
    for name in ("counts_own", "both"):
        check_flag(name, getattr(mixture, name))
    for name, high in MOST.items():
        check_number(name, getattr(mixture, name), low=0, high=high)
    check_number("kept", mixture.kept, low=0, high=n_classes, integer=True)
    known: dict[str, Any] = {"mixture": mixture}
    if "counts.pairs" in file.entries:
        known["counts"] = file.array("counts.pairs", np.float32, shapes["values"], mmap=mmap, low=0)
        known["totals"] = file.array("counts.features", np.float32, (n_features,), low=0)
    if "counts.own" in file.entries:
        known["own"] = file.array("counts.own", np.int32, (n_features,))
    return known
