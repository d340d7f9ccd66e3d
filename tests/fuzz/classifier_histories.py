"""Histories of classifiers."""

from __future__ import annotations

import copy
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp
from fuzz.histories import REFUSALS, BrokenError, History, assert_alike, fail, failing, inside
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, solvers
from manyclass.classifiers.files import weight_tensors

MOST = float(np.finfo(np.float32).max)
D, K = 6, 5  # features and, at first, classes

# Estimators, and whether their rows may have several labels.
CLASSIFIERS: dict[str, tuple[Any, bool]] = {
    "auto": (SoftmaxClassifier(max_iter=2), True),
    "implicit": (SoftmaxClassifier(solver="implicit", model="linear", max_iter=2), False),
    "umax": (SoftmaxClassifier(solver="umax", n_negatives=2, max_iter=2), False),
    "sgd": (SoftmaxClassifier(solver="sgd", alpha=1e-3, max_iter=2), False),
    "exact": (SoftmaxClassifier(solver="exact", max_iter=2), False),
    "lbfgs": (SoftmaxClassifier(solver="lbfgs", max_iter=5), False),
    "steps": (SoftmaxClassifier(solver="implicit", learning_rate=0.1, max_iter=2), False),
    "adaptive": (SoftmaxClassifier(solver=solvers.SGD(schedule="adaptive"), max_iter=2), False),
    "batches": (SoftmaxClassifier(solver=solvers.SGD(batch_size=5), max_iter=2), False),
    "pairs": (SoftmaxClassifier(model="pairs", max_iter=2), True),
    "hybrid": (SoftmaxClassifier(model="hybrid", dim=3, max_iter=2), True),
    "embedding": (SoftmaxClassifier(model="embedding", dim=3, max_iter=2), True),
    "calibrated": (SoftmaxClassifier(calibration="temperature", max_iter=2), True),
    "several runs": (SoftmaxClassifier(n_models=2, max_iter=1), False),
    "stops early": (SoftmaxClassifier(solver="implicit", early_stopping=True, max_iter=3), False),
    "warm": (SoftmaxClassifier(solver="implicit", warm_start=True, max_iter=1), False),
    "margin": (MarginClassifier(max_iter=2), True),
    "triplet": (MarginClassifier(loss="triplet", model="embedding", dim=3, max_iter=2), True),
    "probit": (AugmentReduceClassifier(max_iter=2), False),
    "logistic": (AugmentReduceClassifier(noise="logistic", max_iter=2), False),
    "gumbel": (AugmentReduceClassifier(noise="gumbel", solver="sgd", max_iter=2), False),
    "posterior": (AugmentReduceClassifier(posterior="gaussian", alpha=0.1, max_iter=2), False),
}
# Settings that some or all estimators take, and such that none does.
SETTINGS: dict[str, tuple[Any, ...]] = {
    "max_iter": (1, 2, 3),
    "learning_rate": (0.01, 1.0, "auto"),
    "alpha": (0.0, 1e-3),
    "n_negatives": (1, 3, 10**6),
    "class_weight": (None, {}),
    "fit_intercept": (True, False),
    "warm_start": (True, False),
    "n_jobs": (None, 2, -1),
    "random_state": (0, 7, 2**32 - 1),
    "dim": (2, 4),
    "noise": ("normal", "logistic", "gumbel"),
    "calibration": (None, "temperature"),
    "solver": ("implicit", "sgd"),
}
WRONG: dict[str, tuple[Any, ...]] = {
    "max_iter": (0, -5, 1.5, 10**30, 10**400, "no", None, True),
    "learning_rate": (0, -1.0, np.nan, np.inf, 10**400, "fast"),
    "alpha": (-1, np.nan, 10**400, "no"),
    "n_negatives": (0, -1, 2.5, 10**30, "no"),
    "class_weight": ("unbalanced", {"a": -1}, {"a": np.nan}, 3),
    "fit_intercept": ("no", 1, None),
    "warm_start": ("no", 1),
    "n_jobs": (0, 1.5, "two"),
    "random_state": (-1, 2**32, 1.5, "a", 10**30),
    "dim": (0, -1, 10**30, 2.5),
    "noise": ("cauchy", 1),
    "calibration": ("isotonic", 1),
    "solver": ("newton", None, 3),
    "n_models": (0, -1, 10**30, 1.5),
    "verbose": ("loud", np.nan, 10**400),
}


class ClassifierHistory(History):
    """A classifier."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name = self.one([*CLASSIFIERS])
        base, several = CLASSIFIERS[self.name]
        self.several = several and self.rng.random() < 0.4
        self.sparse = self.rng.random() < 0.5
        self.binary = self.rng.random() < 0.5
        self.texts = self.rng.random() < 0.5
        self.extreme = self.rng.random() < 0.1  # its rows and weights are of any size
        self.model = clone(base).set_params(random_state=int(self.rng.integers(99)))
        self.n_classes = K

    def __str__(self) -> str:
        kind = f"{'several labels' if self.several else 'one label'}, {'sparse' if self.sparse else 'dense'} rows"
        return f"{self.name} ({kind}{', extreme' if self.extreme else ''})"

    def ways(self) -> dict[Callable[[], None], float]:
        """Steps, and how often each comes."""
        return {
            self.fits: 1.0,
            self.fits_a_stream: 0.5,
            self.fits_in_vain: 1.0,
            self.goes_on: 2.0,
            self.goes_on_by_parts: 0.7,
            self.goes_on_in_vain: 1.0,
            self.is_set: 1.0,
            self.is_set_wrong: 1.0,
            self.is_saved: 2.0,
            self.is_pickled: 1.0,
            self.is_compressed: 0.7,
            self.resumes: 0.3,
            self.answers: 4.0,
            self.answers_wrong_questions: 1.0,
        }

    # Data

    def rows(self, n: int) -> Any:
        """Rows of features."""
        x = (self.rng.random((n, D)) < 0.5).astype(np.float32)
        if not self.binary:
            x *= self.rng.normal(size=(n, D)).astype(np.float32)
        if self.extreme:
            x = np.clip(x * 10.0 ** self.rng.uniform(-3, 38, (n, 1)), -MOST, MOST).astype(np.float32)
        return sp.csr_array(x) if self.sparse else x

    def labels(self, n: int, new: bool = False) -> Any:
        """Labels of rows: of all classes, if there are enough rows; of more than before, if they are new."""
        self.n_classes += int(new and self.n_classes < 12)
        k = np.append(np.arange(min(n, self.n_classes)), self.rng.integers(0, self.n_classes, n))[:n]
        if self.several:
            return np.eye(self.n_classes, dtype=int)[k] | np.eye(self.n_classes, dtype=int)[np.roll(k, 1)]
        return np.array([f"label {i}" for i in range(self.n_classes)])[k] if self.texts else k * 3

    def data(self, new: bool = False) -> tuple[Any, Any]:
        """Rows and labels."""
        n = int(self.rng.integers(2 * self.n_classes + 2, 40))
        return self.rows(n), self.labels(n, new)

    def weights(self, n: int) -> Any:
        """Weights of rows, or None."""
        if self.rng.random() < 0.6:
            return None
        weights = self.rng.random(n) + 0.1
        if self.extreme:
            weights[0] = 10.0 ** self.rng.uniform(0, 100)  # larger ones are refused
        return weights

    @property
    def fitted(self) -> bool:
        """Whether there is a model."""
        return bool(self.model.__sklearn_is_fitted__())

    # Steps

    def fits(self) -> None:
        """Fit, now and then twice, which gives the same model."""
        X, y = self.data()
        weights = self.weights(X.shape[0])
        twin = copy.deepcopy(self.model)
        if self.refused(lambda: self.model.fit(X, y, sample_weight=weights), on=self.model):
            return
        if self.rng.random() < 0.3:
            assert_alike(inside(twin.fit(X, y, sample_weight=weights)), inside(self.model))

    def parts(self, fails: bool = False) -> list[tuple[Any, Any]] | Iterator[tuple[Any, Any]]:
        """Parts of a stream; an iterator that fails behind two of them."""
        parts = [self.data() for _ in range(3)]
        return failing(parts[:2]) if fails else parts

    def fits_a_stream(self) -> None:
        """Fit to parts."""
        parts = self.parts()
        self.refused(lambda: self.model.fit(parts), on=self.model)

    def fits_in_vain(self) -> None:
        """Fit to what is no data, with a callback or an iterator that fails."""
        X, y = self.data()
        how = self.one(("nan", "lengths", "one class", "callback", "iterator", "weights"))
        self.note(how)
        if how == "nan":
            bad = sp.csr_array(X).copy()
            bad.data[:1] = np.nan
            if bad.nnz:
                self.refused(lambda: self.model.fit(bad if self.sparse else bad.toarray(), y), on=self.model, must=True)
        elif how == "lengths":
            self.refused(lambda: self.model.fit(X, y[:-1]), on=self.model, must=True)
        elif how == "one class" and not self.several:
            self.refused(lambda: self.model.fit(X, np.repeat(y[:1], len(y))), on=self.model, must=True)
        elif how == "callback":
            self.refused(lambda: self.model.fit(X, y, callback=fail), on=self.model)
        elif how == "iterator":
            self.refused(lambda: self.model.fit(self.parts(fails=True)), on=self.model, must=True)
        else:
            wrong = np.full(len(y), self.one((-1.0, np.nan, np.inf, 0.0, 1e101, MOST**5)))
            self.refused(lambda: self.model.fit(X, y, sample_weight=wrong), on=self.model, must=True)

    def how_to_go_on(self) -> dict[str, Any]:
        """Options of `partial_fit`."""
        given: dict[str, Any] = {}
        if self.rng.random() < 0.2:
            given["n_passes"] = int(self.rng.integers(1, 3))
        if self.rng.random() < 0.2:
            given["half_life"] = 10.0 ** self.rng.uniform(0, 3)
        if self.rng.random() < 0.2:
            given["learning_rate"] = 10.0 ** self.rng.uniform(-3, 1)
        return given

    def goes_on(self) -> None:
        """Train on, with new classes now and then; a copy does the same."""
        X, y = self.data(new=self.rng.random() < 0.2)
        given = {"sample_weight": self.weights(X.shape[0]), **self.how_to_go_on()}
        if self.several or not self.fitted:
            given["classes"] = np.arange(self.n_classes) if self.several else np.unique(y)
        twin = copy.deepcopy(self.model)
        if self.refused(lambda: self.model.partial_fit(X, y, **given), on=self.model):
            return
        if self.rng.random() < 0.3:
            assert_alike(inside(twin.partial_fit(X, y, **given)), inside(self.model))

    def goes_on_by_parts(self) -> None:
        """Train on with a stream, which may fail: it is then where the parts before have left it."""
        parts, fails = [self.data() for _ in range(2)], self.rng.random() < 0.5
        twin = copy.deepcopy(self.model)
        try:
            for part in parts:
                twin.partial_fit(*part)
        except REFUSALS:
            twin = None
        if twin is None:
            before = copy.deepcopy(inside(self.model))
            try:
                self.model.partial_fit(failing(parts))
            except (*REFUSALS, BrokenError):
                if not self.fitted or "_state" not in before:
                    assert self.fitted == ("_state" in before) or self.model.class_count_.sum() > 0
            return
        given = failing(parts) if fails else parts
        self.refused(lambda: self.model.partial_fit(given), on=self.model, must=fails, like=inside(twin))
        assert_alike(inside(self.model), inside(twin))

    def goes_on_in_vain(self) -> None:
        """Train on with what is no data of this model."""
        X, y = self.data()
        how = self.one(("columns", "lengths", "nan", "option", "labels"))
        self.note(how)
        if not self.fitted:
            return
        if how == "columns":
            wider = sp.hstack([X, X]).tocsr() if self.sparse else np.hstack([X, X])
            self.refused(lambda: self.model.partial_fit(wider, y), on=self.model, must=True)
        elif how == "lengths":
            self.refused(lambda: self.model.partial_fit(X, y[1:]), on=self.model, must=True)
        elif how == "nan":
            bad = np.full((len(y), D), np.nan, np.float32)
            self.refused(lambda: self.model.partial_fit(bad, y), on=self.model, must=True)
        elif how == "option":
            name, value = self.one(
                (("n_passes", 0), ("n_passes", 10**30), ("half_life", -1), ("half_life", 10**400), ("learning_rate", 0))
            )
            self.refused(lambda: self.model.partial_fit(X, y, **{name: value}), on=self.model, must=True)
        else:
            other = np.arange(len(y)) % 3 if self.several else np.eye(3, dtype=int)[np.arange(len(y)) % 3]
            self.refused(lambda: self.model.partial_fit(X, other), on=self.model, must=True)

    def is_set(self) -> None:
        """Set a parameter to what some estimators take; it stays where this one does."""
        name = self.one([name for name in SETTINGS if name in self.model.get_params(deep=False)])
        value = self.one(SETTINGS[name])
        self.note(f"{name}={value!r}")
        before = getattr(self.model, name)
        self.model.set_params(**{name: value})
        try:
            self.model.check_parameters()
        except REFUSALS:
            self.model.set_params(**{name: before})

    def is_set_wrong(self) -> None:
        """Set a parameter to what none takes: training and saving refuse it by its name, and nothing else changes."""
        name = self.one([name for name in WRONG if name in self.model.get_params(deep=False)])
        value = self.one(WRONG[name])
        self.note(name)
        before = getattr(self.model, name)
        X, y = self.data()
        self.model.set_params(**{name: value})
        try:
            for call in (
                lambda: self.model.fit(X, y),
                lambda: self.model.partial_fit(X, y, classes=None if self.fitted else np.unique(y)),
                lambda: self.model.save(self.folder / "wrong"),
            ):
                kept = copy.deepcopy(inside(self.model))
                error = self.error_of(call)
                assert error is not None, f"{name}={value!r} was taken"
                named = (name, "partial_fit", "not fitted", "compressed")
                assert any(word in str(error) for word in named), f"{name}={value!r}: {error}"
                assert_alike(inside(self.model), kept)
            assert not (self.folder / "wrong").exists()
        finally:
            self.model.set_params(**{name: before})

    def again(self, other: Any, *, same_parameters: bool = True) -> None:
        """Assert that another object is as this one, and learns on as it does."""
        if same_parameters:
            assert_alike(other.get_params(deep=False), self.model.get_params(deep=False))
        assert_alike(state_of(other), state_of(self.model))
        X, y = self.data()
        given = {"classes": np.arange(self.n_classes)} if self.several else {}
        one, two = copy.deepcopy(self.model), other
        if self.refused(lambda: one.partial_fit(X, y, **given), on=one):
            self.refused(lambda: two.partial_fit(X, y, **given), on=two, must=True)
        else:
            assert_alike(state_of(two.partial_fit(X, y, **given)), state_of(one))

    def is_saved(self) -> None:
        """Save and load; what was loaded, in memory or mapped, is the model from then on now and then."""
        path = self.folder / "model"
        if self.refused(lambda: self.model.save(path), on=self.model, must=not self.fitted):
            return
        loaded = manyclass.load(path, mmap=bool(self.rng.random() < 0.3))
        assert_alike(state_of(loaded), state_of(self.model))
        X = self.rows(5)
        np.testing.assert_array_equal(loaded.decision_function(X), self.model.decision_function(X))
        self.again(manyclass.load(path))
        if self.rng.random() < 0.5:
            self.model = loaded

    def is_pickled(self) -> None:
        """Pickle or copy it; the other one is the model from then on now and then."""
        other = pickle.loads(pickle.dumps(self.model)) if self.rng.random() < 0.5 else copy.deepcopy(self.model)
        if self.fitted:
            self.again(copy.deepcopy(other))
        if self.rng.random() < 0.5:
            self.model = other

    def is_compressed(self) -> None:
        """Compress it; what is made answers, is saved and loaded, and does not learn."""
        if not self.fitted:
            return
        given = {"dtype": self.one(("auto", "float16", "int8", "float32")), "prune": self.one((0.0, 0.0, 0.5))}
        made: list[Any] = []
        if self.refused(lambda: made.append(self.model.compress(**given)), on=self.model):
            return
        X = self.rows(7)
        made[0].save(self.folder / "small")
        loaded = manyclass.load(self.folder / "small")
        np.testing.assert_array_equal(loaded.decision_function(X), made[0].decision_function(X))
        if self.rng.random() < 0.2:
            self.model = made[0]

    def resumes(self) -> None:
        """A fit that a callback has ended, and that goes on from its checkpoint, ends as one without a break."""
        X, y = self.data()
        whole, broken, resumed = (copy.deepcopy(self.model) for _ in range(3))
        with tempfile.TemporaryDirectory(dir=self.folder) as checkpoint:
            how = {"checkpoint": checkpoint, "every": 1}
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", ConvergenceWarning)  # a callback would keep it from smaller steps
                    whole.fit(X, y)
                broken.fit(X, y, **how, callback=fail)
                return  # training diverged before there was anything to call
            except (*REFUSALS, ConvergenceWarning):
                return
            except BrokenError:
                assert_alike(inside(broken), inside(self.model))
            resumed.fit(X, y, **how, resume=True)
        if isinstance(whole.random_state, int):
            assert_alike(state_of(resumed), state_of(whole))
        self.model = resumed

    def answers(self) -> None:
        """Ask everything; answers are numbers, and the model stays as it is."""
        if not self.fitted:
            return
        model, X = self.model, self.rows(int(self.rng.integers(1, 9)))
        before = copy.deepcopy(state_of(model))
        n, classes = X.shape[0], model.classes_
        assert np.isfinite(model.decision_function(X)).all()
        k = int(self.rng.integers(1, len(classes) + 1))
        labels, scores = model.predict_top_k(X, k)
        assert np.isin(labels, classes).all()
        assert np.isfinite(scores).all()
        falling = scores.astype(float)  # scores may be those at the end of single precision
        assert (falling[:, :-1] >= falling[:, 1:] - 1e-5 * np.abs(falling[:, 1:])).all()
        wrong = [[classes[int(self.rng.integers(len(classes)))]] for _ in range(n)]
        others, _ = model.predict_top_k(X, k, exclude=wrong)
        assert all(one not in row.tolist() for (one,), row in zip(wrong, others, strict=True))
        if hasattr(model, "predict_proba"):
            log_p, p = model.predict_log_proba(X), model.predict_proba(X)
            assert not np.isnan(log_p).any()
            assert ((p >= 0) & (p <= 1 + 1e-6)).all()
            if not (self.several and model.calibration_):
                np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
                assert (np.exp(scores.astype(float)).sum(axis=1) <= 1 + 1e-5).all(), "ties do not share"
        if not self.several:
            y = classes[self.rng.integers(0, len(classes), n)]
            found = model.evaluate(X, y)
            assert all(np.isfinite(value) for value in found.values()), found
            if hasattr(model, "predict_proba"):
                own = -log_p[np.arange(n), np.searchsorted(classes, y)]
                # Scores are sums of floats: they round alike in both, but for blocks of a matrix product.
                np.testing.assert_allclose(found["log_loss"], own.mean(), rtol=1e-4, atol=1e-5)
            assert 0 <= model.score(X, y) <= 1
        assert len(model.predict(X)) == n if not self.several else model.predict(X).shape == (n, len(classes))
        assert_alike(state_of(model), before)

    def answers_wrong_questions(self) -> None:
        """Ask what cannot be answered."""
        X = self.rows(3)
        calls: list[Callable[[], Any]] = [
            lambda: self.model.predict(X[:, :-1]),
            lambda: self.model.predict_top_k(X, 0),
            lambda: self.model.predict_top_k(X, 10**30),
            lambda: self.model.predict_top_k(X, 2, exclude=[["no label"]]),
            lambda: self.model.predict(np.full((2, D), np.inf)),
            lambda: self.model.score(X, self.labels(4)),
            lambda: self.model.evaluate(X, self.labels(2)),
            lambda: self.model.predict(X.toarray()[0] if self.sparse else X[0]),
        ]
        self.refused(self.one(calls), on=self.model, must=True)

    def check(self) -> None:
        """Weights are finite, and fit the classes."""
        if not self.fitted:
            return
        for name, tensor in weight_tensors(self.model._weights).items():
            assert tensor.dtype.kind != "f" or np.isfinite(tensor).all(), f"{name} is not finite"
        n_classes = len(self.model.classes_)
        assert self.model.class_count_.shape == (n_classes,)
        assert self.model._weights.n_classes == n_classes
        assert np.isfinite(self.model.class_count_).all()


def state_of(model: Any) -> dict[str, Any]:
    """What a model is, without how it came to be, which files tell in part, and kept rows, which they leave out."""
    state = model._fitted
    found = {one.name: getattr(state, one.name) for one in fields(state) if one.name not in ("fit_report", "calls")}
    if state.squares is not None and not state.squares.saved():
        found["squares"] = None  # sums of nothing
    return found
