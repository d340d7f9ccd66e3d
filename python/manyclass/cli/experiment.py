"""Experiments of papers, and their reports."""

from __future__ import annotations

import shlex
from dataclasses import KW_ONLY, asdict, dataclass, replace
from pathlib import Path
from typing import Any

from manyclass.checks import check_choice, n_threads_from
from manyclass.cli.messages import note
from manyclass.cli.options import WithProgress, flag
from manyclass.papers import EXPERIMENTS, Options, fetch_missing, run_experiment, write_report
from manyclass.papers.engine import record_figures
from manyclass.papers.summary import Table


@dataclass
class ExperimentArguments(WithProgress):
    """Arguments of the command.

    Attributes
    ----------
    name : NAME
        one of those that --list has
    list : bool
        list the experiments, their data sets and methods
    fetch : bool
        download the data sets that are not there and can be had, once, into scikit-learn's data home
    output : DIR
        folder for records and report; default: NAME, made here
    record : FILE
        append the figures of the report to this file, a line of JSON for each row of a paper's table, and what ran
        them to runs.jsonl beside it
    """

    name: str | None = None
    _: KW_ONLY
    list: bool = False
    fetch: bool = False
    output: str | None = None
    record: str | None = None
    options: Options


def experiment(args: ExperimentArguments) -> int:
    """Run an experiment: the papers' tables and figures with their values beside ours, or a race of all solvers.

    Every run is recorded in OUTPUT/runs.jsonl as it ends, with its configuration, seed, machine and version; started
    again, the command makes only the runs that are not there. Then it writes the tables (Markdown, CSV), the plots
    (PNG, SVG; they need matplotlib) and a page, report.html, that needs no other file. Real data are found in the
    folder that the environment variable MANYCLASS_DATA names, or where --fetch has put them; sets that are not there
    are skipped.
    """
    if args.list:
        for experiment in EXPERIMENTS.values():
            more = " (or any other in MANYCLASS_DATA)" if experiment.open_data else ""
            print(f"{experiment.name:<15} {experiment.summary}")
            if args.name == experiment.name:
                print(f"  data: {', '.join(experiment.data)}{more}\n  methods: {', '.join(experiment.methods)}")
        return 0
    check_choice("the experiment", args.name, [*EXPERIMENTS])
    experiment = EXPERIMENTS[str(args.name)]
    once: dict[str, Any] = {name: tuple(dict.fromkeys(getattr(args.options, name))) for name in ("data", "methods")}
    options = replace(args.options, **once, n_jobs=n_threads_from(args.options.n_jobs))
    if args.fetch:
        fetch_missing(tuple(options.places) or experiment.data, note=note, progress=args.progress)
    folder = Path(args.output or experiment.name)
    outcome = run_experiment(experiment, options, folder, note=note, progress=args.progress)
    title, runs = f"{experiment.name}: {experiment.summary}", outcome.records
    command = shlex.join([*_command(args, options), *(["--output", args.output] if args.output else [])])
    machine = runs[-1]["machine"]
    written = write_report(outcome.items, folder, title=title, command=command, machine=machine, records=runs)
    for item in outcome.items:
        if isinstance(item, Table | str):
            print(item if isinstance(item, str) else item.markdown())
    if args.record:
        places = (name if name == place else f"{name}=PATH" for name, place in options.places.items())
        command = shlex.join(_command(args, replace(options, data=tuple(places))))
        n_figures = record_figures(outcome.items, experiment.name, command, Path(args.record))
        print(f"{n_figures} figures recorded in {args.record}")
    counts = f"{outcome.n_made} runs made, {outcome.n_known} known before, {outcome.n_failed} failed"
    print(f"{counts}; report: {written[-1]}")
    return int(outcome.n_failed > 0)


def _command(args: ExperimentArguments, options: Options) -> list[str]:
    """Return the words of the command that makes the same runs."""
    words = ["manyclass", "experiment", str(args.name)]
    for name, value in asdict(options).items():
        if value != getattr(Options(), name):
            words += [flag(name), *map(str, value if isinstance(value, tuple) else [value])]
    return words
