"""Predict what training on a Dask cluster would take: seconds of a pass, memory and bytes of a worker.

Predictions are sums of costs of steps, tasks and bytes (see `help(manyclass.dask.costs)`): they say which division of
the work fits a size and where more workers stop to help, not how many seconds a machine takes to the second.
"""

from __future__ import annotations

import argparse

from manyclass.checks import check_number
from manyclass.dask.costs import DIVISIONS, SPEEDS, WORKERS, Job, stops_at


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--rows", type=float, required=True, help="rows, such as 1e9")
    parser.add_argument("--classes", type=float, required=True, help="classes, such as 1e7")
    parser.add_argument("--features", type=float, default=1e5, help="features of X; default: 1e5")
    parser.add_argument("--stored", type=float, default=50, help="values that are not 0, a row; default: 50")
    parser.add_argument("--threads", type=int, default=16, help="of each worker; default: 16")
    parser.add_argument("--merges", type=int, default=1, help="merges in a pass, or rounds of the blocks; default: 1")
    parser.add_argument("--touched", type=float, default=1.0, help="share of W that a worker's pass moves; default: 1")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    for name in ("rows", "classes", "features", "stored"):
        check_number(f"--{name}", getattr(args, name), low=1)
    check_number("--threads", args.threads, low=1, integer=True)
    check_number("--merges", args.merges, low=1, integer=True)
    check_number("--touched", args.touched, low=0, open_low=True, high=1)
    sizes = (int(args.rows), int(args.features), int(args.classes))
    job = Job(*sizes, args.stored, args.merges, args.touched)
    print("\n".join(table(job, args.threads)))
    return 0


def table(job: Job, n_threads: int) -> list[str]:
    """Lines of a table: a row for each number of workers, division and speed of the network."""
    lines = [
        f"{job.n_rows:,} rows, {job.n_classes:,} classes, {job.n_features:,} features: W takes {size(job.bytes_of_w)}",
        "",
        f"{'workers':>7}  {'division':16}  {'Gbit/s':>6}  {'a pass':>9}  {'steps':>9}  {'moving':>9}  {'tasks':>9}  "
        f"{'moved':>9}  {'memory of W':>11}",
    ]
    for division, cost in DIVISIONS.items():
        for speed in SPEEDS:
            for n in WORKERS:
                made = cost(job, n, speed, n_threads)
                times = "  ".join(f"{span(s):>9}" for s in (made.seconds, made.steps, made.moved, made.tasks))
                sizes = f"{size(made.bytes_moved):>9}  {size(made.memory):>11}"
                lines.append(f"{n:>7}  {division:16}  {speed:>6.0f}  {times}  {sizes}")
            stop = stops_at(job, division, speed, n_threads)
            lines.append(f"{'':7}  doubling the workers beyond {stop:,} saves less than a quarter of the time")
    return lines


def span(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.2g} s"


def size(n_bytes: float) -> str:
    """A number of bytes in the unit that suits it."""
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= length:
            return f"{n_bytes / length:,.1f} {unit}"
    return f"{n_bytes / 1e3:,.1f} kB"
