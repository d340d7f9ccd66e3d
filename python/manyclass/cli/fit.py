"""Fit a SoftmaxClassifier to a data file and save it.

Rows without a label or without a feature are dropped, and it is said how many. Ctrl-C ends training and saves the
model reached so far. Results go to stdout, notes and the progress bar to stderr.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from typing import Any

import numpy as np

from manyclass.checks import check_number, n_threads_from
from manyclass.cli.arguments import add_parameters, add_progress, parameters_from, shows_progress
from manyclass.cli.data import FORM, Labelled, add_data_options, check_writable, note, print_table, read_labelled
from manyclass.cli.evaluate import evaluated
from manyclass.estimators.files import save_model
from manyclass.estimators.softmax import SoftmaxClassifier


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("data", metavar="DATA", help=f"training data: {FORM}")
    parser.add_argument("--output", required=True, metavar="PATH", help="file for the model; replaced if it exists")
    parser.add_argument("--test", metavar="FILE", help="evaluate on this data after training")
    parser.add_argument("--evaluate", action="store_true", help="evaluate on the training data after training")
    parser.add_argument("--plot", metavar="PNG", help="draw the running loss by pass (needs matplotlib)")
    parser.add_argument("--max-seconds", type=float, metavar="S", help="train for at most S seconds")
    add_progress(parser)
    add_data_options(parser, of_model=False)
    parser.add_argument(
        "--first-label",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="take the first label of a row that has several; --no-first-label makes such a row an error",
    )
    add_parameters(parser, SoftmaxClassifier)


def run(args: argparse.Namespace) -> int:
    """Fit, save, tell."""
    progress = shows_progress(args)
    model = SoftmaxClassifier(**parameters_from(args, SoftmaxClassifier), verbose=int(progress))
    _check_before_work(args, model)
    begin = time.perf_counter()
    data = read_labelled(args, args.data, args.n_features)
    test = read_labelled(args, args.test, data.X.shape[1]) if args.test else None
    read_seconds = time.perf_counter() - begin

    begin = time.perf_counter()
    model.fit(data.X, data.y, max_seconds=args.max_seconds)
    fit_seconds = time.perf_counter() - begin
    model.verbose = 0  # the bar belongs to this run, not to the model
    save_model(model, args.output, {"one_based": args.one_based, "normalize": args.normalize})
    print_table(_summary(args, model, data, read_seconds, fit_seconds))
    if args.plot:
        _plot(model, args.plot)
    for what, some in (("training", data if args.evaluate else None), ("test", test)):
        if some is not None:
            print()
            print_table({"evaluated on": what, **evaluated(model, some)})
    return 0


def _check_before_work(args: argparse.Namespace, model: SoftmaxClassifier) -> None:
    """Raise now what would else be raised after the training."""
    model.check_parameters()
    n_threads_from(model.n_jobs)
    if args.max_seconds is not None:
        check_number("max_seconds", args.max_seconds, low=0)
    for path in filter(None, (args.output, args.plot)):
        check_writable(path)
    if args.plot and importlib.util.find_spec("matplotlib") is None:
        raise ImportError("--plot needs matplotlib: pip install 'manyclass[plot]'")


def _summary(
    args: argparse.Namespace, model: SoftmaxClassifier, data: Labelled, read_seconds: float, fit_seconds: float
) -> dict[str, Any]:
    n_rows, n_features = data.X.shape
    curve = model.loss_curve_
    return {
        "rows": n_rows,
        "features": n_features,
        "classes": len(model.classes_),
        "non-zeros": data.X.nnz,
        "passes": f"{model.n_iter_} of {model.resolved_params_.get('max_iter', model.max_iter)}",
        "seconds to read": f"{read_seconds:.2f}",
        "seconds to fit": f"{fit_seconds:.2f}",
        "chosen": ", ".join(f"{name}={_short(value)}" for name, value in model.resolved_params_.items()) or "nothing",
        "running loss": f"{curve[-1]:.4f} nats (W = 0 has {np.log(len(model.classes_)):.4f})" if len(curve) else "none",
        "model": f"{args.output} ({os.path.getsize(args.output)} bytes)",
    }


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _plot(model: SoftmaxClassifier, path: str) -> None:
    if model.n_iter_ == 0:
        note(f"{path} not drawn: no pass was completed")
        return
    # The object interface needs no display and leaves the state of pyplot alone.
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(np.arange(1, model.n_iter_ + 1), model.loss_curve_, marker="o")
    axes.axhline(np.log(len(model.classes_)), color="gray", linestyle=":", label="W = 0 (log K)")
    axes.set(
        xlabel="pass over the data",
        ylabel="running loss [nats]",
        title=f"solver {model.resolved_params_.get('solver', model.solver)}",
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()
    figure.savefig(path, dpi=150, format="png")
