"""Pictures of training on a cluster: what each worker has of W, and what the workers of a fit did when.

The second is drawn from a record, `task_stream.json`, that this file makes of a fit on a cluster of three processes:

    python python/docs/cluster_pictures.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.patches import Rectangle

from manyclass.plot.style import COLOURS, FAINT, FONT_POINTS, GREY, Picture, canvas, drawing

RECORD = Path(__file__).with_name("task_stream.json")
WORKERS = 3
# What the tasks of a fit do, by the name of their function; the others are "else".
KINDS = {
    "make_pass": "a pass over the worker's rows",
    "merge": "a merge of its part of W",
    "transfer": "W on its way from another worker",
}
ELSE = "other tasks: counting classes, copies, reports"


def divisions() -> Picture:
    """Draw W, a row for each feature and a column for each class, as each of three workers has it."""
    with drawing():
        figure, both = canvas(2, width=8.0, height=2.3)
        titles = ("By rows: all of W on each, changes are merged", "By rows and classes: blocks go round")
        for axes, title, whole in zip(both, titles, (True, False), strict=True):
            for worker in range(WORKERS):
                top = 1.6 * worker
                axes.add_patch(Rectangle((0, top), 2.2, 1.1, facecolor=FAINT, edgecolor="none"))
                axes.annotate(f"rows {worker}", (1.1, top + 0.55), ha="center", va="center")
                for block in range(WORKERS):
                    there = whole or block == worker
                    colour = COLOURS[block % len(COLOURS)] if there else "none"
                    patch = Rectangle((3 + 1.5 * block, top), 1.4, 1.1, facecolor=colour, edgecolor=GREY, linewidth=0.6)
                    patch.set_alpha(0.75)
                    axes.add_patch(patch)
                    if there:
                        words = f"W$_{block}$"
                        centre = (3.7 + 1.5 * block, top + 0.55)
                        axes.annotate(words, centre, ha="center", va="center", color="white", weight="bold")
            arrow = {"arrowstyle": "<->" if whole else "->", "color": GREY}
            for worker in range(WORKERS - 1):
                end = 3.7 + 1.5 * (worker if not whole else 1)
                start = 3.7 + 1.5 * (worker + 1 if not whole else 1)
                axes.annotate("", (end, 1.6 * worker + 1.1), (start, 1.6 * worker + 1.6), arrowprops=arrow)
            axes.set(xlim=(-0.2, 7.8), ylim=(4.5, -0.2))
            axes.set_title(title)
            axes.grid(False)
            axes.set_xticks([])
            axes.set_yticks([0.55 + 1.6 * worker for worker in range(WORKERS)], [f"worker {w}" for w in range(WORKERS)])
            for side in axes.spines.values():
                side.set_visible(False)
    return Picture(
        figure,
        "Three workers, each with rows of its own. On the left, by rows, each has all three parts of W, and changes go "
        "both ways between them. On the right, by rows and classes, each has one block of classes, and blocks move on "
        "from worker to worker.",
    )


def task_stream() -> Picture:
    """Draw the recorded fit: a line for each worker, a bar for each task, in seconds."""
    told: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
    tasks, kinds = told["tasks"], [*KINDS, "else"]
    colours = dict(zip(kinds, (COLOURS[0], COLOURS[1], COLOURS[4], "#BBBBBB"), strict=True))
    with drawing():
        figure, [axes] = canvas(1, width=8.0, height=2.6)
        for kind in reversed(kinds):  # those that say most come last, and lie on top
            for worker in range(WORKERS):
                bars = [(t[2], t[3] - t[2]) for t in tasks if (t[0], t[1]) == (worker, kind)]
                axes.broken_barh(bars, (worker - 0.4, 0.8), facecolors=colours[kind], edgecolor="none")
        axes.set(ylim=(WORKERS - 0.5, -0.5), xlabel="seconds", xlim=(0, max(t[3] for t in tasks)))
        axes.set_yticks(range(WORKERS), [f"worker {w}" for w in range(WORKERS)])
        axes.set_title(told["title"])
        for row, kind in enumerate(kinds):
            at = (0.0 + 0.5 * (row % 2), -0.42 - 0.14 * (row // 2))
            square = {"xycoords": "axes fraction", "va": "center", "annotation_clip": False}
            axes.annotate("■", at, color=colours[kind], fontsize=FONT_POINTS + 4, **square)
            axes.annotate(KINDS.get(kind, ELSE), (at[0] + 0.025, at[1]), **square)
    shares = ", ".join(f"{KINDS.get(kind, ELSE)} {told['seconds'][kind]:.2f} s" for kind in kinds)
    alt = f"{told['title']}: a line for each worker and a bar for each task. All workers together: {shares}."
    return Picture(figure, alt)


def record() -> None:
    """Make the record anew."""
    import importlib
    import os

    import dask
    import numpy as np
    from distributed import Client, LocalCluster, get_task_stream

    from manyclass import solvers
    from manyclass.dask import DaskSoftmaxClassifier

    n, n_features, n_classes = 15_000, 40, 1_000
    rng = np.random.default_rng(0)
    W = rng.normal(size=(n_features, n_classes)).astype(np.float32)

    def part(seed: int) -> tuple[Any, Any]:
        own = np.random.default_rng(seed)
        X = own.normal(size=(n // WORKERS, n_features)).astype(np.float32)
        return X, np.argmax(X @ W + own.gumbel(size=(len(X), n_classes)), axis=1)

    solver = solvers.Implicit(decay=0.8, averaging="none")
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0", memory_limit=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(importlib.import_module, "manyclass.dask.by_rows")
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
        tasks: list[Any] = []
        for task in stream.data:
            name = task["key"] if isinstance(task["key"], str) else task["key"][0]
            own = next((kind for kind in KINDS if name.startswith(kind + "-")), "else")
            for one in task["startstops"]:
                kind = "transfer" if one["action"] == "transfer" else own
                tasks.append([places.index(task["worker"]), kind, one["start"] - first, one["stop"] - first])
    tasks = [[worker, kind, round(start, 4), round(stop, 4)] for worker, kind, start, stop in sorted(tasks)]
    seconds = {kind: round(sum(t[3] - t[2] for t in tasks if t[1] == kind), 3) for kind in [*KINDS, "else"]}
    load = round(os.getloadavg()[0])
    title = f"Task stream of a fit by rows: {n:,} rows, {n_classes:,} classes, 3 passes (load {load})"
    told = {"title": title, "seconds": seconds, "tasks": tasks}
    RECORD.write_text(json.dumps(told) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
