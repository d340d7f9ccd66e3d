"""What training on a Dask cluster would take."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from manyclass.checks import check_number
from manyclass.dask.costs import DIVISIONS, SPEEDS, WORKERS, Job, stops_at

SECONDS = {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3}
BYTES = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3}
HEADING = ("workers", "division", "Gbit/s", "a pass", "steps", "moving", "tasks", "moved", "memory of W")
LINE = "{:>7}  {:16}  {:>6}" + 5 * "  {:>9}" + "  {:>11}"


@dataclass(kw_only=True)
class PlanArguments:
    """Arguments of the command.

    Attributes
    ----------
    rows : float
        rows, such as 1e9
    classes : float
        classes, such as 1e7
    features : float
        features of X
    stored : float
        mean number of values in a row that are not 0
    threads : int
        threads of each worker
    merges : int
        merges in a pass, or rounds of the blocks
    touched : float
        share of the weights that a pass of a worker changes
    """

    rows: float
    classes: float
    features: float = 1e5
    stored: float = 50
    threads: int = 16
    merges: int = 1
    touched: float = 1.0


def plan(args: PlanArguments) -> int:
    """Predict what training on a Dask cluster would take: seconds of a pass, memory and bytes of a worker.

    The prediction adds up costs of steps, tasks and bytes (see `manyclass.dask.costs`). It shows how to divide
    the work and from how many workers on more of them do not help; the seconds are rough.
    """
    for name in ("rows", "classes", "features", "stored", "threads", "merges"):
        check_number(f"--{name}", getattr(args, name), low=1)
    check_number("--touched", args.touched, low=0, open_low=True, high=1)
    job = Job(int(args.rows), int(args.features), int(args.classes), args.stored, args.merges, args.touched)
    sizes = f"{job.n_rows:,} rows, {job.n_classes:,} classes, {job.n_features:,} features"
    print(f"{sizes}: W takes {_in_units(job.bytes_of_w, BYTES)}\n\n{LINE.format(*HEADING)}")
    for (division, cost), speed in product(DIVISIONS.items(), SPEEDS):
        for n in WORKERS:
            costs = cost(job, n, speed, args.threads)
            times = [_in_units(s, SECONDS) for s in (costs.seconds, costs.steps, costs.moved, costs.tasks)]
            amounts = [_in_units(amount, BYTES) for amount in (costs.bytes_moved, costs.memory)]
            print(LINE.format(n, division, f"{speed:.0f}", *times, *amounts))
        n_workers = stops_at(job, division, speed, args.threads)
        print(f"{'':7}  doubling the workers beyond {n_workers:,} saves less than a quarter of the time")
    return 0


def _in_units(number: float, units: dict[str, float]) -> str:
    """Return a number in the largest unit that it reaches, else in the smallest."""
    unit = next((unit for unit, length in units.items() if number >= length), [*units][-1])
    return f"{number / units[unit]:,.1f} {unit}"
