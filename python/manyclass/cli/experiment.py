"""Run an experiment: the papers' tables and figures with their values beside ours, or a race of all solvers.

Every run is recorded in OUTPUT/runs.jsonl as it ends, with its configuration, seed, machine and version; started again,
the command makes only the runs that are not there. Then it writes the tables (Markdown, CSV), the plots (PNG, SVG; they
need matplotlib) and a page, report.html, that needs no other file. Real data are found in the folder that the
environment variable MANYCLASS_DATA names, or where --fetch has put them; sets that are not there are skipped.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from manyclass.checks import check_number, n_threads_from
from manyclass.cli.arguments import add_progress, shows_progress
from manyclass.cli.messages import note
from manyclass.datasets.sources import SOURCES
from manyclass.papers import EXPERIMENTS, Experiment, Options, fetch_missing, run_experiment, write_report

FAILED = 1  # some runs failed; the others are in the report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"one of {', '.join(EXPERIMENTS)}")
    parser.add_argument("--list", action="store_true", help="list the experiments, their data sets and methods")
    parser.add_argument(
        "--data", nargs="+", default=[], metavar="SET", help="data sets; default: all of the experiment"
    )
    parser.add_argument(
        "--fetch",
        action="store_true",
        help="download the data sets that are not there and can be had, once, into scikit-learn's data home: "
        + ", ".join(SOURCES),
    )
    parser.add_argument("--methods", nargs="+", default=[], metavar="M", help="methods; default: all of the experiment")
    parser.add_argument("--seeds", type=int, default=1, help="make each random run with the seeds 0 to SEEDS - 1")
    parser.add_argument("--seconds", type=float, metavar="S", help="training time of a run of race")
    parser.add_argument("--max-iter", type=int, metavar="N", help="passes (iterations) instead of the experiment's own")
    parser.add_argument("--max-rows", type=int, metavar="N", help="at most N training and N test rows of a data set")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the sizes of data that are drawn")
    parser.add_argument("--n-jobs", type=int, default=1, help="threads; -1: all cores")
    parser.add_argument("--output", metavar="DIR", help="folder for records and report; default: NAME, made here")
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Run, write, tell; the tables go to stdout."""
    if args.list:
        for experiment in EXPERIMENTS.values():
            print(_described(experiment, with_choices=args.name == experiment.name))
        return 0
    if args.name not in EXPERIMENTS:
        given = "no experiment is named" if args.name is None else f"{args.name!r} is not an experiment"
        raise ValueError(f"{given}; it must be one of {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[args.name]
    options = _options(args)
    if args.fetch:
        fetch_missing(options.data or experiment.data, note=note, progress=shows_progress(args))
    folder = Path(args.output or args.name)
    outcome = run_experiment(experiment, options, folder, note=note, progress=shows_progress(args))
    written, told = write_report(
        outcome.report,
        folder,
        title=f"{experiment.name}: {experiment.summary}",
        command=_command(args, options),
        machine=outcome.records[-1]["machine"],
        records=outcome.records,
    )
    for table in outcome.report.tables:
        print(table.markdown())
    for text in (*outcome.report.notes, *told):
        print(text)
    print(
        f"{outcome.n_made} runs made, {outcome.n_known} known before, {outcome.n_failed} failed; report: {written[-1]}"
    )
    return FAILED if outcome.n_failed else 0


def _options(args: argparse.Namespace) -> Options:
    check_number("seeds", args.seeds, low=1, integer=True)
    check_number("scale", args.scale, low=0, open_low=True)
    for name, low in (("max_iter", 1), ("max_rows", 2)):
        if getattr(args, name) is not None:
            check_number(name, getattr(args, name), low=low, integer=True)
    if args.seconds is not None:
        check_number("seconds", args.seconds, low=0, open_low=True)
    return Options(
        data=tuple(dict.fromkeys(args.data)),
        methods=tuple(dict.fromkeys(args.methods)),
        seeds=args.seeds,
        seconds=args.seconds,
        max_iter=args.max_iter,
        max_rows=args.max_rows,
        scale=args.scale,
        n_jobs=n_threads_from(args.n_jobs),
    )


def _command(args: argparse.Namespace, options: Options) -> str:
    words = ["manyclass", "experiment", args.name]
    given = {name: value for name, value in vars(options).items() if value != getattr(Options(), name)}
    for name, value in given.items():
        values = map(str, value) if isinstance(value, tuple) else [str(value)]
        words += ["--" + name.replace("_", "-"), *values]
    return shlex.join([*words, *(["--output", args.output] if args.output else [])])


def _described(experiment: Experiment, *, with_choices: bool) -> str:
    text = f"{experiment.name:<15} {experiment.summary}"
    if with_choices:
        more = " (or any other in MANYCLASS_DATA)" if experiment.open_data else ""
        text += f"\n  data: {', '.join(experiment.data)}{more}\n  methods: {', '.join(experiment.methods)}"
    return text
