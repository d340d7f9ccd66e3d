"""Where each flat parameter of version 0.1 stands today, and why some have no place."""

import numpy as np
import pytest
from test_version_1 import parameters

import manyclass
from manyclass import samplers, solvers
from manyclass.classifiers.version_1 import parameters_today

MISSING = object()


def today(name, flat):
    """All parameters of the estimator that stands for flat ones, those of parts too."""
    return parameters(getattr(manyclass, name)(**parameters_today(name, flat)))


def changes(name, context, parameter, value):
    """What one more flat parameter changes in today's."""
    before, after = today(name, context), today(name, context | {parameter: value})
    return {key: found for key, found in after.items() if not same(before.get(key, MISSING), found)}


def same(a, b):
    return type(a) is type(b) and a == b


BY_HAND = {"solver": "implicit"}
EMBEDDED = {"embedding_dim": 4, "learning_rate": 0.1}
DRAWN = {**EMBEDDED, "search": "sampled"}
EARLY = {"early_stopping": True}

# Parameter of version 0.1: what beside it makes it matter, a value, and its name and value of today.
SOFTMAX = {
    "solver": ({}, "umax", {"solver": "UMax"}),
    "loss": ({"solver": "lbfgs"}, "ove", {"solver__loss": "ove"}),
    "formulation": (BY_HAND, "raman", {"solver__formulation": "raman"}),
    "selection": (BY_HAND, "uniform", {"sampler": "Uniform"}),
    "n_negatives": (BY_HAND, 7, {"n_negatives": 7}),
    "frequency_power": ({**BY_HAND, "selection": "frequency"}, 0.5, {"sampler__power": 0.5}),
    "n_head": ({**BY_HAND, "selection": "head_tail"}, 3, {"sampler__n_head": 3}),
    "refresh": ({**BY_HAND, "selection": "head_tail"}, 3, {"sampler__refresh": 3}),
    "batch_size": (BY_HAND, 5, {"solver__batch_size": 5}),
    "share_classes": (BY_HAND, True, {"solver__share_classes": True}),
    "learning_rate": (BY_HAND, 0.3, {"learning_rate": 0.3}),
    "u_learning_rate": (BY_HAND, 0.3, {"solver__u_learning_rate": 0.3}),
    "schedule": (BY_HAND, "inverse", {"solver__schedule": "inverse"}),
    "decay": (BY_HAND, 0.3, {"solver__decay": 0.3}),
    "max_iter": (BY_HAND, 3, {"max_iter": 3}),
    "tol": ({"solver": "lbfgs"}, 0.1, {"solver__tol": 0.1}),
    "u_init": (BY_HAND, "zero", {"solver__u_init": "zero"}),
    "shuffle": (BY_HAND, False, {"solver__shuffle": False}),
    "delta": ({"solver": "umax"}, 3.0, {"solver__delta": 3.0}),
    "u_gain": ({"solver": "ema"}, 0.2, {"solver__gain": 0.2}),
    "alpha": (BY_HAND, 0.3, {"alpha": 0.3}),
    "averaging": (BY_HAND, "polyak", {"solver__averaging": "polyak"}),
    "early_stopping": (BY_HAND, True, {"early_stopping": True}),
    "validation_fraction": (EARLY, 0.3, {"validation_fraction": 0.3}),
    "n_iter_no_change": (EARLY, 3, {"n_iter_no_change": 3}),
    "max_norm": (BY_HAND, 2.0, {"solver__max_norm": 2.0}),
    "fit_intercept": (BY_HAND, False, {"fit_intercept": False}),
    "embedding_dim": (EMBEDDED, 9, {"dim": 9}),
    "activation": (EMBEDDED, "relu", {"model__activation": "relu"}),
    "search": (
        EMBEDDED,
        "mips",
        {"sampler": "Search", "sampler__index": "mips", "sampler__budget": None, "sampler__warm_up": 1},
    ),
    "budget": ({**EMBEDDED, "search": "mips"}, 5, {"sampler__budget": 5}),
    "warm_up": ({**EMBEDDED, "search": "mips"}, 3, {"sampler__warm_up": 3}),
    "log_q": (DRAWN, False, {"solver__log_q": False}),
    "root": (BY_HAND, "bisection", {"solver__root": "bisection"}),
    "n_jobs": (BY_HAND, 2, {"n_jobs": 2}),
    "parallel": (BY_HAND, "hogwild", {"solver__parallel": "hogwild"}),
    "random_state": (BY_HAND, 3, {"random_state": 3}),
    "verbose": (BY_HAND, 1, {"verbose": 1}),
}
MARGIN = {
    "smoothing": ({}, 3.0, {"smoothing": 3.0}),
    "loss": ({}, "triplet", {"loss": "triplet"}),
    "search": ({}, "sampled", {"sampler": "Uniform"}),
    "embedding_dim": ({"embedding_dim": 3}, 4, {"dim": 4}),
    "activation": ({"embedding_dim": 3}, "relu", {"model__activation": "relu"}),
    "budget": ({"search": "mips"}, 5, {"sampler__budget": 5}),
    "warm_up": ({"search": "mips"}, 5, {"sampler__warm_up": 5}),
    "n_negatives": ({"search": "sampled"}, 5, {"n_negatives": 5}),
    "frequency_power": ({"search": "sampled", "frequency_power": 1.0}, 0.5, {"sampler__power": 0.5}),
    "share_classes": ({"search": "sampled"}, False, {"solver__share_classes": False}),
    "step": ({"schedule": "inverse"}, "implicit", {"solver": "Implicit"}),
    "batch_size": ({}, 5, {"solver__batch_size": 5}),
    "learning_rate": ({}, 0.3, {"learning_rate": 0.3}),
    "schedule": ({"schedule": "inverse"}, "constant", {"solver__schedule": "constant"}),
    "decay": ({}, 0.3, {"solver__decay": 0.3}),
    "max_iter": ({}, 3, {"max_iter": 3}),
    "shuffle": ({}, False, {"solver__shuffle": False}),
    "fit_intercept": ({}, False, {"fit_intercept": False}),
    "n_jobs": ({}, 2, {"n_jobs": 2}),
    "random_state": ({}, 3, {"random_state": 3}),
    "verbose": ({}, 1, {"verbose": 1}),
}
POSTERIOR = {"posterior": "gaussian", "alpha": 0.1}
UTILITY = {
    "noise": ({}, "logistic", {"noise": "logistic"}),
    "solver": ({}, "sgd", {"solver": "SGD"}),
    "local_step": ({}, "monte_carlo", {"local_step": "MonteCarlo"}),
    "local_family": ({}, "logistic", {"local_step__family": "logistic"}),
    "n_nodes": ({}, 5, {"local_step__n_nodes": 5}),
    "selection": ({}, "uniform", {"sampler": "Uniform"}),
    "n_negatives": ({}, 5, {"n_negatives": 5}),
    "frequency_power": ({"selection": "frequency"}, 0.5, {"sampler__power": 0.5}),
    "n_head": ({"selection": "head_tail"}, 5, {"sampler__n_head": 5}),
    "batch_size": ({}, 5, {"solver__batch_size": 5}),
    "share_classes": ({}, True, {"solver__share_classes": True}),
    "learning_rate": ({}, 0.3, {"learning_rate": 0.3}),
    "schedule": ({}, "inverse", {"solver__schedule": "inverse"}),
    "decay": ({}, 0.3, {"solver__decay": 0.3}),
    "max_iter": ({}, 3, {"max_iter": 3}),
    "shuffle": ({}, False, {"solver__shuffle": False}),
    "alpha": ({}, 0.3, {"alpha": 0.3}),
    "averaging": ({}, "polyak", {"solver__averaging": "polyak"}),
    "posterior": ({"alpha": 0.1, "selection": "uniform"}, "gaussian", {"posterior": "Gaussian", "sampler": "uniform"}),
    "n_draws": (POSTERIOR, 5, {"posterior__n_draws": 5}),
    "fit_intercept": ({}, False, {"fit_intercept": False}),
    "n_jobs": ({}, 2, {"n_jobs": 2}),
    "parallel": ({}, "hogwild", {"solver__parallel": "hogwild"}),
    "random_state": ({}, 3, {"random_state": 3}),
    "verbose": ({}, 1, {"verbose": 1}),
}
PLACES = {"SoftmaxClassifier": SOFTMAX, "MarginClassifier": MARGIN, "AugmentReduceClassifier": UTILITY}
EACH = [pytest.param(name, key, id=f"{name}-{key}") for name, places in PLACES.items() for key in places]


@pytest.mark.parametrize(("name", "parameter"), EACH)
def test_each_flat_parameter_has_its_place_today(name, parameter):
    context, value, expected = PLACES[name][parameter]
    found = changes(name, context, parameter, value)
    parts = {key for key, one in expected.items() if isinstance(one, str) and one[:1].isupper()}
    # A part of another class brings all of its own parameters with it.
    found = {key: one for key, one in found.items() if key in expected or key.partition("__")[0] not in parts}
    assert found == expected


def test_all_parameters_of_version_0_1_are_in_the_tables():
    # As its constructors had them.
    assert {name: len(places) for name, places in PLACES.items()} == {
        "SoftmaxClassifier": 38,
        "MarginClassifier": 21,
        "AugmentReduceClassifier": 25,
    }


@pytest.mark.parametrize(
    ("solver", "expected"),
    [
        ("ema", {"solver__gain": 0.25}),
        ("softplus", {"solver__rho": 0.25}),
        ("bregman", {"solver__u_learning_rate": 0.25}),
        ("scent", {"solver__u_learning_rate": 0.25}),
        ("implicit", {}),
        ("umax", {}),
    ],
)
def test_the_gain_of_u_is_the_number_of_the_solver_that_has_one(solver, expected):
    assert changes("SoftmaxClassifier", {"solver": solver}, "u_gain", 0.25) == expected


@pytest.mark.parametrize(
    ("flat", "solver"),
    [
        ({"embedding_dim": 4}, solvers.Adagrad()),
        ({"embedding_dim": 4, "schedule": "adaptive", "learning_rate": 0.1}, solvers.Adagrad()),
        ({"embedding_dim": 4, "learning_rate": 0.1}, solvers.CSS()),
        ({"embedding_dim": 4, "learning_rate": 0.1, "search": "exact"}, solvers.Exact()),
        ({"embedding_dim": 4, "learning_rate": 0.1, "schedule": "inverse"}, solvers.CSS(schedule="inverse")),
        ({"search": "mips"}, solvers.Adagrad()),
        ({"search": "exact", "learning_rate": 0.1, "decay": 0.5}, solvers.Exact(decay=0.5)),
    ],
    ids=str,
)
def test_a_number_for_the_learning_rate_switched_adagrad_off(flat, solver):
    found = parameters_today("SoftmaxClassifier", flat)["solver"]
    assert type(found) is type(solver)
    assert found.get_params() == solver.get_params()


@pytest.mark.parametrize(
    ("search", "power", "expected"),
    [
        (None, None, "auto"),
        ("exact", None, "all"),
        ("sampled", None, samplers.Frequency(power=0.75)),
        ("sampled", 0.5, samplers.Frequency(power=0.5)),
        ("sampled", 0, samplers.Uniform()),
        ("decomposed", None, samplers.Search(index="decomposed")),
    ],
)
def test_a_search_of_the_softmax_is_a_sampler(search, power, expected):
    flat = {"embedding_dim": 4, "search": search} | ({} if power is None else {"frequency_power": power})
    found = parameters_today("SoftmaxClassifier", flat)["sampler"]
    assert repr(found) == repr(expected)


def test_a_margin_drew_uniformly_where_a_softmax_drew_by_frequency():
    assert repr(parameters_today("MarginClassifier", {"search": "sampled"})["sampler"]) == "Uniform()"
    found = parameters_today("MarginClassifier", {"search": "sampled", "frequency_power": 0.75})["sampler"]
    assert repr(found) == "Frequency()"


@pytest.mark.parametrize("name", PLACES)
def test_what_is_made_of_random_flat_parameters_can_be_checked(name, seed):
    """Any set of legal flat parameters becomes an estimator whose parameters are legal."""
    rng = np.random.default_rng(seed)
    values = {
        key: [value, *(c[key] for c, _, _ in PLACES[name].values() if key in c)]
        for key, (_, value, _) in PLACES[name].items()
    }
    for _ in range(60):
        keys = [key for key in values if rng.random() < 0.3]
        flat = {key: values[key][rng.integers(len(values[key]))] for key in keys}
        getattr(manyclass, name)(**parameters_today(name, flat)).check_parameters()
