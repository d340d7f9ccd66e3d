r"""How training steps are made: one class for each solver, to be given as `solver=`.

With a number :math:`u_i` per point the mean log-loss is the minimum over u of
:math:`\frac1N\sum_i [u_i + e^{-u_i}(1 + \sum_{k \ne y_i} e^{x_i \cdot (w_k - w_{y_i})})] - 1`, a sum over points *and*
classes, so that a few sampled classes give an unbiased gradient (Fagan & Iyengar 2018, eq. 5-6). Unbiased are
"implicit", "minibatch_implicit", "umax", "sgd", "bregman" and "scent" and, as their gain vanishes, "augment_reduce" and
"scgd"; "exact" and "lbfgs" see all classes.

Several labels and embeddings are trained by minibatches. "adagrad" and "css" then train the logarithm of a sampled sum,
which is biased. "umax", "sgd", "scent", "ema", "augment_reduce" and "scgd" train the double sum there too, by Adagrad's
steps and with one number for each row; "implicit" makes the proximal step of several labels of a linear model. All have
the ridge `alpha` of `SoftmaxClassifier`, by rows that shrink in turns. "lbfgs" minimises the cross-entropy of several
labels of a linear model with a ridge, each row standing once for each of its labels. `SoftmaxClassifier.certificate`
proves how near a linear model is to the optimum.

The classes are made from the registry of the core, where each solver says its own parameters with defaults and ranges;
`manyclass.solvers.UMax` tells what it is and where it comes from. A string stands for an object with its
defaults: "umax" for `UMax()`.

Two solvers are made by this layer: `LBFGS`, which minimises the exact objective by full passes, and `Adagrad`, which
trains embeddings and several labels by minibatches. `Natural` and `MonteCarlo` are the local steps of
`AugmentReduceClassifier`, `Gaussian` its posterior.
"""

from __future__ import annotations

from manyclass.checks import Setting
from manyclass.parts import Part, class_name, part_classes
from manyclass.registry import PartFacts, names, parts, settings, settings_with


class Solver(Part):
    """Base class of the solvers."""


class LocalStep(Part):
    """Base class of the local steps of augment and reduce."""


class Posterior(Part):
    """Base class of distributions over the weights."""


LABEL_SOLVERS = tuple(names("label_solver"))  # of the double sum, by points or by minibatches


def _settings(facts: PartFacts) -> tuple[Setting, ...]:
    """What a solver of the core has: its own numbers, then what its flags say."""
    flags = facts.flags | ({"labels"} if facts.name in LABEL_SOLVERS else set())
    return (*facts.parameters, *settings_with("solver", flags))


def _text(facts: PartFacts) -> str:
    source = f" ({facts.source})" if facts.source else ""
    bias = "Biased with few sampled classes." if facts.biased else "Unbiased: gradients are right on average."
    return f"{facts.sentence.rstrip('.')}{source}.\n\n{bias}"


_ADAGRAD = (
    "Minibatches with a step size for each row of W and each embedding, that falls with its squared gradients "
    "(Duchi et al. 2011).\n\nBiased where classes are drawn: the logarithm of a sampled sum is trained."
)
_LBFGS = "L-BFGS in double precision over the exact gradient of all points, to the optimum."
_GAUSSIAN = "A Gaussian posterior over the weights with diagonal covariance (Ruiz et al. 2018, section 3.1)."
_OF_THE_CORE = [(name, _settings(facts), _text(facts)) for name, facts in parts("solver").items()]
_OF_THIS_LAYER = [
    ("lbfgs", settings("full_batch"), _LBFGS),
    ("adagrad", settings_with("solver", {"adagrad", "log_q"}), _ADAGRAD),
]
_STEPS = [
    (name, (*facts.parameters, *settings_with("local_step", {name})), _text(facts))
    for name, facts in parts("local_step").items()
]
SOLVERS = part_classes(Solver, __name__, _OF_THE_CORE + _OF_THIS_LAYER)
LOCAL_STEPS = part_classes(LocalStep, __name__, _STEPS)
POSTERIORS = part_classes(Posterior, __name__, [("gaussian", settings("posterior"), _GAUSSIAN)])

for _made in (*SOLVERS.values(), *LOCAL_STEPS.values(), *POSTERIORS.values()):
    globals()[_made.__name__] = _made

__all__ = sorted(class_name(name) for name in (*SOLVERS, *LOCAL_STEPS, *POSTERIORS))


def __getattr__(name: str) -> type[Part]:
    """Tell type checkers that the classes made above are there; at run time only missing names come here."""
    raise AttributeError(f"manyclass.solvers has no {name!r}; it has {', '.join(__all__)}")
