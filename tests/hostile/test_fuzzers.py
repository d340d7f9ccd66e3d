"""Fuzzers: texts by libFuzzer, under sanitizers, and files that Python reads; a minute each, and planted faults.

With `--fuzz-seconds` they take as long each. How many inputs were executed is printed.
"""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from data.version_2 import make_files
from fuzz import fuzz_files
from fuzz.mutate import mutated
from sklearn.datasets import dump_svmlight_file
from test_clang import clang
from test_cpp import ROOT, Build, copy_of_sources
from test_csr_round_trips import random_csr, write_xmc

TEXTS = ("xmc", "corpus")
SECONDS = 60
# A short memory of what was freed, as inputs are small: with ASan's own, of 256 MB, half as many inputs a second.
SANITIZERS = {
    "ASAN_OPTIONS": "quarantine_size_mb=1:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def seeds(kind: str, folder: Path) -> Path:
    """A folder of right inputs, made by our own writers and scikit-learn's; the first byte is that of options."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    if kind == "corpus":
        for i, text in enumerate(("a b a\n\nc a\n", "one  two\tthree\r\nfour", " ", "\n\n", "käse \U0001f9c0\0 käse")):
            (folder / str(i)).write_bytes(bytes([3 * i]) + text.encode())
        return folder
    text = folder.parent / "text"
    for i in range(8):
        X = random_csr(rng)[:4]
        if i % 2:
            dump_svmlight_file(sp.csr_matrix(X), rng.integers(0, 9, X.shape[0]), str(text), zero_based=i % 4 == 1)
        else:
            Y = sp.csr_array((rng.random((X.shape[0], 7)) < 0.3).astype(np.float32))
            write_xmc(text, X, Y, header=i % 4 == 0)
        (folder / str(i)).write_bytes(bytes([0xE0 + 4 * (i % 4 == 3)]) + text.read_bytes())
    return folder


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> int:
    """How long a fuzzer runs."""
    given = request.config.getoption("--fuzz-seconds")
    return SECONDS if given is None else round(given)


@pytest.fixture(scope="module")
def fuzzers(tmp_path_factory: pytest.TempPathFactory) -> Build:
    source = copy_of_sources(tmp_path_factory.mktemp("source"))
    options = (f"-DCMAKE_CXX_COMPILER={clang()}", "-DMANYCLASS_FUZZ=fuzzer,address,undefined")
    build = Build(source, tmp_path_factory.mktemp("fuzzers"), options, targets=[f"fuzz_{kind}" for kind in TEXTS])
    build.make()
    return build


def fuzz(build: Build, kind: str, corpus: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a fuzzer in the folder of its corpus's parent, where it leaves what it finds."""
    program = build.folder / "tests/fuzz" / f"fuzz_{kind}"
    words = [f"-dict={ROOT / 'tests/fuzz/xmc.dict'}"] if kind == "xmc" else []
    bounds = ["-max_len=256", "-malloc_limit_mb=16", "-print_final_stats=1"]
    command = [program, *words, *bounds, *options, corpus]
    env = os.environ | SANITIZERS
    return subprocess.run(command, cwd=corpus.parent, env=env, capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.parametrize("kind", TEXTS)
def test_a_minute_of_texts_finds_nothing(fuzzers, kind, seconds, tmp_path):
    done = fuzz(fuzzers, kind, seeds(kind, tmp_path / "corpus"), f"-max_total_time={seconds}")
    assert done.returncode == 0, done.stderr[-5000:]
    made = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    assert made
    print(f"{made[1]} texts of kind {kind}")
    assert int(made[1]) > 1000


PLANTED = {
    "a repeated label": (
        *(
            "xmc",
            "io/xmc_row.cpp",
            "if (repeated == sorted_.end()) return;",
            "if (repeated != sorted_.begin()) return;",
        ),
        "seen.insert(label).second is false",
    ),
    "a piece's offset": (
        *("xmc", "io/xmc_reader.cpp", "chunk.at = room;", "chunk.at = {room.lines, 0, room.features};"),
        "same(whole, read(text, options, second ? 2 : 1)) is false",
    ),
    "a character behind the text": (
        *("xmc", "io/xmc_row.hpp", "while (p != end && is_blank(*p)) ++p;", "while (is_blank(*p)) ++p;"),
        "AddressSanitizer: heap-buffer-overflow",
    ),
    "a word cut by a piece": (
        *("corpus", "text/reader.cpp", "if (end == text.size() || !pending_.empty()) {", "if (!pending_.empty()) {"),
        "is false",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_fault_is_found(fuzzers, case, tmp_path):
    kind, file, right, wrong, message = PLANTED[case]
    fuzzers.plant(file, right, wrong)
    try:
        done = fuzz(fuzzers, kind, seeds(kind, tmp_path / "corpus"), f"-max_total_time={SECONDS}")
    finally:
        fuzzers.make()
    assert done.returncode != 0
    assert message in done.stderr
    assert [path.name[:6] for path in tmp_path.glob("crash-*")] == ["crash-"]


def fuzz_python(kind: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tests/fuzz/fuzz_files.py", kind, "--folder", folder, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", make_files.READERS)
def test_some_wrong_files_are_refused_or_do_no_harm(kind, tmp_path):
    done = fuzz_python(kind, tmp_path, "--runs", "60" if kind == "checkpoint" else "300")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert re.search(r"files: {'read': [1-9]\d*, 'refused': [1-9]\d*, 'found': 0}", done.stdout)


@pytest.mark.long
@pytest.mark.parametrize("kind", make_files.READERS)
def test_a_minute_of_wrong_files_finds_nothing(kind, seconds, tmp_path):
    first = str(random.SystemRandom().randrange(10**9))
    done = fuzz_python(kind, tmp_path, "--seconds", str(seconds), "--first", first)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    print(done.stdout)


def test_a_file_is_changed_the_same_way_again():
    content = (make_files.FOLDER / "model_hybrid.safetensors").read_bytes()
    for number in range(50):
        changed = mutated(content, random.Random(number))
        assert changed == mutated(content, random.Random(number))


@pytest.mark.filterwarnings("ignore")
def test_a_check_that_is_gone_is_found(tmp_path, monkeypatch):
    """Numbers that are not finite, once nothing looks at them."""
    monkeypatch.setattr("manyclass.weights.tensor_file.finite", lambda file, name, array: array)
    found = 0
    for number, name, content in fuzz_files.contents("words", 0):
        try:
            fuzz_files.check(name, content, tmp_path / fuzz_files.named("words", name))
        except AssertionError:
            found += 1
        if found or number > 5000:
            break
    assert found
