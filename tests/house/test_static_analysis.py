"""Clang-tidy finds nothing in the core and the bindings; .clang-tidy says which of its checks are left out, and why."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from test_clang import for_python
from test_cpp import ROOT, tool

SOURCES = sorted((ROOT / "cpp").rglob("*.cpp"))
FAULT = """
#include <string>
#include <utility>
std::size_t lengths(std::string text) {
  const std::string moved = std::move(text);
  return moved.size() + text.size();
}
"""


def found_in(*arguments: str | Path) -> str:
    """What clang-tidy, the one that the extra "test" has, says of a file; empty where it finds nothing."""
    command = [tool("clang-tidy"), "--quiet", "--warnings-as-errors=*", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.long
def test_clang_tidy_finds_nothing(tmp_path):
    tool("clang-tidy")
    compiler = os.environ.get("CXX", "c++")
    command = [tool("cmake"), "-S", ROOT, "-B", tmp_path, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *for_python(compiler)]
    # The tool of PyPI has no <omp.h>.
    subprocess.run([*command, "-DMANYCLASS_OPENMP=OFF"], capture_output=True, check=True)
    assert len(SOURCES) > 50
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = list(threads.map(lambda source: found_in("-p", tmp_path, source), SOURCES))
    assert "".join(found) == ""


def test_a_planted_fault_is_found(tmp_path):
    (tmp_path / "fault.cpp").write_text(FAULT)
    config = f"--config-file={ROOT / '.clang-tidy'}"
    assert "bugprone-use-after-move" in found_in(config, tmp_path / "fault.cpp", "--", "-std=c++20")
    (tmp_path / "fine.cpp").write_text(FAULT.replace("+ text.size()", ""))
    assert found_in(config, tmp_path / "fine.cpp", "--", "-std=c++20") == ""
