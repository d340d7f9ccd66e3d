"""Measurements that `pytest --benchmark-save` saved, as lines of bench/results: see make_tables.py."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
# What tells a measurement from the others of its file. A new one takes the place of the old.
KEYS = {
    "closed_forms": ("data", "model"),
    "cost": ("model", "axis", "size"),
    "cost_gain": ("solver", "n_classes"),
    "cost_pairs": ("n_classes",),
    "cost_long": ("what",),
    "cost_tags": ("what",),
    "excesses": ("data", "solver"),
    "index": ("data", "asked"),
    "index_curves": ("data", "index", "asked"),
    "index_rivals": ("data", "index", "asked"),
    "many_labels": ("data", "model"),
    "next_items": ("data", "protocol", "model"),
    "predict": ("data", "recall"),
    "predict_rows": ("model", "way"),
    "predict_many": ("answer",),
    "roofline": ("kernel",),
    "selection": ("data", "selection"),
    "step": ("data", "selection"),
    "streams": ("data", "model"),
    "texts": ("features", "model"),
    "threads": ("data", "case"),
    "time_to_loss": ("solver", "learning_rate"),
    "word_vectors": ("model",),
    "zero_line": ("data", "solver"),
}

Row = dict[str, Any]


def take_all(paths: Iterable[Path]) -> None:
    """Put the measurements of saved runs into bench/results, and draw what has a picture."""
    taken = [file for path in paths for file in take(path)]
    if "roofline" in taken:
        from bench_roofline import draw  # needs matplotlib

        draw()
    if "cost" in taken:
        from bench_cost import draw as draw_costs

        draw_costs()


def measured(saved: Row, run: str) -> dict[str, dict[tuple[Any, ...], Row]]:
    """The rows that benchmarks of a saved run noted, by file and by what tells them apart.

    Several benchmarks may each have a part of a row. Rows of generated data are left out.
    """
    found: dict[str, dict[tuple[Any, ...], Row]] = {}
    for benchmark in saved["benchmarks"]:
        info = benchmark["extra_info"]
        for row in info.get("rows", []) if info["source"] == "real" else []:
            file = row["file"]
            at = tuple(row[key] for key in KEYS[file])
            part = {key: value for key, value in row.items() if key != "file"}
            found.setdefault(file, {}).setdefault(at, {"run": run}).update(part)
    return found


def run_of(saved: Row, run: str) -> Row:
    """A line of results/runs.jsonl."""
    infos = [benchmark["extra_info"] for benchmark in saved["benchmarks"]]
    loads = [info[when][0] for info in infos for when in ("load", "load_after") if when in info]
    return {
        "run": run,
        "cpu": infos[0]["cpu"],
        "cores": infos[0]["cores"],
        "isa": infos[0]["isa"],
        "version": infos[0]["version"],
        "commit": saved["commit_info"]["id"],
        "date": saved["datetime"][:10],
        "load": f"{min(loads)} to {max(loads)}",
    }


def take(path: Path) -> list[str]:
    """Put the measurements of a saved run into bench/results; return the files that have some."""
    saved = json.loads(path.read_text("utf-8"))
    run = f"{saved['datetime'][:10]} {path.stem}"
    files = measured(saved, run)
    if not files:
        raise SystemExit(f"{path} has no measurements of real data that a table shows")
    for file, rows in files.items():
        at = RESULTS / f"{file}.jsonl"
        lines = []
        for line in at.read_text("utf-8").splitlines() if at.exists() else []:
            new = rows.pop(tuple(json.loads(line).get(key) for key in KEYS[file]), None)
            lines.append(json.dumps(new, ensure_ascii=False) if new else line)
        lines += [json.dumps(row, ensure_ascii=False) for row in rows.values()]
        at.write_text("\n".join(lines) + "\n", "utf-8")
    write_runs(run_of(saved, run))
    return list(files)


def write_runs(new: Row) -> None:
    """Add a run to results/runs.jsonl, and drop those of which no measurement is left."""
    at = RESULTS / "runs.jsonl"
    others = (path for path in RESULTS.glob("*.jsonl") if path != at)
    named = {json.loads(line)["run"] for path in others for line in path.read_text("utf-8").splitlines()}
    lines = at.read_text("utf-8").splitlines() if at.exists() else []
    kept = [line for line in lines if json.loads(line)["run"] in named - {new["run"]}]
    at.write_text("\n".join([*kept, json.dumps(new)]) + "\n", "utf-8")
