"""Files of each kind that manyclass 0.2 wrote: what is read from them stays; and files of versions to come."""

import json
import re
import warnings

import numpy as np
import pytest
from data.version_2 import make_files
from test_saved_models import rewrite

import manyclass
from manyclass.weights.tensor_file import open_tensors

EXPECTED = json.loads((make_files.FOLDER / "expected.json").read_text())
BROKEN = (
    "{file} was written by manyclass 0.2, and this version reads something else from it. Give what is new a "
    "format_version of its own and read this one as it was meant; the files of tests/data/version_2 stay as they are"
)
# What is computed from what is read are sums of a few floats, in another order on another processor.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
VERSIONED = [file for file in EXPECTED if file.partition("_")[0] in ("model", "index", "words", "checkpoint")]
# What later states of version 0.2 tell beside: the same of all classes of models.
MORE = {
    "model_margin.safetensors": {"automatic"},
    "model_posterior.safetensors": {"automatic", "labels"},
    "model_probit.safetensors": {"automatic", "labels"},
}
# Sums of squares of pairs, without which training goes on from 0.
SUMS = {"squares.values", "squares.intercept", "squares.offset"}
LINEAR = ("model_by_class", "model_by_feature", "model_dates", "model_hashed", "model_probit", "model_texts")
MORE_ARRAYS = {"model_hybrid.safetensors": SUMS, "model_pairs.safetensors": SUMS}
MORE_ARRAYS |= {f"{name}.safetensors": {"squares.features"} for name in LINEAR}
WARN = [file for file in VERSIONED if not file.startswith("checkpoint")]


def test_every_file_is_tested_and_small():
    suffixes = (".safetensors", ".txt", ".bin")
    files = {path.name: path.stat().st_size for path in make_files.FOLDER.iterdir() if path.suffix in suffixes}
    assert files.keys() == EXPECTED.keys()
    assert {file.partition("_")[0].partition(".")[0] for file in files} == make_files.READERS.keys()
    assert max(files.values()) < 5000
    models = [open_tensors(make_files.FOLDER / file) for file in files if file.startswith("model")]
    assert {file.metadata["format_version"] for file in models} == {"2", "3"}


def test_a_model_of_version_0_1_is_refused_by_name():
    file = make_files.FOLDER.parent / "version_1.safetensors"
    with pytest.raises(ValueError, match=r"has format version 1, written by manyclass 0\.1.*fit the model again"):
        manyclass.load(file)


@pytest.mark.parametrize("file", EXPECTED)
def test_what_is_read_from_a_file_of_version_0_2_stays(file):
    try:
        found = make_files.read(make_files.FOLDER / file)
    except ValueError as error:
        pytest.fail(f"{BROKEN.format(file=file)}: {error}")
    assert found.keys() == EXPECTED[file].keys()
    for name, expected in EXPECTED[file].items():
        compare = (
            np.testing.assert_allclose if np.asarray(found[name]).dtype.kind == "f" else np.testing.assert_array_equal
        )
        options = TOLERANCE if compare is np.testing.assert_allclose else {}
        compare(found[name], expected, err_msg=BROKEN.format(file=file), **options)


def test_the_script_writes_files_with_the_same_entries(tmp_path):
    """So a file of a kind that is written otherwise now is noticed; of another version, it is right that this fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_files.write_all(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == EXPECTED.keys()
    for file in VERSIONED:
        old, new = (open_tensors(folder / file) for folder in (make_files.FOLDER, tmp_path))
        assert old.entries.keys() | MORE_ARRAYS.get(file, set()) == new.entries.keys(), file
        assert old.metadata.keys() == new.metadata.keys(), file
        if file.startswith("model"):
            described = [json.loads(found.metadata["model"]) for found in (old, new)]
            assert described[0].keys() | MORE.get(file, set()) == described[1].keys(), file


def test_a_margin_of_a_file_without_what_was_chosen_goes_on_as_it_did():
    model = manyclass.load(make_files.FOLDER / "model_margin.safetensors").set_params(calibration=None)
    assert model.resolved_params_ == {}
    X, _, Y = make_files.problem()
    again = manyclass.load(make_files.FOLDER / "model_margin.safetensors")
    again.set_params(calibration=None, learning_rate=float(np.mean(np.sum(X.toarray() ** 2.0, axis=1))) ** -0.5)
    for one in (model, again):
        one.partial_fit(X, Y)
    np.testing.assert_allclose(model.coef_, again.coef_, **TOLERANCE)
    assert model.resolved_params_ == {}


@pytest.fixture
def copy(tmp_path):
    """A function that copies a file, changed as by a version to come, and returns its path."""

    def made(file, **change):
        path = tmp_path / file
        path.write_bytes((make_files.FOLDER / file).read_bytes())
        rewrite(path, **change)
        return path

    return made


def told(path, message):
    return f"{re.escape(str(path))}.*{message}"


@pytest.mark.parametrize("file", VERSIONED)
def test_a_file_of_a_newer_format_is_refused_with_the_version_that_wrote_it(file, copy):
    path = copy(file, metadata=lambda m: m | {"format_version": "9", "package_version": "7.1"})
    with pytest.raises(
        ValueError, match=told(path, "has format version 9, written by manyclass 7.1; .* reads versions")
    ):
        make_files.read(path)


@pytest.mark.parametrize("version", ["", "0", "one", "-1", "1.0", "9" * 5000, "\u0661"])
@pytest.mark.parametrize(
    "file", ["model_by_class.safetensors", "index_spherical.safetensors", "words_int8.safetensors"]
)
def test_a_file_without_a_version_is_damaged(file, version, copy):
    path = copy(file, metadata=lambda m: m | {"format_version": version})
    with pytest.raises(ValueError, match=told(path, "is damaged: its format_version is ")) as error:
        make_files.read(path)
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("file", WARN)
def test_what_a_newer_version_adds_is_left_unread_with_a_warning(file, copy):
    """What may be added without a new version of the format: arrays that an older version can do without."""
    path = copy(file, tensors=lambda t: t | {"zeta": np.zeros(3)}, metadata=lambda m: m | {"package_version": "0.3"})
    message = "has 'zeta', which this manyclass .* does not know and leaves unread; it was written by manyclass 0.3"
    with pytest.warns(UserWarning, match=told(path, message)):
        found = make_files.read(path)
    for name, expected in make_files.read(make_files.FOLDER / file).items():
        np.testing.assert_array_equal(found[name], expected)


def test_a_description_that_a_newer_version_adds_is_left_unread_with_a_warning(copy):
    def add(metadata):
        return metadata | {"model": json.dumps(json.loads(metadata["model"]) | {"mood": 3}), "package_version": "0.3"}

    path = copy("model_by_class.safetensors", metadata=add)
    with pytest.warns(UserWarning, match=told(path, "has 'mood', which this manyclass .* by manyclass 0.3")):
        manyclass.load(path)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("file", EXPECTED)
def test_files_of_today_are_read_without_a_warning(file):
    if not file.startswith("checkpoint"):  # a few passes are no training
        make_files.read(make_files.FOLDER / file)
