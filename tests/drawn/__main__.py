"""Make cases by their numbers: `python -m drawn 12 13`, or `--first 0 --count 50000 --output cases.jsonl`.

Prints what is wrong with each case, and in the end how many cases of each estimator there were and how they ended.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from drawn import pool


def make(case: str, folder: Path, *, tell: bool = False) -> dict[str, Any]:
    """Make a case in this process; its files go to a folder."""
    if case in FAULTS:
        FAULTS[case]()
    import numpy as np

    from drawn import classifiers, vectors
    from manyclass import DecomposedIndex, SkipGram, SphericalClusterIndex

    of_rows = [(made, classifiers.Case) for made in classifiers.ESTIMATORS]
    others = [(SkipGram, vectors.WordsCase), (SphericalClusterIndex, vectors.IndexCase)]
    kinds = [*of_rows, of_rows[0], of_rows[0], *others, (DecomposedIndex, vectors.IndexCase)]
    rng = np.random.default_rng(int(case))
    made, drawn = kinds[int(rng.integers(len(kinds)))]
    one = drawn.draw(rng, made)
    if tell:
        print(one, flush=True)
    found = one.found
    try:
        one.run(folder)
    except Exception:
        found.fault(traceback.format_exc(limit=-2))
    ends = "refused" if not found.done else "warned" if found.warned else "fitted"
    return {
        "case": case,
        "estimator": made.__name__,
        "outcome": ends,
        "faults": found.faults,
        "done": found.done,
        "refused": found.refused,
        "warned": found.warned,
        "what": str(one)[:2000],
    }


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _spin() -> None:
    while True:
        pass


# Planted, so that the pool can be seen to notice them.
FAULTS = {"crash": _crash, "spin": _spin, "sleep": lambda: time.sleep(10**6)}


def work(seconds: float) -> None:
    """Make the cases that come, one a line."""
    import resource

    import manyclass.checks

    manyclass.checks.cores = lambda: 4  # more threads than a small machine has
    resource.setrlimit(resource.RLIMIT_AS, (pool.MEMORY, pool.MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    answers, sys.stdout = sys.stdout, sys.stderr
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            answer = make(line.strip(), Path(folder))
            signal.setitimer(signal.ITIMER_PROF, 0)
            print(json.dumps(answer), file=answers, flush=True)


def summary(answers: list[dict[str, Any]]) -> str:
    """A table: cases of each estimator, and how they ended."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for answer in answers:
        counts[answer.get("estimator", "unknown")].update(
            {"cases": 1, answer["outcome"]: 1, "faulty": bool(answer["faults"])}
        )
    columns = ["cases", "fitted", "warned", "refused", "crash", "hang", "faulty"]
    lines = [f"{'':26}" + "".join(f"{c:>9}" for c in columns)]
    lines += [f"{name:26}" + "".join(f"{n[c]:9,}" for c in columns) for name, n in sorted(counts.items())]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m drawn", description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", help="numbers")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--output", type=Path, help="a line of JSON for each case")
    parser.add_argument("--seconds", type=float, default=pool.SECONDS, help="of the processor, for a case")
    parser.add_argument("--here", action="store_true", help="in this process")
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        work(given.worker)
        return 0
    cases = [*given.cases, *map(str, range(given.first, given.first + given.count))]
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        made = (make(case, Path(folder), tell=True) for case in cases) if given.here else pool.run(cases, given.seconds)
        for answer in made:
            tell(answer, given.output)
            answers.append(answer)
    print(summary(answers))
    return int(any(answer["faults"] for answer in answers))


def tell(answer: dict[str, Any], output: Path | None) -> None:
    """Print what is wrong with a case, and write down how it ended."""
    if output:
        with output.open("a") as file:
            file.write(json.dumps(answer) + "\n")
    if answer["faults"]:
        print(f"{answer['case']}: {answer.get('what', '')}\n    " + "\n    ".join(answer["faults"]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
