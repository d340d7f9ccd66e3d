"""Saved models: the round trip, the container, what a damaged or foreign file is told, and a failure while saving."""

import copy
import datetime
import json
import os
import pickle
import stat
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from reference.states import renamed
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models, samplers, solvers
from manyclass.classifiers.predictions import with_state
from manyclass.classifiers.saving import load_notes, save_model
from manyclass.parts import Part
from manyclass.weights import tensor_file


def problem(*, sparse=True, n_classes=37, n_features=11, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4 * n_classes, n_features)).astype(np.float32)
    X[rng.random(X.shape) < 0.5] = 0
    return (sp.csr_array(X) if sparse else X), np.tile(np.arange(n_classes), 4)


def fitted(*, sparse=True, labels=None, **parameters):
    X, y = problem(sparse=sparse)
    if labels is not None:
        y = labels[y]
    return SoftmaxClassifier(max_iter=2, random_state=3, **parameters).fit(X, y), X


def rewrite(path, *, tensors=lambda t: t, metadata=lambda m: m):
    """Write the file anew by the library of the format, with changed arrays or header."""
    with safe_open(path, framework="numpy") as file:
        header = file.metadata()
    save_file(tensors(load_file(path)), path, metadata(header))


EAST = datetime.timezone(datetime.timedelta(hours=5, minutes=30, microseconds=7))


def _objects(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


OBJECTS = {
    "decimal": _objects([Decimal(i).scaleb(i - 20) for i in range(37)]),
    "integer": _objects([10**30 * i - 10**31 for i in range(37)]),
    "uuid": _objects([UUID(int=i << 90) for i in range(37)]),
    "time": _objects([datetime.datetime(2026, 1, 1, 0, 0, 0, i, tzinfo=EAST) for i in range(37)]),
}
LABELS = {
    **OBJECTS,
    "int64": np.arange(37) * 3 - 50,
    "uint8": np.arange(37, dtype=np.uint8),
    "big_endian": np.arange(37, dtype=">i4"),
    "float32": np.arange(37, dtype=np.float32),
    "date": np.datetime64("1969-12-01", "D") + np.arange(37) * np.timedelta64(2, "D"),
    "text": np.array([f"käse {i}\U0001f9c0\0!" for i in range(36)] + [""]),
    "object": np.array([f"w{i}" for i in range(35)] + ["", "\ud800"], dtype=object),
}


def test_unpickled_weights_begin_at_a_cache_line():
    model, X = fitted(model="embedding", dim=5)
    for _ in range(3):  # memory that is aligned by chance is not aligned each time
        model = pickle.loads(pickle.dumps(model))
        for array in (model._weights.matrix, model._weights.embeddings):
            assert array.ctypes.data % 64 == 0
    np.testing.assert_array_equal(model.predict(X), fitted(model="embedding", dim=5)[0].predict(X))


@pytest.mark.filterwarnings("ignore:the best learning rate")  # labels at random have none
@pytest.mark.parametrize("options", [{}, {"early_stopping": True}, {"learning_rate": "grid"}])
def test_a_loaded_model_knows_what_was_chosen_for_it(tmp_path, options):
    model, _ = fitted(sparse=True, **options)
    rates = {**model.learning_rate_table_, 1e9: np.inf}  # a trial that diverged
    model._taken(model._fitted.with_report(rates=rates))
    model.save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m")
    for name in ("alpha_path_", "learning_rate_table_", "best_iter_"):
        assert getattr(loaded, name) == getattr(model, name)
    assert repr(loaded.resolved_params_) == repr(model.resolved_params_)
    assert loaded.resolved_params_["solver"].name == "exact"
    assert "auto" not in loaded.resolved_params_["solver"].get_params().values()
    np.testing.assert_array_equal(loaded.validation_curve_, model.validation_curve_, strict=True)


@pytest.mark.parametrize("given", [{}, {"sampler": "uniform"}, {"model": "embedding"}], ids=str)
def test_a_loaded_margin_knows_what_was_chosen_for_it_and_goes_on_by_it(tmp_path, given):
    X, y = problem()
    model = MarginClassifier(max_iter=2, random_state=3, **given).fit(X, y)
    model.save(tmp_path / "m")
    copies = manyclass.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))
    model.partial_fit(3 * X, y)
    for one in copies:
        assert repr(one.resolved_params_) == repr(model.resolved_params_)
        assert one.resolved_params_["learning_rate"] > 0
        one.partial_fit(3 * X, y)
        np.testing.assert_array_equal(one.coef_, model.coef_)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_loaded_model_predicts_bit_for_bit_the_same(tmp_path, sparse, mmap):
    model, X = fitted(sparse=sparse, n_negatives=np.int64(8), learning_rate=np.float32(0.3))
    model.save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m", mmap=mmap)
    np.testing.assert_array_equal(loaded.predict_log_proba(X), model.predict_log_proba(X), strict=True)
    np.testing.assert_array_equal(loaded.predict_top_k(X, 5)[0], model.predict_top_k(X, 5)[0], strict=True)
    for name in ("coef_", "intercept_", "classes_", "loss_curve_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name), strict=True)
    assert (loaded.n_iter_, loaded.n_features_in_) == (model.n_iter_, model.n_features_in_)
    assert loaded.get_params() == model.get_params()
    assert not hasattr(loaded, "feature_names_in_")
    # A kind of data other than that of the fit takes another way to the weights.
    other = X.toarray() if sparse else sp.csr_array(X)
    np.testing.assert_array_equal(loaded.predict_log_proba(other), model.predict_log_proba(other))


PARTS = {
    "linear": {"solver": solvers.UMax(delta=2.5, decay=0.7), "sampler": samplers.Frequency(power=np.float64(0.25))},
    "heads": {"solver": solvers.Implicit(u_learning_rate="tied"), "sampler": samplers.HeadTail(n_head=np.int64(3))},
    "full batch": {"solver": solvers.LBFGS(tol=1e-3), "alpha": 0.1},
    "embedding": {"model": models.Embedding(activation="relu"), "dim": 3, "solver": solvers.Adagrad(batch_size=4)},
    "search": {"solver": solvers.Adagrad(log_q=False), "sampler": samplers.Search(index="decomposed", budget=4)},
}


@pytest.mark.filterwarnings("ignore:L-BFGS made")
@pytest.mark.parametrize("kind", PARTS)
def test_parts_come_back_as_objects_with_their_parameters(tmp_path, kind):
    model, X = fitted(**PARTS[kind])
    model.save(tmp_path / "m")
    with safe_open(tmp_path / "m", framework="numpy") as file:
        metadata = file.metadata()
    assert metadata["format_version"] == "2"
    loaded = manyclass.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_log_proba(X), model.predict_log_proba(X), strict=True)
    for name in PARTS[kind]:
        found, given = getattr(loaded, name), PARTS[kind][name]
        assert type(found) is type(given)
        if isinstance(given, Part):
            assert found.get_params() == given.get_params()
    assert repr(loaded.resolved_params_) == repr(model.resolved_params_)
    # What was loaded trains what was saved.
    np.testing.assert_array_equal(clone(loaded).fit(X, problem()[1]).coef_, model.coef_)


def test_an_index_given_as_an_example_is_saved_by_its_name(tmp_path):
    index = manyclass.SphericalClusterIndex(n_clusters=3)
    model, _ = fitted(sampler=samplers.Search(index=index, budget=5))
    model.save(tmp_path / "m")
    assert manyclass.load(tmp_path / "m").sampler.get_params() == samplers.Search(index="mips", budget=5).get_params()


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_come_back_with_their_dtype(tmp_path, kind):
    model, X = fitted(labels=LABELS[kind])
    model.save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m")
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X), strict=True)
    assert loaded.classes_.tolist() == model.classes_.tolist()


def test_boolean_labels_come_back(tmp_path):
    X = np.eye(2, dtype=np.float32)
    SoftmaxClassifier(random_state=0).fit(X, [True, False]).save(tmp_path / "m")
    assert manyclass.load(tmp_path / "m").predict(X).tolist() == [True, False]


def test_names_of_features_come_back(tmp_path):
    X, y = problem(sparse=False)
    frame = pd.DataFrame(X, columns=[f"größe {j}" for j in range(X.shape[1])])
    model = SoftmaxClassifier(max_iter=1, random_state=0).fit(frame, y)
    model.save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.feature_names_in_, model.feature_names_in_, strict=True)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"größe 0": "other"}))


def test_a_mapped_model_is_read_only_and_can_be_fitted_anew(tmp_path):
    model, X = fitted()
    model.save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m", mmap=True)
    assert not loaded.coef_.flags.writeable
    assert loaded.coef_.ctypes.data % 64 == 0  # the kernels read whole cache lines
    before = (tmp_path / "m").read_bytes()
    y = problem()[1]
    np.testing.assert_array_equal(loaded.fit(X, y).coef_, model.coef_)
    assert (tmp_path / "m").read_bytes() == before
    assert manyclass.load(tmp_path / "m").coef_.flags.writeable


def test_the_library_of_the_format_reads_the_file(tmp_path):
    model, _ = fitted(labels=LABELS["text"])
    model.save(tmp_path / "m")
    arrays = load_file(tmp_path / "m")
    np.testing.assert_array_equal(arrays["weights"], model._weights.matrix, strict=True)
    np.testing.assert_array_equal(arrays["intercept"], model.intercept_, strict=True)
    with safe_open(tmp_path / "m", framework="numpy") as file:
        metadata = file.metadata()
    assert (metadata["format"], metadata["package_version"]) == ("manyclass model", manyclass.__version__)
    assert json.loads(metadata["model"])["parameters"]["solver"] == "auto"
    assert b"pickle" not in (tmp_path / "m").read_bytes()


def test_a_file_that_the_library_of_the_format_wrote_loads(tmp_path):
    model, X = fitted()
    model.save(tmp_path / "m")
    rewrite(tmp_path / "m")
    for mmap in (False, True):
        loaded = manyclass.load(tmp_path / "m", mmap=mmap)
        np.testing.assert_array_equal(loaded.predict_log_proba(X), model.predict_log_proba(X))


def test_saving_and_mapping_copy_no_weights_and_loading_copies_them_once(tmp_path):
    model = SoftmaxClassifier(max_iter=1, n_negatives=1, random_state=0)
    model.fit(sp.csr_array(([1.0, 1.0], ([0, 1], [0, 1])), shape=(2, 1 << 18)), [0, 1])
    size = model._weights.matrix.nbytes  # 16 MiB: two classes take a cache line
    peaks = []
    for step in (
        lambda: model.save(tmp_path / "m"),
        lambda: manyclass.load(tmp_path / "m", mmap=True),
        lambda: manyclass.load(tmp_path / "m"),
    ):
        tracemalloc.start()
        step()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    features = model._state.squares.features.nbytes
    slack = features + (1 << 20)  # and Python's own small objects and file buffers
    assert peaks[0] < slack
    assert peaks[1] < slack
    assert peaks[2] < size + slack


def test_a_generator_as_random_state_is_saved_as_none(tmp_path):
    model = fitted()[0].set_params(random_state=np.random.RandomState(0))
    model.save(tmp_path / "m")
    assert manyclass.load(tmp_path / "m").random_state is None


@pytest.mark.parametrize("kind", [SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier])
def test_a_process_that_has_named_no_class_loads_a_model(tmp_path, kind):
    X, y = problem()
    kind(max_iter=1).fit(X, y).save(tmp_path / "m")
    code = "import sys, manyclass; print(type(manyclass.load(sys.argv[1])).__name__)"
    told = subprocess.run([sys.executable, "-c", code, tmp_path / "m"], capture_output=True, text=True, check=False)
    assert told.stdout == f"{kind.__name__}\n", told.stderr


@pytest.mark.parametrize("kind", OBJECTS)
def test_labels_that_are_objects_keep_their_type_and_learn_on(tmp_path, kind):
    model, X = fitted(labels=OBJECTS[kind])
    model.save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m")
    for found, label in zip(loaded.classes_.tolist(), model.classes_.tolist(), strict=True):
        assert type(found) is type(label)
        assert repr(found) == repr(label)  # of a Decimal its digits, of a time its offset
    y = OBJECTS[kind][problem()[1]]
    np.testing.assert_array_equal(loaded.partial_fit(X, y).coef_, model.partial_fit(X, y).coef_)
    assert loaded.score(X, y) == model.score(X, y)


@pytest.mark.parametrize("text", ["x", "", "nan", "sNaN", "1e", "9" * 5000, "2026-01-01", "\ud800"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_of_a_damaged_file_are_told_so(tmp_path, kind, text):
    fitted(labels=OBJECTS[kind])[0].save(tmp_path / "m")

    def changed(tensors):
        return {**tensors, **tensor_file.encode_text("classes", [text, *map(str, range(36))])}

    rewrite(tmp_path / "m", tensors=changed)
    with pytest.raises(ValueError, match="m is damaged: "):
        manyclass.load(tmp_path / "m")


HELSINKI = ZoneInfo("Europe/Helsinki")
UNWRITABLE = {
    "zones": (
        [datetime.datetime(2026, 1, day, tzinfo=HELSINKI) for day in (1, 2)],
        "of type datetime; .*makes them strings",
    ),
    "pandas": (pd.date_range("2026-01-01", periods=2, tz="Europe/Helsinki").tolist(), "of type Timestamp"),
    "mixed": ([1, Decimal("2.5")], "of type int"),
}


@pytest.mark.parametrize("kind", UNWRITABLE)
def test_labels_that_cannot_be_saved_are_refused_before_a_training_with_checkpoints(tmp_path, kind):
    labels, told = UNWRITABLE[kind]
    X, y = problem()
    y = _objects(labels)[y % 2]
    model, passes = SoftmaxClassifier(solver="implicit", max_iter=2, random_state=0), []
    with pytest.raises(TypeError, match=f"a label is .*{told}"):
        model.fit(X, y, checkpoint=tmp_path / "c", callback=passes.append)
    assert not passes
    assert not list(tmp_path.glob("c/*"))
    model.fit(X, y, callback=passes.append)  # what is not to be written may have any labels
    assert len(passes) == 2
    with pytest.raises(TypeError, match=f"a label is .*{told}"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
    assert set(model.predict(X).tolist()) <= set(labels)


def test_notes_come_back(tmp_path):
    save_model(fitted()[0], tmp_path / "m", {"normalize": True})
    assert load_notes(tmp_path / "m") == {"normalize": True}
    fitted()[0].save(tmp_path / "m")
    assert load_notes(tmp_path / "m") == {}


def test_what_the_format_lacks_is_refused_before_anything_is_written(tmp_path):
    model, _ = fitted()
    path = tmp_path / "m"
    with pytest.raises(NotFittedError):
        clone(model).save(path)
    with pytest.raises(TypeError, match=r"learning_rate is \[1\]; it must be a number"):
        pickle.loads(pickle.dumps(model)).set_params(learning_rate=[1]).save(path)
    with pytest.raises(TypeError, match="of type complex; only booleans"):
        _with_classes(model, model.classes_.astype(complex)).save(path)
    with pytest.raises(TypeError, match=r"a label is \(0, 1\), of type tuple; only booleans"):
        _with_classes(model, _objects([(0, 1), (0, 2)])).save(path)
    with pytest.raises(TypeError, match=r"model is a Sub; it must be one of .*MarginClassifier, SoftmaxClassifier"):
        type("Sub", (SoftmaxClassifier,), {})(max_iter=1).fit(*problem()).save(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_iter", -5), ("solver", "newton"), ("sampler", "x"), ("n_negatives", 0), ("model", "z"), ("dim", -1)),
        *(("alpha", -1), ("learning_rate", 10**400), ("early_stopping", "no"), ("validation_fraction", 2)),
        *(("n_iter_no_change", -1), ("class_weight", "foo"), ("fit_intercept", "no"), ("n_jobs", 0)),
        *(("random_state", "a"), ("verbose", "x"), ("calibration", "x"), ("n_models", 0), ("warm_start", "maybe")),
    ],
)
def test_parameters_that_load_would_refuse_are_not_saved(tmp_path, name, value):
    model, _ = fitted()
    model.set_params(**{name: value})
    with pytest.raises((ValueError, TypeError), match=name):
        model.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def _with_classes(model, classes):
    return renamed(pickle.loads(pickle.dumps(model)), classes)


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
def test_a_failure_while_saving_leaves_the_old_file(tmp_path, monkeypatch, failing):
    model, _ = fitted()
    model.save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()

    def fail(*_):
        raise OSError("no space left")

    if failing == "write":
        weights = replace(model._weights, bias=_FailsWhenRead(model._weights.bias))
        model = with_state(copy.copy(model), replace(model._fitted, weights=weights))
    else:
        monkeypatch.setattr(tensor_file.os, failing, fail)
    with pytest.raises(OSError, match="no space left"):
        model.save(tmp_path / "m")
    assert os.listdir(tmp_path) == ["m"]
    assert (tmp_path / "m").read_bytes() == before


class _FailsWhenRead(np.ndarray):
    """An array that fails when its bytes are asked for, which is after the weights have been written."""

    def __new__(cls, array):
        return array.view(cls)

    def reshape(self, *_args, **_kwargs):
        raise OSError("no space left")


def test_a_new_file_has_the_mode_of_the_old_one_or_that_of_any_new_file(tmp_path):
    model, _ = fitted()
    (tmp_path / "other").touch()
    model.save(tmp_path / "m")
    mode = stat.S_IMODE((tmp_path / "m").stat().st_mode)
    assert mode == stat.S_IMODE((tmp_path / "other").stat().st_mode)
    (tmp_path / "m").chmod(0o600)
    model.save(tmp_path / "m")
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o600


def test_a_link_stays_a_link(tmp_path):
    model, X = fitted()
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    np.testing.assert_array_equal(manyclass.load(tmp_path / "real").predict(X), model.predict(X))


def test_pickle_joblib_and_clone_work_on_fitted_and_mapped_models(tmp_path):
    model, X = fitted()
    model.save(tmp_path / "m")
    expected = model.predict_log_proba(X)
    for original in (model, manyclass.load(tmp_path / "m", mmap=True)):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(original)).predict_log_proba(X), expected)
        joblib.dump(original, tmp_path / "j")
        np.testing.assert_array_equal(joblib.load(tmp_path / "j").predict_log_proba(X), expected)
        np.testing.assert_array_equal(joblib.load(tmp_path / "j", mmap_mode="r").predict_log_proba(X), expected)
        fresh = clone(original)
        assert fresh.get_params() == original.get_params()
        with pytest.raises(NotFittedError):
            fresh.predict(X)
