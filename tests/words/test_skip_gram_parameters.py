"""The parameters of SkipGram and of its objectives: copies, grids, and that none is without effect in silence."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from test_skip_gram import small, topical

from manyclass import SkipGram
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.words import objectives
from manyclass.words.objectives import (
    NCE,
    OBJECTIVES,
    OVE,
    SOLVERS,
    Descent,
    Hierarchical,
    NegativeSampling,
    SampledSoftmax,
    Softmax,
    objective_named,
)

# For each objective, and for each solver of the softmax, a value other than the default of every parameter that it has.
CHANGES = [
    (NegativeSampling(), {"power": 0.2, "share_classes": True}),
    (NCE(), {"power": 0.2}),
    (OVE(), {"power": 0.2}),
    (SampledSoftmax(), {"power": 0.2}),
    (Hierarchical(), {}),
    (Softmax(), {"solver": "sgd", "power": 0.2, "u_learning_rate": 0.3}),
    (Softmax("sgd"), {"solver": "implicit", "power": 0.2, "u_learning_rate": 0.3}),
    (Softmax("umax"), {"solver": "ema", "power": 0.2, "u_learning_rate": 0.3, "delta": 0.01}),
    (Softmax("ema"), {"solver": "sgd", "power": 0.2, "u_gain": 0.3}),
    (Descent(), {"search": "mips"}),
    (Descent("mips", budget=8), {"search": SphericalClusterIndex(8, n_probe=1), "budget": 12, "rest": "mask"}),
]
# Parameters of SkipGram that change what is learned, for the objectives where they may be given.
OF_ALL = {"dim": 9, "window": 2, "shrink_window": False, "min_count": 160, "sample": 0.02, "learning_rate": 0.0123}


def fitted(objective, seed, **parameters):
    """The vectors of a model of a short text, with words of several frequencies."""
    return small(**{"objective": objective, "max_iter": 2, **parameters}).fit(topical(seed, 200, power=1.0)).vectors_


def differ(a, b):
    return a.shape != b.shape or not np.array_equal(a, b)


def test_every_objective_is_among_those_whose_parameters_are_changed():
    assert {type(objective).__name__ for objective, _ in CHANGES} == set(objectives.__all__)
    assert {kind.__name__ for kind in OBJECTIVES.values()} == set(objectives.__all__)
    assert {o.solver for o, _ in CHANGES if isinstance(o, Softmax)} == set(SOLVERS)


@pytest.mark.parametrize(("objective", "changes"), CHANGES, ids=repr)
def test_each_parameter_of_an_objective_has_an_effect_or_is_refused(objective, changes, seed):
    # Steps so long that log Z_x is left behind: U-max does nothing before.
    rate = {"learning_rate": 0.05 if isinstance(objective, Softmax) else "auto"}
    before = fitted(objective, seed, **rate)
    for name, value in changes.items():
        assert differ(before, fitted(clone(objective).set_params(**{name: value}), seed, **rate)), name
    every = {"u_learning_rate": 0.3, "u_gain": 0.3, "delta": 0.3, "budget": 3, "rest": "mask"}
    for name in set(objective.get_params(deep=False)) - set(changes):
        with pytest.raises(ValueError, match=rf"^{name} is .*; (solver|search) '\w+' .*: {name} must be 'auto', or "):
            fitted(clone(objective).set_params(**{name: every[name]}), seed)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_each_parameter_of_the_estimator_has_an_effect_or_is_refused(name, seed):
    before = fitted(name, seed)
    for parameter, value in {**OF_ALL, "n_negatives": 2, "warm_up": 2, "max_iter": 3, "random_state": 5}.items():
        kind = OBJECTIVES[name]
        refused = (parameter == "warm_up" and not kind.warms_up) or (
            parameter == "n_negatives" and not (kind.draws or kind.warms_up)
        )
        if refused:
            with pytest.raises(ValueError, match=f"^{parameter} is 2; objective '{name}' .*: it must be 'auto'"):
                fitted(name, seed, **{parameter: value})
        else:
            assert differ(before, fitted(name, seed, **{parameter: value})), parameter
    assert differ(fitted(name, seed, sample=0.02), fitted(name, seed, sample=0.02, sample_rule="sqrt"))


def test_negatives_of_a_descent_are_those_of_its_warm_up():
    with pytest.raises(ValueError, match="n_negatives is 3; objective 'descent' without a warm-up draws no words"):
        small(objective="descent", warm_up=0, n_negatives=3).check_parameters()


def test_few_parameters_are_in_the_constructor_and_each_name_is_that_of_the_other_estimators():
    names = set(inspect.signature(SkipGram).parameters)
    assert len(names) <= 16
    assert names >= {
        "dim",
        "objective",
        "n_negatives",
        "warm_up",
        "learning_rate",
        "max_iter",
        "n_jobs",
        "random_state",
    }


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_string_stands_for_the_object_with_its_defaults(name, seed):
    np.testing.assert_array_equal(fitted(name, seed), fitted(OBJECTIVES[name](), seed))


@pytest.mark.parametrize("objective", [objective for objective, _ in CHANGES], ids=repr)
def test_clone_repr_and_pickle_keep_an_objective(objective, seed):
    model = small(objective=objective, max_iter=1)
    for copy in (clone(model), pickle.loads(pickle.dumps(model))):
        assert type(copy.objective) is type(objective)
        assert copy.objective is not objective
        assert copy.objective.get_params() == objective.get_params()
        assert repr(copy) == repr(model)
    assert eval(repr(objective), vars(objectives)).get_params() == objective.get_params()
    trained = model.fit(topical(seed, 60))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(trained)).vectors_, trained.vectors_)


def test_parameters_of_an_objective_are_set_through_the_estimator(seed):
    model = SkipGram(objective=NegativeSampling()).set_params(objective__power=0.5, objective__share_classes=True)
    assert model.objective.get_params() == {"power": 0.5, "share_classes": True}
    assert SkipGram(**model.get_params(deep=False)).get_params() == model.get_params()
    model = SkipGram(objective=Descent(SphericalClusterIndex(3)))
    assert model.set_params(objective__search__n_clusters=7).objective.search.n_clusters == 7
    values = {}
    grid = {"objective": [Softmax(), Softmax("umax")], "objective__power": [0.5, 1.0], "max_iter": [2]}
    for parameters in ParameterGrid(grid):
        model = clone(small()).set_params(**clone(parameters, safe=False)).fit(topical(seed, 100, power=1.0))
        values[model.objective.solver, model.objective.power] = model.objective_value()
    assert len(set(values.values())) == 4
    assert grid["objective"][0].power == 0.75


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"objective": "magic"}, ValueError, "objective is 'magic'; it must be one of 'softmax', 'negative_sampling'"),
        ({"objective": 3}, ValueError, "objective is 3; it must be one of 'softmax', .* or an object of"),
        ({"objective": Softmax}, ValueError, "it must be one of 'softmax', .* or an object of"),
        (
            {"objective": Softmax("gd")},
            ValueError,
            "solver is 'gd'; it must be one of 'implicit', 'umax', 'ema', 'sgd'",
        ),
        ({"sample_rule": "magic"}, ValueError, "sample_rule is 'magic'"),
        (
            {"sample_rule": "sqrt", "sample": 0},
            ValueError,
            "sample_rule is 'sqrt'; with sample=0, where all words stay",
        ),
        ({"shrink_window": "no"}, TypeError, "shrink_window is 'no'; it must be True or False"),
        ({"dim": 0}, ValueError, "dim is 0; it must be at least 1"),
        ({"window": 2.5}, TypeError, "window is 2.5; it must be an integer"),
        ({"min_count": 0}, ValueError, "min_count is 0"),
        ({"n_negatives": 0}, ValueError, "n_negatives is 0"),
        ({"n_negatives": "many"}, TypeError, "n_negatives is 'many'"),
        ({"max_iter": 0}, ValueError, "max_iter is 0"),
        ({"warm_up": -1}, ValueError, "warm_up is -1"),
        ({"sample": -1.0}, ValueError, "sample is -1.0"),
        ({"learning_rate": 0}, ValueError, "learning_rate is 0"),
        ({"learning_rate": "fast"}, TypeError, "learning_rate is 'fast'"),
        ({"n_jobs": 0}, ValueError, "n_jobs is 0"),
        ({"objective": Softmax(u_learning_rate=0)}, ValueError, "u_learning_rate is 0"),
        ({"objective": Softmax("ema", u_gain=2)}, ValueError, "u_gain is 2"),
        ({"objective": Softmax("umax", delta=-1)}, ValueError, "delta is -1"),
        ({"objective": Softmax(delta=1.0)}, ValueError, "delta is 1.0; solver 'implicit' has no .* or solver 'umax'"),
        ({"objective": Softmax("ema", u_learning_rate=0.1)}, ValueError, "or solver 'implicit' or 'umax' or 'sgd'"),
        ({"objective": NCE(power="high")}, TypeError, "power is 'high'"),
        ({"objective": NegativeSampling(share_classes=1)}, TypeError, "share_classes is 1; it must be True or False"),
    ],
)
def test_a_parameter_out_of_range_is_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        small(**parameters).fit([["a", "b"]] * 9)


def test_an_objective_by_name_has_only_its_own_parameters():
    assert objective_named("softmax", solver="umax", delta=0.5).get_params()["delta"] == 0.5
    with pytest.raises(ValueError, match=r"power is 1; objective 'hierarchical' .* with it: 'softmax', 'negative_"):
        objective_named("hierarchical", power=1)
    with pytest.raises(ValueError, match=r"strength is 1; objective 'softmax' has no such .* with it: none"):
        objective_named("softmax", strength=1)


def test_a_fit_that_fails_leaves_the_one_before_as_it_was(seed):
    model = small(objective="negative_sampling").fit(topical(seed, 100))
    before = pickle.dumps(model)
    value = model.objective_value()

    def fail(state):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        model.fit(topical(seed + 1, 100), callback=fail)
    with pytest.raises(ValueError, match="distinct words occur at least"):
        model.fit([["a"]])
    with pytest.raises(ValueError, match="no pair of words within a window"):
        model.fit([["a"], ["b"]] * 5)
    assert pickle.dumps(model) == before
    assert model.objective_value() == value


@pytest.mark.parametrize("objective", ["softmax", "descent"])
def test_ctrl_c_ends_training_with_the_vectors_reached_so_far(objective, seed):
    reached = []

    def interrupt(state):
        reached.append(state.objective_value())
        if state.n_iter == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="training was interrupted; the model is the one reached so far"):
        model = small(objective=objective).fit(topical(seed, 100), callback=interrupt, keep="best")
    assert model.n_iter_ == len(model.loss_curve_) == 3
    assert model.objective_value() == reached[-1]
    before = pickle.dumps(model)
    with pytest.raises(KeyboardInterrupt):
        model.fit(topical(seed, 100), callback=interrupt)

    def stop(state):
        raise KeyboardInterrupt

    if objective == "softmax":
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(topical(seed, 100), callback=stop)
    assert pickle.dumps(model) == before
