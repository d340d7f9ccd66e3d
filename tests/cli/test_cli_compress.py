"""The command `manyclass compress`: a small file of a model, and what it has lost."""

import os
import re

import numpy as np
import pytest
from test_command import run, the_error, write_data

import manyclass
from manyclass.classifiers.saving import load_notes


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m"
    data = write_data(tmp_path / "data.txt")
    run("fit", data, "--output", path, "--solver", "implicit", "--max-iter", 2, "--random-state", 0, "--normalize")
    return path


def test_a_file_is_written_and_what_was_lost_is_told(model, tmp_path, capsys):
    before, out = model.read_bytes(), tmp_path / "small"
    capsys.readouterr()
    run("compress", model, "--output", out, "--dtype", "int8", "--test", tmp_path / "data.txt")
    told = capsys.readouterr().out
    small = manyclass.load(out)
    assert small.storage() == manyclass.load(model).compress("int8").storage()
    assert load_notes(out) == load_notes(model)
    assert small.n_jobs == manyclass.load(model).n_jobs
    assert model.read_bytes() == before
    losses = [float(found) for found in re.findall(r"^log loss +([\d.]+) nats", told, re.MULTILINE)]
    losses = losses or [float(found) for found in re.findall(r"log.loss +([\d.]+)", told)]
    assert len(losses) == 2
    assert abs(losses[0] - losses[1]) < 0.01
    assert told.count("P@1") == 2
    assert f"{os.path.getsize(out) / 1e6:.2f} MB" in told
    run("info", out)
    assert "int8" in capsys.readouterr().out


def test_a_file_is_at_most_as_large_as_asked_for(tmp_path):
    data, model, out = write_data(tmp_path / "many.txt", 800, n_classes=400), tmp_path / "m", tmp_path / "small"
    run("fit", data, "--output", model, "--model", "linear", "--max-iter", 1, "--random-state", 0)
    for size, most in (("16kB", 16_000), ("13000", 13_000), ("12500", 12_500)):
        assert os.path.getsize(model) > most
        run("compress", model, "--output", out, "--max-bytes", size)
        assert os.path.getsize(out) <= most
    run("predict", out, data, "--output", tmp_path / "labels.txt")
    assert (tmp_path / "labels.txt").read_text()


def test_names_of_labels_and_words_are_kept(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("__label__tea green leaves\n__label__milk white cows\n" * 20)
    run("fit", tmp_path / "a.txt", "--output", tmp_path / "m", "--random-state", 0)
    run("compress", tmp_path / "m", "--output", tmp_path / "s", "--dtype", "float16")
    small = manyclass.load(tmp_path / "s")
    assert small.predict(small.vectorizer_.transform(["green leaves", "cows"])).tolist() == ["tea", "milk"]
    np.testing.assert_array_equal(small.vectorizer_.idf_, manyclass.load(tmp_path / "m").vectorizer_.idf_)


def test_errors_are_one_line_and_write_nothing(model, tmp_path, capsys):
    out = tmp_path / "small"
    capsys.readouterr()
    for arguments, told in (
        (("--max-bytes", "ten"), "max_bytes is 'ten'; it must be a number of bytes"),
        (("--max-bytes", "700"), "nothing fits"),
        (("--prune", "1.5"), "prune is 1.5; it must be below 1"),
        (("--dtype", "int4"), "int4"),
    ):
        assert told in the_error(capsys, "compress", model, "--output", out, *arguments)
        assert not out.exists()
    run("compress", model, "--output", out)
    capsys.readouterr()
    told = the_error(capsys, "learn", out, tmp_path / "data.txt")
    assert "partial_fit needs the weights that were trained" in told
