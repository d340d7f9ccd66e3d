"""Files that are no models, cut, damaged or hostile: each is told with its name, and nothing in it is run."""

import json
import re

import numpy as np
import pytest
from safetensors.numpy import save_file
from test_saved_models import LABELS, fitted, rewrite

import manyclass


def described(change):
    """A change of the JSON description of a model, as a change of the header."""

    def changed(metadata):
        description = json.loads(metadata["model"])
        change(description)
        return metadata | {"model": json.dumps(description)}

    return changed


def test_a_file_that_is_missing_or_no_model_is_told_so(tmp_path):
    path = tmp_path / "m"
    with pytest.raises(FileNotFoundError):
        manyclass.load(path)
    for content in (b"", b"short", b"0,3 1:0.5 7:0.25\n" * 100):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{re.escape(str(path))} is not a safetensors file, or it is truncated"):
            manyclass.load(path)
    save_file({"a": np.zeros(3)}, path)
    with pytest.raises(ValueError, match="is not a model of manyclass: its format is None"):
        manyclass.load(path)
    save_file({"a": np.zeros(3)}, path, {"format": "pt"})
    with pytest.raises(ValueError, match="is not a model of manyclass: its format is 'pt'"):
        manyclass.load(path)


def test_a_file_cut_anywhere_is_told_so(tmp_path):
    fitted()[0].save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    for size in (4, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "cut").write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"cut is not a safetensors file, or it is truncated"):
            manyclass.load(tmp_path / "cut")


def with_solver(value):
    return described(lambda d: d["parameters"].update(solver=value))


HEADERS = {
    "newer": (lambda m: m | {"format_version": "4", "package_version": "9.1"}, "written by manyclass 9.1"),
    "version": (lambda m: m | {"format_version": "one"}, "format_version is 'one'"),
    "no_model": (lambda m: {k: v for k, v in m.items() if k != "model"}, "is damaged: KeyError: 'model'"),
    "no_json": (lambda m: m | {"model": "{"}, "JSONDecodeError"),
    "class": (
        described(lambda d: d.update({"class": "Tree"})),
        "its class is 'Tree'; it must be one of .*SoftmaxClassifier",
    ),
    "parameter": (described(lambda d: d["parameters"].update(depth=3)), "SoftmaxClassifier has no parameter 'depth'"),
    "value": (described(lambda d: d["parameters"].update(alpha=-1.0)), "is damaged: alpha is -1.0; it must be finite"),
    "type": (described(lambda d: d["parameters"].update(max_iter=[3])), "is damaged: TypeError: max_iter is \\[3\\]"),
    "choice": (described(lambda d: d["parameters"].update(solver="adam")), "is damaged: solver is 'adam'"),
    "parameters": (described(lambda d: d.update(parameters=3)), "is damaged: TypeError"),
    "part": (with_solver({"part": "Tree", "parameters": {}}), "is damaged: 'Tree' is no solver, sampler or model"),
    "no_part": (with_solver({"name": "UMax"}), "is damaged: None is no solver, sampler or model"),
    "part_type": (with_solver({"part": ["UMax"], "parameters": {}}), "is damaged: TypeError: unhashable"),
    "part_list": (with_solver([{"part": "UMax", "parameters": {}}]), "is damaged: solver is "),
    "part_parameters": (with_solver({"part": "UMax", "parameters": [2]}), "is damaged: 'UMax' is no solver"),
    "part_parameter": (
        with_solver({"part": "UMax", "parameters": {"depth": 3}}),
        "is damaged: TypeError: UMax has no parameter 'depth'; it has 'delta'",
    ),
    "part_value": (with_solver({"part": "UMax", "parameters": {"delta": -1.0}}), "is damaged: delta is -1.0; it must"),
    "part_value_nan": (with_solver({"part": "UMax", "parameters": {"delta": np.nan}}), "is damaged: delta is nan"),
    "part_value_type": (
        with_solver({"part": "UMax", "parameters": {"delta": "one"}}),
        "is damaged: TypeError: delta is 'one'; it must be a number",
    ),
    "part_within": (
        with_solver({"part": "UMax", "parameters": {"delta": {"part": "Block", "parameters": {}}}}),
        r"is damaged: TypeError: delta is Block\(\)",
    ),
    "part_of_another_kind": (with_solver({"part": "Block", "parameters": {}}), r"is damaged: solver is Block\(\)"),
    "chosen": (described(lambda d: d["automatic"].update(alpha_path_=[[1.0]])), "is damaged: dictionary"),
    "chosen_part": (
        described(lambda d: d["automatic"]["resolved_params_"].update(solver={"part": "os.system"})),
        "is damaged: 'os.system' is no solver, sampler or model",
    ),
    "layout": (described(lambda d: d.update(layout="diagonal")), "layout is 'diagonal'"),
    "n_iter": (described(lambda d: d.update(n_iter=-1)), "n_iter is -1; it must be an integer of at least 0"),
    "features": (described(lambda d: d.update(n_features_in="11")), "n_features_in is '11'"),
    "n_labels": (described(lambda d: d["classes"].update(n=36)), r"'classes.values' is int64 of shape \(37,\)"),
    "dtype": (described(lambda d: d["classes"].update(dtype="wrong")), "is damaged: TypeError"),
    "keys": (described(lambda d: d.pop("layout")), "is damaged: KeyError: 'layout'"),
}

ARRAYS = {
    "missing": (lambda t: {k: v for k, v in t.items() if k != "intercept"}, "it has no array 'intercept'"),
    "intercept": (lambda t: t | {"intercept": t["intercept"][:-1].copy()}, r"'intercept' is float32 of shape \(36,\)"),
    "weights": (lambda t: t | {"weights": t["weights"][:-1].copy()}, r"it must be float32 of shape \(11, 48\)"),
    "weights_dtype": (lambda t: t | {"weights": t["weights"].astype(np.float64)}, "'weights' is float64"),
    "curve": (lambda t: t | {"loss_curve": np.zeros(5)}, "'loss_curve' is float64"),
    "order": (lambda t: t | {"classes.values": t["classes.values"][::-1].copy()}, "labels are not sorted"),
    "twice": (lambda t: t | {"classes.values": np.zeros(37, np.int64)}, "labels are not sorted and distinct"),
}

TEXTS = {
    "utf8": (lambda t: t | {"classes.text": np.full_like(t["classes.text"], 255)}, "is damaged: UnicodeDecodeError"),
    "falls": (lambda t: t | {"classes.offsets": t["classes.offsets"][::-1].copy()}, "do not start at 0 or decrease"),
    "short": (lambda t: t | {"classes.text": t["classes.text"][:-1].copy()}, "'classes.text' is uint8 of shape"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_that_does_not_fit_is_told_so(tmp_path, case):
    fitted()[0].save(tmp_path / "m")
    change, message = HEADERS[case]
    rewrite(tmp_path / "m", metadata=change)
    with pytest.raises(ValueError, match=f"{re.escape(str(tmp_path / 'm'))}.*{message}"):
        manyclass.load(tmp_path / "m")


@pytest.mark.parametrize("case", ARRAYS | TEXTS)
def test_arrays_that_do_not_fit_are_told_so(tmp_path, case):
    fitted(labels=LABELS["text"] if case in TEXTS else None)[0].save(tmp_path / "m")
    change, message = (ARRAYS | TEXTS)[case]
    rewrite(tmp_path / "m", tensors=change)
    for mmap in (False, True):
        with pytest.raises(ValueError, match=f"{re.escape(str(tmp_path / 'm'))}.*{message}"):
            manyclass.load(tmp_path / "m", mmap=mmap)
