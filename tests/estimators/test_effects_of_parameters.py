"""No parameter of an estimator or of a part is without effect in silence: it changes the fit, or is refused by name."""

import inspect

import pytest
from sklearn.base import clone
from test_parts import PARTS, answers, margin, others, problem, several, softmax, utility

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models, samplers, solvers

# Documented to change how a fit is made and not what it gives.
NO_EFFECT = {
    "n_jobs": "results do not depend on it",
    "verbose": "shows a progress bar",
    "n_iter_no_change": "has an effect with early_stopping: training/test_early_stopping.py; else scikit-learn sets it",
    "warm_start": "has an effect on a second fit: training/test_given_weights.py",
    "parallel": "with one thread there is no race",
    "few_classes": "has an effect where some features occur with few classes: estimators/test_pairs.py",
    "fill": "has an effect where clusters are many: search/test_message_passing.py",
    "root": "both find the same root, to rounding",
    "counts": "has an effect where counts better the rows held out: estimators/test_count_mixture.py",
    "margins": "has an effect where margins have a share: training/test_members.py",
    "linear": "has an effect where a linear model has a share: training/test_members.py",
    "prune": "has an effect where weights on pairs have a share: estimators/test_pairs.py",
    "repeats": "has an effect where labels are columns that come again: estimators/test_repeats.py",
}
# Values that what is left open may stand for; every other one changes the fit or is refused.
LEFT_OPEN = {
    "averaging": {"none"},
    "share_classes": {True, False},
    "family": {"normal", "logistic", "gumbel"},
    "scaling": {"standard", "none"},
    "formulation": {"proposed", "raman"},
    "reduction": {"pick_all", "pick_all_normalized"},  # the same with one label a row
}
# Parts with what makes their parameters matter, and the estimator that uses them.
HEADS = {"solver": "implicit", "n_negatives": 2, "max_iter": 12}
BATCHED = {"n_negatives": 3, "learning_rate": 0.1}
IN_USE = [
    *[
        (softmax, "solver", part(), {} if {"all_classes", "batch"} & {name} or name == "exact" else {"n_negatives": 3})
        for name, part in solvers.SOLVERS.items()
        if name not in ("lbfgs", "adagrad")
    ],
    (softmax, "solver", solvers.LBFGS(), {"alpha": 0.01, "max_iter": 200}),
    (softmax, "solver", solvers.Adagrad(), {"sampler": "frequency", "n_negatives": 3}),
    (softmax, "solver", solvers.Adagrad(decay=0.8), {"model": "embedding", "dim": 4}),
    (softmax, "solver", solvers.CSS(), {"model": "embedding", "dim": 4, "sampler": "frequency", **BATCHED}),
    (softmax, "solver", solvers.Exact(), {"model": "embedding", "dim": 4, "learning_rate": 0.1}),
    *[
        (softmax, "sampler", part(), HEADS if name == "head_tail" else {"solver": "css", "n_negatives": 3})
        for name, part in samplers.SAMPLERS.items()
        if name not in ("all", "search")
    ],
    (softmax, "sampler", samplers.Frequency(), {"solver": "adagrad", "n_negatives": 3}),
    (softmax, "sampler", samplers.Search(budget=5), {"n_negatives": 3}),
    (softmax, "model", models.Embedding(), {"dim": 4}),
    (softmax, "model", models.Pairs(), {}),
    (softmax, "model", models.Hybrid(), {"dim": 4}),
    (softmax, "model", models.Linear(), {"solver": "implicit", "n_negatives": 3}),
    (softmax, "model", models.Linear(), {}),
    (margin, "model", models.Embedding(), {"dim": 4}),
    *[(margin, "solver", solvers.SOLVERS[name](), {}) for name in ("adagrad", "sgd", "implicit")],
    *[
        (margin, "solver", solvers.SOLVERS[name](), {"sampler": "uniform", "n_negatives": 3})
        for name in ("adagrad", "sgd", "implicit")
    ],
    (margin, "sampler", samplers.Frequency(), {"n_negatives": 3}),
    (margin, "sampler", samplers.Search(budget=5), {"n_negatives": 3}),
    *[(utility, "solver", solvers.SOLVERS[name](), {"n_negatives": 3}) for name in ("implicit", "sgd")],
    (utility, "solver", solvers.Implicit(), {"posterior": "gaussian", "alpha": 0.1, "n_negatives": 3}),
    (utility, "sampler", samplers.HeadTail(), HEADS),
    *[
        (utility, "local_step", part(), {"noise": noise, "n_negatives": 3})
        for part in solvers.LOCAL_STEPS.values()
        for noise in ("normal", "logistic")
    ],
    (utility, "local_step", solvers.Natural(), {"noise": "gumbel", "n_negatives": 3}),
    (utility, "local_step", solvers.Natural(), {"posterior": "gaussian", "alpha": 0.1}),
    (utility, "posterior", solvers.Gaussian(), {"alpha": 0.1}),
]
# What of the same part must be set too: points share classes in batches only, u starts far below its bound, ...
BESIDE = {
    "share_classes": {"batch_size": 6},
    "delta": {"u_init": "zero"},
    "n_head": {"refresh": 1},
}


def in_use():
    for make, parameter, part, beside in IN_USE:
        for setting in part.settings:
            if setting.name not in NO_EFFECT:
                name = f"{make.__name__}-{part.name}-{setting.name}-{'-'.join(map(str, beside.values()))}"
                yield pytest.param(make, parameter, part, setting, beside, id=name)


def changes_or_refuses(one, changed, name, value, X, y):
    """Whether another value of a parameter changes the fit; true too where it is refused by its name or its value."""
    expected = answers(clone(one).fit(X, y), X)
    try:
        return answers(clone(changed).fit(X, y), X) != expected
    except (ValueError, TypeError) as error:
        return name in str(error) or repr(value).strip("'") in str(error)


@pytest.mark.filterwarnings("ignore:L-BFGS", "ignore:training diverged")
@pytest.mark.parametrize(("make", "parameter", "part", "setting", "beside"), list(in_use()))
def test_no_parameter_of_a_part_is_without_effect_in_silence(make, parameter, part, setting, beside, seed):
    own = {name: value for name, value in BESIDE.get(setting.name, {}).items() if name in part.get_params()}
    one = clone(part).set_params(**own)
    X, y = problem(seed)
    found = []
    for value in others(setting):
        changed = clone(one).set_params(**{setting.name: value})
        fits = (make(**{parameter: p}, **beside) for p in (one, changed))
        found.append(changes_or_refuses(*fits, setting.name, value, X, y))
        assert found[-1] or value in LEFT_OPEN.get(setting.name, ())
    assert any(found)


BASES = {
    "auto": softmax(),
    "by hand": softmax(solver="implicit", n_negatives=3),
    "all classes": softmax(solver="css", sampler="all"),
    "exact": softmax(solver="exact"),
    "lbfgs": softmax(solver="lbfgs", max_iter=200),
    "early stopping": softmax(solver="exact", early_stopping=True, max_iter=40),
    "adagrad": softmax(solver="adagrad"),
    "drawn": softmax(solver="adagrad", sampler="frequency"),
    "embedding": softmax(model="embedding", dim=4),
    "margin": margin(),
    "margin, triplet": margin(loss="triplet"),
    "margin, drawn": margin(sampler="uniform"),
    "margin, searched": margin(sampler=samplers.Search(budget=4, warm_up=0)),
    "margin, embedding": margin(model="embedding", dim=4),
    "utility": utility(n_negatives=3),
    "utility, all": utility(sampler="all"),
    "softmax utility": utility(noise="gumbel", n_negatives=3),
    "posterior": utility(posterior="gaussian", alpha=0.1, n_negatives=3),
}
OTHER_PARAMETERS = {
    "solver": "sgd",
    "sampler": "uniform",
    "n_negatives": 20,
    "model": "embedding",
    "dim": 3,
    "alpha": 0.3,
    "learning_rate": 0.05,
    "max_iter": 2,
    "early_stopping": True,
    "validation_fraction": 0.3,
    "class_weight": {0: 3.0},
    "fit_intercept": False,
    "random_state": 1,
    "loss": "triplet",
    "smoothing": 3.0,
    "noise": "logistic",
    "local_step": "monte_carlo",
    "posterior": "gaussian",
    "calibration": "temperature",
    "n_models": 2,
}
# L-BFGS draws nothing. An exact gradient of all classes has an order of visits, which random_state sets.
WITHOUT = {("lbfgs", "random_state")}


# Of these also with several labels.
LABELS = ("auto", "exact", "adagrad", "drawn", "embedding", "margin", "margin, drawn", "margin, searched")


def of_estimators():
    for base, estimator in BASES.items():
        for name, value in estimator.get_params(deep=False).items():
            if name in NO_EFFECT or (base, name) in WITHOUT or value == OTHER_PARAMETERS[name]:
                continue
            yield pytest.param(base, name, False, id=f"{base}-{name}")
            if base in LABELS:
                yield pytest.param(base, name, True, id=f"{base}-{name}-several labels")


@pytest.mark.filterwarnings("ignore:L-BFGS", "ignore:training diverged")
@pytest.mark.parametrize(("base", "name", "multilabel"), list(of_estimators()))
def test_no_parameter_of_an_estimator_is_without_effect_in_silence(base, name, multilabel, seed):
    X, y = problem(seed)
    value = "all" if (base, name) == ("posterior", "sampler") else OTHER_PARAMETERS[name]  # "auto" is "uniform" there
    changed = {name: value}
    if name == "sampler":  # that all classes are drawn is no difference
        changed["n_negatives"] = "auto" if value == "all" else 3
    model = clone(BASES[base]).set_params(**changed)
    y = several(y) if multilabel else y
    # Of several labels of a few dense rows no run of embeddings has a share, nor have weights on pairs.
    no_share = base == "auto" and name in ("n_models", "max_iter") and multilabel
    assert changes_or_refuses(BASES[base], model, name, value, X, y) or no_share


def test_every_parameter_is_tried():
    tried = set(OTHER_PARAMETERS) | set(NO_EFFECT)
    for estimator in (SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier):
        assert set(inspect.signature(estimator).parameters) <= tried
    used = {type(part) for _, _, part, _ in IN_USE}
    assert {part for part in PARTS if part.settings} <= used
