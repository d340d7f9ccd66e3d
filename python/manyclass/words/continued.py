"""`SkipGram.partial_fit`: which words there are, and with what step sizes training goes on.

The schedule of `fit`, which falls linearly to 0.004 of its first step size, is wound back by the share that the new
text has of all that was read before: to its beginning for as much text, and hardly at all for a little. It then falls
to the end again. A stream that began without `fit` keeps the first step size. With a fifth of a text of novels as the
new text, the step size with which `fit` ended loses 0.09 nats on held-out sentences of it (bench/decisions.md).
"""

from __future__ import annotations

from typing import Any

from manyclass.words.passes import LAST_SHARE
from manyclass.words.plan import SkipGramPlan


def known_words(model: Any, plan: SkipGramPlan) -> dict[str, int]:
    """The words of a fitted model with their counts; none of another.

    Raises
    ------
    ValueError
        For objectives that need the whole text, and vectors of another length.
    """
    objective = plan.objective
    if objective.has_tree:
        raise ValueError(
            f"objective is {objective.name!r}, whose tree is another where counts are; with partial_fit choose another"
        )
    if objective.name == "descent":
        raise ValueError("objective is 'descent', which passes over all pairs; with partial_fit choose another")
    if not hasattr(model, "vocabulary_"):
        return {}
    if model.vectors_.shape[1] != model.dim:
        raise ValueError(f"dim is {model.dim!r}; the model that partial_fit goes on with has {model.vectors_.shape[1]}")
    return dict(zip(model.vocabulary_, model.counts_.tolist(), strict=True))


def rates_of_call(
    plan: SkipGramPlan, learning_rate: float | None, n_before: int, n_new: int, n_fit: int
) -> tuple[float, float]:
    """Step sizes at the beginning and the end of a call with so many words, after so many, those of `fit` apart."""
    if learning_rate is not None:
        return learning_rate, learning_rate
    rate = plan.learning_rate
    if n_fit == 0:
        return rate, rate
    share = min(1.0, n_new / n_before)
    return rate * (LAST_SHARE + (1 - LAST_SHARE) * share), rate * LAST_SHARE
