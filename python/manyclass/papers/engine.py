"""The engine of experiments: a frozen configuration is run once, recorded as a line of JSON, and reported.

    options ─▶ runs ─▶ perform, once each ─▶ runs.jsonl ─▶ report: tables, plots, one page

What was recorded is not run again: a run is known by the hash of its configuration, and one that failed has not been
recorded as done.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import math
import os
import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy
from sklearn.exceptions import ConvergenceWarning

from manyclass import _core
from manyclass.checks import check_number
from manyclass.classifiers.parameters_json import decode_parameters, encode_parameters
from manyclass.papers.report import ExperimentReport, Table
from manyclass.training.passes import progress_bar
from manyclass.version import __version__

RECORDS = "runs.jsonl"
IN_THE_ROW = ("data", "methods", "settings_of")  # options that a figure's row says
INTERRUPTED = "interrupted"  # in the estimators' warnings after Ctrl-C

Results = dict[str, Any]
Records = list[dict[str, Any]]
Note = Callable[[str], None]


class MissingDataError(Exception):
    """A data set that is not on this machine; its text says which and why."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a user chooses of an experiment.

    Attributes
    ----------
    data : tuple of str
        Data sets by name; none: all of the experiment's. PATH is the folder of one in the form of the extreme
        classification repository, named after its last part, and NAME=PATH that of the data set of this name.
    settings_of : str or None
        The data set whose published settings (learning rates, minibatches) those take that the paper has not. Nothing
        published stands beside their values.
    methods : tuple of str
        Methods by name; none: all of the experiment's.
    seeds : int
        Each random run is made with the seeds 0 to seeds - 1.
    seconds : float or None
        Training time of a run, for experiments that have one.
    max_iter : int or None
        Passes over the data (iterations of L-BFGS), instead of the experiment's own.
    max_rows : int or None
        The most training rows, and the most test rows, to use.
    scale : float
        Factor on the sizes of data that the experiment draws itself.
    n_jobs : int
        Threads; -1: all cores.
    """

    data: tuple[str, ...] = ()
    settings_of: str | None = None
    methods: tuple[str, ...] = ()
    seeds: int = 1
    seconds: float | None = None
    max_iter: int | None = None
    max_rows: int | None = None
    scale: float = 1.0
    n_jobs: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError or TypeError for a number that is out of range."""
        lowest = {"seeds": 1, "max_iter": 1, "max_rows": 2, "scale": 0, "seconds": 0}
        for name, low in lowest.items():
            if (value := getattr(self, name)) is not None:
                check_number(name, value, low=low, open_low=low == 0, integer=low > 0)

    @property
    def places(self) -> dict[str, str]:
        """Names of the data sets, each with its folder, or with the name again where no folder was given."""
        split = (entry.rpartition("=") if "=" in entry else ("", "", entry) for entry in self.data)
        return {name or (Path(place).name if os.sep in place else place): place for name, _, place in split}

    def settings_for(self, name: str, published: Mapping[str, Any]) -> str:
        """Return the data set whose published settings this one takes: its own, where there are some."""
        return name if name in published or self.settings_of is None else self.settings_of

    def wants(self, method: str) -> bool:
        """Whether a method is among those chosen."""
        return not self.methods or method in self.methods

    @property
    def sizes(self) -> dict[str, Any]:
        """The options that belong to the configuration of every run."""
        return {"max_rows": self.max_rows, "scale": self.scale, "n_jobs": self.n_jobs}


Where = tuple[str, str, str, str]
Model = TypeVar("Model")


@dataclass(frozen=True)
class Run:
    """A configuration: all that a result depends on but the program, the machine and the data themselves.

    Attributes
    ----------
    experiment : str
    part : str
        Table or figure of the experiment.
    data : str
    method : str
    seed : int
    settings : dict
        Numbers and names of the experiment.
    model : dict
        Parameters of the estimator, as JSON has them: see `parameters`.
    """

    experiment: str
    part: str
    data: str
    method: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, where: Where, seed: int, settings: Mapping[str, Any], model: Mapping[str, Any]) -> Run:
        """A run of an estimator with these parameters; `where` is (experiment, part, data, method)."""
        return cls(*where, seed, settings, encode_parameters(model))

    @classmethod
    def for_seeds(cls, where: Where, seeds: int, settings: Mapping[str, Any], model: Mapping[str, Any]) -> list[Run]:
        """A run with each of the seeds 0 to seeds - 1."""
        return [cls.of(where, seed, settings, model) for seed in range(seeds)]

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters for the estimator's constructor."""
        return decode_parameters(self.model)

    def estimator(self, kind: Callable[..., Model], **parameters: Any) -> Model:
        """Return an estimator with the parameters of the run, and others."""
        return kind(random_state=self.seed, n_jobs=self.settings["n_jobs"], **self.parameters, **parameters)

    @property
    def hash(self) -> str:
        """16 hexadecimal digits of the SHA-256 of the configuration."""
        text = json.dumps(asdict(self), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """One line for people."""
        return f"{self.data}, {self.part}, {self.method}, seed {self.seed}"


@dataclass
class Context:
    """What a run is given.

    Attributes
    ----------
    data : object
        What the experiment's `load` returned.
    memo : dict
        Shared by the runs on one data set, in one process: a reference solution, say.
    results : dict
        Of the runs on this data set that are done, by hash: those that were asked for before.
    """

    data: Any
    memo: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Results] = field(default_factory=dict)


class Stopwatch:
    """Processor time of training, of all threads, without that of measuring; `seconds`: until it stood."""

    def __init__(self) -> None:
        self.seconds, self._since = 0.0, time.process_time()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[float]:
        """Let it stand for as long as something is measured; yield the seconds so far."""
        self.seconds += time.process_time() - self._since
        yield self.seconds
        self._since = time.process_time()


@dataclass(frozen=True)
class Experiment:
    """An experiment: what there is to run, how, and what is told of it.

    Attributes
    ----------
    name : str
    summary : str
        For the command line.
    data : tuple of str
        Those that it has, or takes by default.
    methods : tuple of str
    runs : callable
        The runs on one data set; options.data holds the names of all that were chosen.
    load : callable
        The data of that name, or MissingDataError.
    perform : callable
        The results of a run, for JSON.
    report : callable
        Tables and plots from the records of the runs.
    open_data : bool
        Whether other data sets than `data` can be named.
    settings : tuple of str
        Data sets with published settings, which `Options.settings_of` may name for others.
    """

    name: str
    summary: str
    data: tuple[str, ...]
    methods: tuple[str, ...]
    runs: Callable[[str, Options], list[Run]]
    load: Callable[[str, Options], Any]
    perform: Callable[[Run, Context], Results]
    report: Callable[[Records, Options], ExperimentReport]
    open_data: bool = False
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What is left of an experiment.

    Attributes
    ----------
    report : ExperimentReport
    records : list of dict
        Of the runs that were asked for, in their order, made now or before.
    n_made : int
        Runs made now.
    n_known : int
        Runs found in the records.
    n_failed : int
        Runs that failed now.
    skipped : list of str
        Data sets that are not there.
    """

    report: ExperimentReport
    records: Records
    n_made: int
    n_known: int
    n_failed: int
    skipped: list[str]


def run_experiment(
    experiment: Experiment, options: Options, folder: Path, *, note: Note, progress: bool = False
) -> Outcome:
    """Make the runs that are not recorded yet and return the report of all.

    Raises ValueError for a name that the experiment does not know, or if no data set is there.
    """
    options = _resolve(experiment, options)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / RECORDS
    known = _by_hash(read_records(file, note))
    runs = {name: {run.hash: run for run in experiment.runs(name, options)} for name in options.places}
    hashes = dict.fromkeys(key for planned in runs.values() for key in planned)
    done = {key for key in hashes if "results" in known.get(key, {})}
    if done:
        note(f"{len(done)} of {len(hashes)} runs are in {file} and are not made again")
    new_records: Records = []
    skipped: list[str] = []
    with contextlib.closing(progress_bar(len(hashes), unit="run", shown=progress, done=len(done))) as bar:
        for name, planned in runs.items():
            missing = [run for key, run in planned.items() if key not in done]
            try:
                context = Context(experiment.load(name, options) if missing else None)
            except MissingDataError as error:
                note(f"skipped {name}: {error}")
                skipped.append(name)
                bar.total -= len(missing)
                continue
            context.results |= {key: known[key]["results"] for key in planned if key in done}
            new_records += _perform_runs(experiment, missing, context, file, note, bar)
    known |= _by_hash(new_records)
    records = [known[key] for key in hashes if key in known]
    if not records:
        raise ValueError(f"experiment {experiment.name}: none of the data sets {', '.join(options.places)} is there")
    n_failed = sum("error" in record for record in new_records)
    return Outcome(_report(experiment, options, records), records, len(new_records), len(done), n_failed, skipped)


def _by_hash(records: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {record["hash"]: record for record in records}


def _perform_runs(
    experiment: Experiment, runs: Sequence[Run], context: Context, file: Path, note: Note, bar: Any
) -> Records:
    """Perform runs on one data set, and append the record of each to the file."""
    records = []
    for run in runs:
        bar.set_postfix_str(run.label, refresh=True)
        records.append(_perform(experiment, run, context))
        _append(file, records[-1])
        if "error" in records[-1]:
            note(f"failed: {run.label}: {records[-1]['error']}")
        else:
            context.results[run.hash] = records[-1]["results"]
        bar.update()
    return records


def read_records(file: Path, note: Note) -> Iterator[dict[str, Any]]:
    """Read the records of a file that need not exist; a line cut off by the end of a process is told and left out."""
    if not file.exists():
        return
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            note(f"{file}: line {number} is not a whole record and is left out")


def record_figures(report: ExperimentReport, experiment: str, options: Options, file: Path) -> int:
    """Append the figures of a report to a file, a line of JSON each; return their number.

    What ran them, and when, becomes a line of "runs.jsonl" beside the file, named by the "run" of each figure.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.parent / RECORDS
    known = {run["run"]: run for run in read_records(beside, lambda _: None)}
    defaults = {key: value for key, value in asdict(Options()).items() if key not in IN_THE_ROW}
    changed = {key: value for key, value in asdict(options).items() if value != defaults.get(key, value)}
    for figure in report.figures:
        records = figure.records
        latest = max(records, key=lambda record: str(record["finished"]))
        date = latest["finished"][:10]
        run = {key: latest["machine"][key] for key in ("cpu", "cores", "isa")}
        run |= {"version": latest["version"], "date": date, "clock": "processor time of whole runs, measuring included"}
        name, number = f"{date} {experiment}", 1
        while name in known and known[name]["cpu"] != run["cpu"]:
            number += 1
            name = f"{date} {experiment} {number}"
        loads = [record["machine"]["load"] for record in records if record["machine"]["load"] is not None]
        if name not in known:
            known[name] = {"run": name, **run}
            _append(beside, known[name])
        seconds = round(sum(record["cpu_seconds"] for record in records), 1)
        line: dict[str, Any] = {"run": name, "experiment": experiment, "item": figure.item}
        line |= {"data": figure.data, "method": figure.method, "values": finite(dict(figure.values))}
        line |= {"runs": len(records), "load": [min(loads), max(loads)] if loads else [], "cpu_s": seconds}
        _append(file, line | ({"options": changed} if changed else {}))
    return len(report.figures)


def machine() -> dict[str, Any]:
    """Return processor, cores, instruction set in use, load average and versions; no name of a host or a user."""
    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "isa": _core.best_isa(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "manyclass": __version__,
    }


def _processor() -> str:
    table = Path("/proc/cpuinfo")
    lines = table.read_text(encoding="utf-8").splitlines() if table.exists() else []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")


def finite(value: Any) -> Any:
    """`value` with None for every number that is not finite: JSON has no others."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def _resolve(experiment: Experiment, options: Options) -> Options:
    other_names = [name for name in options.places if name not in experiment.data]
    if options.settings_of is not None:
        if options.settings_of not in experiment.settings:
            one_of = f"it must be one of {', '.join(experiment.settings)}" if experiment.settings else "it takes none"
            raise ValueError(f"settings_of is {options.settings_of!r} in experiment {experiment.name}; {one_of}")
        if not other_names:
            raise ValueError(
                "settings_of is for data sets that the paper has not; those of experiment "
                f"{experiment.name} ({', '.join(options.places) or 'all'}) have settings of their own"
            )
    named = experiment.open_data or options.settings_of is not None
    hint = ", or settings_of (--settings-of) must name the one of them whose settings it takes"
    for kind, names, choices, more in (
        ("method", options.methods, experiment.methods, ""),
        ("data set", [] if named else other_names, experiment.data, hint if experiment.settings else ""),
    ):
        for name in names:
            if name not in choices:
                raise ValueError(
                    f"{name!r} is not a {kind} of experiment {experiment.name}; it must be one of "
                    f"{', '.join(choices)}{more}"
                )
    return Options(**asdict(options) | {"data": options.data or experiment.data})


def _perform(experiment: Experiment, run: Run, context: Context) -> dict[str, Any]:
    record: dict[str, Any] = {"hash": run.hash, **asdict(run), "version": __version__, "machine": machine()}
    begin, processor = time.perf_counter(), time.process_time()
    with _collect_warnings() as texts:
        try:
            record["results"] = finite(experiment.perform(run, context))
        # One run of many: the others are worth making, and this one's record says what happened.
        except Exception as error:
            record["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if any(INTERRUPTED in text for text in texts):
        raise KeyboardInterrupt  # the estimator took Ctrl-C for itself, and the run is not whole
    record["seconds"] = round(time.perf_counter() - begin, 3)
    record["cpu_seconds"] = round(time.process_time() - processor, 3)
    record["finished"] = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    record["warnings"] = texts
    return record


@contextlib.contextmanager
def _collect_warnings() -> Iterator[list[str]]:
    """Texts of the warnings that training diverged or did not end; complete once the block has ended."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning))


def _append(file: Path, record: Mapping[str, Any]) -> None:
    line = json.dumps(record, allow_nan=False) + "\n"
    with open(file, "a+b") as out:
        if out.tell():
            out.seek(-1, os.SEEK_END)
            if out.read(1) != b"\n":  # of a process that was ended while it wrote
                line = "\n" + line
        out.write(line.encode())


def _report(experiment: Experiment, options: Options, records: Records) -> ExperimentReport:
    """Return the report of runs; a table of it has those that failed or warned."""
    succeeded = [record for record in records if "results" in record]
    report = experiment.report(succeeded, options) if succeeded else ExperimentReport((), (), ())
    counts: Counter[tuple[Any, ...]] = Counter()
    for r in records:
        # Of a warning its first words: what follows the colon differs from run to run, and is in the records.
        texts = [f"failed: {r['error']}"] if "error" in r else [text.partition(":")[0] for text in r["warnings"]]
        counts.update((r["data"], r["part"], r["method"], text) for text in texts)
    if not counts:
        return report
    rows = [[*key, count] for key, count in counts.items()]
    table = Table("troubles", "Runs that failed or warned", ("data", "part", "method", "what", "runs"), rows)
    return replace(report, tables=(*report.tables, table))
