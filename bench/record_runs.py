"""Are models, bit for bit, those that an earlier version of the package made?

    python bench/record_runs.py write FILE     # records every run
    python bench/record_runs.py compare FILE   # names the runs that differ; exit status 1 if any does

A run is a fit, partial fits, a stream, a checkpoint that is resumed, a warm start or a file that is read again, of one
configuration on small data made here, on one thread. What is kept of it are digests of the weights, the loss curve and
the predictions. Bits depend on the processor and the compiler, so both versions are run on one machine. With two
threads (`--jobs 2`) the deterministic mode must give the same digests.
"""

import contextlib
import hashlib
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import (
    AugmentReduceClassifier,
    MarginClassifier,
    SkipGram,
    SoftmaxClassifier,
    load,
    models,
    samplers,
    solvers,
)
from manyclass.datasets import Stream

JOBS = 2 if "--jobs" in sys.argv and sys.argv[sys.argv.index("--jobs") + 1] == "2" else 1


def sparse_rows(n, d, k, z=8, seed=0):
    """Rows of features that tell their class, and some that do not."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    own = (y[:, np.newaxis] * 7 + rng.integers(0, 5, (n, z // 2))) % d
    at = np.sort(np.concatenate([own, rng.integers(0, d, (n, z - z // 2))], axis=1), axis=1)
    data = rng.uniform(0.5, 1, at.size).astype(np.float32)
    x = sp.csr_array((data, at.ravel(), np.arange(n + 1) * z), shape=(n, d))
    x.sum_duplicates()
    return x, y


def dense_rows(n, d, k, seed=1):
    rng = np.random.default_rng(seed)
    centres, y = rng.standard_normal((k, d)), rng.integers(0, k, n)
    return (centres[y] + rng.standard_normal((n, d))).astype(np.float32), y


def label_lists(n, d, k, seed=2):
    """Rows with one to three labels."""
    x, y = sparse_rows(n, d, k, seed=seed)
    more = np.random.default_rng(seed).integers(0, k, (n, 2))
    at = np.concatenate([y[:, np.newaxis], more], axis=1)
    lists = sp.csr_array((np.ones(at.size, dtype=np.int64), at.ravel(), np.arange(n + 1) * 3), shape=(n, k))
    lists.sum_duplicates()
    lists.data[:] = 1
    return x, lists


SPARSE, DENSE, LISTS = sparse_rows(1500, 400, 60), dense_rows(900, 12, 40), label_lists(1500, 400, 60)
LARGE, FEW = sparse_rows(1200, 300, 1500, seed=3), dense_rows(300, 6, 5, seed=4)


def digest(*arrays: Any) -> str:
    found = hashlib.blake2b(digest_size=12)
    for array in arrays:
        array = array.toarray() if sp.issparse(array) else np.ascontiguousarray(array)
        found.update(repr((array.shape, array.dtype.str)).encode())
        found.update(array.tobytes() if array.dtype != object else repr(array.tolist()).encode())
    return found.hexdigest()


def told(model: Any, x: Any) -> dict[str, str]:
    """Digests of a fitted model."""
    coef = [getattr(model, name) for name in ("coef_", "embedding_") if _has(model, name)]
    found = {"weights": digest(*coef, model.intercept_), "curve": digest(model.loss_curve_)}
    found["classes"] = digest(model.classes_, model.class_count_)
    found["predictions"] = digest(*model.predict_top_k(x[:100], min(5, len(model.classes_))), model.predict(x[:100]))
    for name in ("resolved_params_", "threshold_", "n_iter_", "best_iter_", "n_labels_", "calibration_"):
        if _has(model, name):
            found[name] = repr(getattr(model, name))
    if _has(model, "auto_report_"):
        found["report"] = repr([{k: v for k, v in line.items() if k != "seconds"} for line in model.auto_report_])
    return found


def _has(model: Any, name: str) -> bool:
    try:
        return hasattr(model, name)
    except Exception:
        return False


def fit(make: Callable[[], Any], data: Any, **given: Any) -> Callable[[Path], dict[str, str]]:
    def run(_: Path) -> dict[str, str]:
        return told(make().fit(*data, **given), data[0])

    return run


def parts_of(data: Any, n: int = 3) -> list[Any]:
    x, y = data
    rows = np.array_split(np.arange(x.shape[0]), n)
    return [(x[some], y[some]) for some in rows]


def partial(make: Callable[[], Any], data: Any, first: bool = False, **given: Any) -> Callable[[Path], dict[str, str]]:
    """Calls of partial_fit; with `first` the first of three parts is fitted."""

    def run(_: Path) -> dict[str, str]:
        model, parts = make(), parts_of(data)
        classes = None if sp.issparse(data[1]) else np.unique(data[1])
        for number, (x, y) in enumerate(parts):
            if first and number == 0:
                model.fit(x, y)
            else:
                model.partial_fit(x, y, classes=classes if number == 1 else None, **given)
        return told(model, data[0])

    return run


def stream(make: Callable[[], Any], data: Any, listed: bool = False, **given: Any) -> Callable[[Path], dict[str, str]]:
    def run(_: Path) -> dict[str, str]:
        parts = parts_of(data) if listed else Stream(*data, rows=400, random_state=5)
        return told(make().fit(parts, **given), data[0])

    return run


def resumed(make: Callable[[], Any], data: Any) -> Callable[[Path], dict[str, str]]:
    """A fit that a callback stops is resumed from its checkpoint."""

    def run(folder: Path) -> dict[str, str]:
        seen = []

        def stop(state):
            seen.append(state.n_iter)
            if len(seen) == 2:
                raise RuntimeError("stopped")

        with contextlib.suppress(RuntimeError):
            make().fit(*data, checkpoint=folder / "run", every=1, callback=stop)
        return told(make().fit(*data, checkpoint=folder / "run", every=1, resume=True), data[0])

    return run


def warm(make: Callable[[], Any], data: Any) -> Callable[[Path], dict[str, str]]:
    def run(_: Path) -> dict[str, str]:
        return told(make().set_params(warm_start=True).fit(*data).fit(*data), data[0])

    return run


def saved(make: Callable[[], Any], data: Any, goes_on: bool = True) -> Callable[[Path], dict[str, str]]:
    """A model is written and read, and trained on."""

    def run(folder: Path) -> dict[str, str]:
        make().fit(*data).save(folder / "a.model")
        model = load(folder / "a.model")
        before = told(model, data[0])
        if goes_on:
            model.partial_fit(*parts_of(data)[0])
        return {**{f"read {name}": value for name, value in before.items()}, **told(model, data[0])}

    return run


def evaluated(make: Callable[[], Any], data: Any) -> Callable[[Path], dict[str, str]]:
    def run(_: Path) -> dict[str, str]:
        model = make().fit(*data)
        x, y = data
        found = {"evaluate": repr(model.evaluate(x, y)), "score": repr(model.score(x, y))}
        if _has(model, "predict_log_proba"):
            found["log_proba"] = digest(model.predict_log_proba(x[:50]))
        found["decision"] = digest(model.decision_function(x[:50]))
        seen = sp.csr_array((np.ones(50), (np.arange(50), np.arange(50) % 5)), shape=(50, len(model.classes_)))
        found["exclude"] = digest(*model.predict_top_k(x[:50], 3, exclude=seen))
        small = model.compress("int8")
        return {**found, "small": digest(*small.predict_top_k(x[:50], 3))}

    return run


def maker(cls: Any, **given: Any) -> Callable[[], Any]:
    return lambda: cls(**{"random_state": 3, "n_jobs": JOBS, **given})


def runs() -> dict[str, Callable[[Path], dict[str, str]]]:
    found: dict[str, Callable[[Path], dict[str, str]]] = {}
    softmax = SoftmaxClassifier
    own = {"max_iter": 3, "n_negatives": 16, "learning_rate": 0.5, "model": "linear"}
    for name in solvers.SOLVERS:
        if name in ("adagrad", "lbfgs", "minibatch_implicit", "exact"):
            continue
        make = maker(softmax, solver=name, **own)
        found[f"fit {name} sparse"], found[f"fit {name} dense"] = fit(make, SPARSE), fit(make, DENSE)
        if name not in ("negative_sampling",):
            found[f"partial {name}"] = partial(make, SPARSE)
            found[f"fit, partial {name}"] = partial(make, SPARSE, first=True)
            found[f"stream {name}"] = stream(make, SPARSE)
    few = {key: value for key, value in own.items() if key != "n_negatives"}
    for name in ("exact", "minibatch_implicit"):
        make = maker(softmax, solver=name, **(few if name == "exact" else own))
        found[f"fit {name}"], found[f"resumed {name}"] = fit(make, SPARSE), resumed(make, SPARSE)
        found[f"fit, partial {name}"] = partial(make, DENSE, first=True)
    lbfgs = maker(softmax, solver="lbfgs", alpha=1e-3)
    found |= {
        "lbfgs": fit(lbfgs, DENSE),
        "lbfgs sparse": fit(lbfgs, SPARSE),
        "lbfgs, partial": partial(lbfgs, DENSE, first=True),
    }
    for name in ("block", "uniform", "frequency", "frequency_block", "all"):
        given = {**(few if name == "all" else own), "solver": "implicit", "sampler": name}
        found[f"sampler {name}"] = fit(maker(softmax, **given), LARGE)
    heads = samplers.HeadTail(n_head=4, refresh=1)
    found["sampler head_tail"] = fit(maker(softmax, **{**own, "solver": "implicit", "sampler": heads}), SPARSE)
    found["sampler search"] = fit(maker(softmax, solver="adagrad", sampler="search", max_iter=3), DENSE)
    for name in ("adagrad", "css"):
        found[f"embedding {name}"] = fit(maker(softmax, solver=name, model="embedding", dim=16, max_iter=3), SPARSE)
    plain = maker(softmax)
    for name, data in (("sparse", SPARSE), ("dense", DENSE), ("lists", LISTS), ("large", LARGE), ("few", FEW)):
        found[f"defaults {name}"], found[f"defaults partial {name}"] = fit(plain, data), partial(plain, data)
        found[f"defaults fit, partial {name}"] = partial(plain, data, first=True)
        found[f"defaults stream {name}"] = stream(plain, data)
        found[f"defaults parts {name}"] = stream(plain, data, listed=True)
        found[f"defaults saved {name}"], found[f"defaults evaluated {name}"] = (
            saved(plain, data),
            evaluated(plain, data),
        )
        found[f"defaults warm {name}"], found[f"defaults resumed {name}"] = warm(plain, data), resumed(plain, data)
    for name in ("linear", "embedding", "pairs", "hybrid"):
        for kind, data in (("sparse", SPARSE), ("lists", LISTS)):
            make = maker(softmax, model=name)
            found[f"model {name} {kind}"] = fit(make, data)
            found[f"model {name} {kind} partial"], found[f"model {name} {kind} on"] = (
                partial(make, data),
                partial(make, data, True),
            )
            found[f"model {name} {kind} saved"], found[f"model {name} {kind} warm"] = (
                saved(make, data),
                warm(make, data),
            )
            found[f"model {name} {kind} resumed"] = resumed(make, data)
    for rule in ("implicit", "scent", "umax", "sgd", "augment_reduce"):
        found[f"double sum {rule}"] = fit(maker(softmax, solver=rule, max_iter=3), LISTS)
    for rule in ("scent", "augment_reduce"):
        make = maker(softmax, solver=rule, model="embedding", dim=8, max_iter=3)
        found[f"double sum {rule} embedding"], found[f"double sum {rule} on"] = (
            fit(make, SPARSE),
            partial(make, SPARSE, True),
        )
    margins = {"loss": ("margin", "triplet"), "solver": ("adagrad", "sgd", "implicit"), "model": ("embedding",)}
    for name, values in margins.items():
        for value in values:
            make = maker(MarginClassifier, max_iter=3, **{name: value})
            found[f"margin {value}"], found[f"margin {value} lists"] = fit(make, DENSE), fit(make, LISTS)
            found[f"margin {value} partial"], found[f"margin {value} on"] = (
                partial(make, SPARSE),
                partial(make, LISTS, True),
            )
    make = maker(MarginClassifier, max_iter=3, calibration="temperature")
    found |= {
        "margin calibrated": fit(make, LISTS),
        "margin calibrated one": evaluated(make, DENSE),
        "margin saved": saved(maker(MarginClassifier, max_iter=3), LISTS),
    }
    found |= {"margin runs": fit(maker(MarginClassifier, max_iter=2, n_models=2, model="embedding", dim=8), LISTS)}
    found |= {
        "margin stream": stream(maker(MarginClassifier, max_iter=2), SPARSE),
        "margin resumed": resumed(maker(MarginClassifier, max_iter=4), SPARSE),
    }
    found |= {
        "margin warm": warm(maker(MarginClassifier, max_iter=2), SPARSE),
        "margin search": fit(maker(MarginClassifier, max_iter=3, sampler="search"), DENSE),
    }
    for noise in ("normal", "logistic", "gumbel"):
        for solver in ("implicit", "sgd"):
            make = maker(AugmentReduceClassifier, noise=noise, solver=solver, max_iter=3, n_negatives=16)
            found[f"A&R {noise} {solver}"], found[f"A&R {noise} {solver} evaluated"] = (
                fit(make, DENSE),
                evaluated(make, DENSE),
            )
            found[f"A&R {noise} {solver} partial"], found[f"A&R {noise} {solver} on"] = (
                partial(make, SPARSE),
                partial(make, SPARSE, True),
            )
            found[f"A&R {noise} {solver} warm"], found[f"A&R {noise} {solver} saved"] = (
                warm(make, DENSE),
                saved(make, DENSE),
            )
            found[f"A&R {noise} {solver} resumed"] = resumed(make, DENSE)
            found[f"A&R {noise} {solver} stream"] = stream(make, SPARSE)
    make = maker(AugmentReduceClassifier, local_step="monte_carlo", solver="sgd", max_iter=3, n_negatives=16)
    found["A&R monte carlo"] = fit(make, DENSE)
    found["A&R posterior"] = fit(maker(AugmentReduceClassifier, posterior="gaussian", alpha=1e-3, max_iter=3), DENSE)
    calibrated = maker(softmax, calibration="temperature")
    found |= {
        f"calibrated {name}": fit(calibrated, data)
        for name, data in (("sparse", SPARSE), ("dense", DENSE), ("lists", LISTS))
    }
    found |= {
        "runs": fit(maker(softmax, n_models=3, model="hybrid"), SPARSE),
        "runs, calibrated": fit(maker(softmax, n_models=2, model="embedding", dim=8, calibration="temperature"), LISTS),
    }
    stops = maker(softmax, early_stopping=True, solver="implicit", max_iter=6, n_iter_no_change=2)
    found |= {"early stopping": fit(stops, SPARSE), "early stopping, resumed": resumed(stops, SPARSE)}
    found |= {
        "grid": fit(maker(softmax, learning_rate="grid", solver="umax", max_iter=2), FEW),
        "balanced": fit(maker(softmax, class_weight="balanced"), DENSE),
    }
    weights = np.linspace(0, 2, SPARSE[0].shape[0])
    found |= {
        "weights": fit(plain, SPARSE, sample_weight=weights),
        "weights lists": fit(plain, LISTS, sample_weight=weights),
    }
    start = {"coef_init": np.full((40, 12), 0.01), "intercept_init": np.zeros(40)}
    found["start"] = fit(maker(softmax, solver="implicit", max_iter=2), DENSE, **start)
    found["adaptive"] = fit(
        maker(softmax, **{**own, "solver": solvers.SGD(schedule="adaptive"), "alpha": 0.0, "learning_rate": "auto"}),
        SPARSE,
    )
    found["max_norm"] = fit(maker(softmax, **{**own, "solver": solvers.SGD(max_norm=2.0)}), DENSE)
    found["half life"] = partial(plain, SPARSE, first=True, half_life=500.0)
    found["two passes"] = partial(plain, LISTS, first=True, n_passes=2, learning_rate=0.1)
    found["max_memory"] = stream(
        maker(softmax, model="embedding", dim=8, max_iter=2), SPARSE, max_memory="300MB", classes=np.arange(60)
    )
    found["hashed"] = stream(
        maker(softmax, max_iter=2, solver="implicit"),
        sparse_rows(1500, 200_000, 60),
        max_memory="150MB",
        classes=np.arange(60),
    )
    found["pruned"] = fit(maker(softmax, model=models.Pairs(prune=0.3)), SPARSE)
    found |= {"new features": wider, "new classes": new_classes, "skip-gram": skip_gram}
    return found


def wider(_: Path) -> dict[str, str]:
    x, y = SPARSE
    model = maker(SoftmaxClassifier)().fit(x[:700, :300], y[:700])
    return told(model.partial_fit(x[700:], y[700:], new_features="grow"), x)


def new_classes(_: Path) -> dict[str, str]:
    x, y = DENSE
    known = y < 30
    model = maker(SoftmaxClassifier)().fit(x[known], y[known])
    return told(model.partial_fit(x[~known], y[~known], new_classes={35: np.ones(12)}), x)


def skip_gram(_: Path) -> dict[str, str]:
    words = np.random.default_rng(5).zipf(1.3, 20_000) % 300
    sentences = [[f"w{w}" for w in some] for some in np.array_split(words, 500)]
    model = SkipGram(16, random_state=3, n_jobs=1, min_count=2, max_iter=2).fit(sentences)
    return {"vectors": digest(model.vectors_ if hasattr(model, "vectors_") else model.embedding_)}


def _sorted(told: dict[str, str], key: str) -> Any:
    """What is told of a run, whatever the order of the parameters that were left open."""
    return (
        sorted(re.split(r", (?=')", told[key].strip("{}")))
        if "resolved_params_" in key and key in told
        else told.get(key)
    )


def main() -> None:
    what, path = sys.argv[1], Path(sys.argv[2])
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    found: dict[str, Any] = {}
    for name, run in runs().items():
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found[name] = run(Path(folder))
            except Exception as error:
                found[name] = {"error": f"{type(error).__name__}: {error}".replace(folder, "FOLDER")}
    if what == "write":
        path.write_text(json.dumps(found, indent=1), "utf-8")
        errors = {name: of["error"] for name, of in found.items() if "error" in of}
        print(
            f"{len(found)} runs, {len(errors)} of them refused",
            *(f"{k}: {v[:150]}" for k, v in errors.items()),
            sep="\n",
        )
        return
    known, wrong = json.loads(path.read_text("utf-8")), 0
    for name in (name for name in known if only in name):
        here = found.get(name, {})
        differ = [key for key in known[name].keys() | here.keys() if _sorted(known[name], key) != _sorted(here, key)]
        if differ:
            wrong += 1
            print(
                f"{name}: {', '.join(sorted(differ))} differ" + (f" ({here['error'][:200]})" if "error" in here else "")
            )
    print(f"{len(found)} runs, {wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
