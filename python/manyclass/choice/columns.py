"""What cells of tables and masks of choices may hold; any other one is refused by its row and its value."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.datasets.csr import is_sparse
from manyclass.datasets.numerals import parse_numbers
from manyclass.weights.arrays import Doubles

LARGEST = 1e60  # of numbers, whose products of three and their squares have to be finite
FLAGS = {"1": True, "1.0": True, "yes": True, "true": True, "0": False, "0.0": False, "no": False, "false": False}


class CellError(ValueError):
    """A cell that is not what its column holds.

    Parameters
    ----------
    name : str
        The column, or the array.
    value : object
        The cell.
    where : tuple of int
        Its row and, in a matrix, its column; empty: it is in no row.
    rule : str
        What is wrong, which follows the value in the message.
    """

    def __init__(self, name: str, value: Any, where: tuple[int, ...], rule: str) -> None:
        self.name, self.where = name, where
        value = value.item() if isinstance(value, np.generic) else value
        self.fault = f"has {value!r:.80}{rule}"
        place = f"row {where[0]}" + f", column {where[-1]}" * (len(where) > 1) + " of " if where else ""
        super().__init__(f"{place}{name} {self.fault}")


def check_cells(name: str, values: Any, is_right: NDArray[np.bool_], rule: str) -> None:
    """Raise CellError for the first cell of an array, or stored number of a csr_array, that is not right."""
    if is_right.all():
        return
    place = int(np.argmin(is_right))
    if is_sparse(values):
        raise CellError(name, values.data[place], tuple(int(axis[place]) for axis in values.tocoo().coords), rule)
    raise CellError(name, values.ravel()[place], tuple(map(int, np.unravel_index(place, values.shape))), rule)


def _cells(values: Any) -> Any:
    """An array, whose masked cells are None, or a csr_array."""
    if is_sparse(values):
        return sp.csr_array(values)
    return np.where(np.ma.getmaskarray(values), None, values.data) if np.ma.is_masked(values) else np.asarray(values)


@dataclass(frozen=True)
class Owners:
    """Whose each row of a table is: of a chooser, or of a person.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,), int64, the number of each row's owner
    first : ndarray of shape (n_owners,), int64, the first row of each owner
    labels : list, what owners are called
    unit : str, what they are
    hint : str, the end of messages
    """

    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    labels: list[Any]
    unit: str = "person"
    hint: str = ""

    def cells(self, name: str, column: Any) -> Any:
        """Return the cell of each owner, that of its first row; raise CellError where another row has another one."""
        for row in np.flatnonzero(column != column[self.first][self.rows])[:1].tolist():
            owner = self.rows[row]
            cell, other = column[[row, self.first[owner]]].tolist()
            rule = f", and {other!r} in another row of the same {self.unit}, {self.labels[owner]!r}{self.hint}"
            raise CellError(name, cell, (row,), rule)
        return column[self.first]

    @cached_property
    def sums(self) -> sp.csr_array:
        """The matrix that adds rows by owner, (n_owners, n_rows)."""
        return sp.csr_array((np.ones(len(self.rows)), (self.rows, np.arange(len(self.rows)))))


def read_flags(name: str, values: Any) -> Any:
    """Return cells as booleans: 0 and 1, booleans, yes and no, true and false, as numbers or text.

    Parameters
    ----------
    name : str
    values : array-like or sparse matrix of any shape

    Returns
    -------
    ndarray of bool of the same shape, or csr_array

    Raises
    ------
    CellError
        If a cell is another one, or is missing.
    """
    cells = _cells(values)
    stored = cells.data if is_sparse(cells) else cells
    if stored.dtype.kind not in "biuf":
        words = [FLAGS.get(str(cell).strip().lower(), np.nan) for cell in stored.ravel().tolist()]
        stored = np.array(words, dtype=np.float64).reshape(stored.shape)
    flags = stored == 1
    check_cells(name, cells, flags | (stored == 0), ", which is none of 0 and 1, false and true, no and yes")
    return _with_cells(cells, flags)


def read_numbers(
    name: str, values: Any, shape: tuple[int | None, ...] | None = None, where: NDArray[np.bool_] | None = None
) -> Any:
    """Return cells as numbers, which may be text.

    Parameters
    ----------
    name : str
    values : array-like or sparse matrix
    shape : tuple of int or None, optional
        None in it allows any number.
    where : ndarray of bool, optional
        The cells that count; others become 0.

    Returns
    -------
    ndarray of float64 of the same shape, or csr_array

    Raises
    ------
    ValueError
        If the shape is another one.
    CellError
        If a cell is no number, not finite or beyond 1e60.
    """
    cells = _cells(values)
    if shape is not None and (
        cells.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, cells.shape, strict=True))
    ):
        allowed = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} has shape {cells.shape}; it must be ({allowed})")
    stored = cells.data if is_sparse(cells) else cells
    parsed: Doubles = stored.astype(np.float64) if stored.dtype.kind in "biuf" else _parse_cells(stored)
    if where is not None:
        parsed = np.where(where, parsed, 0.0)
    is_right = np.abs(parsed) <= LARGEST  # which NaN is not
    if not is_right.all():
        wrong = parsed.ravel()[np.argmin(is_right)]
        rule = f", which is beyond {LARGEST:g}; use another unit"
        if not np.isfinite(wrong):
            rule = ", which is no number" if np.isnan(wrong) and stored.dtype.kind != "f" else ", which is not finite"
        check_cells(name, cells, is_right, rule)
    return _with_cells(cells, parsed)


def _with_cells(cells: Any, values: NDArray[Any]) -> Any:
    """What stands in cells, as they have it: an array, or the numbers of a csr_array."""
    return sp.csr_array((values, cells.indices, cells.indptr), shape=cells.shape) if is_sparse(cells) else values


def _parse_cells(cells: NDArray[Any]) -> Doubles:
    """The numbers of an array of objects or text, NaN for what is none."""
    items = cells.ravel().tolist()
    parsed = parse_numbers(items) if all(isinstance(item, str) for item in items) else None
    if parsed is None:
        parsed = np.array([_parse_cell(item) for item in items], dtype=np.float64)
    return parsed.reshape(cells.shape)


def _parse_cell(cell: Any) -> float:
    if isinstance(cell, str):
        parsed = parse_numbers([cell])
        return np.nan if parsed is None else float(parsed[0])
    try:
        return float(cell) if isinstance(cell, numbers.Real | Decimal | np.bool_) else np.nan
    except OverflowError:  # of integers
        return np.inf


def has_numbers(values: Any) -> bool:
    """Tell whether a column is one of numbers: whether a cell of it is one."""
    cells = np.asarray(values)
    if cells.dtype.kind not in "OUT":
        return cells.dtype.kind in "biuf"
    return any(not np.isnan(_parse_cell(cell)) for cell in cells.ravel())


def stack_columns(columns: Sequence[Doubles], n: int) -> Doubles:
    """Return columns of n numbers side by side, where there are any."""
    return np.stack(columns, axis=1) if columns else np.zeros((n, 0))


def columns_by_name(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a table by their names.

    Raises
    ------
    ValueError
        If two columns have one name, or differ in their length, or there is none.
    """
    keys = [*getattr(table, "column_names", getattr(table, "columns", table))]  # of Arrow, of data frames, of mappings
    names = [str(key) for key in keys]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two columns of the table are named {name!r}; rename one of them")
    columns = {name: table[key] for name, key in zip(names, keys, strict=True)}
    lengths = {name: np.shape(column) for name, column in columns.items()}
    for name, shape in lengths.items():
        if len(shape) != 1 or shape != lengths[names[0]]:
            raise ValueError(f"column {name!r} has shape {shape}, and column {names[0]!r} {lengths[names[0]]}")
    if not columns or not lengths[names[0]][0]:
        raise ValueError("the table has no row")
    return columns
