"""Objectives of `SkipGram`, each with the parameters that are its own.

A string stands for the object with its defaults: ``SkipGram(objective="nce")`` is ``SkipGram(objective=NCE())``.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from manyclass.checks import Setting, check_choice
from manyclass.parts import Part
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex

__all__ = ["NCE", "OVE", "Descent", "Hierarchical", "NegativeSampling", "SampledSoftmax", "Softmax"]

Index = SphericalClusterIndex | DecomposedIndex

# Of word2vec.
POWER = Setting("power", 0.75, "Words are drawn with probability proportional to their count to this power.")
SEARCHES = ("exact", "mips", "decomposed", "messages", "printed_messages")
MESSAGES = ("messages", "printed_messages")
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
    settings: ClassVar[tuple[Setting, ...]] = (POWER,)
    n_by_place = 1
    power: float = POWER.default

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

    settings = (POWER, Setting("share_classes", False, "Whether all pairs of a centre see the same drawn words."))
    share_classes: bool

    @property
    def core(self) -> dict[str, Any]:
        """Its arguments for the core's trainer."""
        return super().core | {"share": bool(self.share_classes)}


class Hierarchical(Objective):
    """A Huffman tree over the words: normalised, and another model than the softmax. It has no parameters."""

    name = solver = "hierarchical"
    draws = warms_up = False
    has_tree = True
    settings = ()


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

    settings = (
        Setting("solver", "implicit", "How log Z_x moves.", choices=tuple(SOLVERS)),
        POWER,
        Setting("u_learning_rate", "auto", "Step size of log Z_x.", low=0, open_low=True),
        Setting("u_gain", "auto", "Weight of what is new in a moving average.", low=0, high=1, open_low=True),
        Setting("delta", "auto", "How far below a bound log Z_x may be.", low=0),
    )

    def check(self) -> None:
        """Raise if a parameter is out of range, or would be without effect."""
        super().check()
        for name in ("u_learning_rate", "u_gain", "delta"):
            if (value := getattr(self, name)) != "auto" and name not in SOLVERS[self.solver]:
                having = " or ".join(repr(solver) for solver, defaults in SOLVERS.items() if name in defaults)
                why = f"solver {self.solver!r} has no such number"
                raise ValueError(f"{name} is {value!r}; {why}: {name} must be 'auto', or solver {having}")

    @property
    def first_rate(self) -> float:
        """0.003 for the explicit steps, which larger ones make diverge."""
        return 0.025 if self.solver == "implicit" else 0.003

    @property
    def core(self) -> dict[str, Any]:
        """Its arguments for the core's trainer."""
        options = {name.removeprefix("u_"): n for name, n in self._numbers.items() if name != "u_learning_rate"}
        return super().core | {"options": options}

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

    settings = (
        Setting("search", "exact", "How the words that matter are found.", "index"),
        Setting("budget", "auto", "Words that a search finds.", "integer", low=1),
        Setting("rest", "auto", "What becomes of words that are not found.", choices=("auto", "sample", "mask")),
    )
    search: str | Index
    budget: int | str
    rest: str

    def check(self) -> None:
        """Raise if a parameter is out of range, or would be without effect."""
        super().check()
        if not isinstance(self.search, SphericalClusterIndex | DecomposedIndex):
            check_choice("search", self.search, SEARCHES)
        for name in ("budget", "rest") if self.search == "exact" else ():
            if (value := getattr(self, name)) != "auto":
                why = "search 'exact' leaves no word out"
                raise ValueError(f"{name} is {value!r}; {why}: {name} must be 'auto', or search another")
        if self.passes_messages and self.rest == "sample":
            raise ValueError(f"rest is 'sample'; with search={self.search!r} it must be 'mask' or 'auto'")

    @property
    def passes_messages(self) -> bool:
        """Whether finds of blocks are joined by messages."""
        return self.search in MESSAGES


_KINDS = (Softmax, NegativeSampling, Hierarchical, OVE, NCE, SampledSoftmax, Descent)
OBJECTIVES: dict[str, type[Objective]] = {kind.name: kind for kind in _KINDS}


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
    for parameter, value in parameters.items():
        having = [other for other, kind in OBJECTIVES.items() if parameter in own_parameters(kind)]
        if name not in having:
            others = ", ".join(map(repr, having)) or "none"
            why = f"objective {name!r} has no such parameter"
            raise ValueError(f"{parameter} is {value!r}; {why}. Objectives with it: {others}")
    objective = OBJECTIVES[name](**parameters)
    objective.check()
    return objective
