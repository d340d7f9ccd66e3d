"""The engine of experiments: a frozen configuration is run once, recorded as a line of JSON, and reported.

    options ─▶ runs ─▶ perform, once each ─▶ runs.jsonl ─▶ report: tables, plots, one page

What was recorded is not run again: a run is known by the hash of its configuration, and one that failed has not been
recorded as done.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib.util
import itertools
import json
import math
import os
import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy
from sklearn.exceptions import ConvergenceWarning

from manyclass import _core
from manyclass.checks import check_choice, check_number
from manyclass.classifiers.files import decode_parameters, encode_parameters
from manyclass.papers.published import NOTES
from manyclass.papers.summary import NO_PLOTS, Item, PaperFigure, Plot, Records, Table
from manyclass.training.passes import progress_bar
from manyclass.version import __version__

RECORDS = "runs.jsonl"

Results = dict[str, Any]
Note = Callable[[str], None]
Items = Iterator[Item]
Measure = Callable[[Any], Mapping[str, Any]]  # of the state of a training


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

    @property
    def sizes(self) -> dict[str, Any]:
        """The options that belong to the configuration of every run."""
        return {"max_rows": self.max_rows, "scale": self.scale, "n_jobs": self.n_jobs}


Model = TypeVar("Model")


class MethodPlan(NamedTuple):
    """What a method is run with: with each seed of the options, or with those that are named.

    Attributes
    ----------
    part : str
        Table or figure of the experiment.
    method : str
    model : mapping
        Parameters of the estimator.
    settings : mapping
        Numbers and names of the experiment beside `Options.sizes`.
    seeds : sequence of int
        Empty: those of the options.
    """

    part: str
    method: str
    model: Mapping[str, Any]
    settings: Mapping[str, Any] = {}
    seeds: Sequence[int] = ()


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
        Of the runs that are done, by hash.
    """

    data: Any
    memo: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Results] = field(default_factory=dict)


class Curve:
    """A callback that measures after passes, on a clock that stands while it does.

    Parameters
    ----------
    names : sequence of str
        What is measured, each a list in `values`; "seconds" are those of training, of the processor, of all threads.
    measure : callable
        Returns these by name, from the state of a training.
    passes : container of int, optional
        After which passes; None: all.
    limit : float
        Seconds after which training ends.
    """

    def __init__(
        self, names: Sequence[str], measure: Measure, passes: Container[int] | None = None, limit: float = math.inf
    ) -> None:
        self.values: dict[str, list[Any]] = {name: [] for name in names}
        self.measure, self.passes, self.limit = measure, passes, limit
        self.seconds, self._since = 0.0, time.process_time()

    def __call__(self, state: Any) -> bool:
        """Measure after a pass, if it is due; return whether the time is over."""
        self.stop()
        if self.passes is None or state.n_iter in self.passes:
            self.add(self.measure(state))
        self._since = time.process_time()
        return self.seconds >= self.limit

    def stop(self) -> None:
        """Let the clock stand."""
        self.seconds += time.process_time() - self._since

    def add(self, measures: Mapping[str, Any]) -> None:
        """Add what was measured."""
        for name, value in ({"seconds": self.seconds} | dict(measures)).items():
            if name in self.values:
                self.values[name].append(value)


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
    plans : callable
        What all methods are run with on one data set; options.data holds the names of all that were chosen.
    load : callable
        The data of that name, or FileNotFoundError, whose text says which files are missing and why.
    perform : callable
        The results of a run, for JSON.
    report : callable
        Tables, plots, figures to record and sentences from the records of the runs.
    open_data : bool
        Whether other data sets than `data` can be named.
    settings : tuple of str
        Data sets with published settings, which `Options.settings_of` may name for others.
    """

    name: str
    summary: str
    data: tuple[str, ...]
    methods: tuple[str, ...]
    plans: Callable[[str, Options], Iterable[MethodPlan]]
    load: Callable[[str, Options], Any]
    perform: Callable[[Run, Context], Results]
    report: Callable[[Records], Items]
    open_data: bool = False
    settings: tuple[str, ...] = ()

    def runs(self, name: str, options: Options) -> list[Run]:
        """Return the runs on one data set of the methods that were chosen."""
        return [
            Run(self.name, part, name, method, seed, options.sizes | dict(settings), _encoded(model))
            for part, method, model, settings, seeds in self.plans(name, options)
            if not options.methods or method in options.methods
            for seed in seeds or range(options.seeds)
        ]


def _encoded(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON has them; what is a dictionary already stays as it is."""
    dicts = {name: value for name, value in model.items() if isinstance(value, dict)}
    return encode_parameters({name: value for name, value in model.items() if name not in dicts}) | dicts


@dataclass(frozen=True)
class Outcome:
    """What is left of an experiment.

    Attributes
    ----------
    items : list of Table, Plot, PaperFigure or str
        What is told of the runs.
    records : list of dict
        Of the runs that were asked for, in their order, made now or before.
    n_made : int
        Runs made now.
    n_known : int
        Runs found in the records.
    n_failed : int
        Runs that failed now.
    """

    items: list[Item]
    records: Records
    n_made: int
    n_known: int
    n_failed: int


def run_experiment(
    experiment: Experiment, options: Options, folder: Path, *, note: Note, progress: bool = False
) -> Outcome:
    """Make the runs that are not recorded yet and return the report of all.

    Raises ValueError for a name that the experiment does not know, or if no data set is there.
    """
    options = _resolve(experiment, options)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / RECORDS
    known = {record["hash"]: record for record in read_records(file, note)}
    runs = {name: {run.hash: run for run in experiment.runs(name, options)} for name in options.places}
    hashes = dict.fromkeys(itertools.chain.from_iterable(runs.values()))
    results = {key: known[key]["results"] for key in hashes if "results" in known.get(key, {})}
    n_known = len(results)
    if results:
        note(f"{n_known} of {len(hashes)} runs are in {file} and are not made again")
    new_records: Records = []
    with contextlib.closing(progress_bar(len(hashes), unit="run", shown=progress, done=n_known)) as bar:
        for name, planned in runs.items():
            missing = [run for key, run in planned.items() if key not in results]
            try:
                context = Context(experiment.load(name, options) if missing else None, results=results)
            except FileNotFoundError as error:
                note(f"skipped {name}: {error}")
                bar.total -= len(missing)
                continue
            for run in missing:
                bar.set_postfix_str(run.label, refresh=True)
                new_records.append(_perform(experiment, run, context))
                known[run.hash] = new_records[-1]
                _append(file, new_records[-1])
                if "error" in new_records[-1]:
                    note(f"failed: {run.label}: {new_records[-1]['error']}")
                bar.update()
    records = [known[key] for key in hashes if key in known]
    if not records:
        raise ValueError(f"experiment {experiment.name}: none of the data sets {', '.join(options.places)} is there")
    n_failed = sum("error" in record for record in new_records)
    return Outcome(_report(experiment, records), records, len(new_records), n_known, n_failed)


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


def record_figures(items: Iterable[Item], experiment: str, command: str, file: Path) -> int:
    """Append the figures of a report and its command to a file, a line of JSON each; return their number.

    What ran them, and when, becomes a line of "runs.jsonl" beside the file, named by the "run" of each figure.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.parent / RECORDS
    known = {run["run"]: run for run in read_records(beside, lambda _: None)}
    figures = [item for item in items if isinstance(item, PaperFigure)]
    for figure in figures:
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
        _append(file, line | {"command": command})
    return len(figures)


def machine() -> dict[str, Any]:
    """Return processor, cores, instruction set in use, load average and versions; no name of a host or a user."""
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    computer = {"cpu": _processor(), "cores": os.cpu_count(), "isa": _core.best_isa(), "load": load}
    system = {"system": f"{platform.system()} {platform.machine()}", "python": platform.python_version()}
    return computer | system | {"numpy": np.__version__, "scipy": scipy.__version__, "manyclass": __version__}


def _processor() -> str:
    table = Path("/proc/cpuinfo")
    lines = table.read_text(encoding="utf-8").splitlines() if table.exists() else []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")


def finite(value: Any) -> Any:
    """`value` as JSON has it, with None for every number that is not finite."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)


def _resolve(experiment: Experiment, options: Options) -> Options:
    """Return options that name their data; raises ValueError for names that the experiment does not know."""
    name, others = experiment.name, [name for name in options.places if name not in experiment.data]
    settings = options.settings_of
    if settings is not None and (settings not in experiment.settings or not others):
        choices = ", ".join((*experiment.settings, "None"))
        rule = "it is for data that the paper has not, and must be one of"
        raise ValueError(f"settings_of is {settings!r} in experiment {name}; {rule} {choices}")
    for method in options.methods:
        check_choice(f"a method of experiment {name}", method, experiment.methods)
    hint = "any with settings_of (--settings-of), one of these" if experiment.settings else ""
    for other in () if experiment.open_data or settings else others:
        check_choice(f"a data set of experiment {name}", other, experiment.data, hint)
    return replace(options, data=options.data or experiment.data)


def _perform(experiment: Experiment, run: Run, context: Context) -> dict[str, Any]:
    record: dict[str, Any] = {"hash": run.hash, **asdict(run), "version": __version__, "machine": machine()}
    begin, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            record["results"] = context.results[run.hash] = finite(experiment.perform(run, context))
        # One run of many: the others are worth making, and this one's record says what happened.
        except Exception as error:
            record["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    # That training diverged or did not end.
    texts = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning))
    record["seconds"] = round(time.perf_counter() - begin, 3)
    record["cpu_seconds"] = round(time.process_time() - processor, 3)
    record["finished"] = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    record["warnings"] = [*texts]
    return record


def _append(file: Path, record: Mapping[str, Any]) -> None:
    line = json.dumps(record, allow_nan=False) + "\n"
    with open(file, "a+b") as out:
        if out.tell():
            out.seek(-1, os.SEEK_END)
            if out.read(1) != b"\n":  # of a process that was ended while it wrote
                line = "\n" + line
        out.write(line.encode())


def _report(experiment: Experiment, records: Records) -> list[Item]:
    """Return what there is to tell of runs; a table of it has those that failed or warned."""
    succeeded = [record for record in records if "results" in record]
    items: list[Item] = [*NOTES.get(experiment.name, ()), *experiment.report(succeeded)] if succeeded else []
    if importlib.util.find_spec("matplotlib") is None and any(isinstance(item, Plot) for item in items):
        items = [NO_PLOTS, *(item for item in items if not isinstance(item, Plot))]
    counts: Counter[tuple[Any, ...]] = Counter()
    for r in records:
        # Of a warning its first words: what follows the colon differs from run to run, and is in the records.
        texts = [f"failed: {r['error']}"] if "error" in r else [text.partition(":")[0] for text in r["warnings"]]
        counts.update((r["data"], r["part"], r["method"], text) for text in texts)
    if counts:
        rows = [[*key, count] for key, count in counts.items()]
        columns = ("data", "part", "method", "what", "runs")
        items.append(Table("troubles", "Runs that failed or warned", columns, rows))
    return items
