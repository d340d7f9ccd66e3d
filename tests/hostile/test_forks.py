"""Processes and threads around a model: children after a fork, pools, servers, threads that cannot be had, n_jobs.

Each runs in a process of its own, which is killed if it hangs.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from manyclass import SoftmaxClassifier
from manyclass.checks import n_threads_from

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")

# A model that two threads have trained, and what children are to find: 1,100 points are three bites of a prediction,
# and 40 classes by frequency are trained in batches.
BEGIN = """
import os, sys, threading
import numpy as np
from manyclass import AugmentReduceClassifier, MarginClassifier, SkipGram, SoftmaxClassifier, SphericalClusterIndex
from manyclass import checks, solvers
checks.cores = lambda: 4
rng = np.random.default_rng(0)
X, y = rng.normal(size=(1100, 8)).astype(np.float32), np.arange(1100) % 40
def fitted(n_jobs, batch_size=50):
    solver = solvers.Implicit(batch_size=batch_size)
    return SoftmaxClassifier(solver=solver, n_negatives=5, max_iter=2, random_state=0, n_jobs=n_jobs).fit(X, y)
model = fitted(2)
probabilities = model.predict_proba(X)
def right(n_jobs):
    own = fitted(n_jobs)
    for made in (own, model):
        made.n_jobs = n_jobs
        if not (made.predict_proba(X) == probabilities).all() or len(made.predict_top_k(X, 3)) == 0:
            return False
    return True
def exit_code(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def runs(code: str, timeout: int = 120, **options: object) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGIN + code],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_children_of_a_fork_train_and_predict_with_any_number_of_threads():
    runs("""
for n_jobs in (1, 2, 3):
    if (pid := os.fork()) == 0:
        if (grandchild := os.fork()) == 0:
            os._exit(0 if right(n_jobs) else 1)
        os._exit(exit_code(grandchild) if right(n_jobs) else 1)
    assert exit_code(pid) == 0, n_jobs
assert right(2)  # and so does the parent, after it
""")


@pytest.mark.parametrize("n_forks", [5, pytest.param(100, marks=pytest.mark.long)])
def test_a_child_works_that_was_forked_while_other_threads_were_at_work(n_forks):
    runs(f"""
go_on = True
def work():
    while go_on:
        assert right(2)
others = [threading.Thread(target=work) for _ in range(3)]
for other in others:
    other.start()
for _ in range({n_forks}):
    if (pid := os.fork()) == 0:
        os._exit(0 if right(2) else 1)
    assert exit_code(pid) == 0
go_on = False
for other in others:
    other.join()
""")


def test_every_kind_of_training_and_search_runs_in_a_child():
    runs("""
def everything():
    AugmentReduceClassifier(max_iter=1, n_jobs=2).fit(X, y).predict(X)
    MarginClassifier(max_iter=1, n_jobs=2, model="embedding").fit(X, y).predict(X)
    SoftmaxClassifier(solver="lbfgs", max_iter=2, n_jobs=2).fit(X, y).evaluate(X, y)
    SoftmaxClassifier(solver=solvers.Implicit(parallel="hogwild"), max_iter=1, n_jobs=2).fit(X, y)
    SphericalClusterIndex(n_jobs=2).fit(X).query(X, 3)
    SkipGram(dim=4, max_iter=1, min_count=1, sample=0, n_jobs=2).fit([["a", "b", "c"]] * 200)
everything()
if (pid := os.fork()) == 0:
    everything()
    os._exit(0)
assert exit_code(pid) == 0
""")


def test_a_pool_of_forked_processes_fits_and_predicts():
    runs("""
import multiprocessing
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(right, [1, 2, 3, 2]) == [True] * 4
""")


@pytest.mark.parametrize("backend", [pytest.param("loky", marks=pytest.mark.long), "threading", "multiprocessing"])
def test_joblib_runs_fits_that_have_threads_of_their_own(backend):
    runs(f"""
from joblib import Parallel, delayed
from sklearn.model_selection import cross_val_score
made = Parallel(2, backend={backend!r})(delayed(fitted)(n_jobs) for n_jobs in (1, 2, 3, 2))
for own in made:
    assert (own.predict_proba(X) == probabilities).all()
if {backend!r} == "loky":
    assert len(cross_val_score(model, X, y, n_jobs=2)) == 5
""")


def test_a_server_that_forks_its_workers_after_it_loaded_the_model_answers():
    """As gunicorn does with --preload and --worker-class gthread: workers are children, and answer in threads."""
    runs("""
import io, socket, tempfile
from concurrent.futures import ThreadPoolExecutor
import manyclass
with tempfile.TemporaryDirectory() as folder:
    model.save(folder + "/m")
    model = manyclass.load(folder + "/m", mmap=True)
    model.n_jobs = 2
    ids, _ = model.predict_top_k(X, 3)
    listener = socket.create_server(("127.0.0.1", 0))
    def answer(connection):
        with connection:
            rows = np.frombuffer(connection.recv(4), np.int32)[0]
            connection.sendall(model.predict_top_k(X[:rows], 3)[0].astype(np.int64).tobytes())
    workers = []
    for _ in range(2):
        if (pid := os.fork()) == 0:
            with ThreadPoolExecutor(2) as threads:
                while True:
                    threads.submit(answer, listener.accept()[0])
        workers.append(pid)
    def ask(rows):
        with socket.create_connection(listener.getsockname()) as connection:
            connection.sendall(np.int32(rows).tobytes())
            got = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        return (np.frombuffer(got, np.int64).reshape(rows, 3) == ids[:rows]).all()
    with ThreadPoolExecutor(4) as clients:
        assert all(clients.map(ask, [1, 1100, 3, 1100, 600, 1] * 5))
    for pid in workers:
        os.kill(pid, 9)
""")


def test_gunicorn_answers_with_a_model_that_it_loaded_before_its_workers():
    pytest.importorskip("gunicorn", reason="the extra 'test' has gunicorn")
    runs("""
import tempfile, time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
import signal, subprocess
APP = '''
import numpy as np, manyclass
from manyclass import checks
checks.cores = lambda: 4
model = manyclass.load("model", mmap=True)
model.n_jobs = 2
X = np.load("X.npy")
model.predict_proba(X)  # threads of the parent, which its children do not have
def app(environ, start_response):
    rows = int(environ["PATH_INFO"][1:])
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    return [model.predict_top_k(X[:rows], 3)[0].astype(np.int64).tobytes()]
'''
with tempfile.TemporaryDirectory() as place:
    folder = Path(place)
    model.save(folder / "model")
    np.save(folder / "X.npy", X)
    (folder / "served.py").write_text(APP)
    ids = model.predict_top_k(X, 3)[0]
    command = ["-m", "gunicorn", "--preload", "--worker-class", "gthread", "--workers", "2", "--threads", "2"]
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", *command, "--bind", "127.0.0.1:0", "served:app"],
        cwd=folder, stderr=subprocess.PIPE, text=True,
    )
    try:
        line = next(line for line in server.stderr if "Listening at" in line)
        port = int(line.split("http://127.0.0.1:")[1].split()[0])
        def ask(rows):
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", f"/{rows}")
            got = connection.getresponse().read()
            return (np.frombuffer(got, np.int64).reshape(rows, 3) == ids[:rows]).all()
        with ThreadPoolExecutor(4) as clients:
            assert all(clients.map(ask, [1, 1100, 3, 1100, 600, 1] * 5))
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
""")


def test_workers_of_a_data_loader_predict():
    pytest.importorskip("torch", reason="the extra 'bench' has torch")
    runs("""
import torch
class Scored(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        model.n_jobs = 2
        return model.predict_proba(X)
loader = torch.utils.data.DataLoader(Scored(), batch_size=2, num_workers=2, multiprocessing_context="fork")
for batch in loader:
    assert (batch.numpy() == probabilities).all()
""")


def test_many_threads_of_python_predict_at_once():
    runs("""
from concurrent.futures import ThreadPoolExecutor
model.n_jobs = 2
expected = model.predict_top_k(X, 5)
def same(i):
    if i % 3 == 0:
        return (model.predict_proba(X) == probabilities).all()
    return all((a == b).all() for a, b in zip(model.predict_top_k(X, 5), expected))
with ThreadPoolExecutor(16) as threads:
    assert all(threads.map(same, range(300)))
""")


NO_THREAD = """
try:
    threading.Thread(target=print).start()
except RuntimeError:
    pass
else:
    raise AssertionError("a thread was started, so that nothing is tested")
assert right(4)
found = [SphericalClusterIndex(random_state=0, n_jobs=n).fit(X).query(X, 3)[1] for n in (3, 1)]
assert (found[0] == found[1]).all()
words = SkipGram(dim=4, max_iter=1, min_count=1, sample=0, n_jobs=4).fit([["a", "b", "c"]] * 200)
assert words.vectors_.shape == (3, 4)
"""


def test_where_no_process_may_be_had_training_runs_on_the_threads_that_there_are():
    """Two threads are there, and the third and fourth, for which the model then asks, are refused."""
    runs(
        """
import resource
if os.getuid() == 0:  # no limit binds it
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
"""
        + NO_THREAD
    )


def test_where_there_is_no_memory_for_a_thread_training_runs_on_those_that_there_are():
    def large_stacks():
        import resource

        resource.setrlimit(resource.RLIMIT_STACK, (1 << 30, resource.getrlimit(resource.RLIMIT_STACK)[1]))

    runs(
        """
import resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29),) * 2)  # a thread takes 1 << 30
"""
        + NO_THREAD,
        preexec_fn=large_stacks,
    )


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to a processor")
def test_a_process_bound_to_one_processor_takes_one_thread():
    code = """
import os
from manyclass.checks import cores, n_threads_from
before = cores()
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
assert [n_threads_from(n) for n in (None, 1, 2, 2**40, -1)] == [1] * 5
print(before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert 1 <= int(done.stdout) <= len(os.sched_getaffinity(0))


def test_no_more_threads_than_processors_are_taken(seed):
    assert [n_threads_from(n) for n in (None, 1, 3, 4, 5, 50_000, 2**40, -1, -2, -9)] == [1, 1, 3, 4, 4, 4, 4, 4, 3, 1]
    X = np.random.default_rng(seed).normal(size=(60, 3)).astype(np.float32)
    model = SoftmaxClassifier(n_jobs=2**40, max_iter=1, random_state=0).fit(X, np.arange(60) % 3)
    assert model.predict(X).shape == (60,)
