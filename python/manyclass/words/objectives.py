"""Objectives of `SkipGram`, each with the parameters that are its own.

A string stands for the object with its defaults: ``SkipGram(objective="nce")`` is ``SkipGram(objective=NCE())``.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from manyclass.checks import check_choice, check_flag, check_number
from manyclass.help_lines import storing
from manyclass.parts import Part
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex

__all__ = ["NCE", "OVE", "Descent", "Hierarchical", "NegativeSampling", "SampledSoftmax", "Softmax"]

Index = SphericalClusterIndex | DecomposedIndex

POWER = 0.75  # of word2vec: words are drawn with probability proportional to their count to this power
SEARCHES = ("exact", "mips", "decomposed", "messages", "printed_messages")
MESSAGES = ("messages", "printed_messages")
RESTS = ("sample", "mask")
# The parameters of log Z_x that each solver of the softmax has, with what "auto" means.
SOLVERS: dict[str, dict[str, float]] = {
    "implicit": {"u_learning_rate": 0.1},
    "umax": {"u_learning_rate": 0.1, "delta": 1.0},
    "ema": {"u_gain": 0.01},
    "sgd": {"u_learning_rate": 0.1},
}


class Objective(Part):
    """An objective: its parameters, and facts of its kind.

    Attributes
    ----------
    name : str
        The string that stands for it.
    solver : str
        What the core calls its step for a pair of words; of an objective without such a step, that of its warm-up.
    draws : bool
        Whether it tells each context word from `n_negatives` drawn words.
    warms_up : bool
        Whether passes of negative sampling come before its own.
    has_tree : bool
        Whether the context vectors are those of the inner nodes of a tree.
    carries_normalizers : bool
        Whether log Z_x is a number carried for each word.
    is_softmax : bool
        Whether it is the loss of a softmax of the scores as they are, so that its exact value tells how training went.
    power : float
        Words are drawn with probability proportional to their count to this power.
    """

    solver: str = "negative_sampling"
    draws: ClassVar[bool] = True
    warms_up: ClassVar[bool] = True
    has_tree: ClassVar[bool] = False
    carries_normalizers: ClassVar[bool] = False
    is_softmax: ClassVar[bool] = False
    power: float = POWER

    @storing
    def __init__(self, power: float = POWER) -> None:
        """Store the parameters."""

    def check(self) -> None:
        """Raise if a parameter is out of range, or would be without effect."""
        check_number("power", self.power)

    @property
    def first_rate(self) -> float:
        """The step size at the beginning that "auto" means."""
        return 0.025

    @property
    def core(self) -> dict[str, Any]:
        """Its arguments for the core's trainer; `options` are the numbers of its solver."""
        return {"solver": self.solver, "power": float(self.power), "share": False, "options": {}}

    @property
    def step_of_normalizers(self) -> float:
        """The step size of log Z_x, where it is carried and moves by one."""
        return 1.0


class NCE(Objective):
    """Noise-contrastive estimation: negative sampling with the draws' probabilities taken out of the scores.

    Parameters
    ----------
    power : float, default=0.75
        Words are drawn with probability proportional to their count to this power.
    """

    name = solver = "nce"


class OVE(Objective):
    """One-vs-each: a bound on the softmax that is a sum over all words.

    Parameters
    ----------
    power : float, default=0.75
        As of `NCE`.
    """

    name = solver = "ove"
    first_rate = 1e-5  # because the gradient is a sum over all words


class SampledSoftmax(Objective):
    """The softmax over y and the drawn words, each weighted by one over its expected number of draws.

    Parameters
    ----------
    power : float, default=0.75
        As of `NCE`.
    """

    name = "sampled_softmax"
    is_softmax = True
    solver = "css"


class NegativeSampling(Objective):
    """Negative sampling, as in word2vec: tell y from drawn words.

    Parameters
    ----------
    power : float, default=0.75
        As of `NCE`.
    share_classes : bool, default=False
        All pairs of one centre see the same drawn words. Faster, and noisier.
    """

    name = solver = "negative_sampling"
    warms_up = False

    @storing
    def __init__(self, power: float = POWER, share_classes: bool = False) -> None:
        """Store the parameters."""

    def check(self) -> None:
        """Raise if a parameter is out of range."""
        super().check()
        check_flag("share_classes", self.share_classes)

    @property
    def core(self) -> dict[str, Any]:
        """Its arguments for the core's trainer."""
        return super().core | {"share": bool(self.share_classes)}


class Hierarchical(Objective):
    """A Huffman tree over the words: normalised, and another model than the softmax. It has no parameters."""

    name = solver = "hierarchical"
    draws = warms_up = False
    has_tree = True

    def __init__(self) -> None:
        """It has no parameters."""


class Softmax(Objective):
    """The true softmax by drawn words: log Z_x, a number carried for each word, takes the place of the normaliser.

    Parameters
    ----------
    solver : {"implicit", "umax", "ema", "sgd"}, default="implicit"
        "implicit": the proximal step in the output vectors and log Z_x. "sgd", "umax", "ema": explicit steps, and log
        Z_x by its gradient, by U-max's rule, or as a moving average.
    power : float, default=0.75
        As of `NCE`.
    u_learning_rate : float or "auto", default="auto"
        Step size of log Z_x, which "ema" has not. "auto" is 0.1.
    u_gain : float or "auto", default="auto"
        Weight of what is new in the moving average of "ema". "auto" is 0.01.
    delta : float or "auto", default="auto"
        How far below a bound log Z_x may be before "umax" raises it. "auto" is 1.
    """

    name = "softmax"
    carries_normalizers = is_softmax = True

    @storing
    def __init__(
        self,
        solver: str = "implicit",
        *,
        power: float = POWER,
        u_learning_rate: float | str = "auto",
        u_gain: float | str = "auto",
        delta: float | str = "auto",
    ) -> None:
        """Store the parameters."""

    def check(self) -> None:
        """Raise if a parameter is out of range, or would be without effect."""
        super().check()
        check_choice("solver", self.solver, tuple(SOLVERS))
        for name in ("u_learning_rate", "u_gain", "delta"):
            value = getattr(self, name)
            if value == "auto":
                continue
            if name not in SOLVERS[self.solver]:
                having = " or ".join(repr(solver) for solver, defaults in SOLVERS.items() if name in defaults)
                raise ValueError(
                    f"{name} is {value!r}; solver {self.solver!r} has no such number: "
                    f"{name} must be 'auto', or solver {having}"
                )
            check_number(name, value, low=0, high=1 if name == "u_gain" else float("inf"), open_low=name != "delta")

    @property
    def first_rate(self) -> float:
        """0.003 for the explicit steps, which larger ones make diverge."""
        return 0.025 if self.solver == "implicit" else 0.003

    @property
    def core(self) -> dict[str, Any]:
        """Its arguments for the core's trainer."""
        numbers = self._numbers
        numbers.pop("u_learning_rate", None)
        return super().core | {"options": {name.removeprefix("u_"): number for name, number in numbers.items()}}

    @property
    def step_of_normalizers(self) -> float:
        """The step size of log Z_x, which "ema" has not."""
        return self._numbers.get("u_learning_rate", 1.0)

    @property
    def _numbers(self) -> dict[str, float]:
        """The numbers of the solver, or what "auto" means of them."""
        values = {name: getattr(self, name) for name in SOLVERS[self.solver]}
        return {name: SOLVERS[self.solver][name] if value == "auto" else float(value) for name, value in values.items()}


class Descent(Objective):
    """The true softmax by gradient descent on the exact objective, input and output vectors by turns.

    A pass costs as much as scoring all pairs of words a few times, or a part of it with a search.

    Parameters
    ----------
    search : {"exact", "mips", "decomposed", "messages", "printed_messages"} or index, default="exact"
        How the words that matter in the softmax are found. "exact" scores all of them; "mips" asks a
        SphericalClusterIndex of the context vectors, "decomposed" a DecomposedIndex with 4 blocks, whose finds are
        scored exactly. "messages" joins what the blocks find by one round of messages with the step 2 / 3 (after Yen et
        al., ICML 2018, Algorithm 2 with T = 1 and tau_2 = 0.001), active words having their exact scores; for the rule
        "mask". "printed_messages" passes them as they are printed: a word that no block found counts with score 0, and
        an active one with the sum of the scores that the blocks found. An index serves as a template.
    budget : int or "auto", default="auto"
        Words that a search finds. "auto" is one in twenty, rounded up.
    rest : {"auto", "sample", "mask"}, default="auto"
        What becomes of the words that a search does not find. "sample": centres of similar direction search together,
        and samples of the other words, or of the centres, stand for all of them; the bias of the gradient falls with
        the budget. "mask": each centre searches, and is trained on the words found and its observed contexts only (Yen
        et al., ICML 2018). That is another objective as long as much of the softmax is not found, and slower than
        "exact" up to some ten thousand words. "auto" is "mask" for searches by messages, else "sample".
    """

    name = "descent"
    draws = False
    first_rate = 1.0  # from which descent finds its own step sizes

    @storing
    def __init__(self, search: str | Index = "exact", *, budget: int | str = "auto", rest: str = "auto") -> None:
        """Store the parameters."""

    def check(self) -> None:
        """Raise if a parameter is out of range, or would be without effect."""
        if not isinstance(self.search, SphericalClusterIndex | DecomposedIndex):
            check_choice("search", self.search, SEARCHES)
        check_choice("rest", self.rest, ("auto", *RESTS))
        if self.budget != "auto":
            check_number("budget", self.budget, low=1, integer=True)
        if self.search == "exact":
            for name, value in (("budget", self.budget), ("rest", self.rest)):
                if value != "auto":
                    raise ValueError(
                        f"{name} is {value!r}; search 'exact' leaves no word out: {name} must be 'auto', or search "
                        "'mips', 'decomposed' or an index"
                    )
        if self.passes_messages and self.rest == "sample":
            raise ValueError(
                f"rest is 'sample'; search {self.search!r} leaves out what it does not find: rest must be 'mask' or "
                "'auto', or search another"
            )

    @property
    def passes_messages(self) -> bool:
        """Whether finds of blocks are joined by messages."""
        return self.search in MESSAGES

    @property
    def masks(self) -> bool:
        """Whether words that are not found are left out."""
        return self.rest == "mask" or self.passes_messages


OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind for kind in (Softmax, NegativeSampling, Hierarchical, OVE, NCE, SampledSoftmax, Descent)
}


def own_parameters(kind: type[Objective]) -> dict[str, inspect.Parameter]:
    """Return the constructor's parameters of an objective."""
    return dict(inspect.signature(kind).parameters)


def objective_named(name: str, **parameters: object) -> Objective:
    """Return the objective of a name, with parameters of its own.

    Raises
    ------
    ValueError
        If there is no such objective, or it has no such parameter.
    """
    check_choice("objective", name, tuple(OBJECTIVES))
    known = own_parameters(OBJECTIVES[name])
    for parameter, value in parameters.items():
        if parameter not in known:
            having = ", ".join(repr(other) for other, kind in OBJECTIVES.items() if parameter in own_parameters(kind))
            raise ValueError(
                f"{parameter} is {value!r}; objective {name!r} has no such parameter. Objectives with it: "
                f"{having or 'none'}"
            )
    objective: Objective = OBJECTIVES[name]().set_params(**parameters)
    objective.check()
    return objective
