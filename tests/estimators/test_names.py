"""Names: hints at what was meant, types of string parameters, what `load` returns, and how long `help` is."""

import inspect

import numpy as np
import pytest

import manyclass
from manyclass import (
    AugmentReduceClassifier,
    DecomposedIndex,
    MarginClassifier,
    SkipGram,
    SoftmaxClassifier,
    SphericalClusterIndex,
    samplers,
    solvers,
)
from manyclass.checks import check_choice, did_you_mean
from manyclass.registry import names

CLASSIFIERS = (SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier)
X = np.eye(3, dtype=np.float32)[[0, 1, 2] * 20]
Y = [0, 1, 2] * 20


def test_a_hint_is_the_nearest_name_if_one_is_near():
    assert did_you_mean("umix", ["umax", "sgd"]) == " (did you mean 'umax'?)"
    assert did_you_mean("zebra", ["umax", "sgd"]) == did_you_mean(3, ["umax"]) == did_you_mean(None, []) == ""
    with pytest.raises(ValueError, match=r"it must be one of 'margin', 'triplet' \(did you mean 'triplet'\?\)"):
        check_choice("loss", "tripel", ("margin", "triplet"))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: SoftmaxClassifier(solver="implict"), r"solver is 'implict'; .* \(did you mean 'implicit'\?\)"),
        (lambda: SoftmaxClassifier(solver="atuo"), r"must be one of 'auto', 'implicit', .* \(did you mean 'auto'\?\)"),
        (lambda: SoftmaxClassifier(sampler="freqency"), r"must be one of 'auto', .* \(did you mean 'frequency'\?\)"),
        (lambda: SoftmaxClassifier(model="embeding"), r"model is 'embeding'; .* \(did you mean 'embedding'\?\)"),
        (lambda: SoftmaxClassifier(n_negatives="atuo"), r"n_negatives is 'atuo'; .* \(did you mean 'auto'\?\)"),
        (lambda: SoftmaxClassifier(learning_rate="gird"), r"must be a number, 'auto' or 'grid' \(did you mean 'grid'"),
        (lambda: SoftmaxClassifier(solver=solvers.Implicit(schedule="constnt")), r"\(did you mean 'constant'\?\)"),
        (lambda: SoftmaxClassifier(solver=solvers.Implicit(u_learning_rate="teid")), r"\(did you mean 'tied'\?\)"),
        (lambda: SoftmaxClassifier(sampler=samplers.Search(index="mip")), r"\(did you mean 'mips'\?\)"),
        (lambda: MarginClassifier(loss="triplets"), r"\(did you mean 'triplet'\?\)"),
        (lambda: MarginClassifier(solver="adagard"), r"\(did you mean 'adagrad'\?\)"),
        (lambda: MarginClassifier(sampler="serch"), r"\(did you mean 'search'\?\)"),
        (lambda: AugmentReduceClassifier(noise="nomal"), r"\(did you mean 'normal'\?\)"),
        (lambda: AugmentReduceClassifier(local_step="natual"), r"\(did you mean 'natural'\?\)"),
        (lambda: AugmentReduceClassifier(posterior="gausian"), r"\(did you mean 'gaussian'\?\)"),
    ],
)
def test_a_misspelt_value_is_answered_with_the_one_that_was_meant(make, told):
    with pytest.raises(ValueError, match=told):
        make().fit(X, Y)


@pytest.mark.parametrize(
    ("estimator", "given", "told"),
    [
        (
            SoftmaxClassifier(),
            {"max_itr": 3},
            r"'max_itr' for estimator Soft.*'max_iter'.* \(did you mean 'max_iter'\?",
        ),
        (SoftmaxClassifier(), {"sovler__decay": 0.5}, r"'sovler' for estimator .* \(did you mean 'solver'\?\)"),
        (MarginClassifier(), {"smoothng": 1}, r"\(did you mean 'smoothing'\?\)"),
        (solvers.UMax(), {"dleta": 1}, r"'dleta' for estimator UMax; it has .*'delta'.* \(did you mean 'delta'\?"),
        (SphericalClusterIndex(), {"n_prob": 1}, r"\(did you mean 'n_probe'\?\)"),
        (DecomposedIndex(), {"nblocks": 1}, r"\(did you mean 'n_blocks'\?\)"),
        (SkipGram(), {"windw": 1}, r"\(did you mean 'window'\?\)"),
        (SoftmaxClassifier(solver=solvers.UMax()), {"solver__dleta": 1}, r"\(did you mean 'delta'\?\)"),
    ],
)
def test_set_params_hints_at_the_name_and_sets_nothing(estimator, given, told):
    before = estimator.get_params()
    with pytest.raises(ValueError, match="Invalid parameter .*" + told):
        estimator.set_params(random_state=7, **given) if "random_state" in before else estimator.set_params(**given)
    assert estimator.get_params() == before


def test_a_parameter_of_a_part_that_is_a_string_asks_for_the_object():
    model = SoftmaxClassifier()
    with pytest.raises(ValueError, match="'decay' for estimator 'auto', which is no object with parameters"):
        model.set_params(solver__decay=0.5)
    model.set_params(solver=solvers.Implicit(), solver__decay=0.5)
    assert model.solver.decay == 0.5


def test_a_part_hints_at_the_parameter_that_was_meant():
    with pytest.raises(TypeError, match=r"UMax has no parameter 'dleta'; it has 'delta'.* \(did you mean 'delta'\?\)"):
        solvers.UMax(dleta=2.0)


# Types


def test_load_is_typed_as_the_classifiers_that_it_loads():
    annotation = inspect.signature(manyclass.load).return_annotation
    assert set(annotation.split(" | ")) == {cls.__name__ for cls in (*CLASSIFIERS, manyclass.ChoiceClassifier)}


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_options_that_are_one_for_all_rows_are_not_routed(cls):
    assert "unseen" not in inspect.signature(cls.set_score_request).parameters  # not one value a row
    assert not hasattr(cls, "set_predict_request")
    cls().set_score_request  # an instance has it, too  # noqa: B018


def test_help_on_auto_and_on_solvers_has_what_the_classes_leave_out():
    of_auto = inspect.getdoc(manyclass.choosing.recipes)
    for recipe in manyclass.choosing.recipes.recipes():
        assert f"- {recipe.name}; " in of_auto
    of_solvers = inspect.getdoc(solvers)
    biased = [name for name in names("solver") if name in of_solvers.split("Unbiased are")[1].split(";")[0]]
    assert biased
