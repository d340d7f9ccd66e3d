"""Utilities as a formula for each alternative, which become features of pairs named by their coefficients.

One form, a mapping of alternatives to texts: the text is what a paper prints, one model fits on a screen, it goes into
a file as it stands, and coefficients need no declaration. A formula is read by `ast`, never run as Python.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.choice.columns import NOT_FINITE, check_cells, has_numbers, parse_cells, read_numbers
from manyclass.weights.arrays import Doubles

Terms = dict[str, Any]  # what each coefficient is multiplied by; by NO_COEFFICIENT what has none
NO_COEFFICIENT = ""
OPERATORS: dict[type, Callable[..., Any]] = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply}
OPERATORS |= {ast.Div: np.divide, ast.Pow: np.power, ast.UAdd: np.positive, ast.USub: np.negative}
OPERATORS |= {ast.BitAnd: np.logical_and, ast.BitOr: np.logical_or}
OPERATORS |= {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}
OPERATORS |= {ast.Eq: operator.eq, ast.NotEq: operator.ne}
# By name and number of arguments; extremes are of any number of them.
FUNCTIONS: dict[tuple[str, int], Callable[..., Any]] = {("log", 1): np.log, ("exp", 1): np.exp, ("sqrt", 1): np.sqrt}
FUNCTIONS |= {("abs", 1): np.abs, ("where", 3): np.where}
EXTREMES = {"max": np.maximum, "min": np.minimum}


def utility_terms(text: str, table: Mapping[str, Any]) -> Terms:
    """Return what each coefficient of a utility is multiplied by; names that are no columns are coefficients.

    Raises
    ------
    ValueError
        If the text cannot be read, is not linear in coefficients, or has a column without numbers.
    """
    try:
        with np.errstate(all="ignore"):  # where alternatives are not available; what counts is checked afterwards
            return _terms(ast.parse(f"({text}\n)", mode="eval").body, table)  # of any number of lines
    except (SyntaxError, RecursionError, MemoryError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"the utility {text!r:.200} cannot be read: {getattr(error, 'msg', error)}") from error


def _terms(node: ast.expr, table: Mapping[str, Any]) -> Terms:
    def number(part: ast.expr) -> Any:
        """What a part without coefficients is."""
        terms = _terms(part, table)
        if names := [name for name in terms if name != NO_COEFFICIENT]:
            reason = "is not linear in coefficients, which are the names that are no columns"
            raise ValueError(f"{ast.unparse(node)!r} {reason}: {', '.join(names)}")
        return terms[NO_COEFFICIENT]

    def side(part: ast.expr) -> Any:
        """A side of a comparison, which may be a text or a column of texts."""
        match part:
            case ast.Constant(value=str() as text):
                return text
            case ast.Name(id=name) if name in table:
                return np.asarray(table[name])
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):  # which bind closer than comparisons
                raise ValueError(f"{ast.unparse(node)!r}: put each comparison beside & or | into parentheses")
        return number(part)

    match node:
        case ast.Name(id=name) if name not in table:
            return {name: 1.0}
        case ast.Name(id=name):
            if not has_numbers(table[name]):
                raise ValueError(f"the column {name!r} has no numbers; compare it with a text")
            value: Any = parse_cells(np.asarray(table[name]))
        case ast.Constant(value=bool() | int() | float() as constant):
            value = float(constant)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            return {name: OPERATORS[type(op)](values) for name, values in _terms(operand, table).items()}
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            terms, others, add = _terms(left, table), _terms(right, table), OPERATORS[type(op)]
            return {name: add(terms.get(name, 0.0), others.get(name, 0.0)) for name in (*terms, *others)}
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as op, right=right):
            terms, factor = _terms(left, table), right
            if isinstance(op, ast.Mult) and [*terms] == [NO_COEFFICIENT]:
                terms, factor = _terms(right, table), left
            factors = number(factor)
            return {name: OPERATORS[type(op)](values, factors) for name, values in terms.items()}
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            value = OPERATORS[type(op)](number(left), number(right)) * 1.0
        case ast.Compare(ops=ops) if all(type(op) in OPERATORS for op in ops):
            sides = [side(part) for part in (node.left, *node.comparators)]
            pairs = zip(ops, sides, sides[1:], strict=False)
            value = reduce(np.logical_and, (OPERATORS[type(op)](a, b) for op, a, b in pairs)) * 1.0
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as arguments, keywords=[]) if name in EXTREMES:
            value = reduce(EXTREMES[name], map(number, arguments))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if (name, len(args)) in FUNCTIONS:
            value = FUNCTIONS[name, len(args)](*map(number, args))
        case _:
            words = ", ".join([*(name for name, _ in FUNCTIONS), *EXTREMES])
            raise ValueError(f"{ast.unparse(node)!r} is not among + - * / **, comparisons, & | and {words}")
    return {NO_COEFFICIENT: value}


def evaluate_utilities(
    utilities: Mapping[Any, str], alternatives: Sequence[Any], table: Mapping[str, Any], mask: NDArray[np.bool_]
) -> tuple[dict[str, Doubles], Doubles | None]:
    """Return the features of pairs by coefficient, and the sum of terms without one, None where there are none.

    Cells need not be finite where an alternative is not available.

    Parameters
    ----------
    utilities : mapping of alternatives to str
    alternatives : sequence of labels
    table : mapping of str to columns, each of shape (n_rows,)
    mask : ndarray of shape (n_rows, n_alternatives), bool
        Where alternatives are available.

    Raises
    ------
    ValueError
        If alternatives differ, or a formula is not linear in coefficients.
    CellError
        If a cell of a column is no number, or what follows from it is not finite, where that is available.
    """
    if {*utilities} != {*alternatives}:
        raise ValueError(f"utilities are those of {[*utilities]}; the alternatives are {[*alternatives]}")
    features: dict[str, Doubles] = {}
    for alternative, text in utilities.items():
        place = alternatives.index(alternative)
        for name, values in utility_terms(str(text), table).items():
            columns = features.setdefault(name, np.zeros(mask.shape))
            columns[:, place] = values
            is_wrong = mask[:, place] & ~np.isfinite(columns[:, place])
            for column in table.keys() & {*re.findall(r"\w+", str(text))} if is_wrong.any() else ():
                if has_numbers(table[column]):
                    read_numbers(column, table[column], where=is_wrong)
            check_cells(f"{name!r} in the utility of {alternative!r}", columns[:, place], ~is_wrong, NOT_FINITE)
    offset = features.pop(NO_COEFFICIENT, None)
    if not features:
        raise ValueError("utilities have no coefficients, which are the names that are no columns")
    return features, offset
