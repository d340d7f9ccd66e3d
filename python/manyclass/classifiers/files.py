"""Fitted models on disk: safetensors files with a JSON description, without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from manyclass.checks import check_choice, check_number
from manyclass.datasets.sequences import SequenceEncoder
from manyclass.datasets.text import TextVectorizer
from manyclass.labels import as_labels
from manyclass.models import MODELS
from manyclass.parts import Part
from manyclass.samplers import SAMPLERS, search_name
from manyclass.solvers import LOCAL_STEPS, POSTERIORS, SOLVERS
from manyclass.training.state import (
    Calibration,
    Features,
    FitReport,
    History,
    SetRule,
    State,
    read_squares,
    shapes_of_squares,
)
from manyclass.weights.arrays import is_finite
from manyclass.weights.files import described, read_weights, weight_tensors
from manyclass.weights.hashing import FeatureHash, UsedColumns
from manyclass.weights.saved_labels import decode_labels, encode_labels
from manyclass.weights.tensor_file import (
    PathLike,
    TensorFile,
    checked,
    count,
    decode_text,
    encode_text,
    make_metadata,
    open_format,
    tensor_file_bytes,
    warn_of_unread,
    write_tensors,
)
from manyclass.weights.weights import Weights

FORMAT = "manyclass model"
LIMITS = "sets.limits."  # of classes in sets, and the number of the rule
COLUMNS = "used_columns"  # of X that have weights, where the others have none
# 3: weights are compressed; those of other files are not, and they stay of version 2. Version 1, whose parameters all
# stood on the estimator, is read no more.
FORMAT_VERSION, OLDEST_VERSION = 3, 2

_DESCRIBED = {
    *("class", "parameters", "layout", "classes", "n_features_in", "n_iter", "coded", "vectorizer"),
    *("history", "hashing", "calibration", "automatic", "labels", "sets"),
}
# What a description says of labels: names in files, and fields of `State`.
LABELS = {"multilabel_": "several", "n_labels_": "n_labels", "_sparse_labels": "sparse_labels"}
LABELS |= {"threshold_": "threshold"}
TABLES = {"alpha_path_": "alpha_path", "learning_rate_table_": "rates"}  # of what was tried, and fields of `FitReport`

KINDS = ("AugmentReduceClassifier", "MarginClassifier", "SoftmaxClassifier")  # classes of models


# What a file has: the name of the class of an estimator, its parameters and its state.
SavedModel = tuple[str, Mapping[str, Any], State]


def kind_of(model: object) -> str:
    """Return the name of the class of an estimator.

    Raises
    ------
    TypeError
        If files know none of this name, or it is a caller's own.
    """
    kind = type(model).__name__
    if kind not in KINDS or not type(model).__module__.startswith("manyclass."):
        raise TypeError(f"model is a {kind}; it must be one of {', '.join(KINDS)}")
    return kind


def write_model(model: SavedModel, path: PathLike, notes: Mapping[str, Any] | None = None) -> None:
    """Write a model; raises as `save_model` does."""
    write_tensors(path, *_contents(model, notes))


def file_bytes(model: SavedModel) -> int:
    """Return the bytes of the file that `write_model` writes."""
    return tensor_file_bytes(*_contents(model, None))


def _contents(model: SavedModel, notes: Mapping[str, Any] | None) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays and the metadata of a model's file."""
    kind, parameters, state = model
    weights, features = state.weights, state.features
    labels, label_info = encode_labels("classes", state.classes)
    tensors = weight_tensors(weights)
    if not all(map(is_finite, tensors.values())):
        raise ValueError("the weights are not finite, because training diverged; such a model cannot be saved")
    beside, arrays = _beside_weights(state)
    for name, array in arrays.items():
        if wrong := _wrong_in(name, array):
            reason = "training diverged, or weights of rows are too large"
            raise ValueError(f"{name!r} has numbers {wrong}, because {reason}; such a model cannot be saved")
    tensors |= arrays | labels
    tensors["loss_curve"] = np.asarray(state.curve, dtype=np.float64)
    if features.names is not None:
        tensors |= encode_text("feature_names", features.names)
    description: dict[str, Any] = {
        "class": kind,
        "parameters": encode_parameters(parameters),
        "classes": label_info,
        "n_features_in": features.n,
        "n_iter": len(state.curve),
        **beside,
        **described(weights)[0],
    }
    if state.encoder is not None:
        description["vectorizer"], arrays = _encode_vectorizer(state.encoder, features.n)
        tensors |= arrays
    version = FORMAT_VERSION if weights.codes is not None else 2
    return tensors, make_metadata(FORMAT, version, model=description, notes=dict(notes or {}))


def _beside_weights(state: State) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What a file has of a state beside weights, classes and the loss curve: as JSON has it, and arrays.

    JSON has neither numbers as keys nor infinite ones: tables become lists of pairs, a trial that diverged null.
    """
    history, arrays = state.history.encoded()
    report = state.fit_report
    automatic: dict[str, Any] = {
        "resolved_params_": encode_parameters(report.params),
        "validation_curve_": report.validation_curve.tolist(),
        "best_iter_": int(report.best_iter),
        "auto_rules": dict(report.rules),
        "auto_report_": [_replaced(line, np.inf, None) for line in report.report],
    }
    for name, report_field in TABLES.items():
        table = getattr(report, report_field)
        automatic[name] = [[key, loss if np.isfinite(loss) else None] for key, loss in table.items()]
    labels = {name: getattr(state, label_field) for name, label_field in LABELS.items()}
    description: dict[str, Any] = {
        "history": history,
        "labels": labels | described(state.weights)[1],
        "automatic": automatic,
        "hashing": asdict(state.hashing) if isinstance(state.hashing, FeatureHash) else None,
        "sets": [asdict(replace(rule, limits=None)) for rule in state.sets],
        "calibration": state.calibration and asdict(state.calibration),
    }
    arrays = {"class_count": state.counts, **arrays}
    arrays |= {f"{LIMITS}{place}": rule.limits for place, rule in enumerate(state.sets) if rule.limits is not None}
    arrays |= {COLUMNS: state.hashing.ids} if isinstance(state.hashing, UsedColumns) else {}
    arrays |= {} if state.squares is None else state.squares.saved()
    arrays |= {} if state.variances is None else {"variances": state.variances}
    return {name: value for name, value in description.items() if value}, arrays


def _replaced(line: Mapping[Any, Any], old: Any, new: Any) -> dict[Any, Any]:
    """A line of the report of trials, or a table of losses, with another value in the place of one."""
    return {key: new if value == old else value for key, value in line.items()}


def open_model(path: PathLike) -> TensorFile:
    """Open a model file and check its format; raises as `load` does."""
    return open_format(path, FORMAT, FORMAT_VERSION, "a model", OLDEST_VERSION)


def read_model(file: TensorFile, mmap: bool = False) -> SavedModel:
    """Read a model; raises and warns as `load` does."""
    info = json.loads(file.metadata["model"])
    check_choice("its class", info["class"], KINDS)
    classes = decode_labels(file, info["classes"])
    n_features_in = count(file, info, "n_features_in", least=1)
    n_iter = count(file, info, "n_iter", least=0)
    curve = file.read(checked(file, "loss_curve", np.float64, (n_iter,)))
    names = None
    if "feature_names.text" in file.entries:
        names = decode_text(file, "feature_names", n_features_in).astype(object)
    hashing: FeatureHash | UsedColumns | None = FeatureHash.decoded(info["hashing"]) if "hashing" in info else None
    if COLUMNS in file.entries:
        hashing = _read_columns(file, n_features_in)
    n_features = n_features_in if hashing is None else hashing.n_rows
    weights = read_weights(file, info, len(classes), n_features, mmap)
    arrays = _read_beside_weights(file, weights, len(classes), n_features)
    limits = {int(name.removeprefix(LIMITS)): array for name, array in arrays.items() if name.startswith(LIMITS)}
    state = State(
        classes=classes,
        counts=arrays.get("class_count", np.zeros(len(classes))),
        features=Features(n_features_in, names),
        weights=weights,
        history=History.decoded(info.get("history", {}), arrays, n_features),
        curve=curve,
        squares=read_squares(arrays),
        variances=arrays.get("variances"),
        hashing=hashing,
        calibration=Calibration.decoded(info.get("calibration")),
        fit_report=_report_of(info.get("automatic", {}), n_iter),
        sets=tuple(SetRule(**rule | {"limits": limits.get(place)}) for place, rule in enumerate(info.get("sets", []))),
        encoder=_decode_vectorizer(file, info["vectorizer"], n_features_in) if "vectorizer" in info else None,
        **_labels_of(info.get("labels", {}), len(classes)),
    )
    warn_of_unread(file, info.keys() - _DESCRIBED)
    return info["class"], decode_parameters(dict(info["parameters"])), state


def _read_columns(file: TensorFile, n_features: int) -> UsedColumns:
    """The columns that have weights, of a model whose X was far wider than its rows."""
    n_columns = file.entries[COLUMNS][1][0]
    ids = file.read(checked(file, COLUMNS, np.int32, (n_columns,)))
    if not n_columns or ids.min() < 0 or ids.max() >= n_features or len(np.unique(ids)) < n_columns:
        raise ValueError(f"{COLUMNS!r} are not distinct columns of {n_features}")
    return UsedColumns(ids)


def _labels_of(description: Mapping[str, Any], n_classes: int) -> dict[str, Any]:
    """Fields of a state that are about labels; older files lack some."""
    known = {label_field: description[name] for name, label_field in LABELS.items() if name in description}
    check_number("n_labels_", known.setdefault("n_labels", 1), low=1, high=n_classes, integer=True)
    if known.get("threshold") is not None:
        check_number("threshold_", known["threshold"])
    return known | {name: bool(known.get(name)) for name in ("several", "sparse_labels")}


def _report_of(description: Mapping[str, Any], n_iter: int) -> FitReport:
    """What a fit reported; older files lack some."""
    tables: dict[str, Any] = {
        report_field: _replaced(dict(description.get(name, [])), None, np.inf) for name, report_field in TABLES.items()
    }
    return FitReport(
        params=decode_parameters(description.get("resolved_params_", {})),
        rules=dict(description.get("auto_rules", {})),
        report=[_replaced(line, None, np.inf) for line in description.get("auto_report_", [])],
        validation_curve=np.array(description.get("validation_curve_", []), dtype=np.float64),
        best_iter=int(description.get("best_iter_", n_iter)),
        **tables,
    )


def _read_beside_weights(
    file: TensorFile, weights: Weights, n_classes: int, n_features: int
) -> dict[str, NDArray[Any]]:
    """Those of the arrays that a model may have beside its weights which are there."""
    kinds = shapes_of_squares(weights) | {"class_count": (np.float64, (n_classes,))}
    kinds |= dict.fromkeys(("scaling.shift", "scaling.scale"), (np.float64, (n_features,)))
    kinds |= {"variances": (np.float32, weights.matrix.shape)}
    kinds |= {name: (np.float64, (n_classes,)) for name in file.entries if name.startswith(LIMITS)}
    arrays = {name: file.read(checked(file, name, *kind)) for name, kind in kinds.items() if name in file.entries}
    for name, array in arrays.items():
        if wrong := _wrong_in(name, array):
            raise ValueError(f"{file.path} is damaged: {name!r} has numbers {wrong}")
    return arrays


def _wrong_in(name: str, array: NDArray[Any]) -> str:
    """What numbers beside the weights are that they must not be; nothing where all are well."""
    if name.startswith(LIMITS):  # -inf is that of a class in every set
        return "that are none" if np.isnan(array).any() else ""
    if name == "scaling.scale":  # infinite ones are those of features that are too small
        return "" if np.all(array > 0) else "that are not above 0"
    if not is_finite(array):
        return "that are not finite"
    signed = name in ("scaling.shift", "squares.told")
    return "below 0" if not signed and array.size and array.min() < 0 else ""


ITEMS = "vectorizer.items"  # of a file whose model has a `SequenceEncoder`


def _encode_vectorizer(vectorizer: Any, n_features: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the parameters of what makes rows of texts or sequences, fitted, and its arrays in the file."""
    if not isinstance(vectorizer, TextVectorizer | SequenceEncoder):
        kinds = "a TextVectorizer or a SequenceEncoder of manyclass.datasets"
        raise TypeError(f"vectorizer_ is a {type(vectorizer).__name__}; only {kinds} can be saved")
    check_is_fitted(vectorizer)
    if isinstance(vectorizer, SequenceEncoder):
        n_columns = len(vectorizer.items_)
        arrays, info = encode_labels(ITEMS, vectorizer.items_)
        parameters = encode_parameters(vectorizer.get_params())
        memory = {"n_last_": vectorizer.n_last_, "decay_": vectorizer.decay_}
        description = {"sequences": {"parameters": parameters, **memory, "items": info}}
    else:
        n_columns, description = vectorizer.n_columns_, encode_parameters(vectorizer.fitted_parameters)
        arrays = encode_text("vectorizer.terms", vectorizer.vocabulary_) | {"vectorizer.idf": vectorizer.idf_}
    if n_columns != n_features:
        raise ValueError(f"vectorizer_ has {n_columns} columns; the model has {n_features} features")
    return description, arrays


def _decode_vectorizer(file: TensorFile, description: Any, n_features: int) -> TextVectorizer | SequenceEncoder:
    if (sequences := description.get("sequences")) is not None:
        items = decode_labels(file, sequences["items"], ITEMS, least=1)
        if len(items) != n_features:
            raise ValueError(f"it has {len(items)} items, and {n_features} features")
        check_number("decay_", sequences["decay_"], low=0)
        parameters = decode_parameters(sequences["parameters"])
        n_last = sequences.get("n_last_", parameters["n_last"])  # which files of 0.2 have among parameters alone
        check_number("n_last_", n_last, low=1, integer=True)
        return SequenceEncoder.restored(parameters, items, n_last, float(sequences["decay_"]))
    terms = decode_text(file, "vectorizer.terms", n_features if description.get("n_hash") is None else 0)
    idf = file.array("vectorizer.idf", np.float32, (n_features,))
    return TextVectorizer.restored(decode_parameters(description), terms.tolist(), idf)


# Parameters of estimators as JSON has them

PARTS: dict[str, type[Part]] = {
    part.__name__: part for kind in (SOLVERS, SAMPLERS, MODELS, LOCAL_STEPS, POSTERIORS) for part in kind.values()
}

FORMER_NAMES = {"sparse": "pairs", "Sparse": "Pairs"}  # of models in files of versions up to 0.2.0


def encode_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as None, booleans, numbers, strings and dicts of them; a generator of random numbers is None.

    Raises
    ------
    TypeError
        For a value of another type.
    """
    return {name: _encoded(name, value) for name, value in parameters.items()}


def _encoded(name: str, value: Any) -> Any:
    if isinstance(value, Part):
        numbers = value.get_params(deep=False)
        if "index" in numbers:
            numbers["index"] = search_name(numbers["index"])  # an index given as an example is for training
        return {"part": type(value).__name__, "parameters": encode_parameters(numbers)}
    if name == "class_weight" and isinstance(value, Mapping):
        pairs = [[_label_as_json(k), _encoded("class_weight", w)] for k, w in value.items()]
        return {"pairs": pairs}
    plain = value.item() if isinstance(value, np.generic) else value
    if name == "random_state" and not isinstance(plain, int):
        return None
    if plain is not None and not isinstance(plain, bool | int | float | str):
        raise TypeError(f"{name} is {value!r}; only None, bool, int, float, str and parts can be saved")
    return plain


def _label_as_json(label: Any) -> Any:
    """A label of class_weight; JSON has no dates and time spans."""
    array = as_labels([label])
    if array.dtype.kind in "mM":
        return {"dtype": array.dtype.str, "value": int(array.view(np.int64)[0])}
    return _encoded("a label of class_weight", label)


def _label(key: Any) -> Any:
    return np.array([key["value"]], dtype=np.int64).view(key["dtype"])[0] if isinstance(key, dict) else key


def decode_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `encode_parameters` was given.

    Raises
    ------
    ValueError
        For a part that does not exist.
    """
    decoded = {name: _decoded(value) for name, value in parameters.items()}
    if isinstance(model := decoded.get("model"), str):
        decoded["model"] = FORMER_NAMES.get(model, model)
    return decoded


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("pairs"), list):
        return {_label(key): weight for key, weight in value["pairs"]}
    name = FORMER_NAMES.get(value.get("part", ""), value.get("part"))
    if name not in PARTS or not isinstance(value.get("parameters"), dict):
        raise ValueError(f"{name!r} is no solver, sampler or model of this manyclass")
    return PARTS[name](**decode_parameters(value["parameters"]))
