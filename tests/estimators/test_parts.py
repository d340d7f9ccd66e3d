"""Parameter objects: each is a scikit-learn estimator, strings stand for them, and none has a parameter in vain."""

import inspect
import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models, samplers, solvers
from manyclass.parts import Part, Setting

KINDS = {
    "solver": solvers.SOLVERS,
    "sampler": samplers.SAMPLERS,
    "model": models.MODELS,
    "local_step": solvers.LOCAL_STEPS,
    "posterior": solvers.POSTERIORS,
}
PARTS = [part for parts in KINDS.values() for part in parts.values()]
SETTINGS = [pytest.param(part, s, id=f"{part.__name__}-{s.name}") for part in PARTS for s in part.settings]
NAMESPACE = {part.__name__: part for part in PARTS}

# Another value than the default, where its kind does not tell one.
OTHERS = {
    "batch_size": 3,
    "budget": 3,
    "decay": 0.5,
    "decay_every": 7,
    "few_classes": 6,
    "floor": 0.5,
    "delta": 9.0,
    "max_norm": 1e-3,
    "min_count": 2,
    "prune": 0.25,
    "n_nodes": 2,
    "formulation": 0.4,
    "refresh": 1,
    "threshold": 0.5,
    "tol": 0.5,
    "u_learning_rate": 0.2,
    "warm_up": 2,
}


def others(setting: Setting):
    """Legal values that are not the default."""
    if setting.choices:
        known = (*setting.choices, *setting.beside, *([OTHERS[setting.name]] if setting.kind == "number" else []))
        return [choice for choice in known if choice != setting.default]
    if setting.kind == "index":
        return ["decomposed", "messages"]
    if setting.kind == "flag":
        return [value for value in (True, False) if value is not setting.default]
    if setting.name in OTHERS:
        return [OTHERS[setting.name]]
    return [setting.default // 2 if setting.kind == "integer" else setting.default / 2]


def other(setting: Setting):
    """A legal value that is not the default."""
    return others(setting)[-1]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_an_estimator_of_scikit_learn(part):
    values = {s.name: other(s) for s in part.settings}
    made = part(**values)
    made.check()
    assert made.get_params() == values
    assert part().get_params() == {s.name: s.default for s in part.settings}
    assert part().set_params(**values).get_params() == values
    for copy in (clone(made), pickle.loads(pickle.dumps(made)), eval(repr(made), NAMESPACE)):
        assert type(copy) is part
        assert copy is not made
        assert copy.get_params() == values


@pytest.mark.parametrize("part", PARTS)
def test_a_part_documents_and_declares_its_parameters(part):
    signature = inspect.signature(part)
    assert {name: p.default for name, p in signature.parameters.items()} == part().get_params()
    assert all(p.kind is p.KEYWORD_ONLY for p in signature.parameters.values())
    text = " ".join(inspect.getdoc(part).split())
    assert part.__module__ == f"manyclass.{part.__module__.rpartition('.')[2]}"
    for setting in part.settings:
        assert re.search(rf"\b{setting.name} : ", text)
    with pytest.raises(TypeError, match=r"no parameter 'depth'|unexpected keyword argument 'depth'"):
        part(depth=3)
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        part().set_params(depth=3)


@pytest.mark.parametrize(("part", "setting"), SETTINGS)
def test_a_wrong_value_of_a_part_is_refused_with_value_rule_and_choices(part, setting):
    wrong = {"number": np.nan, "integer": 0.5, "choice": "wrong", "flag": "wrong", "index": "wrong"}[setting.kind]
    with pytest.raises((ValueError, TypeError)) as caught:
        part(**{setting.name: wrong}).check()
    message = str(caught.value)
    assert message.startswith(f"{setting.name} is {wrong!r}; it must be ")
    choices = {"choice": setting.choices, "index": samplers.SEARCHES, "flag": ("True or False",)}
    assert all(str(choice) in message for choice in choices.get(setting.kind, ()))
    for value in (setting.low, setting.high):
        if np.isfinite(value):
            beyond = value - 1 if value == setting.low else value + 1
            with pytest.raises(
                ValueError, match=f"{setting.name} is {beyond}; it must be (finite, )?(at least|more than) "
            ):
                part(**{setting.name: beyond}).check()


# In estimators.

N, D, K = 120, 6, 40


def problem(seed):
    """Points with labels that have little to do with them, so that every step moves something."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)).astype(np.float32)
    return X, np.append(np.arange(K), rng.integers(0, K, N - K))


def several(y):
    """An indicator matrix with two labels a row."""
    return np.eye(K, dtype=np.int64)[y] | np.eye(K, dtype=np.int64)[(y + 1) % K]


def softmax(**parameters):
    return SoftmaxClassifier(**{"max_iter": 3, "random_state": 0} | parameters)


def margin(**parameters):
    return MarginClassifier(**{"max_iter": 3, "random_state": 0} | parameters)


def utility(**parameters):
    return AugmentReduceClassifier(**{"max_iter": 3, "random_state": 0} | parameters)


def answers(model, X):
    """All that a fit can change, as bytes."""
    found = [model.intercept_, model.loss_curve_, model.decision_function(X)]
    coef = getattr(model, "coef_", None)  # of a hybrid model there is none
    found += [] if coef is None else [coef.data if sp.issparse(coef) else coef]
    if hasattr(model, "predict_proba"):
        found.append(model.predict_proba(X))
    found += [getattr(model, name) for name in ("validation_curve_", "embedding_", "n_iter_") if hasattr(model, name)]
    return [np.asarray(one).tobytes() for one in found]


@pytest.mark.filterwarnings("ignore:L-BFGS made", "ignore:training diverged")
@pytest.mark.parametrize("name", [*solvers.SOLVERS])
def test_a_string_stands_for_the_solver_with_its_defaults(name, seed):
    X, y = problem(seed)
    fits = [softmax(solver=solver).fit(X, y) for solver in (name, solvers.SOLVERS[name]())]
    assert answers(fits[0], X) == answers(fits[1], X)


@pytest.mark.parametrize("name", [*samplers.SAMPLERS])
@pytest.mark.parametrize("make", [softmax, margin, utility])
def test_a_string_stands_for_the_sampler_with_its_defaults(name, make, seed):
    X, y = problem(seed)
    try:
        expected = make(sampler=name).fit(X, y)
    except ValueError as error:
        rule = str(error).partition("; ")[2].partition(" or an object")[0]
        with pytest.raises(ValueError, match=re.escape(rule)):
            make(sampler=samplers.SAMPLERS[name]()).fit(X, y)
        return
    assert answers(make(sampler=samplers.SAMPLERS[name]()).fit(X, y), X) == answers(expected, X)


def test_parameters_of_parts_are_reached_through_the_estimator(seed):
    X, y = problem(seed)
    model = softmax(solver=solvers.Implicit(), sampler=samplers.Frequency())
    model.set_params(solver__decay=0.5, sampler__power=0.25)
    assert (model.solver.decay, model.sampler.power) == (0.5, 0.25)
    assert model.get_params()["solver__decay"] == 0.5
    expected = softmax(solver=solvers.Implicit(decay=0.5), sampler=samplers.Frequency(power=0.25))
    assert answers(model.fit(X, y), X) == answers(expected.fit(X, y), X)
    copy = clone(model)
    assert copy.solver is not model.solver
    assert eval(repr(copy), NAMESPACE | {"SoftmaxClassifier": SoftmaxClassifier}).get_params().keys() == (
        model.get_params().keys()
    )
    with pytest.raises(ValueError, match="Invalid parameter 'depth' for estimator Implicit"):
        model.set_params(solver__depth=3)


@pytest.mark.filterwarnings("ignore:training diverged")  # on two rows a class
def test_grids_search_parts_and_their_parameters(seed):
    X, y = problem(seed)
    y %= 4  # classes that every fold has
    grid = GridSearchCV(softmax(solver="implicit"), {"solver": [solvers.UMax(), "exact"]}, cv=2, error_score="raise")
    assert len(grid.fit(X, y).cv_results_["params"]) == 2
    grid = GridSearchCV(
        softmax(solver=solvers.Implicit()), {"solver__decay": [0.01, 0.9]}, cv=2, error_score="raise"
    ).fit(X, y)
    assert grid.best_estimator_.solver.decay == grid.best_params_["solver__decay"]
    assert grid.best_estimator_.predict(X).shape == (N,)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (softmax(solver="implict"), "did you mean 'implicit'?"),
        (softmax(sampler="frequency_blok"), "did you mean 'frequency_block'?"),
        (softmax(model="embeddings"), "did you mean 'embedding'?"),
        (margin(solver="adagrd"), "did you mean 'adagrad'?"),
        (utility(local_step="montecarlo"), "did you mean 'monte_carlo'?"),
        (utility(posterior="gausian"), "did you mean 'gaussian'?"),
        (softmax(solver=samplers.Block()), "solver is Block(); it must be one of 'auto', 'implicit', "),
        (softmax(solver=solvers.Natural()), "solver is Natural(); it must be one of 'auto', 'implicit', "),
        (softmax(sampler=3), "sampler is 3; it must be one of 'auto', 'block', "),
        (margin(sampler=samplers.HeadTail()), "sampler is HeadTail(); it must be one of 'auto', 'block', "),
        (utility(solver=solvers.LBFGS()), "solver is LBFGS(); it must be one of 'implicit', 'sgd' or an object of"),
        (softmax(solver=solvers.UMax), "it must be one of"),
    ],
    ids=repr,
)
def test_a_part_that_is_none_is_refused_with_the_choices_and_a_near_one(estimator, message, seed):
    with pytest.raises(ValueError, match=re.escape(message)):
        estimator.fit(*problem(seed))


def test_parts_given_to_an_estimator_are_never_changed(seed):
    X, y = problem(seed)
    solver = solvers.Implicit()
    model = softmax(solver=solver).fit(X, y)
    assert repr(solver) == "Implicit()"
    assert isinstance(model.resolved_params_["solver"], Part)
    assert model.resolved_params_["solver"] is not solver
