"""Yen et al. (ICML 2018), Figure 3: the exact skip-gram objective against the processor's seconds of training.

GD, GD-MIPS and GD-Decomp-MIPS move the tables of input and output words by turns on the collapsed objective, all from
one pass of negative sampling (Word2vec-Neg), with Q = K / 20, by the paper's rule: each centre leaves out what it does
not find, and finds of blocks are joined by messages (Algorithm 2), active words having their exact scores; "(as
printed)" is Algorithm 2 to the letter. In brackets stands what is ours, too: finds of blocks scored exactly, and words
that were not found estimated from samples, where groups of centres search together. Word2vec-Neg and Word2vec-HS make
passes over the text; the values of Word2vec-HS are those of its tree's own probabilities. Dimension 100, window 8,
sub-sampling at 1e-4, as in the paper; its text, BillionW (680 million words), is not among the data sets here: these
are beginnings of two smaller ones. Evaluations are not counted as training.

"Products over GD's" counts inner products of length 100 for a centre word in a step of one table. GD makes three for
each of the K words: its score, its part of the gradient, and its score after the step. A masked search makes those of
its search, its gradient's, and 2 K for the exact losses before and after a step, without which steps are taken that
raise the objective; so it is at most 1.5 times as fast by these counts. A sampled search has 2 Q words in a list,
which it treats as GD does all.
"""

from __future__ import annotations

import lzma
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from manyclass.papers import published, summary
from manyclass.papers.data import find_data
from manyclass.papers.engine import Context, Curve, Experiment, Items, MethodPlan, Options, Results, Run
from manyclass.papers.summary import RAN, PaperFigure, Plot, Records, Table, trained_with, what_ran
from manyclass.words.objectives import objective_named
from manyclass.words.skip_gram import SkipGram
from manyclass.words.training import N_BLOCKS, SkipGramState, default_budget, index_for

SUMMARY = "Yen et al. 2018: skip-gram's exact objective by descent with and without search (Figure 3)"
GD = "GD"
# The objective of each method by name, with parameters of its own.
METHODS: dict[str, dict[str, Any]] = {
    GD: {"name": "descent"},
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
COUNTED = 256  # centre words whose searches are counted
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
    states: list[SkipGramState] = []

    def measure(state: SkipGramState) -> dict[str, float]:
        states[:] = [state]
        return {"objective": state.objective_value()}

    parameters = {**run.model, "objective": objective_named(**run.model["objective"])}
    model = SkipGram(random_state=run.seed, n_jobs=run.settings["n_jobs"], **parameters)
    curve = Curve(("seconds", "objective"), measure, limit=run.settings["seconds"] or math.inf)
    model.fit(context.data, callback=curve)
    n_words, objective = len(model.counts_), run.model["objective"]
    return {
        **curve.values,
        "pass_seconds": np.diff([0.0, *curve.values["seconds"]]).tolist(),
        "n_words": n_words,
        RAN: trained_with(model, **_joined(objective, n_words)),
        "products": _products(states[0], objective, run.seed) if states else None,
    }


def _products(state: SkipGramState, objective: Mapping[str, Any], seed: int) -> float | None:
    """Inner products for a centre word in a step of one table, over GD's; None where no descent is made."""
    search = objective.get("search")
    if objective["name"] != "descent" or search is None:
        return None if objective["name"] != "descent" else 1.0
    n_words, dim = len(state.corpus.words), state.dim
    budget = default_budget(n_words)
    if objective["rest"] == "sample":
        return 2 * budget / n_words
    index = index_for(search, seed=seed, n_jobs=1).fit(state.tables.output[:, :dim])
    starts, words, _ = state.collapsed.contexts
    centres = np.flatnonzero(np.diff(starts))
    centre_words = np.sort(np.random.default_rng(seed).permutation(centres)[:COUNTED])
    contexts = [words[starts[x] : starts[x + 1]] for x in centre_words]
    rule = {"rest": None if search == "printed_messages" else "mask", **RULES[search]}
    queries = state.tables.input[centre_words, :dim]
    step = index.loss_and_gradient(queries, contexts, "cross_entropy", budget=budget, **rule)
    searched = float(step.report.n_multiplications.mean()) / dim
    # As printed, words that count as 0 have one gradient in common, which is added once and is not counted.
    listed = step.report.n_found.mean() if search == "printed_messages" else step.gradients.nnz / len(queries)
    return (searched + float(listed) + 2 * n_words) / (3 * n_words)


def _joined(objective: Mapping[str, Any], n_words: int) -> dict[str, Any]:
    """What a search does that its parameters do not say."""
    search = objective.get("search")
    if search is None:
        return {}
    blocks = {} if search == "mips" else {"blocks": N_BLOCKS}
    rule = RULES[search] if objective.get("rest") == "mask" else {}
    return {"found": default_budget(n_words), **blocks, **rule}


def report(records: Records) -> Items:
    """A table for each text, and the figure."""
    for name, group in summary.by_key(records, "data").items():
        yield from _text(name, group)
    drawn = summary.panels(records, "seconds", "objective")
    caption = "Figure 3: the exact objective against training time"
    yield Plot("figure-3", caption, "seconds", "nats per co-occurrence", drawn, log_x=True)


def _text(name: str, records: Records) -> Items:
    groups, rows, first = summary.by_key(records, "method"), [], records[0]
    _, base_end, base_seconds = _numbers(groups.get(GD, []))
    sizes = {"vocabulary": first["results"]["n_words"], "lines": first["settings"]["lines"]}
    yield PaperFigure("Table 3", name, "all", sizes, records[:1])
    for method, group in groups.items():
        start, end, seconds = _numbers(group)
        faster = products = None
        if descends := METHODS[method]["name"] == "descent":
            faster, (products,) = summary.ratio(base_seconds, seconds), summary.means(group, "products")
        speeds = [products, seconds, faster, published.YEN["speed"].get(method)]
        rows.append([method, start, end, summary.ratio(end, base_end), *speeds])
        values: dict[str, Any] = {"first": start, "last": end, "seconds a pass": seconds}
        if descends and GD in groups:
            values |= {"times GD's speed": faster, "products over GD's": products}
        yield PaperFigure("Figure 3", name, method, values, group)
    objective_columns = ("first pass [nats]", "last pass [nats]", "over GD's")
    columns = ("method", *objective_columns, "products over GD's", "CPU s a pass", "times GD's speed", "paper")
    caption = f"{name} ({sizes['vocabulary']} words, {sizes['lines']} lines): exact objective, and the median pass"
    yield Table(f"figure-3-{name}", caption, columns, rows, what_ran(records))


def _numbers(records: Records) -> list[float | None]:
    """Mean over seeds of the first and the last objective and of the median pass after the first."""
    return summary.means(
        records,
        lambda r: r["results"]["objective"][0],
        "objective",
        lambda r: float(np.median(r["results"]["pass_seconds"][1:] or r["results"]["pass_seconds"])),
    )


EXPERIMENT = Experiment("ldgs-skip-gram", SUMMARY, tuple(LINES), tuple(METHODS), plans, load, perform, report)
