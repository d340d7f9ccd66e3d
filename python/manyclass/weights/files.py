"""Weights in model files: their arrays by name, what the description of the model says of them, and how they are read.

Compressed weights have the layout "coded", and the names of their arrays begin with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_flag, check_number
from manyclass.weights.arrays import DTYPES, NO_FLOATS, Floats, Kind, Mixture, aligned_zeros, padded
from manyclass.weights.compression import id_type
from manyclass.weights.tensor_file import TensorFile, checked, count, finite, non_negative
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


def weight_tensors(weights: Weights) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model's weights, by their names in the file.

    Compressed ones stand there by the length of their numbers, so that each starts where a mapped array of its type may
    start; nothing stands between two of them.
    """
    found: dict[str, NDArray[Any]]
    if weights.codes is not None:
        found = {"intercept": weights.bias}
        for name, scales in weights.codes.items():
            found[CODED[name]] = getattr(weights, name)
            if len(scales):
                found[f"{CODED[name]}.scales"] = scales
        if weights.features is not None:
            found[CODED["features"]] = weights.features
        if weights.has_pairs:
            found |= {CODED[name]: getattr(weights, name) for name in ("indptr", "classes")} | _counts(weights)
        return dict(sorted(found.items(), key=lambda item: -item[1].itemsize))
    found = {}
    if weights.matrix.size:
        # The intercepts of rows over phi are a column of them, and those of a sum the ones of its pairs.
        own = np.ascontiguousarray(weights.intercept) if weights.intercept_column else weights.bias
        found |= {PLAIN["matrix"]: weights.matrix, "intercept": own}
    if weights.embeddings.size:
        found[PLAIN["embeddings"]] = weights.embeddings
    if weights.has_pairs:
        found |= {PLAIN[name]: getattr(weights, name) for name in OF_PAIRS}
        found |= {"intercept": weights.bias, **_counts(weights)}
    return found


def _counts(weights: Weights) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    if len(weights.counts):
        found = {"counts.pairs": weights.counts, "counts.features": weights.totals}
    return found | ({"counts.own": weights.own} if len(weights.own) else {})


def layout(weights: Weights) -> str:
    """Return what the description of a model calls its weights."""
    return WORDS[weights.kind] if weights.codes is None else "coded"


def described(weights: Weights) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the description of a model says of its weights, and what it says of them beside its labels."""
    beside: dict[str, Any] = {} if np.all(weights.scales == 1) else {"scales": weights.scales.tolist()}
    mixture: dict[str, Any] = {}
    if len(weights.counts) or len(weights.own):
        mixture = {"counts": vars(weights.mixture)}
    if weights.codes is not None:
        of_codes: dict[str, Any] = {"kind": WORDS[weights.kind], "dtype": weights.dtype}
        if weights.has_phi:
            of_codes |= {"n_hidden": weights.n_hidden, "relu": weights.relu}
        return {"coded": of_codes | mixture}, beside
    beside |= mixture
    if weights.by_minibatches:
        beside["minibatches"] = {"scale": float(weights.scales[1])}
    if weights.has_phi:
        beside["map"] = {name: int(getattr(weights, name)) for name in ("n_hidden", "intercept_column", "relu")}
        beside["scale"] = float(weights.scales[1])  # which version 0.2.0 reads where there are no pairs
    return {}, beside


def read_weights(file: TensorFile, info: Mapping[str, Any], n_classes: int, n_features: int, mmap: bool) -> Weights:
    """Read a model's weights; raises ValueError where the file does not fit its description."""
    weights = _read_unscaled(file, info, n_classes, n_features, mmap)
    labels = info.get("labels", {})
    if "scales" in labels or "scale" in labels:
        scales = list(labels.get("scales", (1.0, labels.get("scale"))))
        for scale in scales:
            check_number("scales", scale, low=0, high=LARGEST)
        weights.scales[:] = scales
    return weights


def _read_unscaled(file: TensorFile, info: Mapping[str, Any], n_classes: int, n_features: int, mmap: bool) -> Weights:
    """The weights, whatever they were multiplied by since they were trained."""
    is_coded, labels, word = info["layout"] == "coded", info.get("labels", {}), info["layout"]
    about, dtype, names = labels, "float32", PLAIN
    if is_coded:
        about, names = info["coded"], CODED
        word, dtype = about["kind"], about["dtype"]
        for name, value, choices in (("kind", word, KINDS), ("dtype", dtype, DTYPES)):
            if value not in choices:
                raise ValueError(f"{file.path} is damaged: the {name} of its weights is {value!r}")
    elif word not in KINDS:
        raise ValueError(f"{file.path} is damaged: layout is {word!r}")
    kind = KINDS[word]
    made: dict[str, Any] = {}
    codes: dict[str, Floats] = {}

    def take(field: str, shape: tuple[int, ...], n_rows: int) -> None:
        name = checked(file, names[field], dtype, shape)
        if mmap:
            made[field] = file.map(name)
        else:
            aligned = None if is_coded or len(shape) < 2 else aligned_zeros(*shape)
            made[field] = finite(file, name, file.read(name, out=aligned))
        codes[field] = NO_FLOATS
        if dtype == "int8":
            codes[field] = file.read(checked(file, f"{name}.scales", np.float32, (n_rows,)))
            if not np.isfinite(codes[field]).all():
                raise ValueError(f"{file.path} is damaged: a scale of {name.removeprefix('coded.')!r} is not finite")

    if kind in ("phi", "hybrid"):
        phi = about if is_coded else about["map"]
        n_hidden, column = count(file, phi, "n_hidden", least=1), not is_coded and bool(phi["intercept_column"])
        made |= {"n_hidden": n_hidden, "intercept_column": column, "relu": bool(phi["relu"])}
        width = padded(n_hidden + column)
        if names["embeddings"] in file.entries:
            n_kept = n_features
            if names.get("features") in file.entries:
                n_kept = file.entries[names["embeddings"]][1][0]
                made["features"] = _read_features(file, n_kept, n_features)
            take("embeddings", (n_kept, width), n_kept)
        elif n_hidden != n_features:
            raise ValueError(f"{file.path} is damaged: it has no embeddings, and rows of {n_hidden} for {n_features}")
        take("matrix", (n_classes, n_hidden if is_coded else width), n_classes)
    elif kind != "pairs":
        made["n_hidden"] = n_features
        if kind == "feature_major":
            take("matrix", (n_features, padded(n_classes)), n_features)
        else:
            take("matrix", (n_classes, n_features), n_classes)
    if kind in ("pairs", "hybrid"):
        made["indptr"] = _read_indptr(file, names["indptr"], n_features)
        n_pairs = int(made["indptr"][-1])
        ids = checked(file, names["classes"], id_type(n_classes) if is_coded else np.int32, (n_pairs,))
        made["classes"] = file.map(ids) if mmap else file.read(ids)
        take("values", (n_pairs,), n_features)
    if kind == "feature_major" and not is_coded and "minibatches" in labels:
        scale = labels["minibatches"]["scale"]
        check_number("scale", scale, low=0, open_low=True, high=LARGEST)
        made |= {"by_minibatches": True, "scales": np.array([1.0, scale])}
    if kind == "phi" and not is_coded:
        file.used.add("intercept")  # it is a column of the weights
        made["bias"] = np.zeros(n_classes, np.float32)
    else:
        name = checked(file, "intercept", np.float32, (n_classes,))
        made["bias"] = finite(file, name, file.read(name))
    weights = Weights(kind=kind, n_features=n_features, codes=codes if is_coded else None, **made)
    if is_coded or weights.has_pairs:
        weights.check()
    return _with_counts(weights, file, about, mmap)


def _with_counts(weights: Weights, file: TensorFile, info: Mapping[str, Any], mmap: bool) -> Weights:
    """Return the weights with the counts of a file, if it has any."""
    if "counts" not in info:
        return weights
    numbers = {"rate": 0.0, "kept": 0} | info["counts"]  # which earlier versions do not write
    mixture = Mixture(**{one.name: numbers[one.name] for one in fields(Mixture)})
    check_flag("counts_own", mixture.counts_own)
    for name in ("share", "repeats", "rate"):
        check_number(name, getattr(mixture, name), low=0, high=1)
    for name in ("shrinkage", "power"):
        check_number(name, getattr(mixture, name), low=0, high=LARGEST)
    check_number("kept", mixture.kept, low=0, high=weights.n_classes, integer=True)
    more: dict[str, Any] = {"mixture": mixture}
    if "counts.pairs" in file.entries:
        name = checked(file, "counts.pairs", np.float32, (len(weights.classes),))
        more["counts"] = file.map(name) if mmap else non_negative(file, name, file.read(name))
        name = checked(file, "counts.features", np.float32, (weights.n_features,))
        more["totals"] = non_negative(file, name, file.read(name))
    if "counts.own" in file.entries:
        more["own"] = file.read(checked(file, "counts.own", np.int32, (weights.n_features,)))
    found = replace(weights, **more)
    found.check()
    return found


def _read_indptr(file: TensorFile, name: str, n_features: int) -> NDArray[np.int64]:
    indptr = file.read(checked(file, name, np.int64, (n_features + 1,)))
    if indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        told = "postings" if name == PLAIN["indptr"] else name
        raise ValueError(f"{file.path} is damaged: the offsets of {told!r} do not start at 0 or decrease")
    return indptr


def _read_features(file: TensorFile, n_kept: int, n_features: int) -> NDArray[np.int32]:
    features = file.read(checked(file, "coded.features", np.int32, (n_kept,)))
    if n_kept < 1 or features[0] < 0 or features[-1] >= n_features or np.any(np.diff(features) <= 0):
        raise ValueError(f"{file.path} is damaged: 'coded.features' are not distinct, sorted and in range")
    return features
