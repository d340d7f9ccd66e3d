"""Choice models on the command line: long tables, by which they are fitted, and which they predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from json import loads
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass.choice.files import FORMAT
from manyclass.choice.model import ChoiceClassifier
from manyclass.choice.predictions import features_by_kind
from manyclass.cli.data import Reading
from manyclass.cli.messages import waiting
from manyclass.datasets import ChoiceSets, from_long
from manyclass.datasets.inputs import is_safetensors
from manyclass.datasets.tables import library
from manyclass.labels import as_labels
from manyclass.weights.tensor_file import open_tensors

NAMES = ("chooser", "alternative", "chosen")  # columns whose names a model file keeps, and what they are by default


@dataclass(kw_only=True)
class ChoiceColumns:
    """Long tables of choice models.

    DATA are then a table, .csv, .tsv or .parquet, with a row for each alternative that a chooser may choose.

    Attributes
    ----------
    chooser : NAME
        column of choosers, whose rows are one choice; default: chooser, or as in the fit
    alternative : NAME
        column of alternatives; default: alternative, or as in the fit
    chosen : NAME
        column that is 1 where the alternative was chosen, which predict does not read; default: chosen, or as in the
        fit
    """

    chooser: str | None = None
    alternative: str | None = None
    chosen: str | None = None

    def named(self, notes: Mapping[str, Any]) -> dict[str, str]:
        """Return the names of these columns: those that are given, else those of a model file, else the usual ones."""
        return {name: str(getattr(self, name) or notes.get(name, name)) for name in NAMES}

    def read(
        self, path: str, model: ChoiceClassifier, notes: Mapping[str, Any], *, chosen: bool = True
    ) -> tuple[ChoiceSets, NDArray[Any]]:
        """Read a table with the features of a fitted model; return it, and the chooser of each row.

        Parameters
        ----------
        path : str
        model : ChoiceClassifier
        notes : mapping
            Of the model's file.
        chosen : bool
            Whether to read what was chosen.

        Raises
        ------
        ValueError
            If the file is no such table, or a chooser has not chosen one alternative.
        """
        kinds = features_by_kind(model)
        names = self.named(notes)
        table = read_table(path, [*(names if chosen else {**names, "chosen": names["chooser"]}).values()], kinds)
        alternatives = as_labels(table[names["alternative"]])
        # Where coefficients belong to no alternative, a table may have new ones.
        known_alternatives = model.classes_ if np.isin(alternatives, model.classes_).all() else None
        how: dict[str, Any] = {**names, "chosen": names["chosen"] if chosen else None}
        sets = from_long(table, **how, features=kinds, alternatives=known_alternatives)
        return sets, np.unique(as_labels(table[names["chooser"]]))


@dataclass(kw_only=True)
class LongTable(ChoiceColumns):
    """Long tables of --estimator choice.

    DATA are then a table, .csv, .tsv or .parquet, with a row for each alternative that a chooser may choose. Columns
    with numbers are features, but for those named here and for person, weight and offset.

    Attributes
    ----------
    long : bool
        DATA are such a table, which --estimator choice needs
    feature : NAME
        column that is a feature; may be given several times; default: all others that have numbers
    """

    long: bool = False
    feature: list[str] | None = None

    def read_to_fit(self, path: str) -> ChoiceSets:
        """Read a table to fit to; raises as `read` does."""
        names: dict[str, Any] = self.named({})
        table = read_table(path, [*names.values()], {"": self.feature or ()})
        return from_long(table, **names, features=self.feature)


def read_table(path: str, columns: Sequence[str], features: Mapping[str, Sequence[str]]) -> Any:
    """Read a table that must have these columns; raises ValueError where it lacks one."""
    pandas = library("pandas")
    with waiting(f"reading {path}"):
        if path.endswith(".parquet"):
            table = pandas.read_parquet(path)
        else:
            table = pandas.read_csv(path, sep="\t" if ".tsv" in path else ",")
    for name in (*columns, *(name for group in features.values() for name in group)):
        if name not in table.columns:
            raise ValueError(f"{path} has no column {name!r}; it has {', '.join(map(str, table.columns))}")
    return table


def refuse_for_choices(options: Mapping[str, Any]) -> None:
    """Raise ValueError for an option, by its name, that is given and has no effect on choice models."""
    for option, value in options.items():
        if value:
            raise ValueError(f"{option} is not for choice models; leave it out")


def choice_model(
    path: str, reading: Reading, columns: ChoiceColumns, n_jobs: int
) -> tuple[ChoiceClassifier, dict[str, Any]] | None:
    """Return the choice model of a file, with its notes; None where the file holds something else.

    Raises
    ------
    ValueError
        If it is damaged, or an option is given that is about other data than long tables.
    """
    if not is_safetensors(path) or open_tensors(path).metadata.get("format") != FORMAT:
        for name in NAMES:
            if getattr(columns, name) is not None:
                raise ValueError(f"--{name} is for choice models, which {path} does not hold; leave it out")
        return None
    defaults = Reading()
    for option in fields(Reading):
        if option.init and getattr(reading, option.name) != getattr(defaults, option.name):
            raise ValueError(f"--{option.name.replace('_', '-')} is not for choice models, whose data are long tables")
    with waiting(f"loading {path}"):
        model = ChoiceClassifier.load(path)
    model.n_jobs = n_jobs
    notes = loads(open_tensors(path).metadata["notes"])
    return model, notes if isinstance(notes, dict) else {}
