"""Compressed weights in model files: their arrays by name, and what the description of the model says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from manyclass.model.coded import DTYPES, NO_FLOATS, CodedWeights, Codes, Kind, padded
from manyclass.model.compress import id_type
from manyclass.model.file_parts import checked, count, finite
from manyclass.model.tensor_file import TensorFile


def coded_tensors(weights: CodedWeights) -> dict[str, NDArray[Any]]:
    """The arrays of compressed weights by their names in a file, those of the longest numbers first.

    So each starts where a mapped array of its type may start; nothing stands between two of them.
    """
    found: dict[str, NDArray[Any]] = {"intercept": weights.intercept}
    for name in ("rows", "embeddings", "values"):
        codes: Codes | None = getattr(weights, name)
        if codes is not None:
            found[f"coded.{name}"] = codes.values
            if len(codes.scales):
                found[f"coded.{name}.scales"] = codes.scales
    for name in ("features", "indptr", "classes"):
        if getattr(weights, name) is not None:
            found[f"coded.{name}"] = getattr(weights, name)
    return dict(sorted(found.items(), key=lambda item: -item[1].itemsize))


def coded_description(weights: CodedWeights) -> dict[str, Any]:
    """What the JSON of a file says of compressed weights."""
    described: dict[str, Any] = {"kind": weights.kind, "dtype": weights.dtype}
    if weights.kind in ("mapped", "hybrid"):
        described |= {"n_hidden": weights.n_hidden, "relu": weights.relu}
    return described


def read_coded(
    file: TensorFile, described: Mapping[str, Any], n_classes: int, n_features: int, mmap: bool
) -> CodedWeights:
    """Read compressed weights; raises ValueError where the file does not fit its description."""
    kind, dtype = described["kind"], described["dtype"]
    for name, value, choices in (("kind", kind, get_args(Kind)), ("dtype", dtype, DTYPES)):
        if value not in choices:
            raise ValueError(f"{file.path} is damaged: the {name} of its weights is {value!r}")
    read = file.map if mmap else file.read

    def codes(name: str, shape: tuple[int, ...], n_rows: int) -> Codes:
        values = read(checked(file, f"coded.{name}", dtype, shape))
        if not mmap:
            finite(file, f"coded.{name}", values)
        scales = NO_FLOATS
        if dtype == "int8":
            scales = file.read(checked(file, f"coded.{name}.scales", np.float32, (n_rows,)))
            if not np.isfinite(scales).all():
                raise ValueError(f"{file.path} is damaged: a scale of {name!r} is not finite")
        return Codes(values, scales)

    intercept = finite(file, "intercept", file.read(checked(file, "intercept", np.float32, (n_classes,))))
    found: dict[str, Any] = {}
    if kind == "feature_major":
        found["rows"] = codes("rows", (n_features, padded(n_classes)), n_features)
    elif kind == "class_major":
        found["rows"] = codes("rows", (n_classes, n_features), n_classes)
    if kind in ("mapped", "hybrid"):
        found |= _read_mapped(file, described, n_features, codes)
        found["rows"] = codes("rows", (n_classes, count(file, described, "n_hidden", least=1)), n_classes)
        found["relu"] = bool(described["relu"])
    if kind in ("postings", "hybrid"):
        indptr = file.read(checked(file, "coded.indptr", np.int64, (n_features + 1,)))
        if indptr[0] != 0 or np.any(np.diff(indptr) < 0):
            raise ValueError(f"{file.path} is damaged: the offsets of 'coded.indptr' do not start at 0 or decrease")
        n_pairs = int(indptr[-1])
        classes = read(checked(file, "coded.classes", id_type(n_classes), (n_pairs,)))
        found |= {"indptr": indptr, "classes": classes, "values": codes("values", (n_pairs,), n_features)}
    weights = CodedWeights(kind, intercept, n_features, **found)
    weights.check()
    return weights


def _read_mapped(file: TensorFile, described: Mapping[str, Any], n_features: int, codes: Any) -> dict[str, Any]:
    n_hidden = count(file, described, "n_hidden", least=1)
    if "coded.embeddings" not in file.entries:
        if n_hidden != n_features:
            raise ValueError(f"{file.path} is damaged: it has no embeddings, and rows of {n_hidden} for {n_features}")
        return {}
    if "coded.features" not in file.entries:
        return {"embeddings": codes("embeddings", (n_features, padded(n_hidden)), n_features)}
    n_kept = file.entries["coded.embeddings"][1][0]
    features = file.read(checked(file, "coded.features", np.int32, (n_kept,)))
    if n_kept < 1 or features[0] < 0 or features[-1] >= n_features or np.any(np.diff(features) <= 0):
        raise ValueError(f"{file.path} is damaged: 'coded.features' are not distinct, sorted and in range")
    return {"embeddings": codes("embeddings", (n_kept, padded(n_hidden)), n_kept), "features": features}
