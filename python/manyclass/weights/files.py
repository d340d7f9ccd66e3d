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
from manyclass.weights.arrays import NO_FLOATS, Floats, aligned_zeros, padded
from manyclass.weights.compression import id_type
from manyclass.weights.storage import DTYPES, NOTHING, Kind, Mixture
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


def weight_tensors(weights: Weights) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model's weights, by their names in the file.

    Compressed ones stand there by the length of their numbers, so that each starts where a mapped array of its type may
    start; nothing stands between two of them.
    """
    found: dict[str, NDArray[Any]]
    if weights.codes is not None:
        found = {"intercept": weights.bias}
        for name, scales in weights.codes.items():
            word = "rows" if name == "matrix" else name
            found[f"coded.{word}"] = getattr(weights, name)
            if len(scales):
                found[f"coded.{word}.scales"] = scales
        if weights.features is not None:
            found["coded.features"] = weights.features
        if weights.has_pairs:
            found |= {"coded.indptr": weights.indptr, "coded.classes": weights.classes, **_counts(weights)}
        return dict(sorted(found.items(), key=lambda item: -item[1].itemsize))
    found = {}
    if weights.matrix.size:
        # The intercepts of rows over phi are a column of them, and those of a sum the ones of its pairs.
        own = np.ascontiguousarray(weights.intercept) if weights.intercept_column else weights.bias
        found |= {"weights": weights.matrix, "intercept": own}
    if weights.embeddings.size:
        found["embeddings"] = weights.embeddings
    if weights.has_pairs:
        found |= {f"postings.{name}": getattr(weights, name) for name in ("indptr", "classes", "values")}
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
        beside["scale"] = float(weights.scales[1])  # which versions before 0.3 read where there are no pairs
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
    if info["layout"] == "coded":
        return _read_coded(file, info["coded"], n_classes, n_features, mmap)
    kind = KINDS.get(info["layout"])
    if kind is None:
        raise ValueError(f"{file.path} is damaged: layout is {info['layout']!r}")
    if kind in ("feature_major", "class_major"):
        by_feature = kind == "feature_major"
        shape = (n_features, padded(n_classes)) if by_feature else (n_classes, n_features)
        matrix = _rows(file, "weights", shape, mmap)
        found = Weights.linear(matrix, _intercept(file, n_classes), by_feature=by_feature)
        by_minibatches = info.get("labels", {}).get("minibatches") if by_feature else None
        if by_minibatches is None:
            return found
        _check_scale(by_minibatches["scale"])
        return replace(found, by_minibatches=True, scales=np.array([1.0, by_minibatches["scale"]]))
    if kind == "pairs":
        return _read_pairs(file, n_classes, n_features, mmap)
    rows = _read_over_phi(file, info["labels"]["map"], n_classes, n_features, mmap)
    if kind == "phi":
        return rows
    return _with_counts(_read_pairs(file, n_classes, n_features, mmap).beside(rows), file, info["labels"], mmap)


def _with_counts(weights: Weights, file: TensorFile, info: Mapping[str, Any], mmap: bool) -> Weights:
    """Return the weights with the counts of a file, if it has any."""
    if "counts" not in info:
        return weights
    mixture = Mixture(**{one.name: info["counts"][one.name] for one in fields(Mixture)})
    check_flag("counts_own", mixture.counts_own)
    for name in ("share", "repeats"):
        check_number(name, getattr(mixture, name), low=0, high=1)
    for name in ("shrinkage", "power"):
        check_number(name, getattr(mixture, name), low=0, high=LARGEST)
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


def _check_scale(scale: Any) -> None:
    check_number("scale", scale, low=0, open_low=True, high=LARGEST)


def _rows(file: TensorFile, name: str, shape: tuple[int, int], mmap: bool) -> Floats:
    found = checked(file, name, np.float32, shape)
    return file.map(found) if mmap else finite(file, name, file.read(found, out=aligned_zeros(*shape)))


def _read_over_phi(file: TensorFile, info: Mapping[str, Any], n_classes: int, n_features: int, mmap: bool) -> Weights:
    n_hidden = count(file, info, "n_hidden", least=1)
    intercept, relu = bool(info["intercept_column"]), bool(info["relu"])
    width, embeddings = padded(n_hidden + intercept), NOTHING
    file.used.add("intercept")  # it is a column of the weights
    if "embeddings" in file.entries:
        embeddings = _rows(file, "embeddings", (n_features, width), mmap)
    else:
        _check_hidden(file, n_hidden, n_features)
    rows = _rows(file, "weights", (n_classes, width), mmap)
    return Weights.over_phi(rows, embeddings, n_hidden, intercept_column=intercept, relu=relu)


def _check_hidden(file: TensorFile, n_hidden: int, n_features: int) -> None:
    if n_hidden != n_features:
        raise ValueError(f"{file.path} is damaged: it has no embeddings, and rows of {n_hidden} for {n_features}")


def _read_pairs(file: TensorFile, n_classes: int, n_features: int, mmap: bool) -> Weights:
    indptr = _read_indptr(file, "postings", n_features)
    shape, read = (int(indptr[-1]),), file.map if mmap else file.read
    classes = read(checked(file, "postings.classes", np.int32, shape))
    values = read(checked(file, "postings.values", np.float32, shape))
    weights = Weights.on_pairs(indptr, classes, values, _intercept(file, n_classes))
    weights.check()
    if not mmap:
        finite(file, "postings.values", values)
    return weights


def _read_indptr(file: TensorFile, of: str, n_features: int) -> NDArray[np.int64]:
    name = f"{of}.indptr"
    indptr = file.read(checked(file, name, np.int64, (n_features + 1,)))
    if indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        told = of if of == "postings" else name
        raise ValueError(f"{file.path} is damaged: the offsets of {told!r} do not start at 0 or decrease")
    return indptr


def _intercept(file: TensorFile, n_classes: int) -> Floats:
    name = checked(file, "intercept", np.float32, (n_classes,))
    return finite(file, name, file.read(name))


def _read_coded(file: TensorFile, described: Mapping[str, Any], n_classes: int, n_features: int, mmap: bool) -> Weights:
    word, dtype = described["kind"], described["dtype"]
    for name, value, choices in (("kind", word, KINDS), ("dtype", dtype, DTYPES)):
        if value not in choices:
            raise ValueError(f"{file.path} is damaged: the {name} of its weights is {value!r}")
    kind, read = KINDS[word], file.map if mmap else file.read
    made: dict[str, Any] = {}
    codes: dict[str, Floats] = {}

    def take(field: str, name: str, shape: tuple[int, ...], n_rows: int) -> None:
        made[field] = read(checked(file, f"coded.{name}", dtype, shape))
        if not mmap:
            finite(file, f"coded.{name}", made[field])
        codes[field] = NO_FLOATS
        if dtype == "int8":
            codes[field] = file.read(checked(file, f"coded.{name}.scales", np.float32, (n_rows,)))
            if not np.isfinite(codes[field]).all():
                raise ValueError(f"{file.path} is damaged: a scale of {name!r} is not finite")

    made["n_hidden"] = n_features if kind in ("feature_major", "class_major") else 0
    if kind in ("phi", "hybrid"):
        made |= {"n_hidden": count(file, described, "n_hidden", least=1), "relu": bool(described["relu"])}
        if "coded.embeddings" not in file.entries:
            _check_hidden(file, made["n_hidden"], n_features)
        else:
            n_kept = n_features
            if "coded.features" in file.entries:
                n_kept = file.entries["coded.embeddings"][1][0]
                made["features"] = _read_features(file, n_kept, n_features)
            take("embeddings", "embeddings", (n_kept, padded(made["n_hidden"])), n_kept)
    if kind == "feature_major":
        take("matrix", "rows", (n_features, padded(n_classes)), n_features)
    elif kind != "pairs":
        take("matrix", "rows", (n_classes, made["n_hidden"]), n_classes)
    if kind in ("pairs", "hybrid"):
        made["indptr"] = _read_indptr(file, "coded", n_features)
        n_pairs = int(made["indptr"][-1])
        made["classes"] = read(checked(file, "coded.classes", id_type(n_classes), (n_pairs,)))
        take("values", "values", (n_pairs,), n_features)
    weights = Weights(kind=kind, bias=_intercept(file, n_classes), n_features=n_features, codes=codes, **made)
    weights.check()
    return _with_counts(weights, file, described, mmap)


def _read_features(file: TensorFile, n_kept: int, n_features: int) -> NDArray[np.int32]:
    features = file.read(checked(file, "coded.features", np.int32, (n_kept,)))
    if n_kept < 1 or features[0] < 0 or features[-1] >= n_features or np.any(np.diff(features) <= 0):
        raise ValueError(f"{file.path} is damaged: 'coded.features' are not distinct, sorted and in range")
    return features
