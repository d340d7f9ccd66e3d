"""Four and eight workers on Dask, each a process: loss per pass against one machine, and work by counters."""

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask
from distributed import Client, LocalCluster

from manyclass import MarginClassifier, SoftmaxClassifier, solvers
from manyclass.dask import DaskMarginClassifier, DaskSoftmaxClassifier

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.long,
]

N, N_FEATURES, N_CLASSES, PASSES = 8_000, 30, 200, 6
NEAR = 0.15  # of work per worker, from that of one machine divided by the workers


def made():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, N_FEATURES)).astype(np.float32)
    W = rng.normal(size=(N_FEATURES, N_CLASSES))
    return X, np.argmax(X @ W + rng.gumbel(size=(N, N_CLASSES)), axis=1)


KINDS = {
    "softmax": (
        SoftmaxClassifier,
        DaskSoftmaxClassifier,
        {
            "solver": solvers.Implicit(decay=0.8, averaging="none"),
            "learning_rate": 0.05,
            "n_negatives": 32,
            "alpha": 1e-5,
        },
    ),
    "margin": (MarginClassifier, DaskMarginClassifier, {"learning_rate": 0.2}),
}


@pytest.mark.parametrize("n_workers", [4, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_follow_those_of_one_machine_and_work_is_divided(n_workers, kind):
    local, remote, given = KINDS[kind]
    given = {**given, "max_iter": PASSES, "random_state": 0}
    X, y = made()
    n = N // n_workers
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", memory_limit=None) as cluster,
        Client(cluster) as client,
    ):
        place = min(client.scheduler_info()["workers"])
        one = remote(**given, client=client)
        one.fit([client.scatter(X, workers=[place])], [client.scatter(y, workers=[place])])
        parts = [[dask.delayed(column[at : at + n]) for at in range(0, N, n)] for column in (X, y)]
        found = remote(**given, client=client).fit(*parts)
        losses, error = found.loss_curve_, found.evaluate(*parts)["error"]
    alone = local(**given).fit(X, y)
    np.testing.assert_array_equal(one.loss_curve_, alone.loss_curve_)
    # From W = 0 the first pass of n workers is n short ones side by side; the others go on from what these have merged.
    print(kind, n_workers, losses, alone.loss_curve_, error, found.work_)
    assert (np.diff(losses) < 0).all()
    # More workers learn less in a pass: eight end a little above the second pass of one machine.
    assert losses[-1] < alone.loss_curve_[1] + (0.1 if n_workers == 8 else 0.0)
    assert error < alone.evaluate(X, y)["error"] + 0.05
    assert len(found.work_) == n_workers
    [whole] = one.work_
    # Minibatches have the intercept as a column, and whole cache lines of them.
    w = 4 * N_CLASSES * (N_FEATURES if kind == "softmax" else 32)
    for counts in found.work_:
        assert counts["n_visits"] == pytest.approx(whole["n_visits"] / n_workers, rel=NEAR)
        updates = counts["class_updates"] / (whole["class_updates"] / n_workers)
        print(updates)
        # A margin moves the classes that come too near: more of them where workers have learnt less of each other.
        assert updates == pytest.approx(1, rel=NEAR) if kind == "softmax" else 0.85 < updates < 1.6
        moved = counts["bytes_in"] + counts["bytes_out"]
        # All parts but its own come in, and their changes go out, with intercepts and the numbers of rows.
        assert moved / PASSES == pytest.approx(2 * w * (n_workers - 1) / n_workers, rel=NEAR)
    assert whole["bytes_in"] == whole["bytes_out"] == 0
