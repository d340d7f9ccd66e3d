"""Write the tables of README.md, bench/README.md and bench/figures from the figures in bench/results.

A line of a file there is one measurement, as JSON; `run` names the machine, load and settings in results/runs.jsonl.
A table stands between `<!-- table NAME -->` and `<!-- end NAME -->`. Figures are printed with the digits recorded: a
number with a point is text, so that 0.10 is not printed as 0.1. Needs pandas, of the extra `tables`. The rows of the
papers are written by manyclass.papers.published from what `manyclass experiment NAME --record` has appended.
Given files that `pytest --benchmark-save` wrote, take their measurements of real data into bench/results first:

    python bench/make_tables.py [.benchmarks/*/0001_NAME.json ...]
"""

import json
import math
import re
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from comparisons import (
    BENCH,
    MISSING,
    Columns,
    beside,
    beside_published,
    filled,
    in_columns,
    known,
    listed,
    markdown,
    means,
    members_alone,
    over_seeds,
    read,
    reading,
)

from manyclass.figures import FIGURES
from manyclass.papers import published

PAGES = (BENCH / "README.md", BENCH.parent / "README.md", *sorted((BENCH / "figures").glob("*.md")))
NEVER = "never"  # what a cell says that did not come about
LOSSES = ("train", "test")
LEAST_NATS = 0.002  # that a table of halved and doubled numbers tells


def crossed(*files: str, down: str, across: str, cell: str, **where: Any) -> list[str]:
    """A column for each value of `across` and a row for each value of `down`, in order of mention."""
    rows = read(*files, **where)
    rows = rows.assign(cell=[filled(cell, row) for row in known(rows)])
    table = rows.drop_duplicates([down, across], keep="last").pivot(index=down, columns=across, values="cell")
    table = table.reindex(index=rows[down].unique(), columns=rows[across].unique()).fillna(MISSING)
    return markdown(table.reset_index().rename(columns={down: ""}))


def tallied(file: str, down: tuple[str, ...], across: str, outcome: str) -> list[str]:
    """How many measurements have each outcome: a row for each value of `down`, and one for all."""

    def counted(outcomes: pd.Series) -> str:
        return ", ".join(f"{n} {one}" for one, n in outcomes.value_counts(sort=False).items())

    rows = read(file)
    everything = rows.assign(**dict.fromkeys(down, "") | {down[0]: "all"})
    parts = [r.groupby([*down, across], sort=False)[outcome].agg(counted) for r in (rows, everything)]
    table = pd.concat(parts).unstack(sort=False).reindex(columns=rows[across].unique())
    return markdown(table.fillna(MISSING).reset_index())


def left_out(file: str) -> list[str]:
    """What the value of each constant that all sets but one choose loses on that one, at worst.

    A choice is the value of least mean regret, in nats above the best value of a set.
    """
    found = []
    for constant, rows in read(file).groupby("constant", sort=False):
        first = rows[rows["data"] == rows["data"].iloc[0]]
        tables = {
            name: rows.pivot(index="data", columns="value", values=name).astype(float).reindex(columns=first["value"])
            for name in ("log_loss", "accuracy")
        }
        nats = tables["log_loss"].reindex(rows["data"].unique()).dropna()  # a run may not have ended
        points = tables["accuracy"].reindex(nats.index)
        regret = nats.sub(nats.min(axis=1), axis=0)
        of_all = regret.sum().idxmin()
        taken = {name: regret.drop(name).sum().idxmin() for name in nats.index}
        lost = pd.DataFrame(
            {
                "nats lost": {name: nats.loc[name, one] - nats.loc[name, of_all] for name, one in taken.items()},
                "points lost": {name: points.loc[name, of_all] - points.loc[name, one] for name, one in taken.items()},
                "nats above the best": {name: regret.loc[name, one] for name, one in taken.items()},
            }
        )
        told = {key: f"{of.max():.3f} ({of.idxmax()})" if of.max() > 0 else "0" for key, of in lost.items()}
        today = first.loc[first["now"].astype(bool), "value"].iloc[0]
        about = {"constant": constant, "sets": len(nats), "values": ", ".join(first["value"])}
        found.append(about | {"today": today, "of all sets": of_all} | told)
    return markdown(pd.DataFrame(found))


def halved_and_doubled(file: str) -> list[str]:
    """What half and twice of each number cost where they cost most, and gain where they gain most, in nats."""
    losses = read(file).pivot(index="data", columns=["figure", "value"], values="log_loss").astype(float)
    changes = losses.sub(losses["", "as it is"], axis=0)
    lines = []
    for figure in dict.fromkeys(name for name, _ in losses.columns if name):
        cells = {"number": f"`{figure}`", "as it is": repr(getattr(FIGURES, figure))}
        for word in ("half", "twice"):
            nats = changes[figure, word].dropna() if (figure, word) in changes else pd.Series(dtype=float)
            ends = dict.fromkeys((nats.idxmax(), nats.idxmin())) if len(nats) else {}
            cells[word] = ", ".join(f"{nats[key]:+.3f} ({key})" for key in ends if abs(nats[key]) >= LEAST_NATS) or "0"
        lines.append(cells)
    telling = [cells for cells in lines if (cells["half"], cells["twice"]) != ("0", "0")]
    silent = ", ".join(cells["number"] for cells in lines if cells not in telling)
    unread = ", ".join(f"`{name}`" for name in vars(FIGURES) if name not in losses.columns)
    return [*markdown(pd.DataFrame(telling)), "", *textwrap.wrap(f"Of no set: {silent}. Not read: {unread}.", 155)]


def raced(references: tuple[str, ...], columns: Columns) -> list[str]:
    """When each fit reached the losses that a reference ends with, and what it ends with itself.

    The reference of a data set is the first that ran. Of packages that show no loss on their way, a loss is reached
    when the fit is over, if it is.
    """
    found, races, others = list[dict[str, Any]](), read("races"), means(read("quality", labels="first"))
    for data, of_data in races.groupby("data", sort=False):
        here = {row["model"]: row for row in known(of_data)}
        curves = {name: pd.DataFrame(row["curve"]).astype(float) for name, row in here.items()}
        targets: dict[str, float] = {}
        if name := next((name for name in references if name in here), None):
            state = curves[name].loc[(curves[name][1] - float(here[name]["cpu_s"])).abs().idxmin()]
            targets = {part: math.ceil(100 * state[3 + at]) / 100 for at, part in enumerate(LOSSES)}
        named = {part: f"{target:.2f}" for part, target in targets.items()}
        for name, row in here.items():
            curve, at = curves[name], {}
            for place, (part, target) in enumerate(targets.items()):
                reached = curve.loc[curve[3 + place] <= target, 1]
                at[f"{part}_s"] = f"{reached.min():.2f}" if len(reached) else NEVER
            found.append(named | known(means(pd.DataFrame([row]).drop(columns="curve")))[0] | at)
        is_new = ~others["model"].isin([*here, "MarginClassifier()"]) & ~others["model"].str.contains("model=")
        for row in known(others[(others["data"] == data) & is_new]):
            if "test" in targets and "log_loss" in row:
                row["test_s"] = f"{row['cpu_s']:.2f}" if float(f"{row['log_loss']:.6f}") <= targets["test"] else NEVER
            found.append(named | row)
    return in_columns(pd.DataFrame(found, dtype=object), columns)


def of_paper(paper: str) -> list[str]:
    """The tables and figures of a paper, row by row."""
    lines = (BENCH / "results/papers.jsonl").read_text("utf-8").splitlines()
    rows = published.row_by_row(paper, map(json.loads, lines))
    return markdown(pd.DataFrame(rows, columns=published.COLUMNS))


def defined_in(paper: str) -> list[str]:
    """What a paper defines, and how it is called here."""
    columns = ("where", "what", "call", "test", "differs")
    rows = [[one[key] for key in columns] for one in published.algorithms(paper)]
    cells = pd.DataFrame(rows, columns=columns)
    return markdown(cells.assign(call="`" + cells["call"] + "`", test="`" + cells["test"] + "`"))


by_solver = partial(crossed, "zero_line", "race", down="data", across="solver", cell="{nats}")

FIGURES_OF = "{{{0}_model}}: {1}{{{0}_log_loss:.3f}}{1}, {{{0}_accuracy:.1f}}%, {2}{{{0}_cpu_s:.1f}}s{2}"
BESIDE = {
    "data": "{data}",
    "log-loss (accuracy)": "{mark}{log_loss:.3f}{mark} ({accuracy:.1f} %)",
    "CPU s": "{cpu_s:.1f}",
    "best package": "{best_model}",
    "its log-loss (accuracy)": "{best_mark}{best_log_loss:.3f}{best_mark} ({best_accuracy:.1f} %)",
    "its CPU s": "{best_cpu_s:.1f}",
}
ON_THE_FRONT = {
    "bibtex": "146 tags",
    "20news": "20 groups",
    "omniglot": "1,623 characters",
    "eurlex57k": "1,809 subjects",
    "yso-en": "26,091 subjects",
    "gloss-word": "189,624 words",
}
FRONT = {
    "data": "{data}: {classes}",
    "`SoftmaxClassifier()`": "{mark}{log_loss:.3f}{mark}, {accuracy:.1f}%, {cpu_s:.1f}s",
    "best other": FIGURES_OF.format("best", "{best_mark}", ""),
    "fastest other": FIGURES_OF.format("fast", "", "{fast_mark}"),
}
NAMED = {
    "data": "{data}",
    "accuracy, hit@10": "{mark}{accuracy:.1f}{mark}, {hit_10:.1f} %",
    "CPU s": "{cpu_s:.1f}",
    "best of them": "{best_model}",
    "its accuracy, hit@10": "{best_mark}{best_accuracy:.1f}{best_mark}, {best_hit_10:.1f} %",
    "its CPU s": "{best_cpu_s:.1f}",
}
RANKS = {
    "data": "{data}",
    "P@1/3/5": "{p:/}",
    "CPU s": "{cpu_s:.1f}",
    "best package": "{best_model}",
    "its P@1/3/5": "{best_p:/}",
    "its CPU s": "{best_cpu_s:.1f}",
}

NEXT_ITEMS = {"hit@10": "{hit_10:0<6}", "nDCG@10": "{ndcg_10:0<6}", "accuracy": "{accuracy:0<6}"}
NEXT_ITEMS |= {"log-loss": "{log_loss:0<5}", "CPU s": "{cpu_s}", "ms a row": "{predict_ms}", "peak MB": "{peak_mb}"}
RANKED = {"model": "{model}", "log-loss": "{log_loss:.3f}", "P@1/3/5": "{p:/}", "hit@10": "{hit_10:.1f}"}
COSTS = {"CPU s": "{cpu_s:.1f}", "ms a row": "{predict_ms:.2f}", "peak MB": "{peak_mb:.0f}", "MB": "{mb:.1f}"}

TABLES: dict[str, Callable[[], list[str]]] = {
    "headline": partial(beside, FRONT, "first", "log_loss", data=ON_THE_FRONT),
    "reading": reading,
    "published": beside_published,
    "beside_scikit_learn": partial(beside, BESIDE, "first", "log_loss", peers="scikit-learn"),
    "beside_fasttext": partial(beside, BESIDE, "first", "log_loss", peers="fastText"),
    "beside_trees": partial(beside, NAMED, "first", "accuracy", -1, peers=("omikuji", "napkinXC")),
    "beside_trees_all": partial(beside, RANKS, "all", "p", -1, peers=("omikuji", "napkinXC")),
    "many_labels": partial(
        listed,
        "many_labels",
        {"data": "{data}", "model": "{model}", "P@1/3/5": "{p:/}", "PSP@1/3/5": "{psp:/}"}
        | {"CPU s": "{cpu_s}", "ms a row": "{predict_ms}", "MB": "{mb}"},
    ),
    "next_items": partial(listed, "next_items", {"data": "{data}, {protocol}", "model": "{model}"} | NEXT_ITEMS),
    "unbiased": partial(by_solver, biased=False),
    "biased": partial(by_solver, biased=True),
    "decomposition": partial(crossed, "decomposition", down="method", across="data", cell="{p_at_1}, {cpu_s} s"),
    "closed_forms": partial(
        crossed,
        "closed_forms",
        down="data",
        across="model",
        cell="{nats} ({accuracy}, {hit_at_10})",
    ),
    "step": partial(crossed, "step", down="selection", across="data", cell="{us} ({us_min})"),
    "excesses": partial(
        listed,
        "excesses",
        {"data": "{data}", "solver": "{solver}"} | {f"{n} calls": f"{{in_{n}}}" for n in (10, 50, 500)},
    ),
    "streams": partial(
        listed,
        "streams",
        {"data": "{data}", "model": "{model}"}
        | {f"{share} %": f"{{at_{share}}}" for share in (1, 3, 10, 30)}
        | {f"{n:,} call{'s' if n > 1 else ''}": f"{{in_{n}}}" for n in (1, 10, 100, 1000)}
        | {"rise": "{rise}"},
    ),
    "selection": partial(crossed, "selection", down="selection", across="data", cell="{train} / {test} ({passes})"),
    "time_to_loss": partial(
        listed,
        "time_to_loss",
        {
            "solver": "{solver}",
            "learning rate": "{learning_rate}",
            "seconds: training (test) log-loss after each pass": "{each_pass}",
            "sooner than exact": "{sooner} times",
        },
    ),
    "word_vectors": partial(
        listed,
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
    "index": partial(
        listed,
        "index",
        {
            "data": "{data}",
            "recall@10": "{recall}",
            "batch, 2 threads": "{batch} / {batch_faiss}: {batch_ratio}",
            "batch, 1 thread": "{one_thread} / {one_thread_faiss}: {one_thread_ratio}",
            "single query": "{single} / {single_faiss}: {single_ratio}",
        },
    ),
    "index_rivals": partial(
        listed,
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
    "quality_beside": partial(beside, BESIDE, "first", "log_loss"),
    "quality_all_beside": partial(beside, RANKS, "all", "p", -1),
    "quality_first": partial(
        over_seeds,
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
        "first",
    ),
    "quality_members": partial(
        members_alone,
        {
            "data": "{data}",
            "model": "{model}",
            "seeds": "{seeds}",
            "log-loss": "{log_loss:.3f}",
            "accuracy": "{accuracy:.1f}",
            "CPU s": "{cpu_s:.1f}",
            "shares (first seed)": "{shares}",
        },
    ),
    "quality_gloss_word": partial(over_seeds, {**RANKED, **COSTS}, "first", data="gloss-word"),
    "quality_all": partial(
        over_seeds,
        {"data": "{data}", "model": "{model}", "seeds": "{seeds}", "P@1/3/5": "{p:/}", "PSP@1/3/5": "{psp:/}", **COSTS},
        "all",
    ),
    "races": partial(
        raced,
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
    "cost": partial(
        listed,
        "cost",
        {
            "model": "{model}",
            "axis": "{axis}",
            **{name: f"{{{name}:,}}" for name in ("K", "D", "nnz", "m")},
            "microseconds a row": "{us}",
            "MB a fit adds": "{mb}",
        },
    ),
    "cost_long": partial(
        listed,
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
    "cost_tags": partial(
        listed,
        "cost_tags",
        {
            "classes": "{what}",
            "rows": "{n_rows:,}",
            "model": "{model}",
            "s of processor": "{s}",
            "peak GB of the process": "{peak_gb}",
            "P@1, 3, 5": "{precision}",
            "ms a row": "{ms}",
        },
    ),
    "cost_pairs": partial(
        listed,
        "cost_pairs",
        {
            "K": "{n_classes:,}",
            "pairs a row": "{met:,}",
            "microseconds a visit": "{us}",
            "training log-loss of the last pass": "{log_loss}",
        },
    ),
    "cost_gain": partial(
        crossed, "cost_gain", down="n_classes", across="solver", cell="{seconds} s, {passes} passes ({start} to {end})"
    ),
    "predict_rows": partial(
        listed,
        "predict_rows",
        {
            "model": "{model}, {way}",
            "one row, us": "{one_row}",
            "its recall": "{one_row_recall}",
            "a row of a batch, us": "{batch}",
            "its recall ": "{batch_recall}",
        },
    ),
    "predict_many": partial(
        listed,
        "predict_many",
        {
            "answer": "{answer}",
            "ms a row": "{ms}",
            "times as fast": "{times}",
            "recall": "{recall}",
            "error of log Z, nats (rms)": "{log_z_rms}",
            "its std": "{log_z_std}",
        },
    ),
    "texts": partial(
        listed,
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
    "threads": partial(
        listed,
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
    "leave_one_out": partial(left_out, "leave_one_out"),
    "figures": partial(halved_and_doubled, "figures"),
    "roofline": partial(
        listed,
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
    "mutation": partial(tallied, "mutation", ("kind", "part"), "fault", "outcome"),
    "hardening": partial(tallied, "hardening", ("kind", "part"), "fault", "outcome"),
    **{f"rows_{paper}": partial(of_paper, paper) for paper in published.PAPERS},
    **{f"algorithms_{paper}": partial(defined_in, paper) for paper in published.PAPERS},
    "predict": partial(crossed, "predict", down="data", across="recall", cell="{times} times ({reached}; {log_z_rms})"),
}


def with_tables(page: str) -> str:
    """The text of a page with all its tables written anew."""

    def written(match: re.Match[str]) -> str:
        return "\n".join([f"<!-- table {match[1]} -->", *TABLES[match[1]](), f"<!-- end {match[1]} -->"])

    return re.sub(r"<!-- table (\w+) -->\n.*?<!-- end \1 -->", written, page, flags=re.DOTALL)


def main() -> None:
    if sys.argv[1:]:
        from saved import take_all

        take_all(map(Path, sys.argv[1:]))
    for path in PAGES:
        path.write_text(with_tables(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
