"""Runs main kernels once more each, between the marks of callgrind. Arguments: the library of marks, names of kernels.

Kernels are those of bench/roofline_kernels.py, small, and a pass over weights of pairs.
"""

import ctypes
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from roofline_kernels import KERNELS, Kernel, Passes, labels, passes_of, sparse

from manyclass import SoftmaxClassifier


def pairs(_small, _folder):
    """A pass over weights of pairs of a feature and a class that occur together."""
    X, y = sparse(2000, 300, 20), labels(2000, 400)
    given = {"model": "sparse", "n_jobs": 1, "random_state": 0}
    return Passes(passes_of(lambda max_iter: SoftmaxClassifier(max_iter=max_iter, **given), X, y), {})


def main() -> None:
    marks = ctypes.CDLL(sys.argv[1])
    kernels = KERNELS | {"pairs": Kernel(pairs)}
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:]:
            kernel = kernels[name].make(True, Path(folder))
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
