"""Training on a Dask cluster that loses workers, its client or its scheduler: it goes on, or says so within 30 s."""

import os
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask
import dask.array as da
from distributed import Client, LocalCluster

from manyclass import solvers
from manyclass.dask import DaskSoftmaxClassifier
from manyclass.dask.crew import Crew

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
        whole = model(client).fit(X, y)
        victim = worker_pids(client)[0]
        found = model(client).fit(X, y, callback=in_pass(3, lambda: os.kill(victim, signal.SIGKILL)))
        assert found.n_iter_ == 6
        # All but what the points of the lost worker carried is as it was.
        assert found.loss_curve_[:3].tolist() == whole.loss_curve_[:3].tolist()
        np.testing.assert_allclose(found.loss_curve_[3:], whole.loss_curve_[3:], rtol=0.1)


@pytest.mark.parametrize("solver", [solvers.Implicit(decay=0.8), pytest.param(solvers.Exact(), marks=pytest.mark.long)])
def test_blocks_of_classes_are_those_of_the_last_pass_where_a_worker_is_killed(solver):
    own = {"solver": solver, "division": "rows and classes"}
    if solver.name == "exact":
        own["n_negatives"] = "auto"
    with cluster(processes=True) as workers, Client(workers) as client:
        X, y = data()
        whole = model(client, **own).fit(X, y)
        loss = whole.evaluate(X, y)["log_loss"]
        victim = worker_pids(client)[0]
        found = model(client, **own).fit(X, y, callback=in_pass(3, lambda: os.kill(victim, signal.SIGKILL)))
        assert found.n_iter_ == 6
        assert found.loss_curve_[:3].tolist() == whole.loss_curve_[:3].tolist()
        # Rows of the lost worker have lost the parts of their log-normalisers, which begin at the mean of the others'.
        np.testing.assert_allclose(found.loss_curve_[4:], whole.loss_curve_[4:], rtol=0.1)
        assert found.evaluate(X, y)["log_loss"] == pytest.approx(loss, rel=0.05)


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


def test_a_crew_sees_more_than_five_workers_whenever_it_looks():
    """As `Client.scheduler_info` does not, whose answer is empty while the client renews it, too."""
    with cluster(6, processes=False) as workers, Client(workers) as client:
        client.scheduler_info()  # what the client knows itself is left at five, or none
        assert len(Crew(client, []).live()) == 6


def test_a_task_that_fails_is_told_once():
    with cluster(1) as workers, Client(workers) as client:
        X, y = data()

        def broken(block):
            raise OSError("the disk is gone")

        with pytest.raises(RuntimeError, match="training failed on a worker: OSError: the disk is gone"):
            model(client).fit(X.map_blocks(broken, dtype=np.float32, meta=np.zeros((0, 0), np.float32)), y)
