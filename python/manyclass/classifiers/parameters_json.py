"""Parameters of estimators as JSON has them: a part is its class and its own parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from manyclass.labels import as_labels
from manyclass.models import MODELS
from manyclass.parts import Part
from manyclass.samplers import SAMPLERS, search_name
from manyclass.solvers import LOCAL_STEPS, POSTERIORS, SOLVERS

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
