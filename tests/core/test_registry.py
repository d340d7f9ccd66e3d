"""What the core's parts say of themselves is complete and true, and options are checked by it."""

import math
import re

import numpy as np
import pytest
from reference.core_step import core_plan, core_step, random_point
from reference.selections import SELECTIONS
from reference.steps import IMPLICIT, RAMAN, STEPS, WITH_LABEL

from manyclass import _core
from manyclass.registry import names, parts

KINDS = {
    *("solver", "selection", "schedule", "noise", "local_step", "local_family", "label_loss", "full_batch_loss"),
    *("formulation", "root", "partition", "source", "reduction", "label_solver"),
}
FLAGS = {
    "solver": {
        "u",
        "overwrites_u",
        "log_q",
        "u_step",
        "formulations",
        "implicit",
        "root",
        "draws_label",
        "batch",
        "all_classes",
        "bound",
    },
    "selection": {"label", "heads", "counts", "all_classes"},
    "source": {"all_classes"},
}
FLAGS["label_solver"] = FLAGS["solver"]
POINT_SOLVERS = names("solver", without="batch")
PARAMETERS = [
    pytest.param(kind, facts["name"], parameter, id=f"{kind} {facts['name']} {parameter['name']}")
    for kind in ("solver", "selection")
    for facts in _core.registry()
    if facts["kind"] == kind
    for parameter in facts["parameters"]
]


def plan_with(kind, name, options):
    """A plan with one part of the kind and options, the other part without any."""
    parts = {"solver": "css", "selection": "block"} | {kind: name}
    return core_plan(**parts, options=options)


@pytest.mark.parametrize("facts", [pytest.param(f, id=f"{f['kind']} {f['name']}") for f in _core.registry()])
def test_facts_are_complete(facts):
    assert facts["kind"] in KINDS
    assert facts["name"].isidentifier() or facts["name"] == "is"
    assert facts["sentence"].endswith(".")
    assert facts["sentence"][0].isupper()
    assert len(facts["sentence"].split()) <= 30
    assert set(facts["flags"]) <= FLAGS.get(facts["kind"], set())
    for parameter in facts["parameters"]:
        assert parameter["low"] <= parameter["default"] <= parameter["high"]
        assert not (parameter["open_low"] and parameter["default"] == parameter["low"])
        assert math.isfinite(parameter["default"])
        assert parameter["sentence"].endswith(".")


def test_names_are_distinct_within_a_kind_and_parameters_within_a_plan():
    for kind in KINDS:
        assert names(kind)
        assert len(set(names(kind))) == len(names(kind))
    for solver in names("solver"):
        for selection in names("selection"):
            facts = parts("solver")[solver], parts("selection")[selection]
            own = [number.name for part in facts for number in part.parameters]
            assert len(set(own)) == len(own)


def test_solvers_of_labels_are_solvers():
    assert {name: facts.sentence for name, facts in parts("label_solver").items()} == {
        name: parts("solver")[name].sentence for name in names("label_solver")
    }


def test_flags_agree_with_the_twins():
    assert set(names("solver", "implicit", without="batch")) == IMPLICIT
    assert set(names("solver", "draws_label")) == WITH_LABEL
    assert set(names("solver", "formulations")) == set(RAMAN)
    assert set(STEPS) == set(POINT_SOLVERS)
    assert set(SELECTIONS) == set(names("selection"))


@pytest.mark.parametrize("solver", POINT_SOLVERS)
def test_flags_of_a_solver_say_what_its_step_does(solver, seed):
    point = random_point(np.random.default_rng(seed), 6, visits=3)

    def answer(root="newton", **changed):
        p, label, carried, _ = core_step(type(point)(**{**vars(point), **changed}), solver, root=root)
        return np.append(p, (label, carried))

    flags, plain = parts("solver")[solver].flags, answer()
    assert ("u" in flags) == (plain[-1] != point.carried)
    assert ("u_step" in flags) == (not np.array_equal(plain, answer(eta_u=2 * point.eta_u)))
    assert ("formulations" in flags) == (not np.array_equal(plain, answer(carry=1.0)))
    assert ("root" in flags) == (not np.array_equal(plain, answer(root="bisection")))
    for name in (number.name for number in parts("solver")[solver].parameters):
        start = point.bound - 0.5  # below its bound, so that U-max has something to do
        assert not np.array_equal(answer(**{name: 0.1, "carried": start}), answer(**{name: 0.9, "carried": start}))


@pytest.mark.parametrize(("kind", "name", "parameter"), PARAMETERS)
def test_a_value_outside_its_range_is_refused(kind, name, parameter):
    plan_with(kind, name, {parameter["name"]: parameter["default"]})
    wrong = [np.inf, np.nan]
    if math.isfinite(parameter["low"]):
        wrong.append(parameter["low"] if parameter["open_low"] else parameter["low"] - 1)
    if math.isfinite(parameter["high"]):
        wrong.append(parameter["high"] + 1)
    for value in wrong:
        with pytest.raises(ValueError, match=f"^{parameter['name']} is .*; it must be finite"):
            plan_with(kind, name, {parameter["name"]: value})


def test_an_option_of_no_part_is_refused_with_those_that_there_are():
    gain = re.escape("option 'gain' is 0.5; solver 'umax' with selection 'frequency' has 'delta', 'power'")
    with pytest.raises(ValueError, match=gain):
        core_plan(solver="umax", selection="frequency", options={"gain": 0.5})
    with pytest.raises(ValueError, match="option 'power' is 1; solver 'css' with selection 'block' has no options"):
        core_plan(solver="css", options={"power": 1.0})


def test_unknown_names_are_refused_with_the_choices():
    with pytest.raises(ValueError, match="solver is 'adam'; it must be one of 'implicit', 'umax'"):
        core_plan(solver="adam")
    with pytest.raises(ValueError, match="selection is 'top'; it must be one of 'block', 'uniform'"):
        core_plan(solver="css", selection="top")
