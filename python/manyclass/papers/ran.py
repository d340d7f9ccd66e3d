"""What a run trained with, from the fitted estimator's own parameters: the words beside every figure of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from manyclass.models import MODELS
from manyclass.papers.engine import Records
from manyclass.papers.report import Ran
from manyclass.papers.summary import by_key, of_first_seed
from manyclass.parts import Part
from manyclass.registry import parts
from manyclass.samplers import SAMPLERS
from manyclass.solvers import LOCAL_STEPS, SOLVERS

RAN = "ran"  # key of the results that holds the words
NAMED: dict[str, Mapping[str, type[Part]]] = {
    "solver": SOLVERS,
    "sampler": SAMPLERS,
    "local_step": LOCAL_STEPS,
    "model": MODELS,
}
OBJECTIVE, STEP = ("noise", "loss", "smoothing"), ("schedule", "learning_rate", "decay", "batch_size", "averaging")
SEARCH = ("index", "budget")
ALWAYS = (*OBJECTIVE, *STEP, *SEARCH, "max_iter")
FIRST = ("estimator", "solver", "steps", *OBJECTIVE, *STEP, "sampler", *SEARCH, "n_negatives", "local_step")
NEVER = ("n_jobs", "random_state", "verbose")

Words = dict[str, str]


def trained_with(model: BaseEstimator, **beside: Any) -> Words:
    """Say what a fitted estimator trained with.

    Parameters
    ----------
    model : estimator
        What it chose itself stands in the place of what was left open.
    **beside
        What its parameters do not say.

    Returns
    -------
    dict of str to str
        Value by parameter: those of a step size, a batch and a sampler always, others unless they have their default.
        "steps" is "explicit" or "implicit".
    """
    defaults = type(model)().get_params(deep=False)
    chosen = getattr(model, "resolved_params_", None)
    given = model.get_params(deep=False) | (chosen or {})
    words = {"estimator": type(model).__name__}
    for name, value in given.items():
        part = NAMED[name][value]() if isinstance(value, str) and value in NAMED.get(name, {}) else value
        if isinstance(part, Part):
            words |= {name: part.name, **_steps(name, part), **_own(part)}
        elif chosen is not None and value == "auto":
            continue  # it had no effect, or it would have been chosen
        elif name in ALWAYS or (name not in NEVER and not _same(value, defaults[name])):
            words[name] = _word(value)
    if words.get("max_iter") != str(model.n_iter_):  # a callback, the clock or convergence ended it
        words["passes made"] = str(model.n_iter_)
    words |= {name: _word(value) for name, value in beside.items()}
    return {name: words[name] for name in sorted(words, key=lambda name: (*FIRST, name).index(name))}


def _steps(parameter: str, part: Part) -> Words:
    """How a solver of the core moves the weights, the others being one way each; and whether it sees all classes."""
    if parameter != "solver" or part.name not in parts("solver"):
        return {}
    flags = parts("solver")[part.name].flags
    seen = {"sampler": "all"} if "all_classes" in flags else {}
    return {"steps": "implicit" if "implicit" in flags else "explicit", **seen}


def _own(part: Part) -> Words:
    """Parameters of a part that say how it differs from others of its name; what is open still has no effect here."""
    defaults = type(part)().get_params(deep=False)
    return {
        name: _word(value)
        for name, value in part.get_params(deep=False).items()
        if value != "auto" and (name in ALWAYS or not _same(value, defaults[name]))
    }


def _same(value: Any, default: Any) -> bool:
    return value is default or (
        type(value) is type(default) and not isinstance(value, BaseEstimator) and value == default
    )


def _word(value: Any) -> str:
    if isinstance(value, BaseEstimator):
        own = {k: v for k, v in value.get_params(deep=False).items() if k not in NEVER}
        return f"{type(value).__name__}({', '.join(f'{k}={_word(v)}' for k, v in own.items())})"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return str(value)


def what_ran(records: Records, key: str = "method") -> tuple[Ran, ...]:
    """Say what each method ran; what differs between data sets is told by data set.

    Parameters
    ----------
    records : list of dict
        Of runs whose results have what `trained_with` said. The first seed speaks for all: no other differs in more
        than what a trial chose.
    key : str
        Key of the records that names the rows of the table.

    Returns
    -------
    tuple of (str, str)
        Method and words.
    """
    return tuple(
        (str(name), "; ".join(_joined(of_first_seed(some) or some))) for name, some in by_key(records, key).items()
    )


def _joined(records: Records) -> Iterator[str]:
    words = [(record["data"], record["results"].get(RAN) or {"parameters": "not recorded"}) for record in records]
    names = dict.fromkeys(name for _, some in words for name in some)
    for name in names:
        data_of: dict[str | None, list[str]] = {}
        for data, some in words:
            data_of.setdefault(some.get(name), []).append(data)
        if len(data_of) == 1:
            yield f"{name} {next(iter(data_of))}"
        else:
            told = (f"{value} ({', '.join(dict.fromkeys(on))})" for value, on in data_of.items() if value is not None)
            yield f"{name} {', '.join(told)}"
