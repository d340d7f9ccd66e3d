"""Labels in a file: as numbers, as text, or as objects that are written as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from manyclass.labels import WIDEST
from manyclass.weights.tensor_file import TensorFile, checked, count, decode_text, encode_text

# Objects that are written as text, by what a file calls their type: how one is written, and how it is read again.
AS_TEXT: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "int": (int, str, int),  # beyond 64 bits
    "decimal.Decimal": (Decimal, str, Decimal),
    "uuid.UUID": (UUID, str, UUID),
    "datetime.datetime": (datetime, datetime.isoformat, datetime.fromisoformat),  # with a time zone that is an offset
}


def _type_as_text(labels: NDArray[Any]) -> str | None:
    """What a file calls the type of labels that are objects; None where it has no such type, or they have several."""
    items = labels.tolist()
    found = next((name for name, (kind, *_) in AS_TEXT.items() if all(type(item) is kind for item in items)), None)
    if found == "datetime.datetime" and any(type(item.tzinfo) not in (timezone, type(None)) for item in items):
        return None
    return found


def encode_labels(array: str, labels: NDArray[Any]) -> tuple[dict[str, NDArray[Any]], dict[str, str | int]]:
    """Return labels as arrays of a file whose names begin with `array`, and what `decode_labels` has to know."""
    dtype = labels.dtype
    info: dict[str, str | int] = {"dtype": dtype.str, "n": len(labels)}
    if dtype.kind == "U" or (dtype.kind == "O" and all(isinstance(label, str) for label in labels)):
        return encode_text(array, labels), info
    if dtype.kind in "mM":
        return {f"{array}.values": labels.astype(dtype.newbyteorder("=")).view(np.int64)}, info
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        return {f"{array}.values": np.ascontiguousarray(labels, dtype=dtype.newbyteorder("="))}, info
    if dtype.kind == "O" and (name := _type_as_text(labels)) is not None:
        return encode_text(array, map(AS_TEXT[name][1], labels.tolist())), {**info, "dtype": name}
    other = next(label for label in labels.tolist() if not isinstance(label, str))
    raise TypeError(
        f"a label is {other!r}, of type {type(other).__name__}; only booleans, integers, floats, dates, times with an "
        "offset, time spans, strings, Decimal and UUID can be saved: y = [str(label) for label in y] makes them strings"
    )


def decode_labels(file: TensorFile, info: Mapping[str, Any], name: str = "classes", least: int = 2) -> NDArray[Any]:
    """Return labels that are distinct: classes, sorted, or those that columns are, in their order."""
    n = count(file, info, "n", least=least)
    if info["dtype"] in AS_TEXT:
        labels = decode_text(file, name, n)
        labels[:] = [AS_TEXT[info["dtype"]][2](text) for text in labels.tolist()]
    else:
        labels = _labels_of_dtype(file, np.dtype(info["dtype"]), name, n)
    in_order = labels if name == "classes" else np.sort(labels)
    if not np.all(in_order[:-1] < in_order[1:]):
        raise ValueError(f"{file.path} is damaged: its labels are not sorted and distinct")
    return labels


def _labels_of_dtype(file: TensorFile, dtype: np.dtype[Any], name: str, n: int) -> NDArray[Any]:
    if dtype.kind in "UO":
        labels = decode_text(file, name, n)
        if dtype.kind == "O":
            return labels
        # A file may promise more than it holds; older ones have wide types.
        longest = max(map(len, labels))
        if 4 * longest > dtype.itemsize:
            told = f"its labels have type {dtype.str}; one has {longest} characters"
            raise ValueError(f"{file.path} is damaged: {told}")
        return labels.astype(dtype) if dtype.itemsize <= 4 * WIDEST else labels
    stored = np.dtype(np.int64) if dtype.kind in "mM" else dtype.newbyteorder("=")
    values = file.read(checked(file, f"{name}.values", stored, (n,)))
    return (values.view(dtype.newbyteorder("=")) if dtype.kind in "mM" else values).astype(dtype, copy=False)
