"""Answer requests for predictions over HTTP, with one model in memory.

POST /predict takes JSON, {"rows": [...], "k": 5}, a row being a list of numbers, {"indices": [...], "values": [...]} by
columns from 0, or a text where the model was fitted on texts; {"row": ...} is one row; "exclude" has a list of labels
for each row that it is not to get. The answer has labels, scores and probabilities as `manyclass predict` has them.
GET /health, /info and /metrics are for whoever runs the server. There is no encryption and no password: leave the host
as it is, or put a proxy before it. The URL is printed on one line once the server listens. SIGTERM or Ctrl-C ends it:
running requests are finished, and the exit code is 0. The command needs an extra: pip install 'manyclass[serve]'.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from dataclasses import asdict
from typing import Any

import joblib
import numpy as np

from manyclass.checks import check_number
from manyclass.classifiers.saving import load, load_notes
from manyclass.cli.data import Expected, add_data_options, apply_notes, features, read, rows_of
from manyclass.cli.info import describe_model
from manyclass.cli.messages import note, waiting

K = 5
RECALL = 0.95
MOST_PORT = 65535
TUNE_ROWS = 4096  # rows of --approximate that are read into features: some 512 of them are drawn
# The default of each of `serving.Limits`, whose type is that of the option, and what it bounds.
LIMITS = {
    "max_bytes": (8 << 20, "bytes of a request"),
    "max_rows": (1000, "rows of a request"),
    "max_k": (100, "labels a row"),
    "max_connections": (64, "clients at once; more are refused"),
    "max_running": (joblib.cpu_count(), "requests that are computed at once, others waiting; by default one a core"),
    "timeout": (10.0, "seconds that a client has to send a request, to take its answer, and before the next request"),
    "grace": (25.0, "seconds in which running requests are finished after SIGTERM"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("model", metavar="MODEL", help="model file of `manyclass fit` or an estimator's save")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; 0.0.0.0: all of this machine")
    text = "name by which clients call the server, beside --host and localhost; may be given again; '*' allows all"
    parser.add_argument("--allowed-host", metavar="NAME", action="append", default=[], help=text)
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
    for name, (default, what) in LIMITS.items():
        group.add_argument("--" + name.replace("_", "-"), type=type(default), default=default, help=what)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    serving = importlib.import_module("manyclass.serving")  # it needs an extra, which the command's help does not
    check_number("port", args.port, low=0, high=MOST_PORT, integer=True)
    limits = serving.Limits(**{name: getattr(args, name) for name in LIMITS})
    if args.recall is not None and not args.approximate:
        raise ValueError(f"--recall is {args.recall}, which has no effect without --approximate")
    with waiting(f"loading {args.model}"):
        model = load(args.model, mmap=args.mmap)
    told = describe_model(args.model, model)
    model.n_jobs = args.n_jobs
    reading = _reading(args.model)
    predictor = serving.Predictor(model, limits, args.k, normalize=bool(reading.normalize))
    if args.approximate:
        X = _rows(args.approximate, model, reading)
        with waiting("building the index"):
            predictor.build_index(X, args.recall or RECALL)
    told["serving"] = asdict(limits) | predictor.about()
    server = serving.Server(args.host, args.port, predictor, told, limits, args.allowed_host)
    if not server.run_until_signal(lambda: print(server.url, flush=True)):
        note(f"requests still ran after {limits.grace:g} seconds and were cut off")
        sys.stdout.flush()
        # Python would wait for their threads at its end, however long they take.
        os._exit(0)
    return 0


def _reading(path: str) -> argparse.Namespace:
    """How the model's data were read."""
    parser = argparse.ArgumentParser()
    add_data_options(parser, of_model=True)
    options = parser.parse_args([])
    apply_notes(options, load_notes(path))
    return options


def _rows(path: str, model: Any, reading: argparse.Namespace) -> Any:
    """Features of some rows of a file."""
    data = read(reading, path, Expected.by(model, need_label=False))
    X = features(reading, rows_of(data.records.X, slice(TUNE_ROWS)), getattr(model, "vectorizer_", None))
    return np.asarray(X, dtype=np.float32) if hasattr(X, "columns") else X
