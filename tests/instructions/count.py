"""Runs main kernels once more each, between the marks of callgrind. Arguments: the library of marks, names of kernels.

Kernels are those of bench/isa_kernels.py, small.
"""

import ctypes
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from isa_kernels import KERNELS
from roofline_kernels import Passes


def main() -> None:
    marks = ctypes.CDLL(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:]:
            kernel = KERNELS[name].make(True, Path(folder))
            begun = []

            def mark(begun=begun, name=name):
                if begun:
                    marks.end_count(name.encode())
                else:
                    marks.begin_count()
                begun.append(True)

            if not isinstance(kernel, Passes):
                kernel.call()  # what is made once
            kernel.rounds(1, mark, [])  # of passes, it marks the end of the second, too
            if len(begun) == 1:
                mark()


main()
