"""Wrong files of the kinds that Python reads: what is wrong is a ValueError with the file's name, or does no harm.

`python fuzz_files.py KIND --seconds 60` changes the files of tests/data/version_2 and reads
them. A find ends the process with status 1, or with that of a crash; the file stays in `--folder`. What counts as one:

- another error than ValueError, or a ValueError that does not name the file;
- predictions that are not finite, of weights that are and whose sums are, too;
- more memory than ROOM, in files of a few kB; more time than SECONDS of the processor.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

try:
    import resource
except ImportError:  # not of Unix
    resource = None  # type: ignore[assignment]

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from data.version_2 import make_files  # noqa: E402
from fuzz.mutate import mutated  # noqa: E402

ROOM = 256 << 20  # bytes: a team of threads has stacks of 8 MB
SECONDS = 30  # a reading takes milliseconds; a fit that goes on, tens of them
LARGEST = 1e15  # of numbers in a file, so that sums of products stay finite


def seeds(kind: str) -> list[tuple[str, bytes]]:
    """Names and contents of right files."""
    found = [p for p in sorted(make_files.FOLDER.iterdir()) if p.name.partition("_")[0].partition(".")[0] == kind]
    return [(path.name, path.read_bytes()) for path in found]


def check(name: str, content: bytes, path: Path) -> str:
    """Read a file; returns "read" or "refused", and raises for a find."""
    path.write_bytes(content)
    try:
        found = make_files.read(path)
    except ValueError as error:
        if str(path) not in str(error) and not _is_large(content):
            raise AssertionError(f"the message does not name {path}: {error}") from error
        return "refused"
    for key, value in found.items():
        array: Any = np.asarray(value)
        if key in ("scores", "probabilities", "vectors", "rows") and not np.isfinite(array).all():
            assert _is_large(content), f"{key} is not finite"
    return "read"


def _is_large(content: bytes) -> bool:
    """Whether a file has finite numbers whose sums are beyond float32."""
    try:
        arrays = [array for array in load(content).values() if array.dtype.kind == "f"]
    except SafetensorError:  # word2vec's
        return False
    with np.errstate(all="ignore"):
        return any(bool((np.abs(array[np.isfinite(array)]) > LARGEST).any()) for array in arrays)


def bounded() -> None:
    """Let this process have no more memory than now and ROOM."""
    if resource is None or not Path("/proc/self/statm").exists():
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def contents(kind: str, first: int) -> Iterator[tuple[int, str, bytes]]:
    """Changed files without end: each has a number by which it is made again."""
    known = seeds(kind)
    assert known, f"no file is of kind {kind!r}"
    number = first
    while True:
        rng = random.Random(number)
        name, content = known[number % len(known)]
        yield number, name, mutated(content, rng)
        number += 1


def main() -> int:
    """Read files until the time or the runs are over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=[*make_files.READERS])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=10**12)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--folder", type=Path, help="where a find is left")
    parser.add_argument("--go-on", action="store_true", help="after a find of an error")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp())
    for name, content in seeds(args.kind):
        assert check(name, content, folder / named(args.kind, name)) == "read", name
    bounded()
    warnings.simplefilter("ignore")
    outcomes = {"read": 0, "refused": 0, "found": 0}
    known: set[str] = set()
    end = time.monotonic() + args.seconds
    for number, name, content in contents(args.kind, args.first):
        if time.monotonic() > end or number >= args.first + args.runs:
            break
        path = folder / named(args.kind, name)
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            outcomes[check(name, content, path)] += 1
        except KeyboardInterrupt:
            break
        except BaseException as error:
            outcomes["found"] += 1
            where = str(
                traceback.extract_tb(error.__cause__.__traceback__ if error.__cause__ else error.__traceback__)[-1]
            )
            if where not in known:
                known.add(where)
                left = folder / f"find_{number}_{name}"
                left.write_bytes(content)
                print(f"\nfile {number}, of {name}, left in {left}", flush=True)
                traceback.print_exc(file=sys.stdout)
            if not args.go_on:
                break
    print(f"{sum(outcomes.values())} files: {outcomes}", flush=True)
    return int(outcomes["found"] > 0)


def named(kind: str, name: str) -> str:
    """The name under which a file is read, which says its kind."""
    return name if name.startswith(kind) else f"{kind}_{name}"


if __name__ == "__main__":
    sys.exit(main())
