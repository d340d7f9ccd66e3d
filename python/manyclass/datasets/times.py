"""Times of events: numbers, dates with and without zones, spans and ISO text, as integers or floats that sort."""

from __future__ import annotations

import contextlib
import datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass.labels import as_labels

NUMERALS = frozenset("+-.0123456789Ee")  # of numbers; Python would also take 1_0, and the digits of all scripts
SECONDS = {"D": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
RULE = "times must be finite numbers, or dates such as 2026-01-31 or 2026-01-31T12:00:00+01:00, none of them missing"


def read_times(times: ArrayLike, name: str = "times") -> NDArray[Any]:
    """Return times as an array of integers, floats, datetime64 or timedelta64; dates with a zone are those of UTC.

    Parameters
    ----------
    times : array-like of shape (n,)
        Numbers, dates or spans of Python, NumPy, pandas, polars or Arrow, or text: numbers, or dates as ISO 8601 has
        them, which are in UTC where they name no zone.
    name : str
        What messages call them.

    Raises
    ------
    ValueError
        If a time is missing, not finite, or neither a number nor a date.
    """
    array = as_labels(times)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must be (n,)")
    if isinstance(times, np.ma.MaskedArray) and times.mask.any():
        raise ValueError(f"{name}[{np.argmax(times.mask)}] is masked; {RULE}")
    if array.dtype.kind in "UO":
        array = _read_objects(array.tolist(), name)
    is_bad = ~np.isfinite(array) if array.dtype.kind in "iufmM" else np.ones(array.shape, dtype=bool)
    if is_bad.any():
        place = int(np.argmax(is_bad))
        raise ValueError(f"{name}[{place}] is {array[place]!r}; {RULE}")
    return array


def _read_objects(cells: list[Any], name: str) -> NDArray[Any]:
    """Times that are text, or dates with zones."""
    if all(isinstance(cell, str) for cell in cells):
        texts = [cell.strip() for cell in cells]
        if set("".join(texts)) <= NUMERALS:
            for dtype in (np.int64, np.float64):  # nanoseconds since 1970 are no floats
                with contextlib.suppress(ValueError, OverflowError):
                    return np.array(texts, dtype=dtype)
    dates = np.empty(len(cells), dtype="M8[us]")
    for row, cell in enumerate(cells):
        try:
            date = datetime.datetime.fromisoformat(cell.strip()) if isinstance(cell, str) else cell
            zone = date.tzinfo
            dates[row] = date if zone is None else date.astimezone(datetime.UTC).replace(tzinfo=None)
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{name}[{row}] is {cell!r}; {RULE}") from error
    return dates


def as_numbers(times: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """Return numbers that sort as times do, and the seconds that 1 of them is; 1 of times that are numbers.

    Parameters
    ----------
    times : ndarray of shape (n,)
        As `read_times` returns them.
    """
    if times.dtype.kind not in "mM":
        return times, 1.0
    unit, step = np.datetime_data(times.dtype)
    if unit not in SECONDS:  # years, months and weeks, or what is finer than any clock
        unit, step = ("D", 1) if unit in "YMW" else ("ns", 1)
        times = times.astype(f"{times.dtype.kind}8[{unit}]")
    return times.astype(np.int64), step * SECONDS[unit]
