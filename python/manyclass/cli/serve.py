"""A server of predictions, with one model in memory."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any

import numpy as np

from manyclass.checks import check_number
from manyclass.classifiers.predictions import vectorizer_of
from manyclass.cli.data import Reading, features, read
from manyclass.cli.messages import note, waiting
from manyclass.cli.models import RECALL, K, OnModel, check_options, describe_model, expected_by
from manyclass.datasets.csr import rows_of
from manyclass.serving.predictor import Limits, Predictor

MOST_PORT = 65535
TUNE_ROWS = 4096  # rows of --approximate that are read into features: some 512 of them are drawn


@dataclass
class ServeArguments:
    """Arguments of the command.

    Attributes
    ----------
    model : MODEL
        model file of `manyclass fit` or an estimator's save
    host : str
        address to listen at; 0.0.0.0: all of this machine
    allowed_host : NAME
        host name that requests may use, beside --host and localhost; may be given several times; '*' allows all
    port : int
        port to listen at; 0: any free one
    k : int
        number of labels a row, where a request has no "k"
    mmap : bool
        map the weights instead of reading them
    n_jobs : int
        threads of each request: 1 for many small requests at the same time, -1 (all cores) for a few large ones
    approximate : DATA
        build an index that requests with "approximate": true search for up to -k labels (more than 4,096 classes),
        tuned by 128 or more rows of DATA
    recall : float
        share of the labels that --approximate is to find
    access_log : bool
        write a line on stderr for each request
    """

    model: str
    _: KW_ONLY
    host: str = "127.0.0.1"
    allowed_host: list[str] | None = None
    port: int = 8000
    k: int = K
    mmap: bool = False
    n_jobs: int = 1
    approximate: str | None = None
    recall: float = RECALL
    access_log: bool = False
    limits: Limits


def serve(args: ServeArguments) -> int:
    """Answer requests for predictions over HTTP, with one model in memory.

    POST /predict takes JSON, {"rows": [...], "k": 5}, a row being a list of numbers, {"indices": [...], "values":
    [...]} by columns from 0, a text where the model was fitted on texts, or a list of items where it was fitted on
    histories; {"row": ...} is one row; "exclude" has a list of labels for each row that it is not to get, or is "seen":
    what a history has. The answer has labels, scores and probabilities as `manyclass predict` has them. GET /health,
    /info and /metrics are for whoever runs the server, and GET / is a page to try the model on. Requests that are
    refused, and with --access-log all, have a line on stderr. SIGHUP loads the model file anew; where that fails, the
    old model stays. There is no encryption and no password: leave the host as it is, or put a proxy before it. The URL
    is printed on one line once the server listens. SIGTERM or Ctrl-C ends it: running requests are finished, and the
    exit code is 0. The command needs an extra: pip install 'manyclass[serve]'.
    """
    server = importlib.import_module("manyclass.serving.server")  # it needs an extra, which --help does not
    # SIGTERM ends well, and SIGHUP does not end, before the server listens.
    with server.handling({"SIGTERM": lambda *_: sys.exit(0), "SIGHUP": signal.SIG_IGN}):
        check_number("port", args.port, low=0, high=MOST_PORT, integer=True)
        check_options(args)
        address, hosts, is_logged = (args.host, args.port), args.allowed_host or (), args.access_log
        running = server.Server(*address, lambda: _load(args), args.limits, hosts, logs_all=is_logged)
        if not running.run_until_signal(lambda: print(running.url, flush=True)):
            note(f"requests still ran after {args.limits.grace:g} seconds and were cut off")
            sys.stdout.flush()
            # Python would wait for their threads at its end, however long they take.
            os._exit(0)
    return 0


def _load(args: ServeArguments) -> tuple[Predictor, dict[str, Any]]:
    """Return the predictor of the model file, and what is said of it."""
    reading = Reading()
    model = OnModel(args.model, reading=reading).load(mmap=args.mmap)
    facts = describe_model(args.model, model)
    model.n_jobs = args.n_jobs
    predictor = Predictor(model, args.limits, args.k, normalize=bool(reading.normalize))
    if args.approximate:
        data = read(reading, args.approximate, expected_by(model, need_label=False))
        X = features(reading, rows_of(data.X, slice(TUNE_ROWS)), vectorizer_of(model))
        with waiting("building the index"):
            predictor.build_index(np.asarray(X, np.float32) if hasattr(X, "columns") else X, args.recall)
    return predictor, facts | {"serving": asdict(args.limits) | predictor.about()}
