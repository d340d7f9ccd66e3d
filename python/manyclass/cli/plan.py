"""What training on a Dask cluster would take."""

from __future__ import annotations

from dataclasses import dataclass

from manyclass.checks import check_number
from manyclass.dask.costs import DIVISIONS, SPEEDS, WORKERS, Job, stops_at


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

    The prediction adds up costs of steps, tasks and bytes (see `help(manyclass.dask.costs)`). It shows how to divide
    the work and from how many workers on more of them do not help; the seconds are rough.
    """
    for name in ("rows", "classes", "features", "stored"):
        check_number(f"--{name}", getattr(args, name), low=1)
    check_number("--threads", args.threads, low=1, integer=True)
    check_number("--merges", args.merges, low=1, integer=True)
    check_number("--touched", args.touched, low=0, open_low=True, high=1)
    job = Job(int(args.rows), int(args.features), int(args.classes), args.stored, args.merges, args.touched)
    print("\n".join(table(job, args.threads)))
    return 0


def table(job: Job, n_threads: int) -> list[str]:
    """Return the lines of a table: a row for each number of workers, division and speed of the network."""
    lines = [
        f"{job.n_rows:,} rows, {job.n_classes:,} classes, {job.n_features:,} features: W takes {size(job.bytes_of_w)}",
        "",
        f"{'workers':>7}  {'division':16}  {'Gbit/s':>6}  {'a pass':>9}  {'steps':>9}  {'moving':>9}  {'tasks':>9}  "
        f"{'moved':>9}  {'memory of W':>11}",
    ]
    for division, cost in DIVISIONS.items():
        for speed in SPEEDS:
            for n in WORKERS:
                costs = cost(job, n, speed, n_threads)
                times = "  ".join(f"{span(s):>9}" for s in (costs.seconds, costs.steps, costs.moved, costs.tasks))
                sizes = f"{size(costs.bytes_moved):>9}  {size(costs.memory):>11}"
                lines.append(f"{n:>7}  {division:16}  {speed:>6.0f}  {times}  {sizes}")
            stop = stops_at(job, division, speed, n_threads)
            lines.append(f"{'':7}  doubling the workers beyond {stop:,} saves less than a quarter of the time")
    return lines


def span(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    return _in_units(seconds, {"d": 86400.0, "h": 3600.0, "min": 60.0}) or f"{seconds:.2g} s"


def size(n_bytes: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    return _in_units(n_bytes, {"TB": 1e12, "GB": 1e9, "MB": 1e6}) or f"{n_bytes / 1e3:,.1f} kB"


def _in_units(number: float, lengths: dict[str, float]) -> str:
    units = (f"{number / length:,.1f} {unit}" for unit, length in lengths.items() if number >= length)
    return next(units, "")
