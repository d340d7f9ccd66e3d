"""Evaluate a model on data, exactly, over all classes.

The table has the log-loss in nats, the error and the shares of rows whose label is not among the first 3 and 5,
precision (P), nDCG and propensity-scored precision (PSP, with --propensities) of the first 1, 3 and 5 labels, and the
expected calibration error (ECE) of the most probable label. A model of several labels has the ECE of the first five
labels, and a log-loss per label. A calibrated model also has the ECE without its calibration, which for a margin is
that of a softmax of its scores. Other margin models have no probabilities, hence neither log-loss nor ECE. With
--coverage the table has the share of rows whose label is in their set, and the mean number of labels of a set.

Rows without a label, without a feature, or with a label that the model has not seen are dropped; a note says how many.
In the share of sets, labels that the model has not seen count as missed.

A choice model has the log-loss and the error of a table of choices.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from json import dumps
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import metrics
from manyclass.cli.choices import ChoiceColumns, choice_model
from manyclass.cli.data import labelled_rows, read
from manyclass.cli.messages import print_table
from manyclass.cli.models import OnMappedModel, SetOptions, as_text, coverage_of_sets, evaluated, expected_by
from manyclass.datasets.records import first_labels, places_among


@dataclass
class EvaluateArguments(OnMappedModel):
    """Arguments of the command.

    Attributes
    ----------
    data : DATA
        labelled rows, in one of the forms below; - reads stdin
    json : bool
        print one JSON object instead of a table
    labels : {"auto", "first", "all"}
        which labels of a row are right: its first or all; auto: all if the model was fitted on all
    propensities : FILE
        training data, whose frequencies of labels give the weights of PSP
    n_bins : int
        bins of the expected calibration error
    """

    data: str
    _: KW_ONLY
    json: bool = False
    labels: Literal["auto", "first", "all"] = "auto"
    propensities: str | None = None
    n_bins: int = 15
    sets: SetOptions
    columns: ChoiceColumns


def run(args: EvaluateArguments) -> int:
    """Evaluate, and print a table or JSON."""
    if choices := choice_model(args, args.columns):
        sets, _ = args.columns.read(args.data, args.reading, *choices)
        result = {**choices[0].evaluate(sets), "n_rows": sets.n_rows}
    else:
        result = _evaluate_rows(args)
    if args.json:
        print(dumps(result))
    else:
        print_table(as_text(result))
    return 0


def _evaluate_rows(args: EvaluateArguments) -> dict[str, Any]:
    """Return the measures of a model of classes."""
    model = args.opened()
    expected = expected_by(model, need_label=True)
    which = args.labels if args.labels != "auto" else "all" if expected.several else "first"
    expected = replace(expected, several=expected.several or which == "all")
    rows = labelled_rows(args.reading, args.data, expected, which)
    weights = None
    if args.propensities:
        records = read(args.reading, args.propensities, expected)
        Y = records.Y if which == "all" else first_labels(records.Y)
        weights = _propensities(model.classes_, records.labels, Y)
    coverage = args.sets.prepare(args.reading, model)
    result = evaluated(model, rows, propensities=weights, n_bins=args.n_bins)
    return result if coverage is None else result | coverage_of_sets(model, rows, coverage)


def _propensities(classes: NDArray[Any], labels: NDArray[Any], Y: sp.csr_array) -> NDArray[np.float64]:
    """Return the propensities of a model's classes by the frequencies of labels in training data; Jain et al. 2016."""
    # A class that these data lack is one of frequency 0, as the rarest there is: that of one more column.
    by_label = metrics.propensities(sp.csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], Y.shape[1] + 1)))
    places, weights = places_among(classes, labels), np.full(len(classes), by_label[-1])
    weights[places[places >= 0]] = by_label[:-1][places >= 0]
    return weights
