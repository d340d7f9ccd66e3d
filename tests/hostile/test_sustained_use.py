"""bench/sustained.py: memory is flat over many operations, results are the same in pieces, a planted leak is found."""

import json
import subprocess
import sys

import pytest
from test_codebase import ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc"),
    pytest.mark.skipif(not (ROOT / "bench").exists(), reason="the package was installed without its benchmarks"),
]


def run(folder, *options):
    """The exit status, what was printed, and the digests of each process by round."""
    command = [sys.executable, str(ROOT / "bench/sustained.py"), "--output", str(folder), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rounds = [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(folder.glob("*.jsonl"))]
    return done.returncode, done.stdout + done.stderr, [[one["digest"] for one in made] for made in rounds]


def test_a_minute_leaves_memory_flat_and_results_the_same(tmp_path):
    status, said, (digests,) = run(tmp_path, "--seconds", 60)
    print(said)
    assert status == 0, said
    assert "memory is flat" in said
    assert len(set(digests)) == len(digests)  # each round has data of its own


def test_processes_agree(tmp_path):
    status, said, digests = run(tmp_path, "--seconds", 40, "--processes", 2)
    assert status == 0, said
    n = min(map(len, digests))
    assert digests[0][:n] == digests[1][:n]


def test_a_planted_leak_is_found(tmp_path):
    status, said, _ = run(tmp_path, "--seconds", 40, "--leak")
    assert status == 1, said
    assert "memory grows by more than" in said
