"""Fitted choice models, and their files: safetensors with a JSON description, without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_choice
from manyclass.choice.estimates import ChoiceFit, Covariance
from manyclass.choice.fitting import ChoiceForm
from manyclass.choice.inference import COVARIANCES
from manyclass.choice.mixture import ChoiceMixture, MixtureState
from manyclass.classifiers.parameters_json import encode_parameters
from manyclass.datasets.csr import is_sparse
from manyclass.labels import as_labels
from manyclass.registry import names
from manyclass.version import __version__
from manyclass.weights.saved_labels import decode_labels, encode_labels
from manyclass.weights.tensor_file import (
    PathLike,
    TensorFile,
    check_version,
    checked,
    count,
    decode_text,
    finite,
    warn_of_unread,
    write_tensors,
)

FORMAT = "manyclass choice model"
FORMAT_VERSION = 1
BY_ALTERNATIVE = ("constants", "nests")  # parameters that are labels, which the form has
NAMES = ("chooser_names", "alternative_names", "pair_names", "group_labels", "nest_labels", "labels")
NUMBERS = ("log_likelihood", "null_log_likelihood")


@dataclass(frozen=True)
class ChoiceState:
    """A fitted choice model.

    Attributes
    ----------
    form : ChoiceForm
    alternatives : ndarray of shape (n_alternatives,), labels
    Z : ndarray, csr_array or None
    fit : ChoiceFit
    covariance : Covariance
    n_rows : int
    n_free : int
        Coefficients that are neither fixed nor equal to others, as far as data tell them.
    log_likelihood : float
        NaN where alternatives were drawn.
    null_log_likelihood : float
        The same with equal probabilities of what is available.
    solver : {"lbfgs", "double_sum"}
    mixture : MixtureState or None
    unidentified : mapping of str to str
        Causes by the names of coefficients that data do not tell.
    """

    form: ChoiceForm
    alternatives: NDArray[Any]
    Z: Any
    fit: ChoiceFit
    covariance: Covariance
    n_rows: int
    n_free: int
    log_likelihood: float
    null_log_likelihood: float
    solver: str
    mixture: MixtureState | None = None
    unidentified: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of all coefficients."""
        return self.form.names if self.mixture is None else self.mixture.names


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
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "package_version": __version__,
        "model": json.dumps(_description(state, parameters)),
        "notes": json.dumps(dict(notes or {})),
    }
    write_tensors(path, _tensors(state), metadata)


def _tensors(state: ChoiceState) -> dict[str, NDArray[Any]]:
    tensors: dict[str, NDArray[Any]] = {name: getattr(state.fit, name) for name in ("theta", "losses", "draw_errors")}
    tensors["covariance"] = np.ascontiguousarray(state.covariance.matrix)
    tensors["covariance_error"] = state.covariance.error
    tensors |= {"groups": state.form.groups, "nests": state.form.nests}
    labels, _ = encode_labels(state.alternatives)
    tensors |= {f"alternatives.{part}": array for part, array in labels.items()}
    if is_sparse(state.Z):
        Z = sp.csr_array(state.Z)
        tensors |= {"Z.data": Z.data, "Z.indices": Z.indices.astype(np.int64), "Z.indptr": Z.indptr.astype(np.int64)}
    elif state.Z is not None:
        tensors["Z"] = np.ascontiguousarray(state.Z)
    return tensors


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON has it; raises TypeError where it has none."""
    if isinstance(value, Mapping):
        return {str(key): _plain(name, part) for key, part in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(name, part) for part in value]
    return encode_parameters({name: value})[name]


def parameters_by_alternative(form: ChoiceForm, constants: Any) -> dict[str, Any]:
    """Return the parameters that are labels of alternatives, as a form has them; other constants stay."""
    if not isinstance(constants, str):
        constants = np.array(form.group_labels)[form.groups] if len(form.groups) else "none"
    return {"constants": constants, "nests": np.array(form.nest_labels)[form.nests] if len(form.nests) else None}


def _description(state: ChoiceState, parameters: Mapping[str, Any]) -> dict[str, Any]:
    values = {k: _plain(k, value) for k, value in parameters.items() if k not in (*BY_ALTERNATIVE, "mixture")}
    values["constants"] = parameters["constants"] if isinstance(parameters["constants"], str) else None
    return {
        "parameters": values,
        "mixture": _describe_mixture(parameters["mixture"], state.mixture),
        **{name: list(getattr(state.form, name)) for name in NAMES},
        **{name: getattr(state.form, name) for name in ("noise", "rank", "has_features", "n_alternatives")},
        "alternatives": encode_labels(state.alternatives)[1],
        "Z": "sparse" if is_sparse(state.Z) else "none" if state.Z is None else "dense",
        **{name: getattr(state, name) for name in ("n_rows", "n_free")},
        "covariance_rows": state.covariance.n_rows,
        "covariance_kind": state.covariance.kind,
        "solver": state.solver,
        "unidentified": dict(state.unidentified),
        "converged": state.fit.converged,
        **{name: getattr(state, name) if np.isfinite(getattr(state, name)) else None for name in NUMBERS},
    }


def _describe_mixture(mixture: ChoiceMixture | None, state: MixtureState | None) -> dict[str, Any] | None:
    if mixture is None or state is None:
        return None
    return {
        "kind": type(mixture).__name__,
        "parameters": _plain("mixture", mixture.get_params(deep=False)),
        "state": state.description(),
    }


def _read_mixture(
    about: Mapping[str, Any] | None, form: ChoiceForm
) -> tuple[ChoiceMixture | None, MixtureState | None]:
    if about is None:
        return None, None
    check_choice("mixture", about["kind"], tuple(ChoiceMixture.kinds))
    mixture = ChoiceMixture.kinds[about["kind"]](**about["parameters"])
    mixture.check_parameters()
    return mixture, mixture.restore(form, about["state"])


def read_choice_model(file: TensorFile) -> tuple[dict[str, Any], ChoiceState]:
    """Return the parameters and the state of a file; what is wrong raises what `reading` makes a ValueError."""
    check_version(file, FORMAT_VERSION)
    about = json.loads(file.metadata["model"])
    check_choice("solver", about["solver"], ("lbfgs", "double_sum"))
    form = _read_form(file, about)
    mixture, mixture_state = _read_mixture(about.get("mixture"), form)
    n = form.n if mixture_state is None else len(mixture_state.names)
    estimates, covariance = _read_estimates(file, about, form, n)
    likelihood, null = (float("nan") if about[name] is None else float(about[name]) for name in NUMBERS)
    state = ChoiceState(
        form,
        _read_alternatives(file, about["alternatives"], form.n_alternatives),
        _read_features(file, about["Z"], (form.n_alternatives, len(form.alternative_names))),
        estimates,
        covariance,
        count(file, about, "n_rows", 1),
        count(file, about, "n_free", 0),
        likelihood,
        null,
        about["solver"],
        mixture_state,
        {name: _text(cause) for name, cause in about.get("unidentified", {}).items()},
    )
    parameters = dict(about["parameters"], mixture=mixture)
    parameters |= parameters_by_alternative(form, parameters.get("constants"))
    warn_of_unread(file)
    return parameters, state


def _read_form(file: TensorFile, about: Mapping[str, Any]) -> ChoiceForm:
    check_choice("noise", about["noise"], names("noise"))
    k = count(file, about, "n_alternatives", 1)
    text = {name: tuple(map(_text, about[name])) for name in NAMES}
    form = ChoiceForm(
        noise=about["noise"],
        n_alternatives=k,
        has_features=_flag(about, "has_features"),
        rank=count(file, about, "rank", -1),
        groups=_positions(file, "groups", np.int64, k, len(text["group_labels"])),
        nests=_positions(file, "nests", np.int32, k, len(text["nest_labels"])),
        **text,
    )
    if (
        (form.has_features and not form.alternative_names)
        or (form.own_tastes and len(form.labels) != k)
        or (len(form.nests) and form.noise != "gumbel")
    ):
        raise ValueError("parts of the model do not fit each other")
    return form


def _read_estimates(
    file: TensorFile, about: Mapping[str, Any], form: ChoiceForm, n: int
) -> tuple[ChoiceFit, Covariance]:
    check_choice("covariance_kind", about["covariance_kind"], COVARIANCES[1:])
    shapes = {"theta": (n,), "draw_errors": (n,), "covariance_error": (n,), "covariance": (n, n)}
    shapes["losses"] = file.entries["losses"][1][:1]
    arrays = {name: file.read(checked(file, name, np.float64, shape)) for name, shape in shapes.items()}
    finite(file, "losses", arrays["losses"])
    if np.any(finite(file, "theta", arrays["theta"])[form.slices["dissimilarity"]] <= 0):
        raise ValueError("a dissimilarity is not more than 0")
    if np.isinf(arrays["covariance"]).any() or np.any(np.diag(arrays["covariance"]) < 0):
        raise ValueError("the covariance has numbers that it cannot have")
    n_rows = count(file, about, "covariance_rows", 0)
    return (
        ChoiceFit(arrays["theta"], arrays["losses"], _flag(about, "converged"), arrays["draw_errors"]),
        Covariance(about["covariance_kind"], arrays["covariance"], arrays["covariance_error"], n_rows),
    )


def _read_alternatives(file: TensorFile, about: Any, k: int) -> NDArray[Any]:
    if isinstance(about, dict):
        alternatives = decode_labels(file, about, "alternatives", least=1)
    elif about == "U":  # files up to version 0.2.0 have only integers and text
        alternatives = as_labels(decode_text(file, "alternatives", k))
    else:
        alternatives = file.read(checked(file, "alternatives", np.int64, (k,)))
    if len(np.unique(alternatives)) != k:
        raise ValueError(f"there are not {k} distinct alternatives")
    return alternatives


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no name")
    return value


def _flag(about: Mapping[str, Any], name: str) -> bool:
    if not isinstance(about[name], bool):
        raise ValueError(f"{name} is {about[name]!r}; it must be true or false")
    return bool(about[name])


def _positions(file: TensorFile, name: str, dtype: Any, k: int, n: int) -> NDArray[Any]:
    positions = file.read(checked(file, name, dtype, (k if n else 0,)))
    if len(positions) and (positions.min() < 0 or positions.max() >= n or (name == "groups" and all(positions))):
        raise ValueError(f"{name!r} has numbers outside [0, {n})")
    return positions


def _read_features(file: TensorFile, kind: str, shape: tuple[int, int]) -> Any:
    check_choice("Z", kind, ("none", "dense", "sparse"))
    if kind == "none":
        return None
    if kind == "dense":
        return finite(file, "Z", file.read(checked(file, "Z", np.float64, shape)))
    indptr = file.read(checked(file, "Z.indptr", np.int64, (shape[0] + 1,)))
    stored = (int(indptr[-1]),)
    data = finite(file, "Z.data", file.read(checked(file, "Z.data", np.float64, stored)))
    Z = sp.csr_array((data, file.read(checked(file, "Z.indices", np.int64, stored)), indptr), shape=shape)
    Z.check_format(full_check=True)
    return Z
