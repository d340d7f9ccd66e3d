"""Print what drives a class, or what each feature of a row adds to the score of its label.

With DATA each row gets a line: its most probable label, or the one of --label, and the features (words, of a model of
texts) that add most to the label's score or take most from it, each with what it adds. "others" are the other features
of the row together, "intercept" is the score of a row without features, and "counts" is what counts of classes by
features add, where the model mixes some in. All of them sum to the score. Without DATA the features of largest weight
for --label are printed, a line each.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from manyclass.choice.files import FORMAT
from manyclass.choice.model import ChoiceClassifier
from manyclass.cli.data import file_format
from manyclass.cli.messages import waiting
from manyclass.cli.models import OnMappedModel
from manyclass.datasets.records import as_classes
from manyclass.labels import as_labels, readable


@dataclass
class ExplainArguments(OnMappedModel):
    """Arguments of the command.

    Attributes
    ----------
    data : DATA
        rows, in one of the forms below; - reads stdin
    label : NAME
        explain the score of this label
    against : NAME
        explain the log-odds of the label to this one
    k : int
        features a row, or of the label
    """

    data: str | None = None
    _: KW_ONLY
    label: str | None = None
    against: str | None = None
    k: int = 10


def run(args: ExplainArguments) -> int:
    """Explain rows, or a class; of a choice model, print the table of coefficients."""
    if file_format(args.model) == FORMAT:
        if (args.data, args.label, args.against) != (None, None, None):
            raise ValueError(f"{args.model} is a choice model, whose coefficients are printed; give no DATA and labels")
        print(ChoiceClassifier.load(args.model).summary())
        return 0
    if args.data is None and args.label is None:
        raise ValueError("give DATA, or a --label whose features are to be printed")
    if args.data is None and args.against is not None:
        raise ValueError("--against is for the rows of DATA; leave it out")
    model = args.opened()
    asked = {"labels": args.label, "against": args.against}
    labels = {k: as_classes(model.classes_, as_labels([label])) for k, label in asked.items() if label is not None}
    if args.data is None:
        names, weights = model.top_features(labels["labels"][0], args.k)
        for name, weight in zip(names.tolist(), weights.tolist(), strict=True):
            print(f"{name}\t{weight:.6g}")
        return 0
    X = args.features_of(model, args.data)
    with waiting(f"explaining {X.shape[0]} rows"):
        explanations = model.explain(X, args.k, **{k: label.repeat(X.shape[0]) for k, label in labels.items()})
    names = readable(as_labels([explanation.label for explanation in explanations]))
    for name, explanation in zip(names.tolist(), explanations, strict=True):
        parts = [*zip(explanation.features.tolist(), explanation.contributions.tolist(), strict=True)]
        parts += [("others", explanation.others)] if explanation.others else []
        parts += [("intercept", explanation.intercept)]
        parts += [("counts", explanation.counts)] if explanation.counts else []
        print("\t".join([f"{name}\t{explanation.score:.6g}", *(f"{part}\t{value:.6g}" for part, value in parts)]))
    return 0
