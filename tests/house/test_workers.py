"""The core's waiting threads by themselves: no lock and no handler of forks of theirs can go without being missed."""

import os
import shutil
import subprocess

import pytest
from house import ROOT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")
def test_workers_are_taken_and_given_back_by_many_threads_and_around_forks(tmp_path):
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler is installed")
    sources = [ROOT / "tests/cpp/borrowed_workers.cpp", ROOT / "cpp/manyclass/core/workers.cpp"]
    options = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{ROOT / 'cpp'}"]
    subprocess.run([compiler, *options, *sources, "-o", tmp_path / "workers"], check=True)
    done = subprocess.run([tmp_path / "workers"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
