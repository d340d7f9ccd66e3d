"""Models saved by version 0.1, whose parameters all stood on the estimator: predictions, and today's parameters."""

import json
import re

import numpy as np
import pytest
import scipy.sparse as sp
from house import ROOT
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.base import clone

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models, samplers, solvers
from manyclass.classifiers.version_1 import parameters_today

FOLDER = ROOT / "tests/data/version_1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
COMMON = {"max_iter": 3, "random_state": 5}

# What was set in data/version_1/make_files.py, in today's words.
TODAY = {
    "linear_sparse": SoftmaxClassifier(
        solver=solvers.UMax(delta=2.0, u_init="zero", decay=0.8, averaging="polyak", formulation="proposed"),
        sampler=samplers.Frequency(power=0.5),
        n_negatives=3,
        alpha=1e-3,
        learning_rate=0.2,
        **COMMON,
    ),
    "linear_dense": SoftmaxClassifier(**COMMON),
    "embedding": SoftmaxClassifier(
        solver=solvers.Adagrad(batch_size=8, log_q=False),
        sampler=samplers.Frequency(power=0.75),
        n_negatives=3,
        model=models.Embedding(activation="relu"),
        dim=4,
        **COMMON,
    ),
    "margin": MarginClassifier(
        smoothing=2.0,
        model="linear",
        solver=solvers.Adagrad(decay=0.7),
        sampler=samplers.Search(budget=4),
        n_negatives=5,
        **COMMON,
    ),
    "probit": AugmentReduceClassifier(
        solver=solvers.Implicit(schedule="inverse", averaging="none"),
        local_step=solvers.Natural(family="normal", n_nodes=4),
        sampler=samplers.HeadTail(n_head=2),
        n_negatives=3,
        **COMMON,
    ),
    "posterior": AugmentReduceClassifier(
        noise="logistic",
        solver=solvers.Implicit(decay=0.9),
        local_step=solvers.Natural(),
        sampler="uniform",
        n_negatives=4,
        posterior=solvers.Gaussian(n_draws=16),
        alpha=0.02,
        **COMMON,
    ),
}


def problem():
    """The data of make_files.py."""
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(80, 9)) * (rng.random((80, 9)) < 0.5)).astype(np.float32)
    y = np.append(np.arange(7), rng.integers(0, 7, 73))
    Y = np.zeros((80, 7), dtype=np.int64)
    Y[np.arange(80), y] = 1
    Y[np.arange(80), rng.integers(0, 7, 80)] = 1
    return X, y, Y


def parameters(estimator):
    """All parameters, those of parts too, with parts as the names of their classes."""
    part = manyclass.parts.Part
    found = estimator.get_params()
    return {name: type(value).__name__ if isinstance(value, part) else value for name, value in found.items()}


def test_every_file_is_tested():
    assert {path.stem for path in FOLDER.glob("*.safetensors")} == set(EXPECTED) == set(TODAY)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", TODAY)
def test_weights_and_predictions_are_those_of_version_0_1(name, mmap):
    model = manyclass.load(FOLDER / f"{name}.safetensors", mmap=mmap)
    np.testing.assert_array_equal(model.coef_.ravel(), np.array(EXPECTED[name]["coef"], dtype=np.float32))
    X = problem()[0][:6]
    found = model.decision_function(X) if name == "margin" else model.predict_proba(X)
    # Scores are sums of nine floats, in another order on another processor.
    np.testing.assert_allclose(found, EXPECTED[name]["predicted"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", TODAY)
def test_parameters_are_todays(name):
    model = manyclass.load(FOLDER / f"{name}.safetensors")
    assert type(model) is type(TODAY[name])
    assert parameters(model) == parameters(TODAY[name])


@pytest.mark.filterwarnings("ignore:training diverged. the exact loss")  # steps of three passes, not made to learn
@pytest.mark.parametrize("name", TODAY)
def test_a_model_of_version_0_1_can_be_fitted_and_saved_anew(name, tmp_path):
    model = manyclass.load(FOLDER / f"{name}.safetensors")
    X, y, Y = problem()
    x = sp.csr_array(X) if name in ("linear_sparse", "embedding", "probit") else X
    again = clone(model)
    if name == "linear_dense":  # solver="auto", which has come to scale features
        again.set_params(model=models.Linear(scaling="none"))
    # Steps of three passes may end high: a callback looks on, so that no smaller step size is tried.
    looks = {} if name == "posterior" else {"callback": lambda _: False}
    again.fit(x, Y if name == "embedding" else y, **looks)
    if name.startswith("linear"):
        # The same steps: what 240 visits round on another processor.
        atol = 240 * 4 * 2.0**-23 * np.abs(model.coef_).max()
        np.testing.assert_allclose(again.coef_, model.coef_, rtol=0, atol=atol)
    model.save(tmp_path / "m")
    with safe_open(tmp_path / "m", framework="numpy") as file:
        assert file.metadata()["format_version"] == "2"
    loaded = manyclass.load(tmp_path / "m")
    assert parameters(loaded) == parameters(model)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": 3}, None),  # what version 1 had no use for is left out
        ({"solver": "adam"}, "is damaged: KeyError: 'adam'"),
        ({"solver": ["umax"]}, "is damaged: TypeError"),
        ({"delta": -2.0}, "is damaged: delta is -2.0; it must be finite, at least 0"),
        ({"decay": "fast"}, "is damaged: decay is 'fast'"),
        ({"alpha": None}, "is damaged: TypeError: alpha is None"),
    ],
    ids=str,
)
def test_parameters_of_version_1_that_are_none_are_told_with_the_file(change, message, tmp_path):
    path = tmp_path / "m"
    with safe_open(FOLDER / "linear_sparse.safetensors", framework="numpy") as file:
        header = file.metadata()
    description = json.loads(header["model"])
    description["parameters"].update(change)
    arrays = load_file(FOLDER / "linear_sparse.safetensors")
    save_file(arrays, path, header | {"model": json.dumps(description)})
    if message is None:
        assert parameters(manyclass.load(path)) == parameters(TODAY["linear_sparse"])
        return
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} {re.escape(message)}"):
        manyclass.load(path)


# Options without effect in version 0.1 are left out, so that what is left is not refused today.
WITHOUT_EFFECT = [
    ("SoftmaxClassifier", {"solver": "exact", "selection": "uniform", "n_negatives": 5, "u_gain": 0.2}),
    ("SoftmaxClassifier", {"solver": "css", "schedule": "inverse", "decay": 0.5, "formulation": "raman"}),
    ("SoftmaxClassifier", {"solver": "sgd", "selection": "all", "n_negatives": 5, "share_classes": True, "delta": 3}),
    ("SoftmaxClassifier", {"solver": "lbfgs", "selection": "uniform", "n_negatives": 5, "decay": 0.5, "tol": 0.1}),
    ("SoftmaxClassifier", {"solver": "implicit", "validation_fraction": 0.3, "n_head": 4, "search": None}),
    ("SoftmaxClassifier", {"embedding_dim": 3, "alpha": "auto", "delta": 3.0, "search": "mips", "warm_up": 0}),
    ("MarginClassifier", {"loss": "triplet", "smoothing": 3.0, "n_negatives": 9}),
    ("MarginClassifier", {"search": "mips", "warm_up": 0, "n_negatives": 9, "frequency_power": 0.5}),
    ("MarginClassifier", {"schedule": "inverse", "decay": 0.5, "step": "implicit", "share_classes": False}),
    ("AugmentReduceClassifier", {"noise": "gumbel", "local_family": "normal", "n_nodes": 5, "n_draws": 7}),
    ("AugmentReduceClassifier", {"selection": "all", "n_negatives": 5, "n_head": 3, "share_classes": True}),
    ("AugmentReduceClassifier", {"posterior": "gaussian", "alpha": 0.1, "shuffle": False, "averaging": "none"}),
]


@pytest.mark.filterwarnings("ignore:L-BFGS made")
@pytest.mark.parametrize(("name", "flat"), WITHOUT_EFFECT, ids=str)
def test_what_had_no_effect_is_left_out(name, flat):
    X, y, _ = problem()
    getattr(manyclass, name)(**parameters_today(name, {"max_iter": 1, **flat})).fit(X, y)
