"""What cells of tables and masks of choices may hold; any other one is refused by its row and its value."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.datasets.csr import is_sparse
from manyclass.datasets.inputs import parse_numbers
from manyclass.weights.arrays import Doubles

LARGEST = 1e60  # of numbers, whose products of three and their squares have to be finite
NOT_FINITE = f"; it must be a finite number up to {LARGEST:g}"
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
        self.fault = f"has {value.item() if isinstance(value, np.generic) else value!r:.80}{rule}"
        place = f"row {where[0]}" + f", column {where[-1]}" * (len(where) > 1) + " of " if where else ""
        super().__init__(f"{place}{name} {self.fault}")


def check_cells(name: str, values: Any, is_right: NDArray[np.bool_], rule: str) -> None:
    """Raise CellError for the first cell of an array, or stored number of a csr_array, that is not right."""
    for place in np.flatnonzero(~is_right)[:1].tolist():
        stored, coords = (values.data, values.tocoo().coords) if is_sparse(values) else (values.ravel(), None)
        where = np.unravel_index(place, values.shape) if coords is None else [axis[place] for axis in coords]
        raise CellError(name, stored[place], tuple(map(int, where)), rule)


@dataclass(frozen=True)
class Owners:
    """Whose each row of a table is: of a chooser, or of a person.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,), int64, the number of each row's owner
    first : ndarray of shape (n_owners,), int64, the first row of each owner
    labels : list, what owners are called
    unit : str, what they are
    """

    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    labels: list[Any]
    unit: str = "person"

    def cells(self, name: str, column: Any) -> Any:
        """Return the cell of each owner, that of its first row; raise CellError where another row has another one."""
        for row in np.flatnonzero(column != column[self.first][self.rows])[:1].tolist():
            owner = self.rows[row]
            cell, other = column[[row, self.first[owner]]].tolist()
            rule = f", and {other!r} in another row of the same {self.unit}, {self.labels[owner]!r}"
            raise CellError(name, cell, (row,), rule)
        return column[self.first]

    @cached_property
    def sums(self) -> sp.csr_array:
        """The matrix that adds rows by owner, (n_owners, n_rows)."""
        return sp.csr_array((np.ones(len(self.rows)), (self.rows, np.arange(len(self.rows)))))


def _cells(values: Any) -> tuple[Any, NDArray[Any]]:
    """An array, whose masked cells are None, or a csr_array; and what is stored in it."""
    if is_sparse(values):
        matrix = sp.csr_array(values)
        return matrix, matrix.data
    is_masked = np.ma.is_masked(values)
    array: Any = np.where(np.ma.getmaskarray(values), None, values.data) if is_masked else np.asarray(values)
    return array, array


def _with_cells(cells: Any, values: NDArray[Any]) -> Any:
    """What stands in cells, as they have it: an array, or the numbers of a csr_array."""
    return sp.csr_array((values, cells.indices, cells.indptr), shape=cells.shape) if is_sparse(cells) else values


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
    cells, stored = _cells(values)
    if stored.dtype.kind not in "biuf":
        words = [FLAGS.get(str(cell).strip().lower(), np.nan) for cell in stored.ravel().tolist()]
        stored = np.array(words, dtype=np.float64).reshape(stored.shape)
    check_cells(name, cells, (stored == 0) | (stored == 1), ", which is none of 0 and 1, false and true, no and yes")
    return _with_cells(cells, stored == 1)


def read_numbers(
    name: str, values: Any, shape: tuple[int | None, ...] | None = None, where: NDArray[np.bool_] | None = None
) -> Any:
    """Return cells as numbers, which may be text; those below 1e-60 in size are 0, as coefficients would overflow.

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
    cells, stored = _cells(values)
    if shape and (len(shape) != cells.ndim or any(n not in (None, m) for n, m in zip(shape, cells.shape, strict=True))):
        raise ValueError(f"{name} has shape {cells.shape}; it must be {shape}".replace("None", "any"))
    parsed = parse_cells(stored)
    if where is not None:
        parsed = np.where(where, parsed, 0.0)
    check_cells(name, cells, np.abs(parsed) <= LARGEST, NOT_FINITE)
    parsed[np.abs(parsed) < 1 / LARGEST] = 0.0
    return _with_cells(cells, parsed)


def parse_cells(cells: NDArray[Any]) -> Doubles:
    """Return the numbers of cells, which may be objects or text; NaN for what is none, such as dates."""
    if cells.dtype.kind not in "OUT":
        return cells.astype(np.float64) if cells.dtype.kind in "biuf" else np.full(cells.shape, np.nan)
    return np.array([_parse_cell(item) for item in cells.ravel().tolist()], dtype=np.float64).reshape(cells.shape)


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
    return cells.dtype.kind in "biuf" or not np.isnan(parse_cells(cells)).all()


def listed_names(names: Any) -> list[Any]:
    """Return names as a list, where one name is a list of one and None is none."""
    return [names] if isinstance(names, str) else [*(names or ())]


def columns_by_name(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a table by their names.

    Raises
    ------
    ValueError
        If it is no table, two columns have one name, or differ in their length, or there is none.
    """
    keys = getattr(table, "column_names", getattr(table, "columns", table))  # of Arrow, of data frames, of mappings
    if keys is table and not isinstance(table, Mapping):
        raise ValueError(f"the table is a {type(table).__name__}; it must be a data frame or map names to columns")
    names = [*map(str, keys)]
    for name in [name for name in names if names.count(name) > 1][:1]:
        raise ValueError(f"two columns of the table are named {name!r}; rename one of them")
    columns = {name: table[key] for name, key in zip(names, keys, strict=True)}
    n_rows = np.shape(next(iter(columns.values()), ()))[:1]
    for name, column in columns.items():
        if np.shape(column) != n_rows:
            raise ValueError(f"column {name!r} has shape {np.shape(column)}; it must be {n_rows}, as the first one has")
    if not n_rows or not n_rows[0]:
        raise ValueError("the table has no row")
    return columns
