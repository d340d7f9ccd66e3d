"""Estimators from flat options, one name for each: what the slow twins take, and tests that go through many options.

The names are those of `reference.flat_parameters`. An option without effect on
what is trained is left out there, so that one set of options serves all solvers of a test.
"""

from __future__ import annotations

from typing import Any

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier
from manyclass.solvers import SOLVERS
from reference.flat_parameters import parameters_today

# With solver="auto" nothing of a step can be set.
OF_STEPS = {s.name for solver in SOLVERS.values() for s in solver.settings} - {"loss", "tol"}


def softmax(**flat: Any) -> SoftmaxClassifier:
    """A SoftmaxClassifier; options of a step need a solver, or what makes it train by batches."""
    by_batches = flat.get("search") is not None or flat.get("embedding_dim") not in (None, "auto")
    lost = OF_STEPS & flat.keys() if flat.get("solver", "auto") == "auto" and not by_batches else set()
    if lost:
        raise ValueError(f"{', '.join(sorted(lost))} would have no effect; name a solver")
    if flat.get("solver") == "implicit" and flat.get("schedule", "exponential") == "exponential":
        flat = {"decay": 0.9, **flat}  # version 1's, whatever "auto" is today
    return SoftmaxClassifier(**parameters_today("SoftmaxClassifier", flat))


def margin(**flat: Any) -> MarginClassifier:
    """A MarginClassifier."""
    return MarginClassifier(**parameters_today("MarginClassifier", flat))


def utility(**flat: Any) -> AugmentReduceClassifier:
    """An AugmentReduceClassifier."""
    return AugmentReduceClassifier(**parameters_today("AugmentReduceClassifier", flat))
