"""Write the tables of README.md, bench/README.md and of some of bench/notes from the figures in bench/results.

A line of a file there is one measurement, as JSON; `run` names the machine, load and settings in results/runs.jsonl.
A table stands between `<!-- table NAME -->` and `<!-- end NAME -->`. Figures are printed with the digits recorded.
Given files that `pytest --benchmark-save` wrote, take their measurements of real data into bench/results first:

    python bench/make_tables.py [.benchmarks/*/0001_NAME.json ...]
"""

import re
import sys
from pathlib import Path

from table_kinds import AboveBest, Columns, LeftOut, OverSeeds, Pivot, Races, Tally

BENCH = Path(__file__).resolve().parent
PAGES = (
    BENCH / "README.md",
    BENCH.parent / "README.md",
    BENCH / "notes" / "auto.md",
    BENCH / "notes" / "cost.md",
    BENCH / "notes" / "ensembles.md",
    BENCH / "notes" / "index_rivals.md",
    BENCH / "notes" / "mutation.md",
    BENCH / "notes" / "quality.md",
    BENCH / "notes" / "races.md",
    BENCH / "notes" / "roofline.md",
    BENCH / "notes" / "threads.md",
)


DATA_BY_SOLVER = {"files": ("zero_line", "race"), "down": "data", "across": "solver", "cell": "{nats}"}

BESIDE = {
    "data": "{data}",
    "log-loss (accuracy)": "**{log_loss:.3f}** ({accuracy:.1f} %)",
    "CPU s": "{cpu_s:.1f}",
    "best package": "{best_model}",
    "its log-loss (accuracy)": "{best_log_loss:.3f} ({best_accuracy:.1f} %)",
    "its CPU s": "{best_cpu_s:.1f}",
}
ON_THE_FRONT = ("bibtex", "delicious", "20news", "eurlex57k", "yso-en")

COSTS = {"CPU s": "{cpu_s:.1f}", "ms a row": "{predict_ms:.2f}", "peak MB": "{peak_mb:.0f}", "MB": "{mb:.1f}"}

TABLES: dict[str, AboveBest | Columns | Pivot | Tally | OverSeeds | LeftOut | Races] = {
    "headline": OverSeeds("quality", ("data", "model"), BESIDE, {"labels": "first"}, ("()", "log_loss"), ON_THE_FRONT),
    "many_labels": Columns(
        "many_labels",
        {
            "data": "{data}",
            "model": "{model}",
            "P@1/3/5": "{p:/}",
            "PSP@1/3/5": "{psp:/}",
            "CPU s": "{cpu_s}",
            "ms a row": "{predict_ms}",
            "MB": "{mb}",
        },
    ),
    "unbiased": Pivot(**DATA_BY_SOLVER, where={"biased": False}),
    "biased": Pivot(**DATA_BY_SOLVER, where={"biased": True}),
    "decomposition": Pivot(("decomposition",), "method", "data", "{p_at_1}, {cpu_s} s"),
    "step": Pivot(("step",), "selection", "data", "{us} ({us_min})"),
    "selection": Pivot(("selection",), "selection", "data", "{train} / {test} ({passes})"),
    "time_to_loss": Columns(
        "time_to_loss",
        {
            "solver": "{solver}",
            "learning rate": "{learning_rate}",
            "seconds: log-loss after each pass": "{each_pass}",
            "sooner than exact": "{sooner} times",
        },
    ),
    "word_vectors": Columns(
        "word_vectors",
        {
            "": "{model}",
            "words/s": "{words_per_s:,.0f}",
            "words per CPU s": "{words_per_cpu_s:,.0f}",
            "WordSim-353": "{wordsim353:.3f}",
            "SimLex-999": "{simlex999:.3f}",
            "MEN": "{men:.3f}",
        },
    ),
    "index": Columns(
        "index",
        {
            "data": "{data}",
            "recall@10": "{recall}",
            "batch, 2 threads": "{batch} / {batch_faiss}: {batch_ratio}",
            "batch, 1 thread": "{one_thread} / {one_thread_faiss}: {one_thread_ratio}",
            "single query": "{single} / {single_faiss}: {single_ratio}",
        },
    ),
    "index_rivals": Columns(
        "index_rivals",
        {
            "data": "{data}",
            "recall": "{asked}",
            "index": "{index}",
            "setting (recall)": "{setting} ({recall})",
            "batch": "{batch} ({batch_times})",
            "single": "{single} ({single_times})",
            "build, s": "{build}",
            "update, ms (recall)": "{update} ({recall_after})",
        },
    ),
    "quality_beside": OverSeeds("quality", ("data", "model"), BESIDE, {"labels": "first"}, ("()", "log_loss")),
    "quality_all_beside": OverSeeds(
        "quality",
        ("data", "model"),
        {
            "data": "{data}",
            "best of ours": "{model}",
            "P@1/3/5": "{p:/}",
            "CPU s": "{cpu_s:.1f}",
            "best package": "{best_model}",
            "its P@1/3/5": "{best_p:/}",
            "its CPU s": "{best_cpu_s:.1f}",
        },
        {"labels": "all"},
        ("()", "-p"),
    ),
    "quality_first": OverSeeds(
        "quality",
        ("data", "model"),
        {
            "data": "{data}",
            "model": "{model}",
            "seeds": "{seeds}",
            "log-loss": "{log_loss:.3f}",
            "accuracy": "{accuracy:.1f}",
            "hit@10": "{hit_10:.1f}",
            "ECE": "{ece:.1f}",
            **COSTS,
        },
        {"labels": "first"},
    ),
    "quality_all": OverSeeds(
        "quality",
        ("data", "model"),
        {"data": "{data}", "model": "{model}", "seeds": "{seeds}", "P@1/3/5": "{p:/}", "PSP@1/3/5": "{psp:/}", **COSTS},
        {"labels": "all"},
    ),
    "races": Races(
        "races",
        "quality",
        ("scikit-learn lbfgs", "PyTorch embeddings, full", "PyTorch embeddings, sampled"),
        {
            "data": "{data}",
            "model": "{model}",
            "training log-loss: CPU s": "{train}: {train_s}",
            "test log-loss: CPU s": "{test}: {test_s}",
            "log-loss": "{log_loss:.3f}",
            "accuracy": "{accuracy:.1f}",
            "CPU s": "{cpu_s:.2f}",
            "of its grid": "{grid_cpu_s:.0f}",
            "ms a row": "{predict_ms:.3f}",
            "peak MB": "{peak_mb:.0f}",
            "MB": "{mb:.1f}",
        },
    ),
    "cost": Columns(
        "cost",
        {
            "model": "{model}",
            "axis": "{axis}",
            **{name: f"{{{name}:,}}" for name in ("K", "D", "nnz", "m")},
            "microseconds a row": "{us}",
            "MB a fit adds": "{mb}",
        },
    ),
    "cost_long": Columns(
        "cost_long",
        {
            "fit": "{what}",
            "rows": "{n_rows:,}",
            "microseconds a row": "{us}",
            "s a pass": "{s_a_pass}",
            "passes": "{passes}",
            "log-loss before, after a pass, at the end": "{before}, {first_pass}, {after}",
            "accuracy": "{accuracy} %",
            "peak GB of the process": "{peak_gb}",
        },
    ),
    "cost_gain": Pivot(("cost_gain",), "n_classes", "solver", "{seconds} s, {passes} passes ({start} to {end})"),
    "predict_rows": Columns(
        "predict_rows",
        {
            "model": "{model}, {way}",
            "one row, us": "{one_row}",
            "its recall": "{one_row_recall}",
            "a row of a batch, us": "{batch}",
            "its recall ": "{batch_recall}",
        },
    ),
    "texts": Columns(
        "texts",
        {
            "features": "{features}",
            "columns": "{columns:,}",
            "values a row": "{values_a_row}",
            "model": "{model}",
            "log-loss": "{log_loss}",
            "accuracy": "{accuracy}",
            "hit@10": "{hit_10}",
            "CPU s": "{cpu_s}",
        },
    ),
    "threads": Columns(
        "threads",
        {
            "data, case": "{data}: {case}",
            "1 thread": "{s_1} s",
            "2 threads": "{s_2} s",
            "times": "{times}",
            "log-loss, 1": "{loss_1}",
            "2": "{loss_2}",
        },
    ),
    "leave_one_out": LeftOut("leave_one_out"),
    "implicit_alone": AboveBest("leave_one_out", "implicit"),
    "roofline": Columns(
        "roofline",
        {
            "kernel": "{kernel}",
            "work": "{work}",
            "ms": "{ms}",
            "bound": "{bound}",
            "its ms": "{bound_ms}",
            "per cent": "{per_cent}",
            "goal": "{goal}",
        },
    ),
    "mutation": Tally("mutation", ("kind", "part"), "fault", "outcome"),
    "hardening": Tally("hardening", ("kind", "part"), "fault", "outcome"),
    "predict": Pivot(("predict",), "data", "recall", "{times} times ({reached}; {log_z_rms})"),
}


def with_tables(page: str) -> str:
    """The text of a page with all its tables written anew."""

    def written(match: re.Match[str]) -> str:
        name = match[1]
        return "\n".join([f"<!-- table {name} -->", *TABLES[name].lines(), f"<!-- end {name} -->"])

    return re.sub(r"<!-- table (\w+) -->\n.*?<!-- end \1 -->", written, page, flags=re.DOTALL)


def main() -> None:
    if sys.argv[1:]:
        from saved import take_all

        take_all(map(Path, sys.argv[1:]))
    for path in PAGES:
        path.write_text(with_tables(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
