"""Choice models on the command line: long tables, which have a row for each pair of a chooser and an alternative."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from manyclass.classifiers.choice import ChoiceClassifier
from manyclass.cli.messages import print_table, waiting
from manyclass.cli.output import written
from manyclass.datasets import ChoiceSets, from_long
from manyclass.datasets.tables import library


@dataclass(kw_only=True)
class LongTable:
    """Long tables of --estimator choice.

    DATA are then a table, .csv, .tsv or .parquet, with a row for each alternative that a chooser may choose. Columns
    with numbers are features, but for those named here and for person, weight and offset.

    Attributes
    ----------
    long : bool
        DATA are such a table, which --estimator choice needs
    chooser : NAME
        column of choosers; rows of one chooser are a choice
    alternative : NAME
        column of alternatives
    chosen : NAME
        column that is 1 where the alternative was chosen
    feature : NAME
        column that is a feature; may be given several times; default: all others that have numbers
    """

    long: bool = False
    chooser: str = "chooser"
    alternative: str = "alternative"
    chosen: str = "chosen"
    feature: list[str] | None = None

    def read(self, path: str, like: ChoiceSets | None = None) -> ChoiceSets:
        """Read a table; with the features and the alternatives of another, if one is given.

        Raises
        ------
        ValueError
            If the file is no such table, or a chooser has not chosen one alternative.
        """
        pandas = library("pandas")
        with waiting(f"reading {path}"):
            if path.endswith(".parquet"):
                table = pandas.read_parquet(path)
            else:
                table = pandas.read_csv(path, sep="\t" if ".tsv" in path else ",")
            for name in (self.chooser, self.alternative, self.chosen, *(self.feature or [])):
                if name not in table.columns:
                    known = ", ".join(map(str, table.columns))
                    raise ValueError(f"{path} has no column {name!r}; it has {known}")
            features: Sequence[str] | Mapping[str, Sequence[str]] | None = self.feature
            if like is not None:
                features = {
                    "choosers": like.chooser_names,
                    "alternatives": like.alternative_names,
                    "pairs": like.pair_names,
                }
            how = {"chooser": self.chooser, "alternative": self.alternative, "chosen": self.chosen}
            return from_long(table, **how, features=features, alternatives=None if like is None else like.alternatives)


def fit_choices(long: LongTable, model: ChoiceClassifier, data: str, output: str, tests: Sequence[str]) -> int:
    """Fit a choice model to a long table, save it, and print its summary and evaluations."""
    begin = time.perf_counter()
    sets = long.read(data)
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    model.fit(sets)
    table = {
        "seconds to read": f"{seconds:.2f}",
        "seconds to fit": f"{time.perf_counter() - begin:.2f}",
    }
    model.verbose = 0
    with waiting(f"writing {output}"):
        model.save(output, {"chooser": long.chooser, "alternative": long.alternative, "chosen": long.chosen})
    print(model.summary())
    print()
    print_table({**table, "model": written(output)})
    for path in tests:
        found = model.evaluate(sets if path == data else long.read(path, sets))
        print()
        print_table(
            {"evaluated on": path, "log_loss": f"{found['log_loss']:.6f} nats", "error": f"{found['error']:.6f}"}
        )
    return 0
