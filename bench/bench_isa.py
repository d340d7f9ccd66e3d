"""What does a wider instruction set give each kernel? Processor milliseconds by SSE2, AVX2 and AVX-512, and ratios.

The kernels are those of bench_roofline.py, pairs, margins and weights in fewer bits (isa_kernels.py), one thread. For
each instruction set that the processor has, MANYCLASS_ISA bounds a process of its own, and the processes take turns
round by round, so that the load is in all of them. A ratio is the median over the rounds of the seconds by the narrower
set over those by the wider one. Two libraries are compared by --other=FOLDER, which has another build of the package:
its processes take turns with the installed one's.

What is found stands in figures/isa.md:

    python -m pytest bench/bench_isa.py --data=real
"""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from conftest import digits
from isa_kernels import KERNELS

from manyclass import _core

ISAS = ("baseline", "avx2", "avx512")
ROUNDS = 7


class Turns:
    """A process that runs a round of a kernel whenever it is asked to."""

    def __init__(self, name, small, isa, package=None):
        path = [package] if package else []
        env = os.environ | {
            "MANYCLASS_ISA": isa,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, [*path, *sys.path])),
        }
        program = Path(__file__).with_name("isa_kernels.py")
        command = [sys.executable, program, name, "small" if small else "full", str(ROUNDS)]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def round(self):
        """The processor seconds of one more round."""
        if not self.ready:
            assert self.process.stdout.readline() == "ready\n"
            self.ready = True
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def paired(name, small, packages):
    """Seconds of the rounds by (package, instruction set)."""
    isas = ISAS[: ISAS.index(_core.best_isa()) + 1]
    with ExitStack() as stack:
        turns = {(p, isa): stack.enter_context(Turns(name, small, isa, p)) for p in packages for isa in isas}
        taken = {key: [] for key in turns}
        for key in turns:  # the first round of each is a warm-up, and makes the kernel
            turns[key].round()
        for _ in range(1, ROUNDS):
            for key, turn in turns.items():
                taken[key].append(turn.round())
    return {key: np.array(seconds) for key, seconds in taken.items()}


@pytest.mark.parametrize("what", KERNELS)
def test_kernels(timed, small, request, what):
    other = request.config.getoption("--other")
    taken = paired(what, small, [None, other] if other else [None])
    own = {isa: seconds for (package, isa), seconds in taken.items() if package is None}
    widest = list(own)[-1]
    beside = {isa: seconds for isa, seconds in own.items() if isa != widest}
    if other:
        beside |= {f"{isa}, other": seconds for (package, isa), seconds in taken.items() if package}
    timed.taken(own[widest], clock="processor", beside=beside)
    figures = {f"{isa}_ms": digits(1e3 * np.median(seconds)) for isa, seconds in own.items()}
    for narrow, wide in zip(list(own), list(own)[1:], strict=False):
        figures[f"{wide}_gain"] = digits(np.median(own[narrow] / own[wide]))
    timed.tell(**figures)
