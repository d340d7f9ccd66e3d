"""Weights in model files: their arrays by name, what the description of the model says of them, and how they are read.

Compressed weights have the layout "coded", and the names of their arrays begin with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_choice, check_flag, check_number
from manyclass.weights.arrays import DTYPES, NO_FLOATS, Floats, Kind, Mixture, aligned_zeros, padded
from manyclass.weights.compression import id_type
from manyclass.weights.tensor_file import TensorFile, checked, count, finite, non_negative, read_offsets
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
    reader = _Reader(file, info, n_classes, n_features, mmap)
    kind, fields_read = reader.kind, reader.fields
    if kind in ("phi", "hybrid"):
        reader.read_phi()
    elif kind != "pairs":
        fields_read["n_hidden"] = n_features
        by_feature = kind == "feature_major"
        shape = (n_features, padded(n_classes)) if by_feature else (n_classes, n_features)
        reader.read("matrix", shape, shape[0])
    if kind in ("pairs", "hybrid"):
        reader.read_pairs()
    labels = info.get("labels", {})
    scale = labels.get("scale", 1.0)
    minibatches = labels.get("minibatches")
    if kind == "feature_major" and not reader.is_coded and minibatches is not None:
        scale = minibatches["scale"]
        check_number("scale", scale, low=0, open_low=True, high=LARGEST)
        fields_read["by_minibatches"] = True
    scales = list(labels.get("scales", (1.0, scale)))
    for number in scales:
        check_number("scales", number, low=0, high=LARGEST)
    fields_read["scales"] = np.array(scales, dtype=np.float64).reshape(2)
    reader.read_intercept()
    codes = reader.scales if reader.is_coded else None
    weights = Weights(kind=kind, n_features=n_features, codes=codes, **fields_read)
    if reader.is_coded or weights.has_pairs:
        weights.check()
    return _with_counts(weights, file, reader.described, mmap)


class _Reader:
    """Reads the arrays of weights that are described as plain or compressed.

    Attributes
    ----------
    kind : str
        Kind of the weights.
    described : mapping of str to object
        What the description says of them.
    fields : dict
        Fields of `Weights` that were read.
    scales : dict of str to ndarray
        Of compressed weights, by field.
    """

    def __init__(self, file: TensorFile, info: Mapping[str, Any], n_classes: int, n_features: int, mmap: bool) -> None:
        self.file, self.n_classes, self.n_features, self.mmap = file, n_classes, n_features, mmap
        self.is_coded = info["layout"] == "coded"
        self.described = info["coded"] if self.is_coded else info.get("labels", {})
        self.names = CODED if self.is_coded else PLAIN
        word = self.described["kind"] if self.is_coded else info["layout"]
        self.dtype = self.described["dtype"] if self.is_coded else "float32"
        check_choice("the kind of its weights" if self.is_coded else "layout", word, [*KINDS])
        check_choice("the dtype of its weights", self.dtype, DTYPES)
        self.kind = KINDS[word]
        self.fields: dict[str, Any] = {}
        self.scales: dict[str, Floats] = {}

    def read(self, field: str, shape: tuple[int, ...], n_rows: int) -> None:
        """Read or map an array, and the scales of its rows."""
        name = checked(self.file, self.names[field], self.dtype, shape)
        if self.mmap:
            self.fields[field] = self.file.map(name)
        else:
            aligned = None if self.is_coded or len(shape) < 2 else aligned_zeros(*shape)
            self.fields[field] = finite(self.file, name, self.file.read(name, out=aligned))
        self.scales[field] = NO_FLOATS
        if self.dtype == "int8":
            scales = checked(self.file, f"{name}.scales", np.float32, (n_rows,))
            self.scales[field] = finite(self.file, scales, self.file.read(scales))

    def read_phi(self) -> None:
        """Read rows of classes over phi, and embeddings, if it has any."""
        phi = self.described if self.is_coded else self.described["map"]
        n_hidden, embeddings = count(self.file, phi, "n_hidden", least=1), self.names["embeddings"]
        column = not self.is_coded and bool(phi["intercept_column"])
        self.fields |= {"n_hidden": n_hidden, "intercept_column": column, "relu": bool(phi["relu"])}
        width = padded(n_hidden + column)
        if embeddings in self.file.entries:
            n_kept = n_rows = self.n_features + ("centre" in self.file.entries)
            if n_rows > self.n_features:  # which version 0.2.0 does not write
                name = checked(self.file, "centre", np.float32, (n_rows,))
                self.fields["centre"] = finite(self.file, name, self.file.read(name))
            if self.names.get("features") in self.file.entries:
                n_kept = self.file.entries[embeddings][1][0]
                self.fields["features"] = _read_features(self.file, n_kept, n_rows)
            self.read("embeddings", (n_kept, width), n_kept)
        elif n_hidden != self.n_features:
            raise ValueError(
                f"{self.file.path} is damaged: it has no embeddings, and rows of {n_hidden} for {self.n_features}"
            )
        self.read("matrix", (self.n_classes, n_hidden if self.is_coded else width), self.n_classes)

    def read_pairs(self) -> None:
        """Read weights on pairs."""
        indptr = read_offsets(self.file, self.names["indptr"], self.n_features)
        n_pairs, dtype = int(indptr[-1]), id_type(self.n_classes) if self.is_coded else np.int32
        classes = checked(self.file, self.names["classes"], dtype, (n_pairs,))
        self.fields["indptr"] = indptr
        self.fields["classes"] = self.file.map(classes) if self.mmap else self.file.read(classes)
        self.read("values", (n_pairs,), self.n_features)

    def read_intercept(self) -> None:
        """Read the intercepts; those of plain rows over phi alone are a column of them."""
        if self.kind == "phi" and not self.is_coded:
            self.file.used.add("intercept")
            self.fields["bias"] = np.zeros(self.n_classes, np.float32)
            return
        name = checked(self.file, "intercept", np.float32, (self.n_classes,))
        self.fields["bias"] = finite(self.file, name, self.file.read(name))


def _with_counts(weights: Weights, file: TensorFile, info: Mapping[str, Any], mmap: bool) -> Weights:
    """Return the weights with the counts of a file, if it has any."""
    if "counts" not in info:
        return weights
    numbers = {"rate": 0.0, "kept": 0} | info["counts"]  # which earlier versions do not write
    mixture = Mixture(**{number.name: numbers[number.name] for number in fields(Mixture)})
    check_flag("counts_own", mixture.counts_own)
    for name in ("share", "repeats", "rate", "shrinkage", "power"):
        high = LARGEST if name in ("shrinkage", "power") else 1
        check_number(name, getattr(mixture, name), low=0, high=high)
    check_number("kept", mixture.kept, low=0, high=weights.n_classes, integer=True)
    more: dict[str, Any] = {"mixture": mixture}
    if "counts.pairs" in file.entries:
        name = checked(file, "counts.pairs", np.float32, (len(weights.classes),))
        more["counts"] = file.map(name) if mmap else non_negative(file, name, file.read(name))
        name = checked(file, "counts.features", np.float32, (weights.n_features,))
        more["totals"] = non_negative(file, name, file.read(name))
    if "counts.own" in file.entries:
        more["own"] = file.read(checked(file, "counts.own", np.int32, (weights.n_features,)))
    with_counts = replace(weights, **more)
    with_counts.check()
    return with_counts


def _read_features(file: TensorFile, n_kept: int, n_features: int) -> NDArray[np.int32]:
    features = file.read(checked(file, "coded.features", np.int32, (n_kept,)))
    if n_kept < 1 or features[0] < 0 or features[-1] >= n_features or np.any(np.diff(features) <= 0):
        raise ValueError(f"{file.path} is damaged: 'coded.features' are not distinct, sorted and in range")
    return features
