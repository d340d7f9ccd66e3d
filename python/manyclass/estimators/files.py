"""Fitted models on disk: safetensors files with a JSON description, without pickle."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from manyclass.checks import check_number
from manyclass.datasets import TextVectorizer
from manyclass.estimators.coded_files import coded_description, coded_tensors, read_coded
from manyclass.estimators.parameters import decode_parameters, encode_parameters
from manyclass.estimators.version_1 import parameters_today
from manyclass.model.coded import CodedWeights
from manyclass.model.file_parts import check_version, finite, non_negative, reading, warn_of_unread
from manyclass.model.file_parts import checked as _checked
from manyclass.model.file_parts import count as _count
from manyclass.model.file_parts import decode_text as _decode_text
from manyclass.model.file_parts import encode_text as _encode_text
from manyclass.model.hashing import FeatureHash
from manyclass.model.kinds import Weights
from manyclass.model.mapped import MappedWeights
from manyclass.model.maps import is_finite
from manyclass.model.postings import HybridWeights, SparseWeights
from manyclass.model.tensor_file import PathLike, TensorFile, open_tensors, tensor_file_bytes, write_tensors
from manyclass.model.weights import LINE, Floats, LinearWeights, aligned_zeros
from manyclass.training.squares import shapes_of_squares
from manyclass.version import __version__

if TYPE_CHECKING:  # they import this module, for `save`
    from manyclass.estimators.margin import MarginClassifier
    from manyclass.estimators.softmax import SoftmaxClassifier
    from manyclass.estimators.utility import AugmentReduceClassifier

FORMAT = "manyclass model"
MOST_FOR_LABELS = 100  # memory of labels of fixed width, as a multiple of the file's size
# 3: weights are compressed; those of other files are not, and they stay of version 2. 2: parameters may be objects with
# parameters of their own. 1: all parameters stood on the estimator.
FORMAT_VERSION = 3

LARGEST = float(np.finfo(np.float32).max)
_DESCRIBED = {
    *("class", "parameters", "layout", "classes", "n_features_in", "n_iter", "coded", "vectorizer"),
    *("history", "hashing", "calibration", "automatic", "labels"),
}

# The module of each class that `saved` will know of: loaded where a model of it is, since they import this one.
_HOMES = {"AugmentReduceClassifier": "utility", "MarginClassifier": "margin", "SoftmaxClassifier": "softmax"}
_CLASSES: dict[str, type[Any]] = {}
Class = TypeVar("Class", bound=type)


def saved(cls: Class) -> Class:
    """Let a class of estimators be saved and loaded: a decorator."""
    _CLASSES[cls.__name__] = cls
    return cls


def save_model(model: Any, path: PathLike, notes: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model, see `SoftmaxClassifier.save`.

    Parameters
    ----------
    model : SoftmaxClassifier, MarginClassifier or AugmentReduceClassifier
        A `manyclass.datasets.TextVectorizer` that it has as `vectorizer_` is saved with it.
    path : str or path-like
    notes : mapping of str to what JSON holds, optional
        Kept in the file for `load_notes`; the model does not use them.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If labels, parameters, notes or the vectorizer are of a type that the format lacks; nothing is written then.
    ValueError
        If the weights are not finite, or the vectorizer has another number of columns than the model has features.
    OSError
        If the file cannot be written; an older file of this name stays as it was.
    """
    write_tensors(path, *_contents(model, notes))


def file_bytes(model: Any, notes: Mapping[str, Any] | None = None) -> int:
    """Return the bytes of the file that `save_model` writes."""
    return tensor_file_bytes(*_contents(model, notes))


def _contents(model: Any, notes: Mapping[str, Any] | None) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays and the metadata of a model's file."""
    name = type(model).__name__
    if _CLASSES.get(name) is not type(model):
        raise TypeError(f"model is a {name}; it must be one of {', '.join(sorted(_CLASSES))}")
    check_is_fitted(model)
    weights = model._weights
    labels, label_info = _encode_labels(model.classes_)
    tensors = weight_tensors(weights)
    if not all(map(is_finite, tensors.values())):
        raise ValueError("the weights are not finite, because training diverged; such a model cannot be saved")
    beside, arrays = model._beside_weights()
    tensors |= arrays
    tensors |= {f"classes.{part}": array for part, array in labels.items()}
    tensors["loss_curve"] = np.asarray(model.loss_curve_, dtype=np.float64)
    if hasattr(model, "feature_names_in_"):
        tensors |= {f"feature_names.{part}": array for part, array in _encode_text(model.feature_names_in_).items()}
    description: dict[str, Any] = {
        "class": name,
        "parameters": {**encode_parameters(model.get_params(deep=False)), "random_state": _seed(model)},
        "layout": _layout(weights),
        "classes": label_info,
        "n_features_in": int(model.n_features_in_),
        "n_iter": int(model.n_iter_),
        **beside,
    }
    if isinstance(weights, CodedWeights):
        description["coded"] = coded_description(weights)
    if hasattr(model, "vectorizer_"):
        description["vectorizer"], arrays = _encode_vectorizer(model.vectorizer_, int(model.n_features_in_))
        tensors |= arrays
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION if isinstance(weights, CodedWeights) else 2),
        "package_version": __version__,
        "model": json.dumps(description),
        "notes": json.dumps(dict(notes or {})),
    }
    return tensors, metadata


def load(path: PathLike, mmap: bool = False) -> SoftmaxClassifier | MarginClassifier | AugmentReduceClassifier:
    """Load a model that an estimator's `save` has written.

    Parameters
    ----------
    path : str or path-like
        The file. Nothing in it is executed.
    mmap : bool, default=False
        Map the weights instead of reading them: they are read from the disk where a prediction needs them, shared
        between processes, and `coef_` is read-only. The file must stay as it is while the model is in use (`save`
        puts a new file in its place and does no harm). Numbers that are not finite, for which a model that is read is
        refused, are found by the first prediction that they change, which raises ValueError with the file's name.

    Returns
    -------
    SoftmaxClassifier, MarginClassifier or AugmentReduceClassifier
        What was saved, fitted; predictions are bit for bit those of the saved one. With a `vectorizer_` where that one
        had one. What a newer version of this package has added to the file is left unread, with a UserWarning.

    Raises
    ------
    ValueError
        If the file is not a model of this package, truncated, inconsistent, of a newer format, or with a parameter that
        the constructor's class does not take; the message names the file.
    OSError
        If it cannot be read.
    """
    file = _open_model(path)
    with reading(file):
        model: SoftmaxClassifier | MarginClassifier | AugmentReduceClassifier = _build(file, mmap)
    return model


def load_notes(path: PathLike) -> dict[str, Any]:
    """Read what `save_model` was given as notes.

    Parameters
    ----------
    path : str or path-like
        The model file.

    Returns
    -------
    dict
        The notes; empty if there were none.

    Raises
    ------
    ValueError
        As `load` does.
    OSError
        If the file cannot be read.
    """
    return dict(json.loads(_open_model(path).metadata["notes"]))


def _open_model(path: PathLike) -> TensorFile:
    """Open a model file and check its format; raises as `load` does."""
    file = open_tensors(path)
    found = file.metadata.get("format")
    if found != FORMAT:
        what = "has no format" if found is None else f"has the format {found!r}"
        raise ValueError(f"{file.path} is a safetensors file but not a model of manyclass: its header {what}")
    check_version(file, FORMAT_VERSION)
    missing = [key for key in ("model", "notes", "package_version") if key not in file.metadata]
    if missing:
        raise ValueError(f"{file.path} is damaged: its header lacks {missing[0]!r}")
    for key in ("model", "notes"):
        try:
            value = json.loads(file.metadata[key])
        except (ValueError, RecursionError) as error:  # also of a number with thousands of digits
            raise ValueError(f"{file.path} is damaged: {key!r} in its header is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise ValueError(f"{file.path} is damaged: {key!r} in its header is not a JSON object")
    return file


def weight_tensors(weights: Weights) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model's weights, by their names in the file."""
    if isinstance(weights, CodedWeights):
        return coded_tensors(weights)
    if isinstance(weights, HybridWeights):
        return {**weight_tensors(weights.mapped), **weight_tensors(weights.postings)}
    if isinstance(weights, SparseWeights):
        return {
            "postings.indptr": weights.indptr,
            "postings.classes": weights.classes,
            "postings.values": weights.values,
            "intercept": weights.intercept,
        }
    tensors: dict[str, NDArray[Any]] = {"weights": weights.matrix, "intercept": weights.intercept}
    if isinstance(weights, MappedWeights):
        tensors["intercept"] = np.ascontiguousarray(weights.intercept)  # it is a column of the weights
        if weights.embeddings.size:
            tensors["embeddings"] = weights.embeddings
    return tensors


def _layout(weights: Weights) -> str:
    if isinstance(weights, CodedWeights):
        return "coded"
    if isinstance(weights, HybridWeights):
        return "hybrid"
    if isinstance(weights, SparseWeights):
        return "postings"
    if isinstance(weights, MappedWeights):
        return "mapped"
    return "feature_major" if weights.sparse else "class_major"


def _seed(model: Any) -> int | None:
    """A random_state that is a number; a generator cannot be saved."""
    return int(model.random_state) if isinstance(model.random_state, int | np.integer) else None


def _build(file: TensorFile, mmap: bool) -> Any:
    info = json.loads(file.metadata["model"])
    if info["class"] in _HOMES:
        importlib.import_module(f"manyclass.estimators.{_HOMES[info['class']]}")
    if info["class"] not in _CLASSES:
        known = ", ".join(sorted({*_CLASSES, *_HOMES}))
        raise ValueError(f"{file.path} holds a model of class {info['class']!r}; this manyclass knows {known}")
    model = _unfitted(file, info)
    model.classes_ = _decode_labels(file, info["classes"])
    model.n_features_in_ = _count(file, info, "n_features_in", least=1)
    model.n_iter_ = _count(file, info, "n_iter", least=0)
    model.loss_curve_ = file.read(_checked(file, "loss_curve", np.float64, (model.n_iter_,)))
    if "feature_names.text" in file.entries:
        model.feature_names_in_ = _decode_text(file, "feature_names", model.n_features_in_).astype(object)
    if "hashing" in info:
        model._hashing = FeatureHash.decoded(info["hashing"])
    n_classes = len(model.classes_)
    n_features = model.n_features_in_ if model._hashing is None else model._hashing.n_rows
    if info["layout"] == "coded":
        model._weights = read_coded(file, info["coded"], n_classes, n_features, mmap)
    elif info["layout"] == "mapped":
        scale = info["labels"].get("scale", 1.0)
        check_number("scale", scale, low=0, open_low=True, high=LARGEST)
        mapped = _read_mapped(file, info["labels"]["map"], n_classes, n_features, mmap)
        model._weights = replace(mapped, scale=float(scale))
    elif info["layout"] == "hybrid":
        mapped = _read_mapped(file, info["labels"]["map"], n_classes, n_features, mmap)
        first, second = info["labels"].get("scales", (1.0, 1.0))
        for scale in (first, second):
            check_number("scales", scale, low=0, high=LARGEST)
        own = _read_postings(file, n_classes, n_features, mmap)
        model._weights = HybridWeights(own, mapped, (float(first), float(second)))
    elif info["layout"] == "postings":
        model._weights = _read_postings(file, n_classes, n_features, mmap)
    else:
        model._weights = _read_weights(file, info["layout"], n_classes, n_features, mmap)
    arrays = _read_beside_weights(file, model, n_classes, n_features)
    model._take_beside_weights(info, arrays)
    if "vectorizer" in info:
        model.vectorizer_ = _decode_vectorizer(file, info["vectorizer"], model.n_features_in_)
    warn_of_unread(file, info.keys() - _DESCRIBED)
    return model


def _read_beside_weights(file: TensorFile, model: Any, n_classes: int, n_features: int) -> dict[str, NDArray[Any]]:
    """Those of the arrays that a model may have beside its weights which are there."""
    kinds: dict[str, tuple[Any, tuple[int, ...]]] = {
        "class_count": (np.float64, (n_classes,)),
        "scaling.shift": (np.float64, (n_features,)),
        "scaling.scale": (np.float64, (n_features,)),
    }
    kinds |= shapes_of_squares(model._weights)
    if "variances" in file.entries:
        kinds["variances"] = (np.float32, model._weights.matrix.shape)
    found = {name: file.read(_checked(file, name, *kinds[name])) for name in kinds if name in file.entries}
    for name, array in found.items():
        if name == "scaling.shift":
            finite(file, name, array)
        elif name != "scaling.scale":
            non_negative(file, name, array)
        elif not np.all(array > 0):  # infinite ones are those of features that are too small
            raise ValueError(f"{file.path} is damaged: {name!r} has numbers that are not above 0")
    return found


def _unfitted(file: TensorFile, info: Mapping[str, Any]) -> Any:
    """The estimator with its parameters."""
    cls, parameters = _CLASSES[info["class"]], info["parameters"]
    if file.metadata["format_version"] == "1":
        parameters = parameters_today(info["class"], parameters)
    unknown = sorted(set(parameters) - set(cls._get_param_names()))
    if unknown:
        raise ValueError(f"{file.path} is damaged: {cls.__name__} has no parameter {unknown[0]!r}")
    model = cls(**decode_parameters(parameters))
    model.check_parameters()
    return model


def _read_weights(file: TensorFile, layout: str, n_classes: int, n_features: int, mmap: bool) -> LinearWeights:
    if layout not in ("feature_major", "class_major"):
        raise ValueError(f"{file.path} is damaged: layout is {layout!r}")
    sparse = layout == "feature_major"
    shape = (n_features, -(-n_classes // LINE) * LINE) if sparse else (n_classes, n_features)
    name = _checked(file, "weights", np.float32, shape)
    matrix = file.map(name) if mmap else finite(file, name, file.read(name, out=aligned_zeros(*shape)))
    intercept = _intercept(file, n_classes)
    return LinearWeights(matrix, intercept, sparse)


def _read_mapped(
    file: TensorFile, info: Mapping[str, Any], n_classes: int, n_features: int, mmap: bool
) -> MappedWeights:
    n_hidden = _count(file, info, "n_hidden", least=1)
    intercept, relu = bool(info["intercept_column"]), bool(info["relu"])
    width = -(-(n_hidden + intercept) // LINE) * LINE

    def read(name: str, n_rows: int) -> Floats:
        found = _checked(file, name, np.float32, (n_rows, width))
        return file.map(found) if mmap else finite(file, name, file.read(found, out=aligned_zeros(n_rows, width)))

    file.used.add("intercept")  # it is a column of the weights
    embeddings = np.zeros((0, 0), dtype=np.float32)
    if "embeddings" in file.entries:
        embeddings = read("embeddings", n_features)
    elif n_hidden != n_features:
        raise ValueError(f"{file.path} is damaged: it has no embeddings, and rows of {n_hidden} for {n_features}")
    return MappedWeights(read("weights", n_classes), embeddings, n_hidden, intercept, relu)


def _read_postings(file: TensorFile, n_classes: int, n_features: int, mmap: bool) -> SparseWeights:
    indptr = file.read(_checked(file, "postings.indptr", np.int64, (n_features + 1,)))
    if indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        raise ValueError(f"{file.path} is damaged: the offsets of 'postings' do not start at 0 or decrease")
    shape, read = (int(indptr[-1]),), file.map if mmap else file.read
    classes = read(_checked(file, "postings.classes", np.int32, shape))
    values = read(_checked(file, "postings.values", np.float32, shape))
    weights = SparseWeights(indptr, classes, values, _intercept(file, n_classes))
    weights.check()
    if not mmap:
        finite(file, "postings.values", values)
    return weights


def _intercept(file: TensorFile, n_classes: int) -> Floats:
    name = _checked(file, "intercept", np.float32, (n_classes,))
    return finite(file, name, file.read(name))


def _encode_labels(labels: NDArray[Any]) -> tuple[dict[str, NDArray[Any]], dict[str, str | int]]:
    """Return labels as arrays of the file, and what `_decode_labels` has to know."""
    dtype = labels.dtype
    info: dict[str, str | int] = {"dtype": dtype.str, "n": len(labels)}
    if dtype.kind == "U" or (dtype.kind == "O" and all(isinstance(label, str) for label in labels)):
        return _encode_text(labels), info
    if dtype.kind in "mM":
        return {"values": labels.astype(dtype.newbyteorder("=")).view(np.int64)}, info
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        return {"values": np.ascontiguousarray(labels, dtype=dtype.newbyteorder("="))}, info
    what = f"objects such as {next(v for v in labels if not isinstance(v, str))!r}" if dtype.kind == "O" else str(dtype)
    raise TypeError(
        f"the labels are {what}; only booleans, integers, floats, dates, time spans and strings can be saved"
    )


def _decode_labels(file: TensorFile, info: Mapping[str, Any]) -> NDArray[Any]:
    dtype, n = np.dtype(info["dtype"]), _count(file, info, "n", least=2)
    if dtype.kind in "UO":
        labels = _decode_text(file, "classes", n)
        if dtype.kind == "U":
            labels = _as_fixed_width(file, labels, dtype)
    else:
        stored = np.dtype(np.int64) if dtype.kind in "mM" else dtype.newbyteorder("=")
        labels = file.read(_checked(file, "classes.values", stored, (n,)))
        labels = (labels.view(dtype.newbyteorder("=")) if dtype.kind in "mM" else labels).astype(dtype, copy=False)
    if not np.all(labels[:-1] < labels[1:]):
        raise ValueError(f"{file.path} is damaged: its labels are not sorted and distinct")
    return labels


def _as_fixed_width(file: TensorFile, labels: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Strings as NumPy's type of fixed width, which must hold them and not take more memory than a file may ask for."""
    longest = max(map(len, labels))
    if 4 * longest > dtype.itemsize:
        raise ValueError(f"{file.path} is damaged: its labels have type {dtype.str}; one has {longest} characters")
    if len(labels) * dtype.itemsize > MOST_FOR_LABELS * os.path.getsize(file.path):
        raise ValueError(f"{file.path} is damaged: {len(labels)} labels of type {dtype.str} take more than the file")
    return np.asarray(labels, dtype=dtype)


def _encode_vectorizer(vectorizer: Any, n_features: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the parameters of a fitted text vectorizer and its arrays in the file."""
    if not isinstance(vectorizer, TextVectorizer):
        raise TypeError(
            f"vectorizer_ is a {type(vectorizer).__name__}; only a manyclass.datasets.TextVectorizer can be saved"
        )
    check_is_fitted(vectorizer)
    if vectorizer.n_columns_ != n_features:
        raise ValueError(f"vectorizer_ has {vectorizer.n_columns_} columns; the model has {n_features} features")
    terms = {f"vectorizer.terms.{part}": array for part, array in _encode_text(vectorizer.vocabulary_).items()}
    return encode_parameters(vectorizer.get_params()), {**terms, "vectorizer.idf": vectorizer.idf_}


def _decode_vectorizer(file: TensorFile, parameters: Mapping[str, Any], n_features: int) -> TextVectorizer:
    hashed = parameters.get("n_hash") is not None
    terms = _decode_text(file, "vectorizer.terms", 0 if hashed else n_features)
    idf = file.read(_checked(file, "vectorizer.idf", np.float32, (n_features,)))
    finite(file, "vectorizer.idf", idf)
    return TextVectorizer.restored(decode_parameters(parameters), terms.tolist(), idf)
