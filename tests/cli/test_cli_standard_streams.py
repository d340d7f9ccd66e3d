"""The command where its streams are closed or of another encoding, and where it writes to what is no file."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from test_command import K, run, write_data

import manyclass
from manyclass import SoftmaxClassifier, load_xmc
from manyclass.datasets import first_label
from manyclass.training.passes import progress_bar
from manyclass.weights.tensor_file import replacing

COMMAND = f"{sys.executable} -m manyclass"


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data.txt")


@pytest.fixture
def named(tmp_path, data):
    """A model whose labels are no ASCII."""
    X, Y = load_xmc(data)
    names = np.array([f"naïve {k}" for k in range(K)])
    SoftmaxClassifier(max_iter=2, random_state=0).fit(X, names[first_label(Y)]).save(tmp_path / "m")
    return tmp_path / "m"


def shell(line, **environment):
    return subprocess.run(["sh", "-c", line], env=os.environ | environment, capture_output=True, check=False)


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-"])
def test_a_model_is_written_where_streams_are_closed(closed, tmp_path, data):
    done = shell(f"{COMMAND} fit {data} --output {tmp_path}/m --max-iter 2 --progress {closed}")
    assert done.returncode == 0
    assert manyclass.load(tmp_path / "m").n_iter_ == 2
    assert (done.stdout == b"") == (">&- " in closed)


def test_stdin_that_is_closed_is_told(named):
    done = shell(f"{COMMAND} predict {named} - <&-")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"manyclass: error: stdin is closed" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "utf-16"])
@pytest.mark.parametrize("command", ["predict {} {} -k 1", "info {}"])
def test_results_are_utf_8_whatever_the_terminal_is(encoding, command, named, data):
    done = shell(f"{COMMAND} {command.format(named, data)}", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "naïve" in done.stdout.decode("utf-8")


def test_a_file_whose_name_is_no_text_is_told_by_its_bytes(tmp_path, data):
    done = shell(f"{COMMAND} fit {data} --output {tmp_path}/$(printf 'm\\377') --max-iter 1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert os.fsencode(tmp_path) + b"/m\xff (" in done.stdout


# Outputs that are no files


COMMANDS = {
    "fit": ("fit", "data.txt", "--max-iter", 1),
    "predict": ("predict", "m", "data.txt", "-k", 1),
    "embed": ("embed", "m", "--classes"),
    "skipgram": ("skipgram", "words", "--min-count", 1, "--dim", 2, "--max-iter", 1, "--sample", 0),
}


@pytest.fixture
def pipe(tmp_path):
    """A named pipe, and what was written to it once it is asked for."""
    os.mkfifo(tmp_path / "pipe.npy")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe.npy").read_bytes()))
    reader.start()

    def read():
        reader.join()
        return found[0]

    return tmp_path / "pipe.npy", read


@pytest.mark.parametrize("command", COMMANDS)
def test_a_device_or_a_pipe_is_written_to_and_stays(command, tmp_path, named, pipe, monkeypatch):
    """As root, a rename would put a regular file in the place of /dev/null."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").write_text("the ant and the bee and the cow\n" * 20)
    path, read = pipe
    for place in (os.devnull, path):
        run(*COMMANDS[command], "--output", place)
        assert os.path.exists(place)
        assert not os.path.isfile(place)
    assert len(read()) > 50


def test_stdout_can_be_named_as_a_file(named, data):
    done = shell(f"{COMMAND} predict {named} {data} -k 1 --output /dev/stdout")
    assert (done.returncode, done.stderr, done.stdout.count(b"\n")) == (0, b"", 240)


def test_an_array_goes_through_a_pipe(tmp_path, named, pipe):
    path, read = pipe
    run("embed", named, "--classes", "--output", path)
    run("embed", named, "--classes", "--output", tmp_path / "file.npy")
    assert read() == (tmp_path / "file.npy").read_bytes()
    np.testing.assert_array_equal(np.load(tmp_path / "file.npy"), manyclass.load(named).coef_, strict=True)


def test_a_file_is_replaced_still(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(TypeError), replacing(tmp_path / "link") as file:
        file.write("no bytes")
    assert (tmp_path / "a").read_text() == "old"
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


# Progress in a program


class NoTerminal:
    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self): ...


@pytest.mark.parametrize("stderr", [None, NoTerminal()])
def test_progress_needs_no_terminal(stderr, data, monkeypatch):
    monkeypatch.setattr("manyclass.training.passes.DELAY", 0)
    X, Y = load_xmc(data)
    monkeypatch.setattr(sys, "stderr", stderr)
    model = SoftmaxClassifier(solver="implicit", max_iter=2, verbose=1).fit(X, first_label(Y))
    progress_bar(3, unit="row").close()
    assert model.n_iter_ == 2
    assert stderr is None or "pass 2/2" in stderr.text
