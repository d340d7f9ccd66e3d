"""Does memory stay flat, and do results stay the same, in hours of training, prediction, update and search?

    python bench/sustained.py --seconds 3600               # one process
    python bench/sustained.py --seconds 1200 --processes 8

A round makes each operation once on data of its own, drawn by the round's number, and compares what was done at once
with the same done in pieces, bit for bit: a fit that is stopped and resumed from its checkpoint, `partial_fit` part by
part, an index updated row by row, a model saved and loaded. Its digest of all results must be that of the same round in
any other process. Resident memory is read after each round; a line through it, behind a warm-up, has a slope in bytes
an operation, and the run fails where that line grows by more than `ALLOWED` bytes in all. Linux only (/proc).
"""

import argparse
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from manyclass import (
    AugmentReduceClassifier,
    DecomposedIndex,
    MarginClassifier,
    SkipGram,
    SoftmaxClassifier,
    SphericalClusterIndex,
    load,
    samplers,
    solvers,
)

N, D, K = 240, 12, 24  # small, so that operations are many: what leaks does so by the call
WARM_UP = 0.25  # share of the rounds that the line leaves out: caches and the heap find their size
# Bytes: what the heap of a process that leaks nothing moved by in runs of some minutes; pages are 4 kB, and an arena of
# the allocator grows by 132 kB.
ALLOWED = 1 << 20
EVERY_MODEL = {"random_state": 0, "max_iter": 3, "n_jobs": 1}
STEPS = {"learning_rate": 0.5, "random_state": 0, "n_jobs": 1}
IN_ORDER = solvers.Implicit(shuffle=False)


def problem(rng, *, sparse):
    """Rows and labels, each label once at least."""
    X = rng.normal(size=(N, D)).astype(np.float32)
    y = np.append(np.arange(K), rng.integers(0, K, N - K))
    return (sp.csr_array(np.where(rng.random(X.shape) < 0.4, X, 0)) if sparse else X), y


def answers(model, X):
    """What a user sees of a classifier, as bytes."""
    scores, best = model.decision_function(X), model.predict_top_k(X, 3)
    p = [model.predict_proba(X)] if hasattr(model, "predict_proba") else []
    return b"".join(np.ascontiguousarray(a).tobytes() for a in (scores, *best, *p))


def same(one, other, what):
    """The bytes, which must be equal."""
    if one != other:
        raise AssertionError(f"{what}: other results than at once")
    return one


def trained(rng, folder):
    """Fits of every kind."""
    found = []
    several = sp.csr_array(np.eye(K)[rng.integers(0, K, N)] + np.eye(K)[rng.integers(0, K, N)] > 0).astype(int)
    for sparse in (False, True):
        X, y = problem(rng, sparse=sparse)
        for model in (
            SoftmaxClassifier(solver="implicit", n_negatives=5, **EVERY_MODEL),
            SoftmaxClassifier(solver="lbfgs", alpha=0.1, **EVERY_MODEL | {"max_iter": 5}),
            SoftmaxClassifier(model="embedding", dim=4, **EVERY_MODEL),
            MarginClassifier(sampler=samplers.Search(budget=4, warm_up=1), **EVERY_MODEL),
            AugmentReduceClassifier(n_negatives=5, **EVERY_MODEL),
        ):
            found += [answers(model.fit(X, y), X)]
        found.append(answers(SoftmaxClassifier(model="pairs", **EVERY_MODEL).fit(X, several), X))
    return found


def trained_by_auto(rng, folder):
    """What "auto" is, its trials too."""
    X, y = problem(rng, sparse=True)
    model = SoftmaxClassifier(random_state=0).fit(X, y)
    model.save(folder / "model")
    return [same(answers(load(folder / "model"), X), answers(model, X), "saved and loaded")]


def resumed(rng, folder):
    """A fit that is stopped after its second pass and goes on from its checkpoint."""
    X, y = problem(rng, sparse=False)
    model = SoftmaxClassifier(solver="implicit", n_negatives=5, **EVERY_MODEL | {"max_iter": 5})
    whole = answers(model.fit(X, y), X)
    with tempfile.TemporaryDirectory() as run:

        def stop(state):
            if state.n_iter == 2:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            model.fit(X, y, checkpoint=run, every=1, callback=stop)
        return [same(answers(model.fit(X, y, checkpoint=run, resume=True), X), whole, "resumed")]


def in_parts(rng, folder):
    """A stream of parts, and all its rows at once."""
    found = []
    for sparse in (False, True):
        X, y = problem(rng, sparse=sparse)
        sampler = {"sampler": "uniform", "n_negatives": 5}
        for model in (
            SoftmaxClassifier(solver=IN_ORDER, **sampler, **STEPS),
            AugmentReduceClassifier(solver=IN_ORDER, **sampler, **STEPS),
        ):
            whole = answers(clone(model).partial_fit(X, y, classes=np.arange(K)), X)
            for first in range(0, N, 16):
                model.partial_fit(X[first : first + 16], y[first : first + 16], classes=np.arange(K))
            found.append(same(answers(model, X), whole, f"{type(model).__name__} in parts"))
    return found


def searched(rng, folder):
    """Indexes whose rows are replaced one by one, and all at once."""
    W, Q, rows = (rng.normal(size=(n, D)).astype(np.float32) for n in (300, 40, 60))
    ids = rng.choice(len(W), len(rows), replace=False)
    found = []
    for made in (
        lambda: SphericalClusterIndex(8, recluster="never", random_state=0),
        lambda: DecomposedIndex(3, n_clusters=8, random_state=0),
    ):
        whole, by_row = made().fit(W), made().fit(W)
        whole.update(ids, rows)
        for one, row in zip(ids, rows, strict=True):
            by_row.update([one], [row])
        bytes_of = [b"".join(a.tobytes() for a in index.query(Q, 5, n_probe=4)) for index in (whole, by_row)]
        losses, gradients = whole.loss_and_gradient(Q, np.arange(len(Q)), budget=20)
        found += [same(bytes_of[1], bytes_of[0], "updated row by row"), losses.tobytes(), gradients.data.tobytes()]
    return found


def words(rng, folder):
    """Word vectors, of drawn words and by descent."""
    text = [[f"w{i}" for i in line] for line in rng.zipf(1.4, size=(40, 8)) % 30]
    found = []
    for objective in ("softmax", "hierarchical", "descent"):
        model = SkipGram(dim=6, min_count=1, sample=0, objective=objective, max_iter=2, random_state=0).fit(text)
        found += [model.vectors_.tobytes(), repr(model.most_similar("w1", topn=3)).encode()]
    return found


OPERATIONS = (trained, trained_by_auto, resumed, in_parts, searched, words)


def resident():
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def leaking(kept=[]):  # noqa: B006
    """A planted leak: 512 kB a round."""
    kept.append(np.ones(1 << 16))


def rounds(seconds, seed, leaks):
    """Make rounds for so long; yield the number of each, its results' digest and the memory after it."""
    begin = time.monotonic()
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < begin + seconds:
            digest = hashlib.sha256()
            for k, operation in enumerate(OPERATIONS):
                for found in operation(np.random.default_rng([seed, number, k]), Path(folder)):
                    digest.update(found)
            if leaks:
                leaking()
            yield {"round": number, "digest": digest.hexdigest()[:16], "resident": resident()}
            number += 1


def slope(made):
    """Bytes a round by the least squares of a line, and those that it grows by, behind the warm-up.

    The largest rise of a single round is left out: Python's table of interned strings, which gets the names of
    temporary files, doubles now and then, by 2 MB after 284 of these rounds. What leaks rises again.
    """
    kept = made[int(WARM_UP * len(made)) :]
    if len(kept) < 3:
        raise ValueError(f"{len(made)} rounds were made, which are too few for a line; raise --seconds")
    held = np.array([one["resident"] for one in kept], dtype=float)
    rises = np.diff(held)
    at = int(np.argmax(rises))
    held[at + 1 :] -= max(0.0, rises[at])
    bytes_a_round = float(np.polyfit([one["round"] for one in kept], held, 1)[0])
    return bytes_a_round, bytes_a_round * (len(kept) - 1)


def read(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def in_process(given):
    """Make the rounds here, a line of the output each."""
    warnings.simplefilter("ignore")
    with Path(given.output).open("w") as file:
        for one in rounds(given.seconds, given.seed, given.leak):
            file.write(json.dumps(one) + "\n")
            file.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--output", help="folder for a line of JSON a round, by process; a new temporary one if not given"
    )
    parser.add_argument("--leak", action="store_true", help="plant a leak, to see it found")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        in_process(given)
        return 0
    folder = Path(given.output or tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    files = [folder / f"process_{i}.jsonl" for i in range(given.processes)]
    command = [sys.executable, __file__, "--here", "--seconds", str(given.seconds), "--seed", str(given.seed)]
    command += ["--leak"] * given.leak
    children = [subprocess.Popen([*command, "--output", str(file)]) for file in files]
    codes = [child.wait() for child in children]
    failed = any(codes)
    digests = {}
    for file in files:
        made = read(file)
        a_round, growth = slope(made)
        operations = len(made) * len(OPERATIONS)
        print(
            f"{file.name}: {len(made)} rounds, {operations} operations, {made[-1]['resident'] >> 20} MB resident, "
            f"slope {a_round / len(OPERATIONS):.1f} bytes an operation, {growth / 1024:.0f} kB in all"
        )
        if growth > ALLOWED:
            print(f"{file.name}: memory grows by more than {ALLOWED} bytes")
            failed = True
        for one in made:
            if digests.setdefault(one["round"], one["digest"]) != one["digest"]:
                print(f"{file.name}: round {one['round']} has other results than in another process")
                failed = True
    print("failed" if failed else f"memory is flat, and results are the same in {given.processes} processes")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
