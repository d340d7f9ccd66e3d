"""Training on a Dask cluster that loses workers, its client or its scheduler: it goes on, or says so within 30 s."""

import importlib
import itertools
import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("distributed")

import dask
import dask.array as da
from distributed import Client, LocalCluster
from reference.dask_simulation import plan_of, simulate, simulate_blocks

from manyclass import SoftmaxClassifier, solvers
from manyclass.dask import DaskSoftmaxClassifier
from manyclass.dask.blocks import buffer_at_zero, finished_block, joined_blocks, lost_log_sums, turn
from manyclass.dask.passes import Shard, Stretch, Whole
from manyclass.dask.trainings import BlocksTraining, RowsTraining
from manyclass.dask.workers import Workers

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

N, CHUNK, N_CLASSES = 600, 100, 20
MOST_SECONDS = 30.0  # that a user waits for an error; where none is due, tests end earlier as a rule


@pytest.fixture(autouse=True)
def quiet():
    with dask.config.set({"distributed.comm.timeouts.connect": "5s", "distributed.comm.retry.count": 0}):
        yield


def cluster(n_workers=2, **more):
    given = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": None, **more}
    return LocalCluster(n_workers=n_workers, **given)


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 12)).astype(np.float32)
    y = np.argmax(X @ (2 * rng.normal(size=(12, N_CLASSES))) + rng.gumbel(size=(N, N_CLASSES)), axis=1)
    return da.from_array(X, chunks=(CHUNK, -1)), da.from_array(y, chunks=CHUNK)


def model(client, **more):
    own = {"solver": solvers.Implicit(decay=0.8, averaging="none"), "learning_rate": 0.5, "n_negatives": 8}
    return DaskSoftmaxClassifier(**{**own, "max_iter": 6, "random_state": 0, **more}, client=client)


def worker_pids(client):
    return sorted(client.run(os.getpid).values())


def in_pass(n, then):
    """A callback that does something once, after pass n."""
    done = []

    def after_pass(told):
        if told.n_iter == n and not done:
            done.append(told)
            then()

    return after_pass


@pytest.mark.parametrize("nanny", [True, pytest.param(False, marks=pytest.mark.long)])
def test_training_goes_on_without_a_worker_that_is_killed(nanny):
    with cluster(processes=True) as workers, Client(workers) as client:
        if not nanny:
            for one in workers.workers.values():
                one.auto_restart = False
        X, y = data()
        victim = worker_pids(client)[0]
        found = model(client).fit(X, y, callback=in_pass(3, lambda: os.kill(victim, signal.SIGKILL)))
        assert found.n_iter_ == 6
        # All but what the points of the lost worker carried is as where none is lost.
        _, curve = simulate(*divided(X, y, found))
        assert found.loss_curve_[:3].tolist() == curve[:3]
        np.testing.assert_allclose(found.loss_curve_[3:], curve[3:], rtol=0.1)


@pytest.mark.parametrize("solver", [solvers.Implicit(decay=0.8), pytest.param(solvers.Exact(), marks=pytest.mark.long)])
def test_blocks_of_classes_are_those_of_the_last_pass_where_a_worker_is_killed(solver, monkeypatch):
    recover, held = BlocksTraining._recover, []

    def after_which_buffers_are_counted(self, moved, lost):
        recover(self, moved, lost)
        held.extend(len(self.workers.holders(buffer, frozenset())) for buffer in self.buffers)

    monkeypatch.setattr(BlocksTraining, "_recover", after_which_buffers_are_counted)
    own = {"solver": solver, "division": "rows and classes"}
    if solver.name == "exact":
        own["n_negatives"] = "auto"
    with cluster(processes=True) as workers, Client(workers) as client:
        X, y = data()
        for _ in range(3):  # a run of some twenty recovered nothing; it began again, it seems
            victim = worker_pids(client)[0]
            found = model(client, **own).fit(X, y, callback=in_pass(3, lambda pid=victim: os.kill(pid, signal.SIGKILL)))
            if held:
                break
            client.wait_for_workers(2)
        assert found.n_iter_ == 6
        assert held == [1, 1]  # of what changes in place there is no copy that the scheduler could take for it
        # W is as it was after pass 3, and the lost rows look on in pass 4: bit for bit what one process makes.
        local, of_all = found.to_local(), divided(X, y, found)
        _, curve = simulate_blocks(*of_all)
        np.testing.assert_allclose(found.loss_curve_[:3], curve[:3], rtol=1e-12)  # sums in another order
        made = [blocks_where_rows_are_lost(*of_all, shard, 3) for shard in (0, 1)]
        assert any((one.coef == local.coef_).all() and (one.intercept == local.intercept_).all() for one in made)
        np.testing.assert_allclose(found.loss_curve_[4:], curve[4:], rtol=0.1)


def divided(X, y, found):
    """The plan, what all workers know, and the rows of each worker: parts that are in memory stay where they are."""
    X, labels = X.compute(), y.compute().astype(np.int32)
    plain = SoftmaxClassifier(**{name: found.get_params(deep=False)[name] for name in SoftmaxClassifier().get_params()})
    plan = plan_of(plain, X, labels, N_CLASSES)
    whole, shards = Whole(np.bincount(labels).astype(float), 2, X.shape[1], len(X), False), []
    for number, parts in enumerate(found.shards_):
        rows = np.concatenate([np.arange(part * CHUNK, (part + 1) * CHUNK) for part in parts])
        shards.append(Shard(X[rows], labels[rows], None, number, sum(map(len, shards))))
    return plan, whole, shards


def blocks_where_rows_are_lost(plan, whole, shards, lost, n_pass):
    """W as two workers make it when the rows of one have lost their log-sums before a pass."""
    places, sums = [buffer_at_zero(whole, number) for number in (0, 1)], [None, None]
    for at in range(plan.max_iter):
        if at == n_pass:
            sums[lost] = lost_log_sums(whole, shards[lost])
        for inner, (number, shard) in itertools.product(range(2), enumerate(shards)):
            block = (number + inner) % 2
            sums[number] = turn(plan, whole, shard, places[block], block, sums[number], Stretch(at)).log_sums
    ends = [finished_block(plan, whole, buffer, at) for at, buffer in enumerate(places)]
    return joined_blocks(ends, sparse=False)


@pytest.mark.long
def test_the_only_worker_is_killed_and_its_nanny_restarts_it():
    with cluster(1) as workers, Client(workers) as client:
        X, y = data()
        victim = worker_pids(client)[0]
        found = model(client).fit(X, y, callback=in_pass(3, lambda: os.kill(victim, signal.SIGKILL)))
        assert found.n_iter_ == 6
        assert found.loss_curve_.tolist() == model(client).fit(X, y).loss_curve_.tolist()  # from the beginning


@pytest.mark.long
def test_no_worker_is_left():
    with cluster() as workers, Client(workers) as client:
        X, y = data()

        def kill_all():
            workers.scale(0)

        begin = time.monotonic()
        with pytest.raises(RuntimeError, match="lost its last worker"):
            model(client).fit(X, y, callback=in_pass(2, kill_all))
        assert time.monotonic() - begin < 2 * MOST_SECONDS


@pytest.mark.long
def test_a_worker_that_hangs_is_given_up():
    with cluster(processes=True) as workers, Client(workers) as client:
        X, y = data()
        victim = worker_pids(client)[0]
        try:
            found = model(client).fit(X, y, callback=in_pass(2, lambda: os.kill(victim, signal.SIGSTOP)))
        finally:
            os.kill(victim, signal.SIGCONT)
        assert found.n_iter_ == 6


@pytest.mark.long
def test_data_that_is_lost_with_its_worker_ends_in_one_error():
    with cluster() as workers, Client(workers) as client:
        X, y = data()
        places = sorted(client.scheduler_info()["workers"])
        parts = [
            [client.scatter(part, workers=[places[at % 2]]) for at, part in enumerate(np.split(np.asarray(all_), 6))]
            for all_ in (X, y)
        ]
        victim = client.run(os.getpid, workers=[places[0]])[places[0]]
        with pytest.raises(RuntimeError, match="lost"):
            model(client).fit(*parts, callback=in_pass(2, lambda: os.kill(victim, signal.SIGKILL)))


@pytest.mark.long
def test_a_client_that_is_closed_ends_the_fit_and_leaves_the_workers_free():
    with cluster() as workers:
        client = Client(workers)
        X, y = data()
        with pytest.raises(RuntimeError, match="the client is clos"):
            model(client, max_iter=200).fit(X, y, callback=in_pass(2, client.close))
        with Client(workers) as other:
            assert model(other).fit(X, y).n_iter_ == 6


@pytest.mark.long
def test_a_scheduler_that_goes_away_ends_the_fit():
    workers = cluster()
    client = Client(workers)
    X, y = data()
    thread = threading.Thread(target=workers.close)
    try:
        with pytest.raises(RuntimeError, match="training"):
            model(client, max_iter=500).fit(X, y, callback=in_pass(2, thread.start))
    finally:
        thread.join()
        client.close()


def test_more_than_five_workers_are_seen_at_every_look():
    """As `Client.scheduler_info` does not, whose answer is empty while the client renews it, too."""
    with cluster(6, processes=False) as workers, Client(workers) as client:
        client.scheduler_info()  # what the client knows itself is left at five, or none
        assert len(Workers(client, []).live()) == 6


def test_a_task_that_fails_is_told_once():
    with cluster(1) as workers, Client(workers) as client:
        X, y = data()

        def broken(block):
            raise OSError("the disk is gone")

        with pytest.raises(RuntimeError, match="training failed on a worker: OSError: the disk is gone"):
            model(client).fit(X.map_blocks(broken, dtype=np.float32, meta=np.zeros((0, 0), np.float32)), y)


# Early stopping


@pytest.mark.long
@pytest.mark.parametrize("nanny", [True, False])
def test_a_worker_that_is_lost_while_validating_does_not_hang_training(nanny, monkeypatch):
    given = {"early_stopping": True, "validation_fraction": 0.2, "n_iter_no_change": 3, "max_iter": 8}
    with cluster(processes=True) as workers, Client(workers) as client:
        if not nanny:
            for one in workers.workers.values():
                one.auto_restart = False
        X, y = data()
        victim, done = worker_pids(client)[0], []
        validate = RowsTraining._validate

        def lose_one(self):
            """Hold the looks back until one of the workers is gone."""
            if len(self.validation.curve) == 2 and not done:
                done.append(True)
                os.kill(victim, signal.SIGKILL)
            return validate(self)

        monkeypatch.setattr(RowsTraining, "_validate", lose_one)
        found = model(client, **given).fit(X, y)
        assert done
        assert found.n_iter_ == len(found.validation_curve_) >= 3
        assert np.isfinite(found.validation_curve_).all()
        assert found.best_iter_ >= 1
        measured = found.evaluate(X, y)["log_loss"]
        assert measured < np.log(N_CLASSES)


# Memory


def in_memory_of(limit, then):
    """Let something happen on a cluster of two workers with so much memory."""
    quick = {
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": 0.95,
        "distributed.scheduler.allowed-failures": 1,
    }
    with dask.config.set(quick), cluster(processes=True, memory_limit=limit) as workers, Client(workers) as client:
        # On a busy machine this takes longer than a worker may be silent.
        client.run(importlib.import_module, "manyclass.dask.trainings")
        then(client)


def large_part(n, n_features, first):
    """Rows of as many classes."""
    ones = np.ones(n, dtype=np.float32)
    return sp.csr_array((ones, np.arange(n), np.arange(n + 1)), shape=(n, n_features)), first + np.arange(n)


def fit_large(client, n_features):
    """Train 4,000 classes of so many features by rows; W takes 16 kB times that."""
    both = [dask.delayed(large_part, nout=2)(1_000, n_features, first) for first in range(0, 4_000, 1_000)]
    with pytest.raises(RuntimeError, match=r"memory limit of a worker is 700 MB"):
        model(client, division="rows").fit([X for X, _ in both], [y for _, y in both])


@pytest.mark.long
@pytest.mark.parametrize("n_features", [25_000, 15_000])
def test_workers_with_too_little_memory_end_in_one_error_that_names_it(n_features):
    # W takes 400 MB, which is refused before training, or 240 MB, with which workers are killed in it.
    in_memory_of(700_000_000, lambda client: fit_large(client, n_features))


@pytest.mark.long
def test_a_worker_that_its_nanny_kills_for_memory_once_does_not_end_training():
    def fit(client):
        X, y = data()
        victim, filled = sorted(client.scheduler_info()["workers"])[0], []

        def fill():
            """Let one worker take more memory than it may have."""
            filled.append(client.submit(np.ones, 1 << 28, workers=[victim], retries=0, pure=False))

        found = model(client).fit(X, y, callback=in_pass(2, fill))
        assert found.n_iter_ == 6

    in_memory_of("1200MB", fit)
