"""The command that serves a model, and the index that it builds for approximate answers."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from test_approximate_answers import model_of as clustered_model
from test_approximate_answers import points
from test_approximate_answers import small as small  # a fixture: few classes are searched as if they were many
from test_serving import as_told, ask, fitted, labels_of, limited, post, serving
from test_serving import dense as dense  # fixtures
from test_serving import server as server

from manyclass import MarginClassifier
from manyclass.classifiers.predictions import build_index
from manyclass.classifiers.saving import save_model
from manyclass.cli import main
from manyclass.datasets import TextVectorizer, l2_normalize
from manyclass.search import class_index
from manyclass.serving.predictor import Predictor
from manyclass.serving.server import Server

# Approximate answers


def test_approximate_answers_are_those_of_the_tuned_index(small):
    model, rng = clustered_model(0)
    X, tuned_by = points(rng, 8), points(rng, 200)
    limits = limited()
    predictor = Predictor(model, limits, 5)
    predictor.build_index(tuned_by, 0.9)
    model.predict_top_k(tuned_by, 5, approximate=True, recall=0.9)
    labels, scores = model.predict_top_k(X, 5, approximate=True, recall=0.9)
    with serving(Server("127.0.0.1", 0, lambda: (predictor, {}), limits)) as server:
        asked = {"rows": X.tolist(), "approximate": True}
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: post(server, asked), range(8)))
        assert found == [(200, as_told(labels, scores))] * 8
        assert post(server, {**asked, "k": 2}) == (200, as_told(labels[:, :2], scores[:, :2]))
        assert (
            "k, with approximate, is 6; it must be at least 1 and at most 5"
            in post(server, {**asked, "k": 6})[1]["error"]
        )
        assert "leave one of them out" in post(server, {**asked, "exclude": [[]] * 8})[1]["error"]
        exact = as_told(*model.predict_top_k(X, 6))
        assert post(server, {"rows": X.tolist(), "k": 6}) == (200, exact)


def test_an_index_that_is_of_no_use_is_not_built(small, monkeypatch):
    model, rng = clustered_model(0)
    with pytest.raises(ValueError, match="there are 127 rows to tune the index of approximate answers; it needs 128"):
        build_index(model, points(rng, 127), 5, 0.9)
    margin = MarginClassifier(max_iter=1, random_state=0).fit(points(rng, 90), labels_of(90))
    with pytest.raises(ValueError, match="need the probabilities of a softmax; a margin has none"):
        build_index(margin, points(rng, 200), 5, 0.9)
    monkeypatch.setattr(class_index, "slower", lambda weights, x, probes, recall: "slow" if probes else "")
    with pytest.raises(ValueError, match="approximate answers are of no use: slow"):
        build_index(model, points(rng, 200), 5, 0.9)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="the model has 300 classes; approximate answers are for more than 4096"):
        build_index(model, points(rng, 200), 5, 0.9)


# The command


def answered(monkeypatch, capsys, *argv, code=0, asks=lambda server: None):
    """What `asks` makes of the server that a command starts, and what the command prints."""
    found = []

    def at_once(server, ready, n_workers):  # as if a signal came once it has answered
        with serving(server):
            ready()
            found.append(asks(server))
        return True

    monkeypatch.setattr(Server, "run_until_signal", at_once)
    assert main(["serve", *map(str, argv)]) == code
    out, err = capsys.readouterr()
    return found[0] if found else None, out, err


def test_the_command_serves_texts_as_they_were_read_in_the_fit(tmp_path, monkeypatch, capsys):
    model, texts = fitted("text")
    save_model(model, tmp_path / "m", {"form": "text", "normalize": True})

    def asks(server):
        return server.url, post(server, {"row": texts[0]}), json.loads(ask(server, path="/info")[2])

    (url, told, info), out, err = answered(monkeypatch, capsys, tmp_path / "m", "--port", 0, "-k", 2, asks=asks)
    expected = as_told(*model.predict_top_k(l2_normalize(model.vectorizer_.transform(texts[:1])), 2))
    assert told == (200, expected)
    assert (out, err) == (url + "\n", "")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    main(["info", str(tmp_path / "m"), "--json"])
    shown = json.loads(capsys.readouterr().out)
    own = info.pop("serving")
    assert info == shown
    assert (own["k"], own["texts"], own["approximate"], own["max_bytes"]) == (2, True, False, 8 << 20)


def test_the_command_tunes_an_index_by_rows_of_a_file(small, tmp_path, monkeypatch, capsys):
    model, rng = clustered_model(0)
    model.save(tmp_path / "m")
    X = points(rng, 200)
    lines = ["0 " + " ".join(f"{j}:{value}" for j, value in enumerate(row)) for row in X]
    (tmp_path / "rows").write_text("\n".join(["200 10 300", *lines]) + "\n")
    argv = [tmp_path / "m", "--port", 0, "--approximate", tmp_path / "rows", "--recall", 0.9]
    told, _, err = answered(
        monkeypatch, capsys, *argv, asks=lambda s: post(s, {"rows": X[:3].tolist(), "approximate": True})
    )
    model.predict_top_k(X, 5, approximate=True, recall=0.9)
    assert told == (200, as_told(*model.predict_top_k(X[:3], 5, approximate=True, recall=0.9)))
    assert err == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--port", "70000"], "port is 70000; it must be at least 0 and at most 65535"),
        (["--max-rows", "0"], "max_rows is 0; it must be more than 0"),
        (["--timeout", "0"], "timeout is 0.0; it must be finite, more than 0"),
        (["--recall", "0.9"], "--recall has no effect without --approximate"),
        (["-k", "200"], "k is 200; it must be at least 1 and at most 100"),
        (["--host", "256.0.0.1"], "256.0.0.1, port 0: "),
    ],
)
def test_what_cannot_be_served_is_an_error_of_one_line(dense, tmp_path, monkeypatch, capsys, options, message):
    dense[0].save(tmp_path / "m")
    options = options if "--port" in options else [*options, "--port", "0"]
    _, out, err = answered(monkeypatch, capsys, tmp_path / "m", *options, code=2)
    assert out == ""
    assert err.startswith(f"manyclass: error: {message}")
    assert err.count("\n") == 1


def test_an_address_of_ipv6_is_served(dense):
    limits = limited()
    try:
        made = Server("::1", 0, lambda: (Predictor(dense[0], limits, 5), {}), limits)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with serving(made) as server:
        assert re.fullmatch(r"http://\[::1\]:\d+", server.url)
        assert ask(server)[0] == 200


def test_a_port_in_use_is_told(server, dense, tmp_path, monkeypatch, capsys):
    dense[0].save(tmp_path / "m")
    port = server.server_address[1]
    _, _, err = answered(monkeypatch, capsys, tmp_path / "m", "--port", port, code=2)
    assert err.startswith(f"manyclass: error: 127.0.0.1, port {port}: Address already in use")


def test_without_the_extra_the_command_names_it_and_has_help(dense, tmp_path):
    dense[0].save(tmp_path / "m")
    code = "import sys; sys.modules['uvicorn'] = None; from manyclass.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "serve"]
    done = subprocess.run([*command, tmp_path / "m"], capture_output=True, text=True, check=False)
    told = "manyclass: error: the server needs uvicorn: pip install 'manyclass[serve]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)
    assert subprocess.run([*command, "--help"], capture_output=True, check=False).returncode == 0


def test_a_threshold_leaves_labels_out(dense, tmp_path, monkeypatch, capsys):
    dense[0].save(tmp_path / "m")
    X = dense[1][:3].tolist()
    answer, _, _ = answered(
        monkeypatch,
        capsys,
        *(tmp_path / "m", "--port", 0, "--threshold", 0.2),
        asks=lambda s: [post(s, {"rows": X, **more})[1] for more in ({}, {"threshold": 0}, {"threshold": 2})],
    )
    probabilities = [row["probabilities"] for row in answer[1]["predictions"]]
    assert [row["probabilities"] for row in answer[0]["predictions"]] == [
        [p for p in row if p > 0.2] for row in probabilities
    ]
    assert sum(map(len, probabilities)) == 15
    assert answer[2]["error"] == "threshold is 2; it must be finite, at least 0 and at most 1"


def test_terms_of_texts_are_counted_before_they_are_made():
    model, _ = fitted("text")
    predictor = Predictor(model, limited(max_terms=1000), 2)
    body = json.dumps({"rows": ["word " * 100] * 8}).encode()
    with pytest.raises(ValueError, match="the texts of the request may have 2000 terms; at most 1000 are taken"):
        predictor.read(body)
    assert TextVectorizer(analyzer="char_wb").most_terms("a" * 38_000, max_n=10**6) > 10**9
    assert TextVectorizer().fit(["an ant"]).most_terms("a b") == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_workers_answer_at_one_port_and_end_together(dense, tmp_path):
    dense[0].save(tmp_path / "m")
    command = [sys.executable, "-m", "manyclass", "serve", tmp_path / "m", "--port", "0", "--workers", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        for _ in range(50):
            with urllib.request.urlopen(f"{url}/health") as reply:
                assert reply.status == 200
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers = children.read_text().split() if children.exists() else []
        process.send_signal(signal.SIGHUP)
        process.terminate()
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert err.count("ended") == 3
    assert err.count(f"serving at {url}") == 1
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]
