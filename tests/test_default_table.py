"""The table of the default and its members has a line for each model, and skips sets that are not there."""

import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"


def test_sets_that_are_not_there_are_named_and_left_out(tmp_path):
    pytest.importorskip("pytest_benchmark")
    if not BENCH.is_dir():
        pytest.skip("needs the repository")
    folder = tmp_path / "small"
    folder.mkdir()
    labels = np.random.default_rng(0).integers(0, 6, 200)
    lines = [f"{label} {label}:1 {6 + row % 3}:0.5" for row, label in enumerate(labels)]
    for part in ("train", "test"):
        with lzma.open(folder / f"{part}.txt.xz", "wt") as stream:
            stream.write("\n".join(["200 9 6", *lines]) + "\n")
    command = [sys.executable, BENCH / "default_table.py", "small-all", "absent", "--seeds", "1", "--models", "pairs"]
    environment = os.environ | {"MANYCLASS_DATA": str(tmp_path)}
    text = subprocess.run(
        [*command, "--output", tmp_path / "table.md"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert "absent: not in MANYCLASS_DATA, left out" in text
    assert "| small-all | pairs | " in (tmp_path / "table.md").read_text()
