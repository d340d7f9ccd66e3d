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
            names |= set(inspect.signature(part).parameters)
    return names | DATA


KNOWN = _known()
MOST_REFUSALS = 4  # parameters that a case gives up, so that it comes to a fit


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
    caught: list[tuple[type[Warning], str]] = []

    def note(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        caught.append((category, f"{message} at {_place(traceback.extract_stack())}"))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note
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
    for category, message in caught:
        if issubclass(category, ConvergenceWarning):
            found.warned.append(message)
        else:
            found.fault(f"{name}: {category.__name__}: {message}")
    if done:
        found.done.append(name)
    return done


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error} at {_place(traceback.extract_tb(error.__traceback__))}"


def _place(stack: traceback.StackSummary) -> str:
    """The innermost line of the package."""
    inside = [at for at in stack if "/manyclass/" in at.filename.replace("\\", "/")]
    at = (inside or list(stack))[-1]
    return f"{'/'.join(at.filename.replace(chr(92), '/').split('/')[-2:])}:{at.lineno}"


def forgo(found: Found, *given: dict[str, Any]) -> bool:
    """Give up the parameter that the last refusal names, of an estimator or a part; False where it names none."""
    if not found.refused or found.faults or len(found.refused) > MOST_REFUSALS:
        return False
    for name in re.findall(r"\w+", found.refused[-1].partition(": ")[2]):
        for some in given:
            if name in some and name != "random_state":
                del some[name]
                return True
        for part in given[0].values():
            own = {s.name: s.default for s in getattr(part, "settings", ())}
            if name in own and getattr(part, name) is not own[name]:
                setattr(part, name, own[name])
                return True
    return False
