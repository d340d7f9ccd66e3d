"""Yen et al. (ICML 2018), Figure 3: the exact skip-gram objective against the processor's seconds of training.

GD, GD-MIPS and GD-Decomp-MIPS move the tables of input and output words by turns on the collapsed objective, all from
one pass of negative sampling (Word2vec-Neg), with Q = K / 20, by the paper's rule: each centre leaves out what it does
not find, and finds of blocks are joined by messages (Algorithm 2), active words having their exact scores; "(as
printed)" is Algorithm 2 to the letter. In brackets stands what is ours, too: finds of blocks scored exactly, and words
that were not found estimated from samples, where groups of centres search together. Word2vec-Neg and Word2vec-HS make
passes over the text; the values of Word2vec-HS are those of its tree's own probabilities. Dimension 100, window 8,
sub-sampling at 1e-4, as in the paper; its text, BillionW (680 million words), is not among the data sets here: these
are beginnings of two smaller ones. Evaluations are not counted as training.
"""

from __future__ import annotations

import lzma
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from manyclass.papers import summary
from manyclass.papers.data import find_data
from manyclass.papers.engine import Context, Curve, Experiment, Items, MethodPlan, Options, Results, Run
from manyclass.papers.summary import RAN, Plot, Quantity, Records, averaged, trained_with
from manyclass.words.objectives import objective_named
from manyclass.words.skip_gram import SkipGram
from manyclass.words.training import N_BLOCKS, SkipGramState, default_budget

SUMMARY = "Yen et al. 2018: skip-gram's exact objective by descent with and without search (Figure 3)"
# The objective of each method by name, with parameters of its own.
METHODS: dict[str, dict[str, Any]] = {
    "GD": {"name": "descent"},
    "GD-MIPS": {"name": "descent", "search": "mips", "rest": "mask"},
    "GD-Decomp-MIPS": {"name": "descent", "search": "messages", "rest": "mask"},
    "GD-Decomp-MIPS (as printed)": {"name": "descent", "search": "printed_messages", "rest": "mask"},
    "GD-Decomp-MIPS (exact scores)": {"name": "descent", "search": "decomposed", "rest": "mask"},
    "GD-MIPS (rest sampled)": {"name": "descent", "search": "mips", "rest": "sample"},
    "GD-Decomp-MIPS (rest sampled)": {"name": "descent", "search": "decomposed", "rest": "sample"},
    "Word2vec-Neg": {"name": "negative_sampling"},
    "Word2vec-HS": {"name": "hierarchical"},
}
# What a masked search does with the finds of its blocks: the options of words/table_gradients.cpp, for the report.
RULES: dict[str, dict[str, Any]] = {
    "mips": {},
    "decomposed": {"tolerance": 0.0, "answer": "active"},
    "messages": {"n_iter": 1, "step": "frank_wolfe", "tolerance": 1e-3, "answer": "blocks"},
    "printed_messages": {"n_iter": 1, "step": "frank_wolfe", "tolerance": 1e-3, "rule": "printed"},
}
SAME = {"dim": 100, "window": 8, "min_count": 5, "sample": 1e-4, "sample_rule": "sqrt"}
LINES = {"novels100": 24_000, "yso-titles": 200_000}  # a vocabulary of 10^4 words: a pass of GD takes seconds
PASSES = 5

Sentences = list[list[str]]


def plans(name: str, options: Options) -> Iterator[MethodPlan]:
    """One run a method and seed, a descent after a pass of Word2vec-Neg."""
    settings = {"lines": options.max_rows or LINES[name], "seconds": options.seconds}
    for method, objective in METHODS.items():
        warm_up = {"warm_up": 1} if objective["name"] == "descent" else {}
        model = {**SAME, "objective": objective, "max_iter": options.max_iter or PASSES, **warm_up}
        yield MethodPlan("figure 3", method, model, settings)


def load(name: str, options: Options) -> Sentences:
    """The first lines of a text."""
    place = options.places[name]
    file = find_data(place) if place != name else find_data(name, f"text/{name}.txt.xz")
    with lzma.open(file, "rt", encoding="utf-8") as text:
        return [line.split() for line in islice(text, options.max_rows or LINES[name])]


def perform(run: Run, context: Context) -> Results:
    """Train; the exact objective after each pass, the warm-up's among them, until the time is over."""

    def measure(state: SkipGramState) -> dict[str, float]:
        return {"objective": state.objective_value()}

    parameters = {**run.model, "objective": objective_named(**run.model["objective"])}
    model = SkipGram(random_state=run.seed, n_jobs=run.settings["n_jobs"], **parameters)
    curve = Curve(("seconds", "objective"), measure, limit=run.settings["seconds"] or math.inf)
    model.fit(context.data, callback=curve)
    n_words, seconds = len(model.counts_), np.diff([0.0, *curve.values["seconds"]]).tolist()
    ran = trained_with(model, **_joined(run.model["objective"], n_words))
    return {**curve.values, "pass_seconds": seconds, "n_words": n_words, RAN: ran}


def _joined(objective: Mapping[str, Any], n_words: int) -> dict[str, Any]:
    """What a search does that its parameters do not say."""
    search = objective.get("search")
    if search is None:
        return {}
    blocks = {} if search == "mips" else {"blocks": N_BLOCKS}
    rule = RULES[search] if objective.get("rest") == "mask" else {}
    return {"found": default_budget(n_words), **blocks, **rule}


def report(records: Records) -> Items:
    """A table for each text, and the figure; the median pass is that after the first."""
    for name, group in summary.by_key(records, "data").items():
        sizes: dict[str, Quantity] = {"vocabulary": "n_words", "lines": lambda runs: runs[0]["settings"]["lines"]}
        yield from summary.compare("Table 3", "data", group, sizes, name=f"table-3-{name}", of_all=True)
        quantities: dict[str, Quantity] = {
            "first": averaged(lambda results: results["objective"][0]),
            "last": "objective",
            "seconds a pass": averaged(_median_pass),
            "times GD's speed": summary.over(group, averaged(lambda results: 1 / _median_pass(results)), "GD"),
        }
        caption = f"exact objective of {name} in nats per co-occurrence, and the median pass"
        yield from summary.compare("Figure 3", caption, group, quantities, name=f"figure-3-{name}")
    drawn = summary.panels(records, "seconds", "objective")
    caption = "Figure 3: the exact objective against training time"
    yield Plot("figure-3", caption, "seconds", "nats per co-occurrence", drawn, log_x=True)


def _median_pass(results: Results) -> float:
    return float(np.median(results["pass_seconds"][1:] or results["pass_seconds"]))


EXPERIMENT = Experiment("ldgs-skip-gram", SUMMARY, tuple(LINES), tuple(METHODS), plans, load, perform, report)
