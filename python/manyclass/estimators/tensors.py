"""Checks on what a model file holds: arrays of the right type and shape, numbers that can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from manyclass.model.tensor_file import TensorFile


def count(file: TensorFile, info: Mapping[str, Any], name: str, least: int) -> int:
    """Return a number of the description after a check that it is an integer of at least `least`."""
    value = info[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{file.path} is damaged: {name} is {value!r}; it must be an integer of at least {least}")
    return value


def checked(file: TensorFile, name: str, dtype: Any, shape: tuple[int, ...]) -> str:
    """Return the name of an array after a check that it is there, of this dtype and shape."""
    if name not in file.entries:
        raise ValueError(f"{file.path} is damaged: it has no array {name!r}")
    found_dtype, found_shape, _ = file.entries[name]
    if found_dtype != np.dtype(dtype) or found_shape != shape:
        raise ValueError(
            f"{file.path} is damaged: {name!r} is {found_dtype.name} of shape {found_shape}; it must be "
            f"{np.dtype(dtype).name} of shape {shape}"
        )
    return name
