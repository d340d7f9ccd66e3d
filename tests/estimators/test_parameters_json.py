"""Parameters in saved files: parts and values through JSON and back, for random legal values of every part."""

import json

import numpy as np
import pytest
from sklearn.base import clone

from manyclass import (
    AugmentReduceClassifier,
    DecomposedIndex,
    MarginClassifier,
    SoftmaxClassifier,
    models,
    samplers,
    solvers,
)
from manyclass.classifiers.files import PARTS, decode_parameters, encode_parameters
from manyclass.search.spherical import SphericalClusterIndex


def through_json(parameters):
    return decode_parameters(json.loads(json.dumps(encode_parameters(parameters))))


def random_value(setting, rng):
    """A legal value of a setting: one beside its kind, or a random one of its kind, now and then as NumPy has it."""
    if setting.beside and rng.random() < 0.3:
        return setting.beside[rng.integers(len(setting.beside))]
    if setting.kind == "flag":
        return bool(rng.integers(2))
    if setting.kind in ("choice", "index"):
        choices = setting.choices or samplers.SEARCHES
        return choices[rng.integers(len(choices))]
    low = max(setting.low, -5.0) if np.isfinite(setting.low) else -5.0
    high = min(setting.high, low + 10.0)
    if setting.kind == "integer":
        value = int(rng.integers(int(low), int(high) + 1))
        return np.int64(value) if rng.random() < 0.3 else value
    value = high - (high - low) * float(rng.random())  # in ]low, high]
    return np.float64(value) if rng.random() < 0.3 else value


@pytest.mark.parametrize("part", PARTS.values())
def test_any_legal_parameters_of_a_part_come_back(part, seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        made = part(**{s.name: random_value(s, rng) for s in part.settings})
        made.check()
        back = through_json({"solver": made, "n": 3})["solver"]
        assert type(back) is part
        assert back is not made
        assert back.get_params() == made.get_params()
        for value in back.get_params().values():
            assert value is None or type(value) in (bool, int, float, str)


def test_every_part_has_a_name_of_its_own():
    rooms = (solvers.SOLVERS, solvers.LOCAL_STEPS, solvers.POSTERIORS, samplers.SAMPLERS, models.MODELS)
    assert len(PARTS) == sum(map(len, rooms))
    assert all(PARTS[part.__name__] is part for room in rooms for part in room.values())


@pytest.mark.parametrize(
    "estimator",
    [
        SoftmaxClassifier(solver=solvers.UMax(delta=2.0), sampler=samplers.Frequency(power=0.5), alpha=1e-3),
        SoftmaxClassifier(model=models.Embedding(activation="relu"), dim=np.int32(3), max_iter="auto"),
        MarginClassifier(loss="triplet", sampler=samplers.Search(index="messages", budget=4)),
        AugmentReduceClassifier(posterior=solvers.Gaussian(n_draws=4), local_step=solvers.Natural(n_nodes=5)),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_parameters_of_an_estimator_make_an_equal_one(estimator):
    found = through_json(estimator.get_params(deep=False))
    again = type(estimator)(**found)
    assert repr(again) == repr(estimator).replace("np.int32(3)", "3")
    assert repr(clone(again)) == repr(again)


@pytest.mark.parametrize(
    ("index", "name"), [(SphericalClusterIndex(n_probe=2), "mips"), (DecomposedIndex(2), "decomposed")]
)
def test_an_index_given_as_an_example_becomes_its_name(index, name):
    sampler = samplers.Search(index=index, budget=3)
    expected = samplers.Search(index=name, budget=3)
    assert through_json({"sampler": sampler})["sampler"].get_params() == expected.get_params()
    assert sampler.index is index


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        (np.int64(3), 3),
        (None, None),
        (np.random.RandomState(0), None),
        (np.random.default_rng(0), None),
        ("seed", None),
    ],
    ids=["int", "int64", "none", "RandomState", "Generator", "str"],
)
def test_a_random_state_is_saved_where_it_is_a_number(value, expected):
    found = encode_parameters({"random_state": value})["random_state"]
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "value",
    [[1], {"a": 1}, (1, 2), np.zeros(2), object, 1j, b"x", solvers.UMax(delta=[1])],
    ids=lambda v: type(v).__name__,
)
def test_what_json_would_change_is_refused_with_its_name(value):
    with pytest.raises(TypeError, match=r"(alpha|delta) is .*; only None, bool, int, float, str and parts"):
        encode_parameters({"alpha": value})


@pytest.mark.parametrize(
    "value",
    [
        {"part": "Adam", "parameters": {}},
        {"part": "umax", "parameters": {}},  # the name of a string, not of a class
        {"part": "UMax"},
        {"part": "UMax", "parameters": [1]},
        {"part": None, "parameters": {}},
        {},
        {"parameters": {}},
    ],
    ids=str,
)
def test_a_part_that_does_not_exist_is_refused(value):
    with pytest.raises(ValueError, match="is no solver, sampler or model of this manyclass"):
        decode_parameters({"solver": value})


def test_parameters_that_a_part_has_not_are_refused():
    with pytest.raises(TypeError, match="UMax has no parameter 'depth'; it has 'delta', "):
        decode_parameters({"solver": {"part": "UMax", "parameters": {"depth": 3}}})
