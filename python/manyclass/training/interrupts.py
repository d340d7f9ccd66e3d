"""Ctrl-C in training, which an estimator takes for the end of its fit: told from an end that was reached."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from sklearn.exceptions import ConvergenceWarning

WORD = "interrupted"  # in the warnings of the estimators


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
