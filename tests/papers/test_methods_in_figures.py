"""The words beside figures: what a fitted estimator trained with, and one line a method for several data sets."""

import numpy as np
import pytest

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, samplers, solvers
from manyclass.papers.summary import Table, compare, trained_with, what_ran

X, Y = np.eye(6, dtype=np.float32)[[0, 1, 2, 3, 4, 5] * 10], np.arange(60) % 6


def words_of(model, **fit):
    return trained_with(model.fit(X, Y, **fit))


def test_what_was_left_open_is_told_as_it_was_used():
    model = SoftmaxClassifier(solver="implicit", max_iter=3)
    words = words_of(model)
    assert words["estimator"] == "SoftmaxClassifier"
    assert (words["solver"], words["steps"], words["schedule"]) == ("implicit", "implicit", "exponential")
    assert words["learning_rate"] == f"{model.resolved_params_['learning_rate']:.4g}"
    assert words["n_negatives"] == str(model.resolved_params_["n_negatives"])
    assert words["sampler"] == "frequency_block"
    assert "auto" not in words.values()


@pytest.mark.parametrize("sampler", ["all", "uniform"])
def test_of_a_margin_too(sampler):
    model = MarginClassifier(sampler=sampler, max_iter=3)
    words = words_of(model)
    assert words["learning_rate"] == f"{model.resolved_params_['learning_rate']:.4g}" == "1"
    assert words["decay"] == "0.9"
    assert words.get("n_negatives") == {"all": None, "uniform": "256"}[sampler]
    assert "auto" not in words.values()


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            SoftmaxClassifier(solver=solvers.OVE(batch_size=7, decay=0.5), sampler="uniform", n_negatives=2),
            {"solver": "ove", "steps": "explicit", "batch_size": "7", "decay": "0.5", "sampler": "uniform"},
        ),
        (SoftmaxClassifier(solver="exact"), {"solver": "exact", "sampler": "all", "batch_size": "None"}),
        (SoftmaxClassifier(solver=solvers.LBFGS(loss="ove")), {"solver": "lbfgs", "loss": "ove"}),
        (
            AugmentReduceClassifier(solver=solvers.SGD(schedule="adaptive"), local_step="monte_carlo"),
            {"noise": "normal", "solver": "sgd", "schedule": "adaptive", "local_step": "monte_carlo"},
        ),
        (
            MarginClassifier(sampler=samplers.Search(budget=3), smoothing=2.0),
            {"solver": "adagrad", "sampler": "search", "index": "mips", "budget": "3", "smoothing": "2"},
        ),
    ],
)
def test_solver_steps_schedule_batch_and_sampler_are_told_of_every_estimator(model, expected):
    words = words_of(model)
    assert {name: words[name] for name in expected} == expected
    assert ("learning_rate" in words) == (words["solver"] != "lbfgs")
    assert "n_jobs" not in words
    assert "random_state" not in words


def test_training_that_a_callback_ends_is_told_with_the_passes_made():
    model = SoftmaxClassifier(solver="implicit", max_iter=9)
    assert words_of(model, callback=lambda state: state.n_iter == 2)["passes made"] == "2"
    assert "passes made" not in words_of(model)


def test_one_line_a_method_tells_data_sets_apart_only_where_they_differ():
    def record(method, data, seed=0, **words):
        return {"method": method, "data": data, "seed": seed, "results": {"ran": words}}

    made = [
        record("a", "one", solver="ove", learning_rate="1"),
        record("a", "two", solver="ove", learning_rate="2"),
        record("a", "three", solver="ove", learning_rate="1", decay="0.9"),
        record("a", "two", seed=1, solver="of another seed", learning_rate="2"),
        record("b", "one", solver="exact"),
        {"method": "old", "data": "one", "seed": 0, "results": {}},
    ]
    assert what_ran(made) == (
        ("a", "solver ove; learning_rate 1 (one, three), 2 (two); decay 0.9 (three)"),
        ("b", "solver exact"),
        ("old", "parameters not recorded"),
    )


def test_a_row_has_what_its_method_ran_and_a_row_of_all_methods_has_what_each_ran():
    ran = (("ove", "1"), ("ove, ours", "2"), ("nce", "4"))
    rows = [["ove", 1.0], ["ove, ours", 1.0], ["is", None], ["all", 1.0]]
    table = Table("t", "T", ("method", "loss"), rows, ran)
    assert "- ove, ours: 2\n" in table.markdown()
    assert "<li>nce: 4</li>" in table.html()
    with_comma = '"ove, ours",1.0,"ove, ours: 2"'
    last = 'all,1.0,"ove: 1 | ove, ours: 2 | nce: 4"'
    assert table.csv().splitlines()[1:] == ["ove,1.0,ove: 1", with_comma, "is,,", last]


def test_a_table_of_a_paper_has_the_published_values_beside_ours_and_the_spread_over_seeds():
    def record(method, seed, **results):
        names = {"experiment": "titsias", "data": "mnist", "method": method, "seed": seed}
        return names | {"results": {**results, "ran": {"solver": "ove"}}}

    records = [record("SOFT", 0, error=0.25), *(record("OVE", seed, norm=0.5 + seed, error=0.5) for seed in (0, 1))]
    quantities = {"norm": "norm", "error": "error", "runs": len}
    table, *figures = compare("Table 2", "data", records, quantities)
    columns = ("data", "method", "norm", "norm, paper", "error", "error, paper", "runs", "nlpd, paper", "over seeds")
    assert table.columns == columns
    assert table.rows == [
        ("mnist", "SOFT", None, None, 0.25, 0.074, 1, 0.271, ""),
        ("mnist", "OVE", 1.0, 0.5, 0.5, 0.082, 2, 0.287, "0.5 to 1.5"),
    ]
    assert [figure.values for figure in figures] == [{"error": 0.25, "runs": 1}, {"norm": 1.0, "error": 0.5, "runs": 2}]
    assert [*compare("Table 2", "data", [], quantities)] == []
