"""Which wrong classes a step sees: one class for each sampler, to be given as `sampler=`.

The classes are made from the registry of the core; a string stands for an object with its defaults. Every sampler
weights what it draws so that sums over the wrong classes are unbiased, but `Search`, which leaves classes out.
"""

from __future__ import annotations

from typing import Any

from manyclass.checks import Setting, check_choice
from manyclass.parts import Part, class_name, part_classes
from manyclass.registry import parts, settings_with

MOST_HEAD = int(settings_with("selection", {"heads"})[0].high)
SEARCHES = ("mips", "decomposed", "messages")


class Sampler(Part):
    """Base class of the samplers."""


class Search(Sampler):
    """The best wrong classes by an index of W that follows training; classes that are not found are left out.

    Needs training by minibatches: several labels, embeddings, `solver="adagrad"`, or `MarginClassifier`.

    Parameters
    ----------
    index : {"mips", "decomposed", "messages"} or index, default="mips"
        "mips": the `budget` best by a `SphericalClusterIndex` (Yen et al. 2018, Algorithm 1). "decomposed": the union
        of the `budget` best of each block of columns by a `DecomposedIndex`, with exact scores. "messages": what the
        blocks find, joined by greedy message passing (Algorithm 2). An index that is not fitted may be given instead:
        its parameters are used.
    budget : int or None, default=None
        Classes that a search returns (of each block); None is 64 for the margin, K / 100 for other losses.
    warm_up : int, default=1
        Passes that draw classes before the search begins.
    n_iter : int, default=1
        With "messages": rounds, the paper's T.
    step : {"full", "frank_wolfe"}, default="full"
        With "messages": a message goes all the way, or by 2 / (t + 2) in round t = 1, 2, ..., as the paper has it.
    tolerance : float, default=1e-3
        With "messages": classes whose gradient in a block is larger are active, the paper's tau_2.
    rule : {"exact_scores", "printed"}, default="exact_scores"
        With "messages": "printed" is Algorithm 2 as it is printed. Labels are active only where they have a gradient,
        an active class has in all blocks the sum of the scores that blocks have found, and a class that was not found
        counts as 0 and has the gradient of that, which moves all K rows for a loss that is never flat there. With
        "exact_scores" labels are always active, an active class has its exact score, and what was not found is left
        out (or, with a threshold, counts as 0 without a gradient), so that few rows move.
    threshold : float or None, default=None
        With "messages": find all block scores above it in magnitude (the paper's tau_1), in place of the `budget`
        highest ones.
    fill : bool, default=False
        Read clusters in the order of their scores until they hold `budget` classes (the paper's section 5), in place of
        the number that the index says.
    """

    name = "search"
    settings = (
        Setting("index", "mips", "What searches.", "index"),
        Setting("budget", None, "Classes that a search returns.", "integer", low=1),
        Setting("warm_up", 1, "Passes that draw classes first.", "integer", low=0),
        Setting("n_iter", 1, "Rounds of messages.", "integer", low=0, high=2**31 - 1),
        Setting("step", "full", "How far a message goes.", choices=("full", "frank_wolfe")),
        Setting("tolerance", 1e-3, "Gradient from which a class is active.", low=0),
        Setting("rule", "exact_scores", "How messages carry scores.", choices=("exact_scores", "printed")),
        Setting("threshold", None, "Block scores above it are found.", low=0),
        Setting("fill", False, "Whether a search reads clusters until they hold `budget` classes.", "flag"),
    )

    def check(self) -> None:
        """Raise ValueError or TypeError for a parameter out of its range."""
        super().check()
        search_name(self.index)


def check_found(threshold: float | None, budget: int | None, fill: bool) -> None:
    """Raise ValueError where a search is to find both all scores above a threshold and a number of the highest."""
    if threshold is not None and (budget is not None or fill):
        raise ValueError(f"threshold is {threshold!r} beside budget or fill; leave these as they are by default")


def search_name(index: Any) -> str:
    """Name of a search that may be given as an index, whose class has that name as `SEARCH`.

    Raises
    ------
    ValueError
        If it is neither.
    """
    name = getattr(type(index), "SEARCH", index)
    check_choice("index", name, SEARCHES)
    return str(name)


_OF_THE_CORE = [
    (name, (*facts.parameters, *settings_with("selection", facts.flags)), facts.sentence)
    for name, facts in parts("selection").items()
]
SAMPLERS = part_classes(Sampler, __name__, _OF_THE_CORE) | {"search": Search}

for _made in SAMPLERS.values():
    globals()[_made.__name__] = _made

__all__ = sorted(class_name(name) for name in SAMPLERS)


def __getattr__(name: str) -> type[Part]:
    """Tell type checkers that the classes made above are there; at run time only missing names come here."""
    raise AttributeError(f"manyclass.samplers has no {name!r}; it has {', '.join(__all__)}")
