"""Fitted choice models, and their files: safetensors with a JSON description, without pickle."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_choice, check_flag, check_number
from manyclass.choice.fitting import ChoiceFit, ChoiceForm, ChoiceMixture, ChoiceState, Covariance
from manyclass.choice.identification import COVARIANCES
from manyclass.choice.sets import positions_among
from manyclass.datasets.csr import is_sparse
from manyclass.registry import names
from manyclass.weights.arrays import Doubles
from manyclass.weights.saved_labels import decode_labels, encode_labels
from manyclass.weights.tensor_file import PathLike, TensorFile, checked, make_metadata, warn_of_unread, write_tensors

FORMAT = "manyclass choice model"
FORMAT_VERSION = 1
NAMES = ("chooser_names", "alternative_names", "pair_names", "group_labels", "nest_labels", "labels")
LIKELIHOODS = ("log_likelihood", "null_log_likelihood")  # None in a file where they are NaN
# What a file calls the values and the arrays of a state.
VALUES = {name: f"form.{name}" for name in (*NAMES, "noise", "rank", "has_features", "n_alternatives")}
VALUES |= {name: name for name in ("n_rows", "n_free", "solver", "unidentified", *LIKELIHOODS)}
VALUES |= {"covariance_rows": "covariance.n_rows", "covariance_kind": "covariance.kind", "converged": "fit.converged"}
ARRAYS = {"theta": "fit.theta", "losses": "fit.losses", "draw_errors": "fit.draw_errors", "groups": "form.groups"}
ARRAYS |= {"nests": "form.nests", "covariance": "covariance.matrix", "covariance_error": "covariance.error"}
LEAST = {"n_alternatives": 1, "rank": -1, "n_rows": 1, "n_free": 0, "covariance_rows": 0}  # of integers
CHOICES = {"solver": ("lbfgs", "double_sum"), "noise": names("noise"), "covariance_kind": COVARIANCES[1:]}
CHOICES |= {"Z": ("none", "dense", "sparse")}


def write_choice_model(
    state: ChoiceState, parameters: Mapping[str, Any], path: PathLike, notes: Mapping[str, Any] | None = None
) -> None:
    """Write a fitted choice model.

    Parameters
    ----------
    state : ChoiceState
    parameters : mapping of str to object, of the estimator
    path : str or path-like
    notes : mapping of str to what JSON holds, optional

    Raises
    ------
    ValueError
        If coefficients are not finite.
    TypeError
        If alternatives or parameters are of a type that the format lacks; nothing is written then.
    """
    if not np.isfinite(state.fit.theta).all():
        raise ValueError("coefficients are not finite; such a model cannot be saved")
    mixture, constants, seed = (parameters[name] for name in ("mixture", "constants", "random_state"))
    if (mixture is None) != (state.mixture is None):
        raise ValueError(f"mixture is {mixture!r}, which is not that of the fit; fit the model again")
    labels, of_labels = encode_labels("alternatives", state.alternatives)
    about = {name: attrgetter(attribute)(state) for name, attribute in VALUES.items()}
    about |= {name: None for name in LIKELIHOODS if np.isnan(about[name])} | {"alternatives": of_labels, "Z": "none"}
    about["parameters"] = {name: value for name, value in parameters.items() if name not in ("mixture", "nests")}
    about["parameters"]["constants"] = constants if isinstance(constants, str) else None
    if (reference := parameters["reference"]) is not None:  # a label of any type, by its position
        places = positions_among([reference], state.alternatives, "reference", by_row=False)
        about["parameters"]["reference"] = places.tolist()[0]
    about["parameters"]["random_state"] = seed if isinstance(seed, int | np.integer) else None
    about["mixture"] = state.mixture and {"kind": type(mixture).__name__, "state": state.mixture.description()}
    if mixture is not None:
        about["mixture"]["parameters"] = mixture.get_params(deep=False)
    tensors = labels | {name: np.ascontiguousarray(attrgetter(where)(state)) for name, where in ARRAYS.items()}
    if is_sparse(state.Z):
        Z, about["Z"] = sp.csr_array(state.Z), "sparse"
        tensors |= {"Z.data": Z.data, "Z.indices": Z.indices.astype(np.int64), "Z.indptr": Z.indptr.astype(np.int64)}
    elif state.Z is not None:
        tensors["Z"], about["Z"] = np.ascontiguousarray(state.Z), "dense"
    write_tensors(path, tensors, make_metadata(FORMAT, FORMAT_VERSION, _plain, model=about, notes=dict(notes or {})))


def _plain(value: Any) -> Any:
    """What JSON has for a mapping, or for numbers of NumPy; raises TypeError for others."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r:.80} cannot be saved; only None, numbers, text, lists and mappings of them can be")


def parameters_by_alternative(form: ChoiceForm, constants: Any) -> dict[str, Any]:
    """Return the parameters that are labels of alternatives, as a form has them; other constants stay."""
    if not isinstance(constants, str):
        constants = np.array(form.group_labels)[form.groups] if len(form.groups) else "none"
    return {"constants": constants, "nests": np.array(form.nest_labels)[form.nests] if len(form.nests) else None}


def read_choice_model(file: TensorFile) -> tuple[dict[str, Any], ChoiceState]:
    """Return the parameters and the state of a file; what is wrong raises what `reading` makes a ValueError."""
    about = json.loads(file.metadata["model"])
    for name, choices in CHOICES.items():
        check_choice(name, about[name], choices)
    check_flag("converged", about["converged"])
    for name, least in LEAST.items():
        check_number(name, about[name], low=least, integer=True)
    causes, k = about.get("unidentified", {}), about["n_alternatives"]
    form = _read_form(file, about, causes, k)
    parameters, mixture = dict(about["parameters"], mixture=None), None
    if (of_mixture := about.get("mixture")) is not None:
        check_choice("mixture", of_mixture["kind"], tuple(ChoiceMixture.kinds))
        parameters["mixture"] = ChoiceMixture.kinds[of_mixture["kind"]](**of_mixture["parameters"])
        parameters["mixture"].check_parameters()
        mixture = parameters["mixture"].restore(form, of_mixture["state"])
    arrays = _read_estimates(file, form, form.n if mixture is None else len(mixture.names))
    parameters |= parameters_by_alternative(form, parameters.get("constants"))
    alternatives = _read_alternatives(file, about["alternatives"], k)
    if (place := parameters.get("reference")) is not None:
        check_number("reference", place, low=0, high=k - 1, integer=True)
        parameters["reference"] = alternatives.tolist()[place]
    Z = _read_features(file, about["Z"], (k, len(form.alternative_names)))
    fit = ChoiceFit(arrays["theta"], arrays["losses"], about["converged"], arrays["draw_errors"])
    matrices = arrays["covariance"], arrays["covariance_error"]
    covariance = Covariance(about["covariance_kind"], *matrices, about["covariance_rows"])
    values: dict[str, Any] = {name: about[name] for name in ("n_rows", "n_free", "solver")}
    values |= {name: np.nan if about[name] is None else float(about[name]) for name in LIKELIHOODS}
    state = ChoiceState(form, alternatives, Z, fit, covariance, mixture=mixture, unidentified=causes, **values)
    warn_of_unread(file)
    return parameters, state


def _read_form(file: TensorFile, about: Mapping[str, Any], causes: Mapping[str, str], k: int) -> ChoiceForm:
    text = {name: tuple(about[name]) for name in NAMES}
    for word in itertools.chain(*text.values(), *causes.items()):
        if not isinstance(word, str):
            raise ValueError(f"{word!r} is no name")
    values: dict[str, Any] = {name: about[name] for name in ("noise", "rank")} | text
    values["groups"] = file.array("groups", np.int64, (k if text["group_labels"] else 0,))
    values["nests"] = file.array("nests", np.int32, (k if text["nest_labels"] else 0,))
    form = ChoiceForm(n_alternatives=k, **values)
    form.core.sizes()  # the core refuses groups and nests that are out of range
    lacks_labels = form.own_tastes and len(form.labels) != k
    if form.has_features != about["has_features"] or lacks_labels or (len(form.nests) and form.noise != "gumbel"):
        raise ValueError("parts of the model do not fit each other")
    return form


def _read_estimates(file: TensorFile, form: ChoiceForm, n: int) -> dict[str, Doubles]:
    shapes = {"draw_errors": (n,), "covariance_error": (n,), "covariance": (n, n)}  # of which some may be NaN
    arrays = {name: file.read(checked(file, name, np.float64, shape)) for name, shape in shapes.items()}
    shapes = {"theta": (n,), "losses": file.entries["losses"][1][:1]}
    arrays |= {name: file.array(name, np.float64, shape) for name, shape in shapes.items()}
    if np.any(arrays["theta"][form.slices["dissimilarity"]] <= 0):
        raise ValueError("a dissimilarity is not more than 0")
    if np.isinf(arrays["covariance"]).any() or np.any(np.diag(arrays["covariance"]) < 0):
        raise ValueError("the covariance has numbers that it cannot have")
    return arrays


def _read_alternatives(file: TensorFile, about: Any, k: int) -> NDArray[Any]:
    if about == "U":  # files up to version 0.2.0 have only integers and text
        about = {"dtype": "O", "n": k}
    if isinstance(about, dict):
        alternatives = decode_labels(file, about, "alternatives", least=1)
    else:
        alternatives = file.array("alternatives", np.int64, (k,))
    if len(np.unique(alternatives)) != k:
        raise ValueError(f"there are not {k} distinct alternatives")
    return alternatives


def _read_features(file: TensorFile, kind: str, shape: tuple[int, int]) -> Any:
    if kind == "none":
        return None
    if kind == "dense":
        return file.array("Z", np.float64, shape)
    data = file.array("Z.data", np.float64, file.entries["Z.data"][1])
    Z = sp.csr_array((data, file.read("Z.indices"), file.read("Z.indptr")), shape=shape)
    Z.check_format(full_check=True)
    return Z
