"""Random parameters of every estimator on extreme data: refused by name, or finite; in processes that may crash.

A case that fails is made again by `python -m drawn --here NUMBER` in this folder, and thousands more by
`python -m drawn --first 0 --count 50000 --output cases.jsonl`.
"""

import collections
import inspect
import sys
import warnings

import numpy as np
import pytest
from drawn import checks, classifiers, data, parameters, pool
from drawn.__main__ import summary
from reference.states import renamed
from sklearn.exceptions import ConvergenceWarning

from manyclass import (
    AugmentReduceClassifier,
    DecomposedIndex,
    MarginClassifier,
    SkipGram,
    SoftmaxClassifier,
    SphericalClusterIndex,
)

ESTIMATORS = (
    *(AugmentReduceClassifier, DecomposedIndex, MarginClassifier),
    *(SkipGram, SoftmaxClassifier, SphericalClusterIndex),
)
in_processes = pytest.mark.skipif(sys.platform != "linux", reason="workers are held by limits that Linux has")


def told(answers):
    """What is wrong, by the numbers of cases."""
    return "\n".join(
        f"{a['case']}: {a.get('what', '')}\n    " + "\n    ".join(a["faults"]) for a in answers if a["faults"]
    )


@in_processes
def test_some_random_cases_are_refused_or_hold():
    answers = list(pool.run(map(str, range(200))))
    assert not told(answers), told(answers)
    made = collections.Counter(a["estimator"] for a in answers if a["done"])
    assert set(made) == {one.__name__ for one in ESTIMATORS}
    assert made.total() > 130, summary(answers)  # most come to a fit


# Cases in which something was wrong before.
FOUND = (
    *(101398, 102171, 105480, 105903, 106482, 107491, 109681, 119845),
    *(127033, 129705, 131963, 132598, 133806),
)


@in_processes
def test_cases_that_found_a_fault_are_refused_or_hold():
    answers = list(pool.run(map(str, FOUND)))
    assert not told(answers), told(answers)


@in_processes
@pytest.mark.long
def test_many_random_cases_are_refused_or_hold():
    answers = list(pool.run(map(str, range(1000, 6000))))
    print(summary(answers))
    assert not told(answers), told(answers)


# What finds nothing is shown a planted fault


@pytest.mark.long
@in_processes
def test_the_pool_notices_a_crash_and_a_hang_and_goes_on():
    crash, first, spin, last = pool.run(["crash", "1", "spin", "2"], seconds=0.5)
    assert crash["outcome"] == "crash"
    assert "exit status -11" in crash["faults"][0]
    assert (spin["outcome"], spin["faults"]) == ("hang", ["hang"])
    assert first["case"], last["case"] == ("1", "2")
    assert "estimator" in last


@in_processes
def test_the_pool_ends_what_waits(monkeypatch):
    monkeypatch.setattr(pool, "WALL", 2.0)
    (sleeps,) = pool.run(["sleep"], seconds=0.5)
    assert sleeps["outcome"] == "hang"


def nan_model(model):
    model._weights.intercept[0] = np.nan


def short_classes(model):
    renamed(model, model.classes_[:-1])


@pytest.mark.parametrize(
    ("plant", "said"),
    [(nan_model, "intercept has 1 of"), (short_classes, "classes_ has"), (lambda model: None, None)],
)
def test_a_wrong_model_is_told(plant, said):
    rng = np.random.default_rng(0)
    case = classifiers.Case(SoftmaxClassifier, {}, rng.normal(size=(20, 3)), np.arange(20) % 4, {}, rng, False)
    model = SoftmaxClassifier(random_state=0).fit(case.x, case.y)
    plant(model)
    case.check(model, "after fit")
    assert bool(case.found.faults) == (said is not None)
    assert said is None or any(said in fault for fault in case.found.faults)


def raises(error):
    raise error


@pytest.mark.parametrize(
    ("call", "refused", "faults"),
    [
        (lambda: raises(ValueError("alpha is -1; it must be at least 0")), 1, 0),
        (lambda: raises(TypeError("X is a str")), 1, 0),
        (lambda: raises(ValueError("something went wrong")), 0, 1),
        (lambda: raises(ZeroDivisionError("float division by alpha")), 0, 1),
        (lambda: np.float32(3e38) * np.float32(10), 0, 1),
        (lambda: warnings.warn("training diverged", ConvergenceWarning, stacklevel=1), 0, 0),
        (lambda: None, 0, 0),
    ],
)
def test_what_a_call_may_come_to(call, refused, faults):
    found = checks.Found()
    checks.observed(found, "fit", call)
    assert (len(found.refused), len(found.faults)) == (refused, faults)


# What is drawn


@pytest.mark.parametrize("made", ESTIMATORS)
def test_every_parameter_is_drawn(made, seed):
    rng = np.random.default_rng(seed)
    drawn = {name for _ in range(300) for name in parameters.parameters(rng, made)}
    assert drawn == set(inspect.signature(made).parameters)


@pytest.mark.parametrize("kind", parameters.PARTS)
def test_every_setting_of_a_part_is_drawn(kind, seed):
    rng = np.random.default_rng(seed)
    for part in parameters.PARTS[kind].values():
        names = list(inspect.signature(part).parameters)
        found = collections.defaultdict(set)
        for _ in range(60):
            made = parameters.part(rng, part)
            for name in names:
                found[name].add(repr(getattr(made, name)))
        assert all(len(found[name]) > 1 for name in names), (part, found)


def test_choices_that_a_type_does_not_tell_are_those_of_the_refusal():
    assert parameters.choices_of(SkipGram, "sample_rule") == ["word2vec", "sqrt"]
    assert parameters.choices_of(SphericalClusterIndex, "recluster") == ["auto", "never"]


def test_numbers_reach_both_ends_of_floats(seed):
    rng = np.random.default_rng(seed)
    steps = np.array([parameters.positive(rng) for _ in range(3000)])
    assert steps.min() < 1e-38
    assert steps.max() > 1e300
    values = np.concatenate([np.abs(data.values(rng, (4, 3)).astype(np.float32)).ravel() for _ in range(500)])
    assert values.max() > 1e38
    assert ((values > 0) & (values < 2.0**-126)).any()  # subnormal


def test_a_case_is_its_number():
    def case():
        return str(classifiers.Case.draw(np.random.default_rng(7), MarginClassifier))

    assert case() == case()
