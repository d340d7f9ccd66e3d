"""What a file says is checked as what a caller passes is: parameters, numbers, types, and where offsets lead."""

import json
import re

import numpy as np
import pytest
from data.version_2 import make_files
from test_old_files import copy  # noqa: F401 - a fixture
from test_saved_models import rewrite

from manyclass import AugmentReduceClassifier, SphericalClusterIndex, solvers
from manyclass.datasets import save_csr
from manyclass.datasets.binary_csr import open_csr
from manyclass.datasets.inputs import Input, Layout


def described(part, change):
    """A change of one JSON text of the metadata."""

    def changed(metadata):
        description = json.loads(metadata[part])
        change(description)
        return metadata | {part: json.dumps(description)}

    return {"metadata": changed}


def posterior(**parameters):
    value = {"part": "Gaussian", "parameters": parameters}
    return described("model", lambda d: d["parameters"].update(posterior=value))


def model(**change):
    return described("model", lambda d: d["parameters"].update(change))


def state(**change):
    return described("state", lambda d: d.update(change))


def parameters(**change):
    return described("parameters", lambda d: d.update(change))


def numbers(*path, value):
    def change(found):
        for name in path[:-1]:
            found = found[name]
        found[path[-1]] = value

    return described("numbers", change)


def array(name, change):
    return {"tensors": lambda t: t | {name: change(t[name].copy())}}


def first(value):
    def change(a):
        a.flat[0] = value
        return a

    return change


def last(value):
    def change(a):
        a[-1] = value
        return a

    return change


def labels(**change):
    return described("model", lambda d: d["labels"].update(change))


def calibration(**change):
    right = {"temperature": 2.0, "offset": 0.0, "n_rows": 9, "uncalibrated_log_loss": 1.0, "log_loss": 0.5}
    return described("model", lambda d: d.update(calibration=right | change))


NUMBERS = ("max_iter", "n_negatives", "alpha", "learning_rate", "dim", "n_iter_no_change", "n_models")
NUMBERS += ("validation_fraction", "random_state", "verbose")
CASES = {
    "draws without end": ("model_posterior", posterior(n_draws=10**9), "n_draws is 1000000000; it must be at"),
    "no draws": ("model_posterior", posterior(n_draws=0), "n_draws is 0; it must be"),
    "a seed of a model": ("model_dates", model(random_state="x"), "random_state is 'x'; it must be None, an integer"),
    "a seed below 0": ("model_margin", model(random_state=-1), "random_state is -1; it must be at least 0"),
    "progress": ("model_probit", model(verbose="loud"), "TypeError: verbose is 'loud'; it must be a number"),
    "a misspelt parameter": ("model_dates", model(alphi=1.0), "SoftmaxClassifier has no parameter 'alphi'"),
    "what a misspelt parameter became": (
        "model_hybrid",
        described("model", lambda d: d["automatic"]["resolved_params_"].update(alphi=1.0)),
        "SoftmaxClassifier has no parameter 'alphi'",
    ),
    "a flag": ("model_dates", model(fit_intercept="no"), "TypeError: fit_intercept is 'no'; it must be True or False"),
    "no labels a row": ("model_dates", labels(n_labels_=0), "n_labels_ is 0; it must be at least 1"),
    "labels below 0": ("model_dates", labels(n_labels_=-(10**30)), "n_labels_ is -10+; it must be at least 1"),
    "more labels than classes": ("model_dates", labels(n_labels_=10**9), "n_labels_ is 10+; it must be at"),
    "half a label": ("model_dates", labels(n_labels_=1.5), "TypeError: n_labels_ is 1.5; it must be an integer"),
    "a threshold": ("model_dates", labels(threshold_=float("inf")), "threshold_ is inf; it must be"),
    "a temperature": ("model_dates", calibration(temperature=1e308), "temperature is 1e[+]308; it must be finite, at"),
    "an offset": ("model_dates", calibration(offset=1e308), "offset is 1e[+]308; it must be finite, at least -10000"),
    "rows of a calibration": ("model_dates", calibration(n_rows=-1), "n_rows is -1; it must be at least 0"),
    "a loss": ("model_dates", calibration(log_loss=True), "TypeError: calibration's log_loss is True; it must be a"),
    "a loss of digits": ("model_dates", calibration(log_loss=10**400), "log_loss is an integer of 1329 bits; it must"),
    **{
        f"a large {name}": (
            "model_dates",
            model(**{name: 10**400}),
            f"{name} is an integer of 1329 bits; it must be",
        )
        for name in NUMBERS
    },
    "variances below 0": ("model_posterior", array("variances", first(-1.0)), "'variances' has numbers below 0"),
    "counts that are none": (
        "model_dates",
        array("class_count", first(np.nan)),
        "'class_count' has numbers that",
    ),
    "counts below 0": ("model_dates", array("class_count", first(-1.0)), "'class_count' has numbers below 0"),
    "squares below 0": (
        "model_embedding",
        array("squares.classes", first(-1.0)),
        "'squares.classes' has numbers",
    ),
    "scales that are none": (
        "model_hybrid",
        described("model", lambda d: d["labels"].update(scales=[1.0, float("nan")])),
        "scales is nan; it must be",
    ),
    "scales beyond float32": (
        "model_hybrid",
        described("model", lambda d: d["labels"].update(scales=[1.0, 1e300])),
        r"scales is 1e\+300; it must be",
    ),
    "words without weight": (
        "model_texts",
        array("vectorizer.idf", first(np.inf)),
        "'vectorizer.idf' has numbers",
    ),
    "a type that is none": (
        "model_dates",
        described("model", lambda d: d["classes"].update(dtype=[[]])),
        "TypeError|entry not a 2- or 3- tuple",
    ),
    "a number of digits": ("model_dates", {"metadata": lambda m: m | {"model": "9" * 5000}}, "Exceeds the limit"),
    "vectors": ("words_float32", array("rows", first(np.nan)), "'rows' has numbers that are not finite"),
    "scales of words": ("words_int8", array("rows.scales", first(np.inf)), "'rows.scales' has numbers that are not"),
    "rows": ("index_spherical", array("rows", first(np.nan)), "row 0 has a value that is not finite"),
    "centres": ("index_decomposed", array("cluster_centers", first(np.inf)), "'cluster_centers' has numbers that are"),
    "labels cut by their type": (
        "index_spherical",
        array("labels", lambda a: a.astype(np.int64) + 2**32),
        "'labels' is int64; it must be int32",
    ),
    "an unknown parameter": ("index_spherical", parameters(depth=3), "TypeError: .*depth"),
    "a choice": ("index_spherical", parameters(recluster="often"), "recluster is 'often'; it must be one of"),
    "iterations": ("index_spherical", parameters(n_iter=0), "n_iter is 0; it must be at least 1"),
    "clusters": (
        "index_decomposed",
        parameters(n_clusters=13),
        "n_clusters is 13; it must be at least 1",
    ),
    "threads": ("index_decomposed", parameters(n_jobs="many"), "n_jobs is 'many'; it must be None"),
    "a seed": ("index_decomposed", parameters(random_state="x"), "random_state is 'x'; it must be None, an integer"),
    "a part of a cluster": (
        "index_spherical",
        state(n_probe_=1.5),
        "TypeError: n_probe_ is 1.5; it must be",
    ),
    "a recall": ("index_spherical", state(recall_=float("nan")), "recall_ is nan; it must be"),
    "a radius": ("index_spherical", state(radius_=1e300), r"radius_ is 1e\+300; it must be"),
    "a place": (
        "checkpoint_points",
        numbers("position", "first", value=-1),
        "first is -1; it must be",
    ),
    "a curve": (
        "checkpoint_points",
        numbers("position", "curve", value=["0.5"]),
        "TypeError: curve is '0.5'",
    ),
    "an unknown number": ("checkpoint_points", numbers("state", "run", value=1), "TypeError: state is "),
    "weights": ("checkpoint_pairs", array("intercept", first(np.nan)), "'intercept' has numbers that are not finite"),
    "heads that are no classes": ("checkpoint_heads", array("heads", first(5)), "heads hold numbers outside of"),
    "squares of a checkpoint": ("checkpoint_pairs", array("squares", first(-1.0)), "'squares' has numbers below 0"),
    "averages of nothing": (
        "checkpoint_heads",
        numbers("passes", "training", "n_averaged", value=1),
        "n_averaged is 1; it must be at least 0 and at most 0",
    ),
    "a best pass to come": (
        "checkpoint_heads",
        numbers("passes", "training", "validation", "best_iter", value=9),
        "best_iter is 9; it must be at least 0 and at most 1",
    ),
    "a scale of the best": (
        "checkpoint_heads",
        array("best_scale", lambda a: a[:3].copy() if len(a) else np.ones(3, np.float32)),
        "best_scale has shape",
    ),
    "a scale": ("checkpoint_points", array("scale", first(1e-45)), "scale has numbers below 9.09495e-13"),
    "no JSON": ("checkpoint_pairs", {"metadata": lambda m: m | {"numbers": "["}}, "JSONDecodeError"),
    "no object": (
        "checkpoint_pairs",
        {"metadata": lambda m: m | {"numbers": "3"}},
        "is damaged: TypeError",
    ),
    "rows of labels": (
        "csr_labels",
        {"metadata": lambda m: m | {"shapes": '{"X": [8, 6], "Y": [7, 5]}'}},
        "its shapes are ",
    ),
    "half a row": (
        "csr_labels",
        {"metadata": lambda m: m | {"shapes": '{"X": [8.5, 6]}'}},
        "the shape of X is 8.5",
    ),
    "too many columns": (
        "csr_labels",
        {"metadata": lambda m: m | {"shapes": '{"X": [8, 9007199254740993], "Y": [8, 5]}'}},
        "n_features is 9007199254740993; it must be",
    ),
    # SciPy looks at the last offset alone where it is 0, and the first product with such a matrix ends the process.
    "offsets that fall to 0": (
        "csr_doubles",
        array("X.indptr", last(0)),
        "decrease",
    ),
    "offsets that fall": ("csr_labels", array("Y.indptr", last(1)), "decrease"),
    "indices of floats": (
        "csr_labels",
        array("X.indices", lambda a: a.astype(np.float32)),
        "indices and offsets of X have the dtypes",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_caller_could_not_pass_is_refused(case, copy):  # noqa: F811
    name, change, message = CASES[case]
    path = copy(f"{name}.safetensors", **change)
    with pytest.raises(ValueError, match=f"^(?s:{re.escape(str(path))}.*({message}))"):
        make_files.read(path)


def test_the_same_rules_hold_for_constructors():
    X, y, _ = make_files.problem()
    model = AugmentReduceClassifier(noise="logistic", posterior=solvers.Gaussian(n_draws=10**9), alpha=0.02)
    with pytest.raises(ValueError, match="n_draws is 1000000000; it must be at least 1 and at most 100000"):
        model.fit(X.toarray(), y)
    for wrong, message in (({"n_jobs": "many"}, "n_jobs is 'many'"), ({"random_state": "x"}, "random_state is 'x'")):
        with pytest.raises(ValueError, match=message):
            SphericalClusterIndex(2, **wrong).fit(np.eye(3))


def test_rows_of_a_stream_that_lead_out_of_their_file_are_told(tmp_path):
    X, _, Y = make_files.problem()
    path = tmp_path / "csr.safetensors"
    save_csr(path, X, Y)
    rewrite(path, tensors=lambda t: t | {"Y.indptr": np.r_[t["Y.indptr"][:-1], 10**6].astype(t["Y.indptr"].dtype)})
    files = open_csr([Input(str(path))], Layout())
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: .*the offsets of Y decrease or are out of range"):
        list(files.blocks(7))
