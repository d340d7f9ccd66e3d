"""The table of what "auto" stands for: no rule is dead, all of it is told, and its sources are there."""

import inspect
import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from house import ROOT
from planned import lists, question

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, load, models, samplers, solvers
from manyclass.choosing import rules
from manyclass.choosing.facts import Facts
from manyclass.choosing.figures import FIGURES
from manyclass.choosing.questions import Figure, Rule
from manyclass.choosing.rules import RULES, Choice, table

SETS = tuple(dict.fromkeys(rule.sets for rule in RULES))
X = sp.csr_array(np.eye(12, dtype=np.float32))


def facts(n_samples=2000, n_features=1000, n_classes=100, *, row=5.0, dense=False, n_labels=0):
    """Facts of data of this size; squares and pairs are those of small ones."""
    labels = lists(X.shape[0], max(1, n_labels))
    x = X.toarray() if dense else X
    found = Facts.of(x, max(n_classes, n_labels), labels, several=n_labels > 0)
    return replace(found, n_samples=n_samples, n_features=n_features, n_classes=n_classes, row=row)


SMALL, DENSE = facts(n_samples=200, n_features=20, n_classes=5), facts(dense=True)
WIDE = facts(200_000, 20_000, 20_000)  # W takes 1.6 GB and has 400 numbers for each one stored
HUGE = facts(200_000, 100_000, 20_000)
LONG = facts(500_000, 2000, 3000, row=100.0)
LISTS, LONG_LISTS, DENSE_LISTS = facts(n_labels=3), facts(n_labels=11, n_classes=9000), facts(n_labels=3, dense=True)
NEXT = replace(facts(), of_columns=True)  # items of histories
ALL_FACTS = (SMALL, DENSE, NEXT, WIDE, HUGE, LONG, LISTS, LONG_LISTS, DENSE_LISTS, facts(n_labels=2, n_classes=9000))
GIVEN = [
    *({"solver": name} for name in solvers.SOLVERS),
    *({"model": name} for name in models.MODELS),
    {"model": models.Embedding(activation="relu")},
    {"solver": solvers.CSS(schedule="adaptive")},
    {"solver": solvers.Adagrad(reduction="margin"), "model": "embedding"},
    {"solver": solvers.Implicit(), "learning_rate": 0.5},
    {"solver": "umax", "learning_rate": 0.5},
    {"n_negatives": 8},
    {"solver": "css", "model": "embedding"},
    {"solver": "exact", "model": "embedding"},
    {},
]


def answers(asked):
    """The rules that answer for all that is open, in the order of the table."""
    for name in SETS:
        if asked.is_open(name):
            asked[name]
    return set(map(id, asked.used.values()))


def reached():
    found = set()
    for given in GIVEN:
        for data in ALL_FACTS:
            for circumstances in ({}, {"by_steps": True}, {"by_steps": True, "goes_on": True}, {"beside_pairs": True}):
                if circumstances.get("beside_pairs") and given != {"model": "embedding"}:
                    continue
                extra = {"solver": "adagrad"} if "beside_pairs" in circumstances else {}
                asked = question(SoftmaxClassifier(**given, **extra), data, **circumstances)
                asked.first_run = (1.0, 1000)
                found |= answers(asked)
    # Where rows meet too many weights on pairs.
    for data in (replace(one, least_count=None) for one in ALL_FACTS):
        asked = question(SoftmaxClassifier(), data)
        asked.first_run = (1.0, 1000)
        found |= answers(asked)
        found |= answers(question(SoftmaxClassifier(early_stopping=False, dim=8), data))
    for given in ({}, {"solver": "sgd"}, {"solver": solvers.SGD(schedule="adaptive")}, {"posterior": "gaussian"}):
        found |= answers(question(AugmentReduceClassifier(noise="normal", **given), SMALL))
    for given in ({}, {"solver": "sgd"}, {"model": "embedding"}, {"model": "embedding", "solver": "sgd"}):
        found |= answers(question(MarginClassifier(**given), DENSE))
    return found | answers(question(MarginClassifier(), WIDE))


def test_each_rule_is_reached_by_some_data():
    found = reached()
    assert [(rule.sets, rule.case.says) for rule in RULES if id(rule) not in found] == []


def test_a_rule_that_no_data_reach_is_found(monkeypatch):
    dead = Rule("max_iter", rules.FULL_PASSES & rules.PAIRS, 3)
    monkeypatch.setattr(Choice, "rules", (dead, *RULES))
    assert id(dead) not in reached()


@pytest.mark.parametrize("name", SETS)
def test_the_last_rule_of_each_parameter_always_holds(name):
    last = [rule for rule in RULES if rule.sets == name][-1]
    assert last.case.says == "otherwise" or name == "solver"


def test_all_that_may_be_left_open_has_rules():
    for cls in (SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier):
        open_ = {name for name, p in inspect.signature(cls).parameters.items() if p.default == "auto"}
        assert open_ <= set(SETS)
    of_solvers = {s.name for solver in solvers.SOLVERS.values() for s in solver.settings if s.default == "auto"}
    assert of_solvers <= set(SETS)


def test_values_that_are_figures_are_told_as_they_are():
    (rule,) = (rule for rule in RULES if rule.value == Figure("PASSES_SAMPLED"))
    assert rule.told() == "12"
    of_seven = replace(SMALL, figures=replace(FIGURES, PASSES_SAMPLED=7))
    assert question(SoftmaxClassifier(solver="implicit", model="linear"), of_seven)["max_iter"] == 7


def test_a_fit_tells_the_rules_of_what_was_left_open_also_when_it_is_read_again(seed, tmp_path):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 5
    model = SoftmaxClassifier(solver="implicit", learning_rate=0.1, random_state=seed).fit(x, y)
    told = model.auto_report_.rules
    assert told.keys() >= {"sampler", "n_negatives", "max_iter", "decay", "averaging"}
    assert not told.keys() & {"solver", "learning_rate"}  # they were set
    for name, line in told.items():
        assert line in [rule.line() for rule in RULES if rule.sets == name]
        assert f"{name}, {line}" in repr(model.auto_report_)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").auto_report_.rules == told


def test_help_and_the_documentation_have_each_line_of_the_table():
    told = " ".join(inspect.getdoc(rules).split())
    assert len(table()) == len(RULES)
    for _, case, value, trial, source in table():
        assert " ".join(f"{case}: {value}".split()) in told
        assert source in told
        assert not trial or f'"{trial}" ' in told  # what it does stands above the table
    assert ".. rules::" in (ROOT / "python/docs/auto.rst").read_text("utf-8")


def test_numbers_in_the_words_are_those_of_the_figures():
    told = " ".join(inspect.getdoc(rules).split())
    f = FIGURES
    for words in (
        f"at most {f.MOST_MET:,} weights on pairs of at most {f.FEW_ROWS_OF_A_PAIR} rows",
        f"more than {f.MANY_LABELS:.0f} labels a row, {f.MOST_MET_OF_MANY:,} of more rows",
        f"W would take more than {f.LARGEST_TRIED >> 30} GB",
        f"{f.FEWEST_TO_TRY:,} rows and more",
        f"more than {f.LEAST_TO_EMBED >> 20} MB and have more than {f.NUMBERS_A_VALUE} numbers",
        f"at most {f.MOST_FULL:.0f} seconds",
        f"more than {f.MOST_EXACT:.0f} microseconds",
        f"more than {f.MOST_SCORED:,} classes",
        f"up to {f.FEW_ROWS:,} rows",
        f"{f.MOST_RUNS}, or as many as are predicted to take {f.SECONDS_OF_RUNS:.0f} seconds more",
        f"({f.SECONDS_OF_SECOND_RUN:.0f} the second of margins of several labels)",
        f"{f.MARGIN_RATE_OF_PAIRS} over the root of the mean",
    ):
        assert words in told


def test_each_source_is_there():
    decisions = " ".join((ROOT / "bench/decisions.md").read_text("utf-8").lower().replace("*", "").split())
    varied = set(re.findall(r'^    "([^"]+)": \(', (ROOT / "bench/bench_leave_one_out.py").read_text("utf-8"), re.M))
    for rule in RULES:
        for source in filter(None, rule.source.split("; ")):
            where, _, what = source.partition(": ")
            if where == "decisions":
                assert what.lower() in decisions
            if where == "leave_one_out":
                assert set(what.split(", ")) <= varied


# Sets of bench/decisions.md, one label a row: rows, features, classes and stored values a row.
PICKS = {
    "bibtex": ((4_880, 1_836, 146, 68.5), ("linear", "exact", 20, None, 1.0, "suffix")),
    "mnist": ((60_000, 784, 10, 784.0), ("linear", "exact", 20, None, 1.0, "suffix")),
    "eurlex57k": ((51_000, 5_000, 1_809, 140.0), ("linear", "implicit", 12, 256, 6.0, "suffix")),
    "yso-en": ((608_795, 50_000, 26_091, 7.5), ("hybrid", "adagrad", 2, 1024, None, None)),
    "yelp-next": ((255_492, 20_033, 20_031, 5.7), ("hybrid", "adagrad", 2, 1024, None, None)),
}


@pytest.mark.parametrize("name", PICKS)
def test_what_is_picked_for_known_sets(name):
    (n_samples, n_features, n_classes, row), expected = PICKS[name]
    asked = question(
        SoftmaxClassifier(fit_intercept=False), facts(n_samples, n_features, n_classes, row=row, dense=name == "mnist")
    )
    model, solver = asked["model"].name, asked["solver"].name
    drawn = None if solver == "exact" else asked["n_negatives"] if model == "linear" else FIGURES.NEGATIVES_BATCHES
    rate = asked["learning_rate"] if model == "linear" else None
    averaging = asked["averaging"] if model == "linear" else None
    assert (model, solver, asked["max_iter"], drawn, rate, averaging) == expected
    # yso-en is beyond what is tried, and the trials of the others have the last word.
    assert asked.tries("model") == (name != "yso-en")
    assert asked.rule_of("learning_rate").trial == {"linear": "step size", "hybrid": "step size of pairs"}[model]


def test_next_items_get_a_hybrid_without_a_trial_and_few_draws():
    asked = question(SoftmaxClassifier(), NEXT)
    assert (asked["model"].name, asked.tries("model")) == ("hybrid", False)
    beside = question(SoftmaxClassifier(model="embedding", solver="adagrad"), NEXT, beside_pairs=True)
    assert beside["n_negatives"] == FIGURES.NEGATIVES_NEXT
    other = question(SoftmaxClassifier(model="embedding", solver="adagrad"), facts(), beside_pairs=True)
    assert other["n_negatives"] == FIGURES.NEGATIVES_BATCHES
    assert question(SoftmaxClassifier(), replace(NEXT, n_samples=200)).tries("model") is False
    assert question(SoftmaxClassifier(), facts()).tries("model")


def test_what_is_set_is_asked_of_no_rule():
    asked = question(SoftmaxClassifier(n_negatives=7, solver=solvers.Implicit(decay=0.25)), WIDE)
    assert (asked["n_negatives"], asked["decay"]) == (7, 0.25)
    assert not {"n_negatives", "decay", "solver"} & set(asked.used)
    assert isinstance(asked["sampler"], samplers.Sampler)
    assert "sampler" in asked.used
