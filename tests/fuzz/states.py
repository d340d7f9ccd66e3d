"""Random histories of one object: any order of trainings, settings, files, copies and questions, and what must hold.

A history is its number: `python tests/fuzz/states.py 17` makes it again and tells its steps. After each step:

- a call that is refused says so by a ValueError or a TypeError (or that nothing is fitted), and leaves the object as it
  was, as do failing callbacks and iterators (of a `partial_fit` by parts: as the parts before left it);
- weights and answers are finite, probabilities of a row sum to one, and questions change nothing;
- an object that is saved and loaded, pickled or copied is the same, and learns on as the one that it was made from.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.classifier_histories import ClassifierHistory
from fuzz.histories import History
from fuzz.other_histories import IndexHistory, WordsHistory
from fuzz.raw_histories import RawHistory


def made(number: int, folder: Path) -> History:
    """Begin the history of a number."""
    kinds = (*(ClassifierHistory,) * 8, RawHistory, IndexHistory, WordsHistory)
    return kinds[number % len(kinds)](number, folder)


def run(
    first: int, seconds: float = math.inf, n_steps: int = 25, *, most: float = math.inf, go_on: bool = False
) -> tuple[Counter[str], list[str]]:
    """Make histories from a number on until the time is over or there are `most`.

    Returns
    -------
    counts : Counter
        Of steps, and of "histories".
    faults : list of str
        At most one, unless `go_on`.
    """
    counts: Counter[str] = Counter()
    faults: list[str] = []
    end, number = time.monotonic() + seconds, first
    while time.monotonic() < end and number - first < most:
        with tempfile.TemporaryDirectory() as folder:
            history = made(number, Path(folder))
            try:
                history.run(n_steps)
            except AssertionError as error:
                faults.append(str(error))
                if not go_on:
                    break
            finally:
                counts += history.counts
                counts["histories"] += 1
        number += 1
    return counts, faults


if __name__ == "__main__":
    if len(sys.argv) == 2:
        with tempfile.TemporaryDirectory() as own:
            made(int(sys.argv[1]), Path(own)).run(25)
    else:  # FIRST SECONDS: goes on after a fault
        found, wrong = run(int(sys.argv[1]), float(sys.argv[2]), go_on=True)
        print("\n\n".join(wrong))
        print(found.total() - found["histories"], "steps of", found["histories"], "histories,", len(wrong), "faults")
