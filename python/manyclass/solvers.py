r"""How training steps are made: one class for each solver, to be given as `solver=`.

With a number :math:`u_i` per point the mean log-loss is the minimum over u of
:math:`\frac1N\sum_i [u_i + e^{-u_i}(1 + \sum_{k \ne y_i} e^{x_i \cdot (w_k - w_{y_i})})] - 1`, a sum over points *and*
classes, so that a few sampled classes give an unbiased gradient (Fagan & Iyengar 2018, eq. 5-6). Unbiased are
"implicit", "minibatch_implicit", "umax", "sgd", "bregman" and "scent" and, as their gain vanishes, "augment_reduce" and
"scgd"; "exact" and "lbfgs" see all classes.

Several labels and embeddings are trained by minibatches. "adagrad" and "css" then train the logarithm of a sampled sum,
which is biased. "umax", "sgd", "scent", "ema", "augment_reduce" and "scgd" train the double sum there too, by Adagrad's
steps and with one number for each row; "implicit" makes the proximal step of several labels of a linear model.

The classes are made from the registry of the core, where each solver says its own parameters with defaults and ranges;
`help(manyclass.solvers.UMax)` tells what it is and where it comes from. A string stands for an object with its
defaults: "umax" for `UMax()`.

Two solvers are made by this layer: `LBFGS`, which minimises the exact objective by full passes, and `Adagrad`, which
trains embeddings and several labels by minibatches. `Natural` and `MonteCarlo` are the local steps of
`AugmentReduceClassifier`, `Gaussian` its posterior.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from manyclass.checks import Setting
from manyclass.parts import Part, class_name, part_class
from manyclass.registry import Facts, names, parts


class Solver(Part):
    """Base class of the solvers."""


class LocalStep(Part):
    """Base class of the local steps of augment and reduce."""


class Posterior(Part):
    """Base class of distributions over the weights."""


def _choices(kind: str) -> tuple[str, ...]:
    return tuple(names(kind))


LABEL_SOLVERS = _choices("label_solver")  # of the double sum, by points or by minibatches

# The settings of the core's solvers beside the numbers that each owns, in the order of their signatures.
_SHARED = (
    Setting(
        "u_learning_rate",
        "auto",
        'Step size of the log-normaliser u of each point; "tied" is that of W, as in the paper; "auto" is 30 for '
        '"implicit" and 0.5 for the Bregman steps, and for the others tied, or with learning_rate="auto" the c of its '
        "docstring. It follows the same schedule.",
        beside=("tied",),
        low=0,
        open_low=True,
        needs="u_step",
    ),
    Setting(
        "u_init",
        "log_n_classes",
        "Start of every u: log K, which is exact at W = 0, or zero, as in the authors' code.",
        choices=("log_n_classes", "zero"),
        needs="u -overwrites_u",
    ),
    Setting(
        "formulation",
        "auto",
        "What is carried between visits of a point: u, or in Raman's form the log-normaliser u + x.w_y (Fagan & "
        'Iyengar 2018, eq. 8); "auto": "proposed", but "raman" for averages, U-max and SGD with several labels or '
        "embeddings.",
        choices=_choices("formulation"),
        needs="formulations",
    ),
    Setting(
        "root",
        "newton",
        "How the step's scalar equation is solved: safeguarded Newton, or the paper's bisection.",
        choices=_choices("root"),
        needs="root",
    ),
    Setting(
        "partition",
        "fixed",
        "Batches that are made once, with all their labels among the classes; or points drawn anew for each visit, and "
        "classes from all of them (the arXiv version, E.4).",
        choices=_choices("partition"),
        needs="batch",
    ),
    Setting(
        "schedule",
        "exponential",
        'Step size in pass t = 0, 1, ...: learning_rate * decay**t, learning_rate / (1 + t), or constant; "adaptive" '
        "divides the step of each weight by sqrt(iterations) (1 + sqrt(running mean of its squared gradients)), for "
        "explicit steps without ridge and max_norm (Ruiz et al. 2018, section 4).",
        choices=_choices("schedule"),
    ),
    Setting(
        "decay",
        "auto",
        "Factor of the exponential and the adaptive schedule for each pass, in ]0, 1].",
        low=0,
        high=1,
        open_low=True,
    ),
    Setting(
        "decay_every",
        None,
        "With the adaptive schedule: decay is the factor for this number of batches (2,000 in the paper); None: for a "
        "pass.",
        "integer",
        low=1,
        needs="-implicit -batch",
    ),
    Setting(
        "averaging",
        "auto",
        "Return the last iterate, the mean of those after each pass, or of the second half of the passes; takes the "
        "memory of W once more. Where W is wide, fewer iterates are in the mean.",
        choices=("none", "polyak", "suffix"),
    ),
    Setting(
        "batch_size",
        None,
        "Points whose steps are made at the same weights and averaged; None makes steps one by one, or adds those of "
        "small batches so that threads can share the work.",
        "integer",
        low=1,
    ),
    Setting(
        "share_classes",
        None,
        "Whether the points of a batch see the same drawn classes, which makes a class cheaper; None: only with "
        "embeddings, several labels or a margin.",
        kind="flag",
        needs="-batch -all_classes",
    ),
    Setting("shuffle", True, "Whether points are visited in a new random order in each pass."),
    Setting(
        "parallel",
        "deterministic",
        'With "deterministic" the result does not depend on n_jobs; with "hogwild" threads race on W, and it varies.',
        choices=("deterministic", "hogwild"),
        needs="-batch",
    ),
    Setting(
        "max_norm",
        None,
        "If given, each w_k is projected on the ball of this radius, intercepts are not; and u on [0, infinity[ or, "
        "where there are none, on the interval that follows (Fagan & Iyengar 2018, Algorithm 1 and Lemma 2; "
        "`manyclass.bounds.double_sum_constants` has the radius that holds the optimum for a given alpha); needs steps "
        "of single points by one thread.",
        low=0,
        open_low=True,
        needs="-batch",
    ),
    Setting(
        "log_q",
        True,
        "With embeddings or several labels: whether e^z of a drawn class is divided by how often it is expected, "
        "so that the mean of the sampled sum is the true one (Jean et al. 2015).",
        needs="log_q",
    ),
    Setting(
        "reduction",
        "auto",
        "How the labels of a row share a loss.",
        choices=("pick_all", "pick_all_normalized", "decoupled", "logistic"),
        needs="labels",
    ),
)
_BY_NAME = {setting.name: setting for setting in _SHARED}


def _settings(facts: Facts) -> tuple[Setting, ...]:
    """What a solver of the core has: its own numbers, then what its flags say."""
    flags = facts.flags | ({"labels"} if facts.name in LABEL_SOLVERS else set())
    return (*facts.parameters, *(setting for setting in _SHARED if setting.is_had_with(flags)))


def _text(facts: Facts) -> str:
    source = f" ({facts.source})" if facts.source else ""
    bias = "Biased with few sampled classes." if facts.biased else "Unbiased: gradients are right on average."
    return f"{facts.sentence.rstrip('.')}{source}.\n\n{bias}"


SOLVERS: dict[str, type[Part]] = {
    name: part_class(Solver, name, _settings(facts), _text(facts), __name__) for name, facts in parts("solver").items()
}
SOLVERS["lbfgs"] = part_class(
    Solver,
    "lbfgs",
    (
        Setting(
            "loss",
            "softmax",
            "The mean log-loss, or an upper bound of it (Titsias 2016, eq. 15 and 11).",
            choices=_choices("full_batch_loss"),
        ),
        Setting("tol", 1e-6, "Stop when no entry of the gradient is larger in absolute value.", low=0),
    ),
    "L-BFGS in double precision over the exact gradient of all points, to the optimum.",
    __name__,
)
SOLVERS["adagrad"] = part_class(
    Solver,
    "adagrad",
    (
        replace(  # without "adaptive": the step of each row follows its gradients in any case
            _BY_NAME["schedule"],
            sentence="Step size in pass t = 0, 1, ...: learning_rate * decay**t, learning_rate / (1 + t), or constant.",
            choices=tuple(name for name in _choices("schedule") if name != "adaptive"),
        ),
        *(_BY_NAME[name] for name in ("decay", "batch_size", "share_classes", "shuffle", "parallel", "log_q")),
        replace(
            _BY_NAME["reduction"],
            sentence='How the labels of a row share a loss. "margin", of embeddings or a linear model, is that of '
            "`MarginClassifier` with smoothing 5, whose scores are then divided by the best temperature for rows held "
            "out.",
            choices=(*_BY_NAME["reduction"].choices, "margin"),
        ),
    ),
    "Minibatches with a step size for each row of W and each embedding, that falls with its squared gradients "
    "(Duchi et al. 2011).\n\nBiased where classes are drawn: the logarithm of a sampled sum is trained.",
    __name__,
)

_FAMILY = Setting(
    "family",
    "auto",
    'Family of q; "auto" is the one with the tightest bound for the noise.',
    choices=_choices("local_family"),
)
_NODES = Setting("n_nodes", "auto", "Nodes of the rule for expectations under q.", "integer", low=2, high=31)
_FLOOR = Setting(
    "floor",
    "auto",
    'Least gain; "auto" is the share of the classes that a step sees, 1 where it sees all; the paper has 0.',
    low=0,
    high=1,
)
LOCAL_STEPS: dict[str, type[Part]] = {
    name: part_class(
        LocalStep,
        name,
        (_FAMILY, _NODES, *facts.parameters, *([_FLOOR] if name == "natural" else [])),
        _text(facts),
        __name__,
    )
    for name, facts in parts("local_step").items()
}

MOST_DRAWS = 100_000  # the mean of so many probabilities has a standard error of at most 0.5 / sqrt(100000) = 0.0016
_N_DRAWS = Setting(
    "n_draws", 32, "Draws of the scores for predictions, the same at every call.", "integer", low=1, high=MOST_DRAWS
)
POSTERIORS: dict[str, type[Part]] = {
    "gaussian": part_class(
        Posterior,
        "gaussian",
        (_N_DRAWS,),
        "A Gaussian posterior over the weights with diagonal covariance (Ruiz et al. 2018, section 3.1).",
        __name__,
    )
}

if TYPE_CHECKING:  # which names there are is known when the core is there; an error tells the nearest one
    SolverName = str
    LocalStepName = str
    PosteriorName = str
else:
    SolverName = Literal["auto", *SOLVERS]
    LocalStepName = Literal[*LOCAL_STEPS]
    PosteriorName = Literal["point", *POSTERIORS]

for _made in (*SOLVERS.values(), *LOCAL_STEPS.values(), *POSTERIORS.values()):
    globals()[_made.__name__] = _made

__all__ = sorted(class_name(name) for name in (*SOLVERS, *LOCAL_STEPS, *POSTERIORS))


def __getattr__(name: str) -> type[Part]:
    """Tell type checkers that the classes made above are there; at run time only missing names come here."""
    raise AttributeError(f"manyclass.solvers has no {name!r}; it has {', '.join(__all__)}")
