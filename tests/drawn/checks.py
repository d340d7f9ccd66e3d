"""What must hold of any call: a refusal names something, warnings are of training, numbers are finite."""

from __future__ import annotations

import inspect
import re
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import manyclass
from drawn.parameters import PARTS
from manyclass.parts import Part

# Data and arguments of methods that a message may name.
DATA = {
    *("X", "x", "y", "Y", "W", "Q", "k", "class", "classes", "label", "labels", "row", "rows", "feature", "features"),
    *("word", "words", "corpus", "text", "sentence", "pairs", "queries", "query", "ids", "threshold", "weights"),
    *("sample_weight", "coef_init", "intercept_init", "n_passes", "learning_rate", "points", "budget", "stream"),
    *("norm", "vector", "vectors", "smoothing", "tolerance"),
}


def _known() -> set[str]:
    made = (getattr(manyclass, name) for name in manyclass.__all__)
    names = {n for one in made if inspect.isclass(one) for n in inspect.signature(one).parameters}
    for kind, parts in PARTS.items():
        names |= {kind}
        for part in parts.values():
            own = [s.name for s in part.settings] if issubclass(part, Part) else list(inspect.signature(part).parameters)
            names |= set(own)
    return names | DATA


KNOWN = _known()


@dataclass
class Found:
    """What a case has come to: calls done, calls refused, warnings of training, and faults."""

    done: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def fault(self, what: str) -> None:
        """Note something wrong."""
        self.faults.append(what)


def names_something(message: str) -> bool:
    """Whether an error names a parameter or data."""
    return bool(KNOWN & set(re.findall(r"[A-Za-z_]+", message)))


def finite(found: Found, what: str, values: Any) -> None:
    """Note numbers that are not finite."""
    array = np.asarray(values)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        wrong = array[~np.isfinite(array)]
        found.fault(f"{what} has {len(wrong)} of {array.size} numbers that are not finite, such as {wrong.flat[0]}")


def observed(found: Found, name: str, call: Callable[[], Any], *, refuses: bool = True) -> bool:
    """Make a call; note how it ends and what it warned of; return whether it was done.

    A ValueError or TypeError that names something is a refusal, where the call may refuse.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
            done = True
        except (ValueError, TypeError) as error:
            done = False
            if refuses and names_something(str(error)):
                found.refused.append(f"{name}: {error}")
            else:
                found.fault(f"{name}: {_told(error)}")
        except Exception as error:
            done = False
            found.fault(f"{name}: {_told(error)}")
    for one in caught:
        if issubclass(one.category, ConvergenceWarning):
            found.warned.append(str(one.message))
        elif refuses or not issubclass(one.category, FutureWarning):
            where = f"{one.filename.rpartition('manyclass/')[2]}:{one.lineno}"
            found.fault(f"{name}: {one.category.__name__} at {where}: {one.message}")
    if done:
        found.done.append(name)
    return done


def _told(error: Exception) -> str:
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {at.filename.rpartition('manyclass/')[2]}:{at.lineno}: {error}"
