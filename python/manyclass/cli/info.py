"""Tell what a model file or a data file is: shape, classes, non-zeros, parameters, bytes."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import numpy as np

from manyclass.cli.data import FORM, add_data_options, is_safetensors, print_table, read
from manyclass.estimators.files import FORMAT, load, load_notes
from manyclass.model.tensor_file import open_tensors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("path", metavar="MODEL|DATA", help=f"a model file, or data: {FORM}")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_data_options(parser, of_model=False)


def run(args: argparse.Namespace) -> int:
    """Tell."""
    if is_safetensors(args.path) and open_tensors(args.path).metadata.get("format") == FORMAT:
        rows = _of_model(args.path)
    else:
        rows = _of_data(args)
    if args.json:
        print(json.dumps(rows))
    else:
        print_table({key.replace("_", " "): value for key, value in rows.items()})
    return 0


def _of_model(path: str) -> dict[str, Any]:
    model = load(path, mmap=True)
    defaults = type(model)().get_params()
    curve, given = model.loss_curve_, model.get_params(deep=False)
    return {
        "kind": f"model, {type(model).__name__}",
        "written_by": f"manyclass {open_tensors(path).metadata['package_version']}",
        "features": model.n_features_in_,
        "classes": len(model.classes_),
        "labels": f"{model.classes_.dtype}, {model.classes_[0]} ... {model.classes_[-1]}",
        **model.storage(),
        "file_bytes": os.path.getsize(path),
        "passes": model.n_iter_,
        "running_loss": round(float(curve[-1]), 6) if len(curve) else None,
        "parameters": ", ".join(f"{k}={v!r}" for k, v in given.items() if repr(v) != repr(defaults[k]))
        or "all at their defaults",
        "chosen_in_fit": ", ".join(f"{k}={v!r}" for k, v in getattr(model, "resolved_params_", {}).items())
        or "nothing",
        "reading": ", ".join(f"{k}={v}" for k, v in load_notes(path).items()) or "not recorded",
    }


def _of_data(args: argparse.Namespace) -> dict[str, Any]:
    X, Y = read(args, args.path, args.n_features)
    per_row, labels_per_row = np.diff(X.indptr), np.diff(Y.indptr)
    n_rows = max(1, X.shape[0])
    return {
        "kind": "data, binary" if is_safetensors(args.path) else "data, text",
        "rows": X.shape[0],
        "features": X.shape[1],
        "features_in_use": len(np.unique(X.indices)),
        "non_zeros": X.nnz,
        "non_zeros_per_row": _spread(per_row, X.nnz / n_rows),
        "labels": Y.shape[1],
        "labels_in_use": len(np.unique(Y.indices)),
        "labels_per_row": _spread(labels_per_row, Y.nnz / n_rows),
        "rows_without_label": int(np.sum(labels_per_row == 0)),
        "rows_without_feature": int(np.sum(per_row == 0)),
        "file_bytes": os.path.getsize(args.path),
        "memory_bytes": sum(a.nbytes for m in (X, Y) for a in (m.indptr, m.indices, m.data)),
    }


def _spread(counts: Any, mean: float) -> str:
    return f"{counts.min(initial=counts.max(initial=0))} to {counts.max(initial=0)}, mean {mean:.4g}"
