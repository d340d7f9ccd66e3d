"""Choice models on the command line: long and wide tables, by which they are fitted, and which they predict."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from json import loads
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyclass.choice.columns import CellError
from manyclass.choice.files import FORMAT
from manyclass.choice.fitted_model import features_by_kind
from manyclass.choice.model import ChoiceClassifier
from manyclass.choice.tables import find_choosers, from_long, from_wide
from manyclass.cli.data import Reading, file_format
from manyclass.cli.messages import waiting
from manyclass.cli.options import flag, set_options
from manyclass.datasets import ChoiceSets
from manyclass.datasets.inputs import TABLES, Input, Layout
from manyclass.datasets.label_words import labels_of_words
from manyclass.datasets.stream import as_classes
from manyclass.datasets.tables import TableFile, label_in
from manyclass.labels import as_labels
from manyclass.weights.tensor_file import open_tensors

# Options that choice models have beside those of their tables.
OPTIONS = {"format", "delimiter", "decimal", "estimator", "test", "json", "n_jobs", "progress"}
OPTIONS |= {"k", "threshold", "output", "output_format", "probabilities"}
NO_CHOICES = dict.fromkeys(("chosen", "counts", "person", "weight"))  # columns that predict does not read
# What a model file keeps of the table, and what it is where nothing tells it.
USUAL = {"chooser": ["chooser"], "alternative": "alternative", "chosen": "chosen"}
USUAL |= {**dict.fromkeys(("person", "weight", "offset"), "auto"), "pair": [], "utility": []}
NOTED = (*USUAL, "available", "counts", "wide", "formula")

Model = ChoiceClassifier | None
Choices = tuple[ChoiceSets, NDArray[Any]]  # and who chooses in each row


@dataclass(kw_only=True)
class ChoiceColumns:
    """Tables of choice models.

    DATA are then a table, csv, tsv or parquet, which is long or wide as that of the fit was.

    Attributes
    ----------
    chooser : NAME
        column of choosers, whose rows are one choice; given several times, columns that name them together, as person
        and task; default: chooser, or as in the fit
    alternative : NAME
        column of alternatives; default: alternative, or as in the fit
    chosen : NAME
        column that tells by 0 and 1, no and yes, or false and true whether the alternative was chosen, in a wide table
        the one that was; predict does not read it; default: chosen, or as in the fit
    unavailable_choices : {"raise", "drop"}
        choices that were not available are an error, or are left out and counted
    """

    chooser: list[str] | None = None
    alternative: str | None = None
    chosen: str | None = None
    unavailable_choices: Literal["raise", "drop"] = "raise"

    def notes(self, notes: Mapping[str, Any]) -> dict[str, Any]:
        """Return how the table is read: by these options, else by those of a model file, else as usual."""
        values = {name: getattr(self, name, None) or notes.get(name) or USUAL.get(name) for name in NOTED}
        chooser = values["chooser"]
        return {**values, "chooser": [chooser] if isinstance(chooser, str) else chooser}

    def read(
        self, path: str, reading: Reading, model: Model = None, notes: dict[str, Any] | None = None, chosen: bool = True
    ) -> Choices:
        """Read a table, with the features of a fitted model if there is one; return it, and who chooses in each row.

        Parameters
        ----------
        path : str
        reading : Reading
        model : ChoiceClassifier, optional
        notes : mapping, optional
            Of the model's file.
        chosen : bool
            Whether to read what was chosen.

        Raises
        ------
        ValueError
            If the file is no such table, or a cell is not what its column holds, with the line.
        """
        how = self.notes(notes or {}) | ({} if chosen else NO_CHOICES)
        is_wide = bool(how["wide"] or how["utility"])
        labels = ["person" if how["person"] == "auto" else how["person"]]
        labels += [how["chosen"]] if is_wide else [*how["chooser"], how["alternative"]]
        how |= {name: None for name in ("person", "weight", "offset") if how[name] == "none"}
        with waiting(f"reading {path}"), read_table(path, reading, labels) as columns, warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # which counts the rows that are left out
            return (self._read_wide if is_wide else self._read_long)(columns, how, model)

    def _read_long(self, columns: dict[str, Any], how: dict[str, Any], model: Model) -> Choices:
        named = {name: value for name, value in how.items() if name not in ("pair", "utility", "wide")}
        named["features"] = features_by_kind(model) if model else getattr(self, "feature", None)
        if model is not None and how["alternative"] in columns:
            labels = columns[how["alternative"]] = as_classes(model.classes_, as_labels(columns[how["alternative"]]))
            # Where coefficients belong to no alternative, a table may have new ones.
            named["alternatives"] = model.classes_ if np.isin(labels, model.classes_).all() else None
        sets = from_long(columns, **named, unavailable_choices=self.unavailable_choices)
        who = find_choosers(columns, how["chooser"]).labels
        return sets, as_labels(who if len(how["chooser"]) == 1 else ["/".join(map(str, name)) for name in who])

    def _read_wide(self, columns: dict[str, Any], how: dict[str, Any], model: Model) -> Choices:
        utilities, named = _split_options(how["utility"]), {name: how[name] for name in ("person", "weight")}
        labels = model.classes_ if model else labels_of_words(_names(how["wide"]) if how["wide"] else [*utilities])
        named["chosen"] = chosen = None if how["counts"] else how["chosen"]
        if chosen in columns:
            columns[chosen] = as_classes(labels, as_labels(columns[chosen]))
        kinds = features_by_kind(model) if model else None
        named |= {"formula": how["formula"], "features": kinds}
        named["utilities"] = dict(zip(_labels_of(labels, utilities), utilities.values(), strict=True)) or None
        if not (how["formula"] or utilities):
            named["choosers"] = kinds["choosers"] if kinds else getattr(self, "feature", None) or ()
        named |= {name: _columns_of(how[name], labels) for name in ("available", "counts") if how[name]}
        named["pairs"] = {name: _columns_of(text, labels) for name, text in _split_options(how["pair"]).items()}
        sets = from_wide(columns, alternatives=labels, **named, unavailable_choices=self.unavailable_choices)
        return sets, np.arange(sets.n_rows)


@dataclass(kw_only=True)
class ChoiceTable(ChoiceColumns):
    """Tables of --estimator choice.

    DATA are then a table, csv, tsv or parquet: a long one with a row for each alternative that a chooser may choose, or
    a wide one with a row for each chooser. Columns of a long table that have numbers are features, but for those named
    here; ALT is an alternative.

    Attributes
    ----------
    long : bool
        DATA are a long table
    wide : ALT,ALT,...
        DATA are a wide table of these alternatives
    feature : NAME
        column that is a feature, of a wide table one of choosers; may be given several times; default: all others of a
        long table that have numbers
    pair : NAME=ALT:COLUMN,...
        feature of alternatives in a wide table, and where it stands for each; 0 where it is left out; may be given
        several times
    utility : ALT=FORMULA
        whole utility of an alternative in a wide table, such as car="asc_car + b_cost*cost_car"; given for each of them
    formula : FORMULA
        features of formulaic, such as "log(cost) + time:income" (needs formulaic)
    available : COLUMN
        column that tells whether an alternative may be chosen; of a wide table ALT:COLUMN,...
    counts : COLUMN
        column of how many chose an alternative, instead of --chosen; of a wide table ALT:COLUMN,...
    person : NAME
        column of who chose, for repeated choices; default: person, if there is one; none: no column
    weight : NAME
        column of weights of choosers; default: weight, if there is one; none: no column
    nest : NAME=ALT,ALT,...
        nest of alternatives; may be given several times; each other alternative is alone
    constraint : NAME=VALUE
        coefficient that is positive, negative, a number or equal to another one; may be given several times
    """

    long: bool = False
    wide: str | None = None
    feature: list[str] | None = None
    pair: list[str] | None = None
    utility: list[str] | None = None
    formula: str | None = None
    available: str | None = None
    counts: str | None = None
    person: str | None = None
    weight: str | None = None
    nest: list[str] | None = None
    constraint: list[str] | None = None

    @property
    def is_table(self) -> bool:
        """Whether DATA are told to be a table of choices; raises ValueError where they are told to be two."""
        is_wide = bool(self.wide or self.utility)
        if self.long and is_wide:
            raise ValueError("--long and --wide are two forms of a table; give one")
        if self.pair and not is_wide:
            raise ValueError("--pair is for wide tables; give --wide")
        return self.long or is_wide

    def parameters(self, alternatives: NDArray[Any], reference: Any) -> dict[str, Any]:
        """Return the parameters of the model that these options name, and the reference as the label that it is."""
        nests = {name: _labels_of(alternatives, _names(text)) for name, text in _split_options(self.nest).items()}
        constraints = {name: _number_or_text(text) for name, text in _split_options(self.constraint).items()}
        if reference is not None:
            reference = _labels_of(alternatives, [str(reference)])[0]
        return {"nests": nests or None, "constraints": constraints or None, "reference": reference}


def _names(text: str) -> list[str]:
    return [label_in(name) for name in text.split(",")]


def _split_options(texts: Sequence[str] | None) -> dict[str, str]:
    """What options say, by name; raises ValueError where they have none or one has two."""
    values: dict[str, str] = {}
    for text in texts or ():
        name, value = (label_in(part) for part in text.partition("=")[::2])
        if not name or not value:
            raise ValueError(f"{text!r} must be like NAME=VALUE")
        if name in values:
            raise ValueError(f"{text!r} names {name!r} for the second time; twice it cannot be")
        values[name] = value
    return values


def _number_or_text(text: str) -> Any:
    with contextlib.suppress(ValueError):
        return float(text)
    return text


def _labels_of(classes: NDArray[Any], words: Iterable[str]) -> Any:
    """The labels that are written so; of text also a word that is none."""
    return as_classes(classes, as_labels([*words])).tolist()


def _columns_of(text: str, labels: NDArray[Any]) -> dict[Any, str]:
    """The columns of alternatives by these."""
    names, _, columns = zip(*(part.rpartition(":") for part in _names(text)), strict=True)
    if not all((*names, *columns)) or len({*names}) < len(names):
        raise ValueError(f"{text!r} must be like ALT:COLUMN,ALT:COLUMN, and name no alternative twice")
    return dict(zip(_labels_of(labels, names), columns, strict=True))


@contextlib.contextmanager
def read_table(path: str, reading: Reading, labels: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Give the columns of a table, in which some are labels; errors about cells name the file and the line."""
    source = Input.of(path)
    form = reading.form_of([source])
    if form not in TABLES:
        raise ValueError(f"{source.name} is read as {form}; choice models take {', '.join(TABLES)}")
    reading.form = form
    table = TableFile(source, form, Layout(delimiter=reading.delimiter, decimal=reading.decimal or "."))
    columns = table.read(labels)
    try:
        for name in [name for name in columns if name in labels and form != "parquet"]:
            columns[name] = labels_of_words(columns[name].tolist())
            is_blank = columns[name] == ""
            if np.any(is_blank):
                raise CellError(name, "", (int(np.argmax(is_blank)),), ", which is no label")
        yield columns
    except ValueError as error:
        if isinstance(error, CellError) and error.where and form != "parquet":
            line = table.line_of(error.where[0])
            raise ValueError(f"{source.name}:{line}: column {error.name!r} {error.fault}") from error
        raise ValueError(f"{source.name}: {error}") from error


def refuse_others(arguments: Any) -> None:
    """Raise ValueError for an option of a command that is set and has no effect on choice models."""
    for name in set_options(arguments):
        if name not in OPTIONS and name not in ChoiceTable.__dataclass_fields__:
            raise ValueError(f"{flag(name)} is not for choice models; leave it out")


def choice_model(arguments: Any, columns: ChoiceColumns) -> tuple[ChoiceClassifier, dict[str, Any]] | None:
    """Return the choice model that a command is to ask, with its notes; None where the file holds something else.

    Raises
    ------
    ValueError
        If it is damaged, or an option is given that is about other data than tables of choices.
    """
    path = arguments.model
    if file_format(path) != FORMAT:
        for name in set_options(columns):
            raise ValueError(f"{flag(name)} is for choice models, which {path} does not hold; leave it out")
        return None
    refuse_others(arguments)
    with waiting(f"loading {path}"):
        model = ChoiceClassifier.load(path)
    model.n_jobs = arguments.n_jobs
    notes = loads(open_tensors(path).metadata["notes"])
    notes = notes if isinstance(notes, dict) else {}
    arguments.reading.take(notes)
    return model, notes
