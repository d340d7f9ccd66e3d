"""Record what the workers of a fit did when, for a picture of the documentation: seconds of each task.

python bench/record_task_stream.py
"""

import importlib
import json
import os
from pathlib import Path

import dask
import numpy as np
from distributed import Client, LocalCluster, get_task_stream

from manyclass import solvers
from manyclass.dask import DaskSoftmaxClassifier

RECORD = Path(__file__).resolve().parents[1] / "python/docs/task_stream.json"
WORKERS = 3
KINDS = ("make_pass", "merge", "transfer")


def record():
    """Make the record anew."""
    n, n_features, n_classes = 15_000, 40, 1_000
    rng = np.random.default_rng(0)
    W = rng.normal(size=(n_features, n_classes)).astype(np.float32)

    def part(seed):
        own = np.random.default_rng(seed)
        X = own.normal(size=(n // WORKERS, n_features)).astype(np.float32)
        return X, np.argmax(X @ W + own.gumbel(size=(len(X), n_classes)), axis=1)

    solver = solvers.Implicit(decay=0.8, averaging="none")
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0", memory_limit=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(importlib.import_module, "manyclass.dask.trainings")
        both = [client.persist(dask.delayed(part, nout=2)(seed)) for seed in range(1, WORKERS + 1)]
        model = DaskSoftmaxClassifier(
            solver=solver, learning_rate=0.02, max_iter=3, n_negatives=64, random_state=0, client=client
        )
        given = [x for x, _ in both], [y for _, y in both]
        model.fit(*given)  # workers import what they need
        with get_task_stream(client) as stream:
            model.fit(*given)
        places = sorted({task["worker"] for task in stream.data})
        first = min(one["start"] for task in stream.data for one in task["startstops"])
        tasks = []
        for task in stream.data:
            name = task["key"] if isinstance(task["key"], str) else task["key"][0]
            own = next((kind for kind in KINDS if name.startswith(kind + "-")), "else")
            for one in task["startstops"]:
                kind = "transfer" if one["action"] == "transfer" else own
                tasks.append([places.index(task["worker"]), kind, one["start"] - first, one["stop"] - first])
    tasks = [[worker, kind, round(start, 4), round(stop, 4)] for worker, kind, start, stop in sorted(tasks)]
    seconds = {kind: round(sum(t[3] - t[2] for t in tasks if t[1] == kind), 3) for kind in [*KINDS, "else"]}
    load = round(os.getloadavg()[0])
    title = f"Task stream of the passes of a fit by rows: {n:,} rows, {n_classes:,} classes, 3 passes (load {load})"
    told = {"title": title, "seconds": seconds, "tasks": tasks}
    RECORD.write_text(json.dumps(told) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
