"""The environment says what instruction set the core may use at most."""

import os
import subprocess
import sys

import pytest

from manyclass import _core

ORDER = ("baseline", "avx2", "avx512")


def best_isa(most: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"MANYCLASS_ISA": most, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", "from manyclass import _core; print(_core.best_isa())"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("most", ORDER)
def test_the_environment_bounds_the_instruction_set(most):
    widest = _core.best_isa()
    assert best_isa(most).stdout.strip() == min(most, widest, key=ORDER.index)


def test_an_instruction_set_that_is_none_is_refused():
    done = best_isa("sse9")
    assert done.returncode != 0
    assert "MANYCLASS_ISA is 'sse9'; it must be one of 'baseline', 'avx2', 'avx512'" in done.stderr
