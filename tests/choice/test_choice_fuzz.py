"""Random histories of choice models: tables, fits, files and questions in any order, and what must hold."""

from __future__ import annotations

import copy
import csv
import os
import pickle
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.histories import History
from fuzz.mutate import mutated

import manyclass
from manyclass import ChoiceClassifier
from manyclass.choice import LatentClasses, RandomCoefficients, find_memberships
from manyclass.choice.fitted_model import features_by_kind
from manyclass.cli.choices import ChoiceColumns
from manyclass.cli.data import Reading
from manyclass.datasets import ChoiceSets, choice_sets, from_long

# Cells that no column of numbers, of 0 and 1, or of one label a row can have.
WRONG_CELLS = ("", "nan", "inf", "high", "1e999", "2", "-1", "0.5", "1;5", "yes", '"', "0x1", "１２", "None", "1,5")


class ChoiceHistory(History):
    """A choice model, and data that it is fitted to and asked about."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model = ChoiceClassifier()
        self.fitted = False
        self.sets = self.draw_sets()

    def __str__(self) -> str:
        return str(self.model)

    def chance(self, share: float) -> bool:
        """Whether something of this probability happens."""
        return bool(self.rng.random() < share)

    def draw_sets(self, like: ChoiceSets | None = None) -> ChoiceSets:
        """Data of any kind, or other rows with the features and alternatives of some."""
        rng = self.rng
        n, k = int(rng.integers(1, 25)), int(rng.integers(2, 6))
        d, q, r = (int(rng.integers(0, 3)) for _ in range(3))
        labels = np.array(list("abcde")[:k]) if self.chance(0.5) else np.arange(10, 10 + k)
        Z = rng.normal(size=(k, q)) if q else None
        if like is not None:
            k, labels, Z = like.n_alternatives, like.alternatives, like.Z
            d, q, r = len(like.chooser_names), len(like.alternative_names), len(like.pair_names)
        r += d + q + r == 0
        persons = np.arange(n) // 3 if self.chance(0.5) else np.arange(n)
        available = rng.random((n, k)) < 0.8
        available[0] = True  # a table knows what is available somewhere
        chosen = rng.integers(k, size=n)
        available[np.arange(n), chosen] = True
        return choice_sets(
            alternatives=labels,
            X=rng.normal(size=(persons.max() + 1, d))[persons] if d else None,
            Z=Z,
            pairs={f"s{j}": rng.normal(size=(n, k)).round(1 if self.chance(0.2) else 9) for j in range(r)} or None,
            available=available if self.chance(0.6) else None,
            offset=rng.normal(size=(n, k)) if self.chance(0.2) else None,
            chosen=labels[chosen],
            persons=persons if self.chance(0.6) else None,
            sample_weight=rng.uniform(0.5, 2, n)[persons] if self.chance(0.3) else None,
            n_rows=n,
        )

    def draw_parameters(self) -> dict[str, Any]:
        """Parameters, of which some may not fit the data."""
        sets, drawn = self.sets, self.one
        columns = [*sets.alternative_names, *sets.pair_names] or ["x"]
        mixtures = [
            LatentClasses(
                int(self.rng.integers(1, 4)),
                drawn((None, [*sets.chooser_names])),
                n_starts=2,
                max_iter=3,
            ),
            RandomCoefficients(
                {drawn(columns): drawn(("normal", "lognormal", "-lognormal", "triangular", "uniform"))}, n_draws=8
            ),
        ]
        k, noise = sets.n_alternatives, drawn(("gumbel",) * 4 + ("normal", "logistic"))
        return {
            "noise": noise,
            "interactions": drawn(("auto", "none", "full", 1)),
            "constants": drawn(("auto", "none", "alternative", np.arange(k) // 2)),
            "nests": drawn((None,) * 4 + (np.arange(k) // 2, np.zeros(k, int))),
            "alpha": drawn((0.0, 0.1, {"pairs": 0.5})),
            "constraints": drawn((None, None, {drawn(columns): drawn((1.0, "positive", "negative", columns[0]))})),
            "mixture": drawn((None, None, *mixtures)),
            "covariance": drawn(("auto", "auto", "hessian", "robust", "clustered", "none")),
            "solver": drawn(("auto", "auto", "auto", "double_sum")),
            "n_negatives": 2,
            "max_iter": drawn((1, 5, 30)),
            "random_state": 0,
        }

    def ways(self) -> dict[Callable[[], None], float]:
        """Steps, and how often each comes."""
        ways = {self.draws: 1, self.fits: 3, self.reads_columns: 1, self.reads_wrong_columns: 2, self.asks: 2}
        return {**ways, self.reads_a_file: 1, self.reads_a_wrong_file: 2, self.is_saved: 1, self.reads_a_wrong_model: 2}

    def check(self) -> None:
        """Probabilities of rows sum to one, and are 0 where nothing is available."""
        if not self.fitted:
            return
        sets = self.sets
        probabilities = self.model.predict_proba(sets)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-9)
        table = sets.to_long()
        available = np.zeros(probabilities.shape, bool)
        available[table["chooser"], np.searchsorted(sets.alternatives, table["alternative"])] = True
        assert not probabilities[~available].any()
        assert np.isfinite(self.model.coef_).all()
        assert not np.any(self.model.std_errors_ < 0)

    def draws(self) -> None:
        """Other rows; of the same features where a model is fitted."""
        self.sets = self.draw_sets(self.sets if self.fitted else None)

    def fits(self) -> None:
        """Fit to the data, or to others, with any parameters."""
        before, sets = self.sets, self.draw_sets() if self.chance(0.5) else self.sets
        self.sets = sets
        model = ChoiceClassifier(**self.draw_parameters())
        if self.error_of(lambda: model.fit(sets)) is not None:
            self.sets = before
            return
        self.model, self.fitted = model, True
        if "double_sum" not in (model.solver, model.solver_):
            likelihood = model.log_likelihood(sets)
            np.testing.assert_allclose(model.log_likelihood_, likelihood, rtol=1e-9, atol=1e-9)
            assert likelihood <= 1e-9
        if isinstance(model.mixture, LatentClasses):
            np.testing.assert_allclose(find_memberships(model, sets).posterior.sum(axis=1), 1, atol=1e-9)

    def asks(self) -> None:
        """Ask all questions: nothing changes."""
        if not self.fitted:
            return
        before, sets, model = copy.deepcopy(self.model.__getstate__()), self.sets, self.model
        labels, shares = model.predict_top_k(sets, 2)
        np.testing.assert_array_equal(labels[:, 0], model.predict(sets))
        assert np.all(shares[:, 0] >= shares[:, 1])
        assert model.evaluate(sets)["log_loss"] >= 0
        assert str(model.summary())
        self.error_of(lambda: model.certificate(sets))
        for name in (*sets.alternative_names, *sets.pair_names):
            assert np.isfinite(model.elasticities(sets, name, sets.alternatives[0])).all()
        self.error_of(lambda: model.simulate(sets, sets.without(sets.alternatives[:1])))
        assert model.__getstate__().keys() == before.keys()
        np.testing.assert_array_equal(model.coef_, before["_state"].fit.theta)

    # Tables and files

    def columns(self) -> dict[str, Any]:
        """The data as a long table."""
        return dict(self.sets.to_long())

    def kinds(self) -> dict[str, tuple[str, ...]]:
        """Which columns are features of what."""
        sets = self.sets
        names = (sets.chooser_names, sets.alternative_names, sets.pair_names)
        return dict(zip(("choosers", "alternatives", "pairs"), names, strict=True))

    def reads_columns(self) -> None:
        """A long table is read as what it was made of."""
        table = self.columns()
        again = from_long(table, features=self.kinds(), alternatives=self.sets.alternatives).to_long()
        assert again.keys() == table.keys()
        for name, column in table.items():
            np.testing.assert_array_equal(again[name], column, err_msg=name)

    def reads_wrong_columns(self) -> None:
        """What a table may not hold is refused."""
        table, rng = self.columns(), self.rng
        row = int(rng.integers(len(table["chooser"])))
        features = [name for names in self.kinds().values() for name in names]
        ways: list[tuple[str, Any]] = [
            ("chosen", np.zeros(len(table["chosen"]), bool)),
            ("chosen", np.where(np.arange(len(table["chosen"])) == row, 2, table["chosen"].astype(int))),
            (self.one(features), self.one((np.nan, np.inf, "high"))),
            ("weight", -1.0),
            ("alternative", "nowhere"),
        ]
        name, wrong = self.one(ways)
        if np.ndim(wrong) == 0:
            column = np.array(table.get(name, np.ones(len(table["chooser"]))), dtype=object)
            column[row] = wrong
            wrong = column
        read = {"features": self.kinds(), "alternatives": self.sets.alternatives}
        error = self.error_of(lambda: from_long({**table, name: wrong}, **read))
        assert error is not None, f"{name} was taken"

    def written(self) -> Path:
        """A file of the long table."""
        table = self.columns()
        path = self.folder / "table.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table)
            rows = zip(*(column.tolist() for column in table.values()), strict=True)
            writer.writerows([repr(cell) if isinstance(cell, float) else cell for cell in row] for row in rows)
        return path

    def reads_a_file(self) -> None:
        """A file is read as the columns are, and predicted alike."""
        path = self.written()
        if not self.fitted or features_by_kind(self.model) != self.kinds():
            return
        sets, _ = ChoiceColumns().read(str(path), Reading(), self.model)
        np.testing.assert_allclose(self.model.predict_proba(sets), self.model.predict_proba(self.sets), atol=1e-12)

    def reads_a_wrong_file(self) -> None:
        """A file with a wrong cell or byte is refused with its name, or read."""
        path = self.written()
        content = path.read_bytes()
        if self.chance(0.5):
            content = mutated(content, random.Random(int(self.rng.integers(1 << 31))))
        else:
            lines = [line.split(b",") for line in content.splitlines()]
            line = self.one(lines)
            line[int(self.rng.integers(len(line)))] = self.one(WRONG_CELLS).encode()
            content = b"\n".join(b",".join(line) for line in lines)
        path.write_bytes(content)
        sets = self.read_or_refuse(path, lambda: ChoiceColumns().read(str(path), Reading())[0])
        if sets is not None:
            assert np.isfinite(sets.X).all()
            assert np.isfinite(sets.lists.features).all()

    def is_saved(self) -> None:
        """Save and load, pickle or copy: the model answers as before."""
        if not self.fitted:
            return
        path = self.folder / "model.safetensors"
        if self.chance(0.3):
            model = pickle.loads(pickle.dumps(self.model))
        else:
            self.model.save(path)
            model = manyclass.load(path)
        np.testing.assert_array_equal(model.predict_proba(self.sets), self.model.predict_proba(self.sets))
        assert str(model.summary()) == str(self.model.summary())
        self.model = model

    def reads_a_wrong_model(self) -> None:
        """A damaged file is refused with its name, or holds a model that answers or refuses."""
        if not self.fitted:
            return
        path = self.folder / "model.safetensors"
        self.model.save(path)
        path.write_bytes(mutated(path.read_bytes(), random.Random(int(self.rng.integers(1 << 31)))))
        model = self.read_or_refuse(path, lambda: manyclass.load(path))
        if model is not None:
            with np.errstate(all="ignore"):
                self.error_of(lambda: model.predict_proba(self.sets))
                self.error_of(lambda: str(model.summary()))

    def read_or_refuse(self, path: Path, read: Callable[[], Any]) -> Any:
        """What is read, or None where a ValueError names the file."""
        try:
            return read()
        except ValueError as error:
            message = str(error)
        assert str(path) in message, f"no file is named: {message}"
        self.note("refused")
        return None


def run_histories(first: int, n: int, n_steps: int = 8) -> None:
    """Run histories by number; AssertionError at the first fault, which names its history."""
    for number in range(first, first + n):
        with tempfile.TemporaryDirectory() as folder:
            ChoiceHistory(number, Path(folder)).run(n_steps)


@pytest.mark.parametrize("n", [60, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_order_of_tables_fits_files_and_questions_breaks_a_choice_model(n):
    run_histories(int(os.environ.get("MANYCLASS_FIRST_HISTORY", "0")), n)


@pytest.mark.parametrize("number", [3620, 5279, 6156, 6582])
def test_histories_that_found_faults_find_them_no_more(number):
    """Newton steps and drawn ones that overflowed, shares above 1 by rounding, exponentials of a mixed logit."""
    run_histories(number, 1)
