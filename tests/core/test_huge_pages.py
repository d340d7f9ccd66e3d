"""Large tables lie in huge pages where the kernel offers them: weights, which are NumPy's, and codes, the core's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

OFFERED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
# An index whose codes are 25 MB: prints its megabytes in huge pages, and what it answers.
PROGRAM = """
import re
import numpy as np
from manyclass import SphericalClusterIndex

x = np.random.default_rng(0).standard_normal((262_144, 64), dtype=np.float32)

def megabytes():
    text = open("/proc/self/smaps").read() if {measured} else ""
    return sum(int(kilobytes) for kilobytes in re.findall(r"AnonHugePages: +(\\d+)", text)) / 1024

before = megabytes()
index = SphericalClusterIndex(1, n_jobs=1).fit(x)
after = megabytes()
ids, scores = index.query(x[:20], 10)
print(after - before, ids.tobytes().hex(), scores.tobytes().hex())
"""


def run(wanted: str, *, measured: bool) -> tuple[float, str]:
    """What the program prints, where NumPy's own arrays are in no huge pages."""
    env = os.environ | {"MANYCLASS_HUGE_PAGES": wanted, "NUMPY_MADVISE_HUGEPAGE": "0"}
    env |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PROGRAM.format(measured=measured)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    megabytes, _, answer = done.stdout.partition(" ")
    return float(megabytes), answer


def test_an_index_lies_in_huge_pages_unless_the_environment_says_no_and_answers_alike():
    measured = OFFERED.exists() and "[madvise]" in OFFERED.read_text("ascii")
    (with_them, answer), (without, other_answer) = (run(wanted, measured=measured) for wanted in ("1", "0"))
    assert answer == other_answer
    assert without == 0
    if not measured:
        pytest.skip("this system does not give huge pages to those who ask, and to no others; answers are the same")
    assert with_them > 12  # of 25: the ends are in ordinary pages, and the kernel gives fewer where memory is in pieces
