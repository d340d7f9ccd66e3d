"""A fit or partial_fit in which any call fails or is interrupted leaves the old model whole, or makes a new one."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from test_effects_of_parameters import BASES
from test_parts import answers, problem

import manyclass

PACKAGE = str(Path(manyclass.__file__).parent)
N_FAULTS = 12  # a fit; other seeds try others
FAULTS = {"interrupt": KeyboardInterrupt, "allocation": MemoryError}


def fails_at(k, error, work):
    """Raise at the k-th call of a function of the package; return how many there were, and what came of the work."""
    calls = 0

    def trace(frame, event, arg):
        nonlocal calls
        if frame.f_code.co_filename.startswith(PACKAGE) and frame.f_code.co_name != "<module>":
            calls += 1
            if calls == k:
                raise error

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
        return calls, None
    except BaseException as caught:
        return calls, caught
    finally:
        sys.settrace(before)


def state(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_") or name == "_weights"}


def same_state(found, known):
    return found.keys() == known.keys() and all(found[name] is known[name] for name in known)


def assert_whole(model, X, path):
    """It predicts, and so does what is saved and loaded, the same."""
    model.save(path)
    assert answers(manyclass.load(path), X) == answers(model, X)
    assert np.isin(model.predict(X), model.classes_).all()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.filterwarnings("ignore")
def test_a_refit_that_fails_anywhere_leaves_the_old_model_or_makes_a_new_one(base, fault, tmp_path, seed):
    X, y = problem(seed)
    first = np.array([f"class {k}" for k in y])
    other_X, other_y = np.tile(X, 2), y % 4
    model = clone(BASES[base]).fit(X, first)
    known, before = state(model), answers(model, X)
    n_calls, error = fails_at(-1, None, lambda: clone(BASES[base]).fit(other_X, other_y))
    assert error is None
    assert n_calls > 50
    n_faults = N_FAULTS // 4 if base == "posterior" else N_FAULTS  # it takes longest
    for k in np.random.default_rng(seed).integers(1, n_calls, n_faults):
        _, error = fails_at(k, FAULTS[fault], lambda model=model: model.fit(other_X, other_y))
        if error is not None:
            assert isinstance(error, FAULTS[fault]), f"call {k} of {n_calls}: {error!r}"
            assert same_state(state(model), known), f"call {k} of {n_calls}"
            assert answers(model, X) == before
        else:  # it came where nothing depends on the call
            assert_whole(model, other_X, tmp_path / "m")
            model = clone(BASES[base]).fit(X, first)
            known = state(model)
    assert_whole(model, X, tmp_path / "m")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.filterwarnings("ignore")
def test_a_file_that_fails_anywhere_is_the_old_one(fault, tmp_path, seed):
    X, y = problem(seed)
    model = clone(BASES["by hand"]).fit(X, y)
    path = tmp_path / "m"
    model.save(path)
    before = path.read_bytes()
    other = clone(BASES["by hand"]).fit(np.tile(X, 2), y)
    n_calls, _ = fails_at(-1, None, lambda: other.save(tmp_path / "other"))
    for k in range(1, n_calls + 1):
        _, error = fails_at(k, FAULTS[fault], lambda: other.save(path))
        assert isinstance(error, FAULTS[fault])
        assert path.read_bytes() in (before, (tmp_path / "other").read_bytes())
        assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "other"]


def test_the_fault_is_planted_where_it_is_said(seed):
    X, y = problem(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(BASES["by hand"]).fit(X, y)
    _, error = fails_at(1, ZeroDivisionError, lambda: model.predict(X))
    assert isinstance(error, ZeroDivisionError)
    n_calls, error = fails_at(10**9, ZeroDivisionError, lambda: model.predict(X))
    assert (n_calls > 3, error) == (True, None)
