"""A line of help for each method that scikit-learn gives an estimator: its own texts take thirty or forty.

A class takes them as attributes, such as `get_params = get_named`, because a base class more is lines of help too.
"""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin


class _Brief:
    """A method that scikit-learn makes, with a line for its text.

    It gives a function anew each time, as what it stands for does, so that no other class's method gets the line.
    """

    def __init__(self, made: Any, line: str) -> None:
        self._made, self._line = made, line

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        found = self._made.__get__(instance, owner)
        found.__doc__ = self._line
        return found


def brief_requests(cls: type) -> None:
    """Say in a line what each `set_..._request` does that scikit-learn has made in a class."""
    for name in [name for name in vars(cls) if name.startswith("set_") and name.endswith("_request")]:
        method = name.removeprefix("set_").removesuffix("_request")
        line = f"Say which metadata routing passes to `{method}`; see scikit-learn's metadata routing."
        setattr(cls, name, _Brief(vars(cls)[name], line))


def get_named(self: BaseEstimator, deep: bool = True) -> dict[str, Any]:
    """Return the parameters and, with `deep`, those of parts by names such as solver__decay."""
    found: dict[str, Any] = BaseEstimator.get_params(self, deep)
    return found


def get_routing(self: BaseEstimator) -> Any:
    """Return what scikit-learn's metadata routing passes to each method."""
    return BaseEstimator.get_metadata_routing(self)


def fit_transformed(self: TransformerMixin, X: Any, y: Any = None, **fit_params: Any) -> Any:
    """Fit to X, with these parameters of `fit`, then transform it."""
    return TransformerMixin.fit_transform(self, X, y, **fit_params)


set_container = _Brief(
    inspect.getattr_static(TransformerMixin, "set_output"),
    "Choose the container of what `transform` gives; see scikit-learn's set_output.",
)
