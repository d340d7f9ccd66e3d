"""What ends training from outside: the clock, and Ctrl-C, which an estimator takes for the end of its fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from manyclass import _core

WORD = "interrupted"  # in the warnings of the estimators


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Let work of the core that takes longer raise `_core.TimeIsUpError`.

    Parameters
    ----------
    seconds : float
        The seconds that the work within may take.
    """
    _core.limit_seconds(seconds)
    try:
        yield
    finally:
        _core.limit_seconds(np.inf)


def was_interrupted(train: Callable[[], object]) -> bool:
    """Train; return whether Ctrl-C ended it. Other warnings are given on.

    Parameters
    ----------
    train : callable
        Fits an estimator.

    Returns
    -------
    bool
        The estimator has the model reached before, if so.

    Raises
    ------
    KeyboardInterrupt
        If it came where there is no model yet.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train()
    interrupted = False
    for found in caught:
        if issubclass(found.category, ConvergenceWarning) and WORD in str(found.message):
            interrupted = True
        else:
            warnings.warn_explicit(found.message, found.category, found.filename, found.lineno)
    return interrupted
