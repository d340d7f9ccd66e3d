"""Flat parameters, which all stand on the estimator, as the objects that the estimators take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manyclass.models import MODELS
from manyclass.parts import Part
from manyclass.samplers import SAMPLERS
from manyclass.solvers import LOCAL_STEPS, POSTERIORS, SOLVERS

# Parameters that have another name today.
_SAMPLER_NAMES = {"power": "frequency_power"}
_OWN_GAIN = {"ema": "gain", "softplus": "rho", "bregman": "u_learning_rate", "scent": "u_learning_rate"}


def parameters_today(name: str, flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters for today's constructor.

    Parameters
    ----------
    name : str
        The estimator: "SoftmaxClassifier", "MarginClassifier" or "AugmentReduceClassifier".
    flat : mapping of str to value
        Some or all parameters of version 0.1. Those without effect on what was trained are left out.

    Returns
    -------
    dict
    """
    found = {"SoftmaxClassifier": _softmax, "MarginClassifier": _margin, "AugmentReduceClassifier": _utility}[name](
        flat
    )
    kept = ("learning_rate", "max_iter", "fit_intercept", "n_jobs", "random_state", "verbose")
    return {**{key: flat[key] for key in kept if key in flat}, **found}


def _part(cls: type[Part], flat: Mapping[str, Any], names: Mapping[str, str] | None = None) -> Part:
    """A part with those of its parameters that the flat ones have; `names` has their names there."""
    own = {
        s.name: flat[(names or {}).get(s.name, s.name)]
        for s in cls.settings
        if (names or {}).get(s.name, s.name) in flat
    }
    return cls(**own)


def _only(flat: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: flat[name] for name in names if name in flat}


def _softmax(flat: Mapping[str, Any]) -> dict[str, Any]:
    if flat.get("embedding_dim") not in (None, "auto") or flat.get("search") is not None:
        return _by_batches(flat)
    found = _only(flat, "early_stopping", "alpha")
    if flat.get("early_stopping"):
        found |= _only(flat, "validation_fraction", "n_iter_no_change")
    name = flat.get("solver", "auto")
    if name != "auto":
        found["solver"] = _solver(name, flat)
    if name == "lbfgs":
        return found
    found["sampler"] = _sampler(name, flat)
    if name != "exact" and flat.get("selection") != "all":
        found |= _only(flat, "n_negatives")
    if "embedding_dim" in flat and flat["embedding_dim"] is None:
        found["model"] = "linear"
    return found


def _solver(name: str, flat: Mapping[str, Any]) -> Part:
    names = {_OWN_GAIN[name]: "u_gain"} if name in _OWN_GAIN else {}
    flat = {key: value for key, value in flat.items() if not _without_effect(name, key, value, flat)}
    return _part(SOLVERS[name], flat, names)


def _without_effect(solver: str, key: str, value: Any, flat: Mapping[str, Any]) -> bool:
    """Whether version 0.1 ignored a parameter in training."""
    if key == "decay":
        return flat.get("schedule", "exponential") not in ("exponential", "adaptive")
    return key == "share_classes" and (solver == "exact" or flat.get("selection") == "all")


def _sampler(solver: str, flat: Mapping[str, Any]) -> str | Part:
    name = flat.get("selection", "frequency_block")
    if solver in ("exact", "minibatch_implicit"):
        return "auto"
    if name == "frequency_block" and "frequency_power" not in flat:
        return name if solver == "implicit" else "auto"  # for which "auto" has another power today
    if solver == "auto" and name == "frequency_block":
        return "auto"
    return _part(SAMPLERS[name], flat, _SAMPLER_NAMES)


def _by_batches(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Of a SoftmaxClassifier with embeddings or a search."""
    found = _only(flat, "alpha") if flat.get("alpha") == 0 else {}
    adagrad = flat.get("schedule") == "adaptive" or flat.get("learning_rate", "auto") == "auto"
    exact = flat.get("search") == "exact"
    name = "adagrad" if adagrad else "exact" if exact else "css"
    schedule = "exponential" if flat.get("schedule") == "adaptive" else flat.get("schedule", "exponential")
    found["solver"] = _solver(name, {**flat, "schedule": schedule, **({"selection": "all"} if exact else {})})
    found["sampler"] = _batch_sampler(flat, 0.75, "auto")
    if _draws(flat, None):
        found |= _only(flat, "n_negatives")
    return found | _model(flat)


def _model(flat: Mapping[str, Any]) -> dict[str, Any]:
    if flat.get("embedding_dim") in (None, "auto"):
        return {"model": "linear"}
    return {"model": _part(MODELS["embedding"], flat), "dim": flat["embedding_dim"]}


def _batch_sampler(flat: Mapping[str, Any], power: float, otherwise: str) -> str | Part:
    search = flat.get("search")
    if search is None:
        return otherwise
    if search == "exact":
        return "all"
    if search == "sampled":
        power = flat.get("frequency_power", power)
        return SAMPLERS["uniform"]() if power == 0 else SAMPLERS["frequency"](power=power)
    # What was "step" then is the margin's own; of messages there was one way.
    return _part(SAMPLERS["search"], {k: v for k, v in flat.items() if k != "step"}, {"index": "search"})


def _draws(flat: Mapping[str, Any], otherwise: str | None) -> bool:
    """Whether classes are drawn: by the source itself, or before its search begins."""
    search = flat.get("search", otherwise)
    return search in (None, "sampled") or (search != "exact" and flat.get("warm_up", 1) > 0)


def _margin(flat: Mapping[str, Any]) -> dict[str, Any]:
    schedule = flat.get("schedule", "adaptive")
    name = "adagrad" if schedule == "adaptive" else "implicit" if flat.get("step") == "implicit" else "sgd"
    exact = flat.get("search", "exact") == "exact"
    steps = _only(flat, "decay", "batch_size", "shuffle", *(() if exact else ("share_classes",)))
    if steps.get("share_classes"):  # its default then, which None is now
        steps["share_classes"] = None
    if schedule not in ("adaptive", "exponential"):
        steps.pop("decay", None)
    found = _only(flat, "loss", *(("smoothing",) if flat.get("loss") != "triplet" else ()))
    found["solver"] = _part(SOLVERS[name], {**steps, "schedule": "exponential" if name == "adagrad" else schedule})
    found["sampler"] = _batch_sampler(flat, 0.0, "all")
    if _draws(flat, "exact"):
        found |= _only(flat, "n_negatives")
    return found | _model(flat)


def _utility(flat: Mapping[str, Any]) -> dict[str, Any]:
    found = _only(flat, "noise", "alpha")
    gaussian = flat.get("posterior") == "gaussian"
    steps = ("schedule", "decay", "averaging", "batch_size", "share_classes", "shuffle", "parallel")
    used = _only(flat, *(steps if not gaussian else ("schedule", "decay", "batch_size")))
    used = {key: value for key, value in used.items() if not _without_effect("", key, value, flat)}
    if used.get("share_classes") is False:
        used["share_classes"] = None
    found["solver"] = _part(SOLVERS["implicit" if gaussian else flat.get("solver", "implicit")], used)
    if flat.get("noise") != "gumbel":
        names = {"family": "local_family"}
        found["local_step"] = _part(LOCAL_STEPS[flat.get("local_step", "natural")], flat, names)
    if gaussian:
        found["posterior"] = _part(POSTERIORS["gaussian"], flat)
        found["sampler"] = "all" if flat.get("selection") == "all" else "uniform"
    else:
        found["sampler"] = _sampler("", flat)
    if flat.get("selection") != "all":
        found |= _only(flat, "n_negatives")
    return found
