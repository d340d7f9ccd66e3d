"""A fit takes over all that it found at once: one that fails leaves the model as it was."""

import numpy as np
import pytest
from planned import with_planner
from sklearn.base import clone
from test_effects_of_parameters import BASES
from test_parts import answers, problem, softmax

from manyclass.fitting.planners import SoftmaxPlanner


@pytest.mark.parametrize(
    "base", ["auto", "by hand", "exact", "lbfgs", "embedding", "margin", "utility", "early stopping", "posterior"]
)
@pytest.mark.parametrize("failure", ["data", "parameter", "callback"])
@pytest.mark.filterwarnings("ignore:L-BFGS", "ignore:training diverged")
def test_a_fit_that_fails_leaves_the_model_as_it_was(base, failure, seed):
    X, y = problem(seed)
    model = clone(BASES[base]).fit(X, np.array([f"class {k}" for k in y]))
    before, classes = answers(model, X), model.classes_
    known = {name: value for name, value in vars(model).items() if name.endswith("_")}
    other_X, other_y = np.tile(X, 2), y % 4

    def stop(state):
        raise ZeroDivisionError

    if failure == "data":
        with pytest.raises(ValueError, match="NaN"):
            model.fit(np.where(other_X > 2, np.nan, other_X), other_y)
    elif failure == "parameter":
        given = model.learning_rate if hasattr(model, "learning_rate") else None
        with pytest.raises(ValueError, match="learning_rate is -1"):
            model.set_params(learning_rate=-1).fit(other_X, other_y)
        model.set_params(learning_rate=given)
    else:
        with pytest.raises(ZeroDivisionError):
            model.fit(other_X, other_y, callback=stop)
    assert model.classes_ is classes
    assert answers(model, X) == before
    assert {name: value for name, value in vars(model).items() if name.endswith("_")} == known


def test_a_search_for_a_rate_that_is_interrupted_leaves_the_model_as_it_was(seed):
    def run(planner, *given):
        if planner.parameters["learning_rate"] in ("auto", "grid"):
            return SoftmaxPlanner.run(planner, *given)
        raise KeyboardInterrupt  # while a rate is tried

    X, y = problem(seed)
    model = with_planner(softmax(solver="exact"), run=run).fit(X, y)
    before = answers(model, X)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(learning_rate="grid").fit(X[:, :3], y % 4)
    assert answers(model, X) == before
