"""Utilities as a formula for each alternative, which become features of pairs named by their coefficients.

One form, a mapping of alternatives to texts: the text is what a paper prints, one model fits on a screen, it goes into
a file as it stands, and coefficients need no declaration. A formula is read by `ast`, never run as Python.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.weights.arrays import Doubles

Terms = dict[str, Any]  # what each coefficient is multiplied by; by NO_COEFFICIENT what has none
NO_COEFFICIENT = ""
OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.BitAnd: np.logical_and,
    ast.BitOr: np.logical_or,
    ast.UAdd: np.positive,
    ast.USub: np.negative,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
# Functions, and how many arguments they have; 0: any number.
FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "log": (np.log, 1),
    "exp": (np.exp, 1),
    "sqrt": (np.sqrt, 1),
    "abs": (np.abs, 1),
    "max": (lambda *values: reduce(np.maximum, values), 0),
    "min": (lambda *values: reduce(np.minimum, values), 0),
    "where": (np.where, 3),
}


@dataclass(frozen=True)
class UtilityFormula:
    """The formula of one alternative over the columns of a table.

    Attributes
    ----------
    alternative : object, its label
    text : str
    table : mapping of str to columns
    """

    alternative: Any
    text: str
    table: Mapping[str, Any]

    def terms(self) -> Terms:
        """Return what each coefficient is multiplied by; raises ValueError where it is not linear in coefficients."""
        try:
            with np.errstate(all="ignore"):  # where alternatives are not available; what counts is checked afterwards
                return self._terms(ast.parse(self.text.strip(), mode="eval").body)
        except (SyntaxError, RecursionError, MemoryError, OverflowError) as error:
            raise self._error(f"it cannot be read: {error}") from error

    def _terms(self, node: ast.expr) -> Terms:
        match node:
            case ast.Name(id=name) if name not in self.table:
                return {name: 1.0}
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as op, right=right):
                combine, terms, second = OPERATORS[type(op)], self._terms(left), self._terms(right)
                if isinstance(op, ast.Add | ast.Sub):
                    return {name: combine(terms.get(name, 0.0), second.get(name, 0.0)) for name in (*terms, *second)}
                if isinstance(op, ast.Mult) and [*terms] == [NO_COEFFICIENT]:
                    terms, second = second, terms
                factor = self._without_coefficients(second, node)
                return {name: combine(values, factor) for name, values in terms.items()}
            case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand):
                return {name: OPERATORS[type(sign)](values) for name, values in self._terms(operand).items()}
        return {NO_COEFFICIENT: self._numbers(node)}

    def _numbers(self, node: ast.expr) -> Any:
        """An expression of columns alone."""
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return float(number)
            case ast.Name(id=name):
                try:
                    return np.asarray(self.table[name]).astype(np.float64)
                except (TypeError, ValueError) as error:
                    reason = f"the column {name!r} has no numbers ({error}); compare it with a text"
                    raise self._error(reason) from error
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](self._operand(left, node), self._operand(right, node)) * 1.0
            case ast.Compare() if all(type(op) in OPERATORS for op in node.ops):
                sides = [self._side(part, node) for part in (node.left, *node.comparators)]
                pairs = zip(node.ops, sides, sides[1:], strict=False)
                return reduce(np.logical_and, (OPERATORS[type(op)](a, b) for op, a, b in pairs)) * 1.0
            case ast.Call(func=ast.Name(id=name), args=[_, *_], keywords=[]) if name in FUNCTIONS:
                function, n_arguments = FUNCTIONS[name]
                if n_arguments not in (0, len(node.args)):
                    raise self._error(f"{name} has {n_arguments} arguments")
                return function(*(self._operand(argument, node) for argument in node.args))
        raise self._error(f"{ast.unparse(node)!r} is not among + - * / **, comparisons, & | and {', '.join(FUNCTIONS)}")

    def _operand(self, node: ast.expr, within: ast.expr) -> Any:
        return self._without_coefficients(self._terms(node), within)

    def _side(self, node: ast.expr, within: ast.expr) -> Any:
        """A side of a comparison, which may be a text or a column of texts."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Name) and node.id in self.table:
            return np.asarray(self.table[node.id])
        return self._operand(node, within)

    def _without_coefficients(self, terms: Terms, node: ast.expr) -> Any:
        names = [name for name in terms if name != NO_COEFFICIENT]
        if names:
            reason = "is not linear in coefficients, which are the names that are no columns"
            raise self._error(f"{ast.unparse(node)!r} {reason}: {', '.join(names)}")
        return terms[NO_COEFFICIENT]

    def _error(self, reason: str) -> ValueError:
        return ValueError(f"the utility of {self.alternative!r} is {self.text!r}; {reason}")


def evaluate_utilities(
    utilities: Mapping[Any, str],
    alternatives: Sequence[Any],
    table: Mapping[str, Any],
    available: NDArray[np.bool_],
) -> tuple[dict[str, Doubles], Doubles | None]:
    """Return the features of pairs by coefficient, and the sum of terms without one, None where there are none.

    Parameters
    ----------
    utilities : mapping of alternatives to str
    alternatives : sequence of labels
    table : mapping of str to columns, each of shape (n,)
    available : ndarray of shape (n, n_alternatives), bool
        Where it is false, terms are 0 and need not be finite.

    Raises
    ------
    ValueError
        If alternatives differ, a formula is not linear in coefficients, or a term is not finite.
    """
    if {*utilities} != {*alternatives}:
        raise ValueError(f"utilities are those of {[*utilities]}; the alternatives are {[*alternatives]}")
    features: dict[str, Doubles] = {}
    for alternative, text in utilities.items():
        j = [*alternatives].index(alternative)
        utility = UtilityFormula(alternative, str(text), table)
        for name, values in utility.terms().items():
            column = np.where(available[:, j], np.asarray(values, dtype=np.float64), 0.0)
            if not np.isfinite(column).all():
                row = int(np.argmin(np.isfinite(column)))
                raise utility._error(f"its term with {name or 'no coefficient'} is {column[row]} in row {row}")
            features.setdefault(name, np.zeros(available.shape))[:, j] = column
    offset = features.pop(NO_COEFFICIENT, None)
    if not features:
        raise ValueError("utilities have no coefficients, which are the names that are no columns")
    return features, offset if offset is not None and offset.any() else None
