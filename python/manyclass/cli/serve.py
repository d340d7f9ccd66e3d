"""Answer requests for predictions over HTTP, with one model in memory.

POST /predict takes JSON, {"rows": [...], "k": 5}, a row being a list of numbers, {"indices": [...], "values": [...]} by
columns from 0, or a text where the model was fitted on texts; {"row": ...} is one row; "exclude" has a list of labels
for each row that it is not to get. The answer has labels, scores and probabilities as `manyclass predict` has them.
GET /health, /info and /metrics are for whoever runs the server. There is no encryption and no password: leave the host
as it is, or put a proxy before it. The URL is printed on one line once the server listens. SIGTERM or Ctrl-C ends it:
running requests are finished, and the exit code is 0.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from manyclass.checks import check_number
from manyclass.cli.data import Expected, add_data_options, apply_notes, features, read, rows_of
from manyclass.cli.info import describe_model
from manyclass.cli.messages import note, waiting
from manyclass.estimators.files import load, load_notes
from manyclass.serving.limits import Limits
from manyclass.serving.predictor import Predictor
from manyclass.serving.server import Server, serve_until_signal

K = 5
RECALL = 0.95
MOST_PORT = 65535
TUNE_ROWS = 4096  # rows of --approximate that are read into features: some 512 of them are drawn
HELP = {
    "max_bytes": "bytes of a request",
    "max_rows": "rows of a request",
    "max_k": "labels a row",
    "max_connections": "clients at once, each having a thread; more are refused",
    "max_running": "requests that are computed at once, others waiting; by default as many as there are cores",
    "timeout": "seconds that a client has to send a request, to take its answer, and before the next request",
    "grace": "seconds in which running requests are finished after SIGTERM",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("model", metavar="MODEL", help="model file of `manyclass fit` or an estimator's save")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; 0.0.0.0: all of this machine")
    parser.add_argument("--port", type=int, default=8000, help="port to listen at; 0: any free one")
    parser.add_argument("-k", type=int, default=K, help="labels a row where a request does not say")
    parser.add_argument("--mmap", action="store_true", help="map the weights instead of reading them")
    text = "threads of each request; 1 where requests come together, -1 (all cores) where a few large ones do"
    parser.add_argument("--n-jobs", type=int, default=1, help=text)
    text = 'build an index that requests with "approximate": true search for up to -k labels (more than 4,096 classes)'
    parser.add_argument("--approximate", metavar="DATA", help=text + ", tuned by 128 or more rows of DATA")
    text = "share of the labels that --approximate is to find; default: 0.95"
    parser.add_argument("--recall", type=float, help=text)
    group = parser.add_argument_group("limits")
    for field in fields(Limits):
        kind = float if field.name in ("timeout", "grace") else int
        option = "--" + field.name.replace("_", "-")
        group.add_argument(option, type=kind, default=field.default, help=HELP[field.name])


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    check_number("port", args.port, low=0, high=MOST_PORT, integer=True)
    limits = Limits(**{field.name: getattr(args, field.name) for field in fields(Limits)})
    if args.recall is not None and not args.approximate:
        raise ValueError(f"--recall is {args.recall}, which has no effect without --approximate")
    with waiting(f"loading {args.model}"):
        model = load(args.model, mmap=args.mmap)
    told = describe_model(args.model, model)
    model.n_jobs = args.n_jobs
    reading = _reading(args.model)
    predictor = Predictor(model, limits, args.k, normalize=bool(reading.normalize))
    if args.approximate:
        _build_index(args, model, reading, predictor)
    told["serving"] = {**asdict(limits), **_about(predictor)}
    server = Server(args.host, args.port, predictor, told, limits)
    if not serve_until_signal(server, lambda: print(server.url, flush=True)):
        note(f"requests still ran after {limits.grace:g} seconds and were cut off")
        sys.stdout.flush()
        # Python would end their threads within the core's functions, and the process with them by SIGABRT.
        os._exit(0)
    return 0


def _reading(path: str) -> argparse.Namespace:
    """How the model's data were read."""
    parser = argparse.ArgumentParser()
    add_data_options(parser, of_model=True)
    options = parser.parse_args([])
    apply_notes(options, load_notes(path))
    return options


def _build_index(args: argparse.Namespace, model: Any, reading: argparse.Namespace, predictor: Predictor) -> None:
    data = read(reading, args.approximate, Expected.by(model, need_label=False))
    some = rows_of(data.records.X, slice(TUNE_ROWS))
    X = features(reading, some, getattr(model, "vectorizer_", None))
    with waiting("building the index"):
        named = hasattr(X, "columns")
        predictor.build_index(np.asarray(X, dtype=np.float32) if named else X, args.recall or RECALL)


def _about(predictor: Predictor) -> dict[str, Any]:
    asked = predictor.asked
    return {
        "k": asked.k,
        "max_k": asked.max_k,
        "texts": asked.texts,
        "probabilities": predictor.has_probabilities,
        "approximate": asked.approximate,
    }
