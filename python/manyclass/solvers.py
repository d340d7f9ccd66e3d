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
from typing import Literal

from manyclass.parts import Part, Setting, class_name, part_class
from manyclass.registry import Facts, Number, names, parts

# What may be given as `solver=` by name, for editors and type checkers; a test holds it to the registry.
SolverName = Literal[
    "auto",
    "implicit",
    "umax",
    "sgd",
    "exact",
    "css",
    "ema",
    "augment_reduce",
    "scgd",
    "scent",
    "softplus",
    "bregman",
    "ove",
    "nce",
    "negative_sampling",
    "is",
    "bouchard",
    "minibatch_implicit",
    "lbfgs",
    "adagrad",
]
LocalStepName = Literal["natural", "monte_carlo"]
PosteriorName = Literal["point", "gaussian"]

_CHOICES = {
    kind: tuple(names(kind))
    for kind in ("schedule", "formulation", "root", "partition", "full_batch_loss", "local_family")
}

SCHEDULE = Setting(
    "schedule",
    "exponential",
    'Step size in pass t = 0, 1, ...: learning_rate * decay**t, learning_rate / (1 + t), or constant; "adaptive" '
    "divides the step of each weight by sqrt(iterations) (1 + sqrt(running mean of its squared gradients)), for "
    "explicit steps without ridge and max_norm (Ruiz et al. 2018, section 4).",
    "choice",
    _CHOICES["schedule"],
)
DECAY = Setting(
    "decay",
    "auto",
    "Factor of the exponential and the adaptive schedule for each pass, in ]0, 1].",
    beside=("auto",),
    low=0,
    high=1,
    open_low=True,
)
DECAY_EVERY = Setting(
    "decay_every",
    None,
    "With the adaptive schedule: decay is the factor for so many batches (2,000 in the paper); None: for each pass.",
    "integer",
    beside=(None,),
    low=1,
)
AVERAGING = Setting(
    "averaging",
    "auto",
    "Return the last iterate, the mean of those after each pass, or of the second half of the passes; takes the memory "
    "of W once more. Where W is wide, fewer iterates are in the mean.",
    "choice",
    ("none", "polyak", "suffix"),
    ("auto",),
)
BATCH_SIZE = Setting(
    "batch_size",
    None,
    "Points whose steps are made at the same weights and averaged; None makes steps one by one, or adds those of small "
    "batches so that threads can share the work.",
    "integer",
    beside=(None,),
    low=1,
)
SHARE_CLASSES = Setting(
    "share_classes",
    None,
    "Whether the points of a batch see the same drawn classes, which makes a class cheaper; None: only with "
    "embeddings, several labels or a margin.",
    "flag",
    beside=(None,),
)
SHUFFLE = Setting("shuffle", True, "Whether points are visited in a new random order in each pass.", "flag")
PARALLEL = Setting(
    "parallel",
    "deterministic",
    'With "deterministic" the result does not depend on n_jobs; with "hogwild" threads race on W, and it varies.',
    "choice",
    ("deterministic", "hogwild"),
)
MAX_NORM = Setting(
    "max_norm",
    None,
    "If given, each w_k is projected on the ball of this radius, intercepts are not; and u on [0, infinity[ or, where "
    "there are none, on the interval that follows (Fagan & Iyengar 2018, Algorithm 1 and Lemma 2; "
    "`manyclass.bounds.double_sum_constants` has the radius that holds the optimum for a given alpha); needs steps of "
    "single points by one thread.",
    beside=(None,),
    low=0,
    open_low=True,
)
U_LEARNING_RATE = Setting(
    "u_learning_rate",
    "auto",
    'Step size of the log-normaliser u of each point; "tied" is that of W, as in the paper; "auto" is 30 for '
    '"implicit" and 0.5 for the Bregman steps, and for the others tied, or with learning_rate="auto" the c of its '
    "docstring. It follows the same schedule.",
    beside=("auto", "tied"),
    low=0,
    open_low=True,
)
U_INIT = Setting(
    "u_init",
    "log_n_classes",
    "Start of every u: log K, which is exact at W = 0, or zero, as in the authors' code.",
    "choice",
    ("log_n_classes", "zero"),
)
LABEL_SOLVERS = tuple(names("label_solver"))  # of the double sum, by points or by minibatches
FIRST_VISIT_SETS_U = ("augment_reduce", "scgd")  # their gain falls from 1: where u starts has no effect
FORMULATION = Setting(
    "formulation",
    "auto",
    "What is carried between visits of a point: u, or in Raman's form the log-normaliser u + x.w_y (Fagan & Iyengar "
    '2018, eq. 8); "auto": "proposed", but "raman" for averages, U-max and SGD with several labels or embeddings.',
    "choice",
    _CHOICES["formulation"],
    ("auto",),
)
ROOT = Setting(
    "root",
    "newton",
    "How the step's scalar equation is solved: safeguarded Newton, or the paper's bisection.",
    "choice",
    _CHOICES["root"],
)
PARTITION = Setting(
    "partition",
    "fixed",
    "Batches that are made once, with all their labels among the classes; or points drawn anew for each visit, and "
    "classes from all of them (the arXiv version, E.4).",
    "choice",
    _CHOICES["partition"],
)
LOG_Q = Setting(
    "log_q",
    True,
    "With embeddings or several labels: whether e^z of a drawn class is divided by how often it is expected, "
    "so that the mean of the sampled sum is the true one (Jean et al. 2015).",
    "flag",
)
REDUCTION = Setting(
    "reduction",
    "auto",
    "How the labels of a row share a loss.",
    "choice",
    ("pick_all", "pick_all_normalized", "decoupled", "logistic"),
    ("auto",),
)
FAMILY = Setting(
    "family",
    "auto",
    'Family of q; "auto" is the one with the tightest bound for the noise.',
    "choice",
    _CHOICES["local_family"],
    ("auto",),
)
NODES = Setting(
    "n_nodes", "auto", "Nodes of the rule for expectations under q.", "integer", beside=("auto",), low=2, high=31
)
FLOOR = Setting(
    "floor",
    "auto",
    'Least gain; "auto" is the share of the classes that a step sees, 1 where it sees all; the paper has 0.',
    beside=("auto",),
    low=0,
    high=1,
)


def number_setting(number: Number) -> Setting:
    """The setting of a number that a part of the core owns."""
    return Setting(
        number.name, number.default, number.sentence, low=number.low, high=number.high, open_low=number.open_low
    )


class Solver(Part):
    """Base class of the solvers."""


class LocalStep(Part):
    """Base class of the local steps of augment and reduce."""


class Posterior(Part):
    """Base class of distributions over the weights."""


def _settings(facts: Facts) -> tuple[Setting, ...]:
    """What a solver of the core has: its own numbers, then what its flags say, then what all have."""
    has = facts.flags.__contains__
    chosen = [
        *map(number_setting, facts.parameters),
        *([U_LEARNING_RATE] if has("u_step") else []),
        *([U_INIT] if has("u") and facts.name not in FIRST_VISIT_SETS_U else []),
        *([FORMULATION] if has("formulations") else []),
        *([ROOT] if has("root") else []),
        *([PARTITION] if has("batch") else []),
        SCHEDULE,
        DECAY,
        *([DECAY_EVERY] if not (has("implicit") or has("batch")) else []),
        AVERAGING,
        BATCH_SIZE,
        *([SHARE_CLASSES] if not (has("batch") or has("all_classes")) else []),
        SHUFFLE,
        *([PARALLEL, MAX_NORM] if not has("batch") else []),
        *([LOG_Q] if facts.name == "css" else []),
        *([REDUCTION] if facts.name in LABEL_SOLVERS else []),
    ]
    return tuple(chosen)


def _text(facts: Facts) -> str:
    source = f" ({facts.source})" if facts.source else ""
    bias = "Biased with few sampled classes." if facts.biased else "Unbiased: gradients are right on average."
    return f"{facts.sentence.rstrip('.')}{source}.\n\n{bias}"


_LBFGS = (
    Setting(
        "loss",
        "softmax",
        "The mean log-loss, or an upper bound of it (Titsias 2016, eq. 15 and 11).",
        "choice",
        _CHOICES["full_batch_loss"],
    ),
    Setting("tol", 1e-6, "Stop when no entry of the gradient is larger in absolute value.", low=0),
)
_ADAGRAD = (
    replace(  # without "adaptive": the step of each row follows its gradients in any case
        SCHEDULE,
        sentence="Step size in pass t = 0, 1, ...: learning_rate * decay**t, learning_rate / (1 + t), or constant.",
        choices=tuple(name for name in SCHEDULE.choices if name != "adaptive"),
    ),
    DECAY,
    BATCH_SIZE,
    SHARE_CLASSES,
    SHUFFLE,
    PARALLEL,
    LOG_Q,
    replace(
        REDUCTION,
        sentence='How the labels of a row share a loss. "margin", of embeddings or a linear model, is that of '
        "`MarginClassifier` with smoothing 5, whose scores are then divided by the best temperature for rows held out.",
        choices=(*REDUCTION.choices, "margin"),
    ),
)

SOLVERS: dict[str, type[Part]] = {
    name: part_class(Solver, name, _settings(facts), _text(facts), __name__) for name, facts in parts("solver").items()
}
SOLVERS["lbfgs"] = part_class(
    Solver,
    "lbfgs",
    _LBFGS,
    "L-BFGS in double precision over the exact gradient of all points, to the optimum.",
    __name__,
)
SOLVERS["adagrad"] = part_class(
    Solver,
    "adagrad",
    _ADAGRAD,
    "Minibatches with a step size for each row of W and each embedding, that falls with its squared gradients "
    "(Duchi et al. 2011).\n\nBiased where classes are drawn: the logarithm of a sampled sum is trained.",
    __name__,
)
LOCAL_STEPS: dict[str, type[Part]] = {
    name: part_class(
        LocalStep,
        name,
        (FAMILY, NODES, *map(number_setting, facts.parameters), *([FLOOR] if name == "natural" else [])),
        _text(facts),
        __name__,
    )
    for name, facts in parts("local_step").items()
}

MOST_DRAWS = 100_000  # the mean of so many probabilities has a standard error of at most 0.5 / sqrt(100000) = 0.0016

POSTERIORS: dict[str, type[Part]] = {
    "gaussian": part_class(
        Posterior,
        "gaussian",
        (
            Setting(
                *("n_draws", 32, "Draws of the scores for predictions, the same at every call.", "integer"),
                low=1,
                high=MOST_DRAWS,
            ),
        ),
        "A Gaussian posterior over the weights with diagonal covariance (Ruiz et al. 2018, section 3.1).",
        __name__,
    )
}

for _made in (*SOLVERS.values(), *LOCAL_STEPS.values(), *POSTERIORS.values()):
    globals()[_made.__name__] = _made

__all__ = sorted(class_name(name) for name in (*SOLVERS, *LOCAL_STEPS, *POSTERIORS))


def __getattr__(name: str) -> type[Part]:
    """Tell type checkers that the classes made above are there; at run time only missing names come here."""
    raise AttributeError(f"manyclass.solvers has no {name!r}; it has {', '.join(__all__)}")
